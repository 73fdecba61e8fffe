//! The two directories of a workspace, and how they are created.

use std::{
    fs,
    io::ErrorKind,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use orchestra_fs::{Access, Directory};
use sha2::{Digest as _, Sha256};

use crate::{
    error::PlaceError,
    key::{hex, key},
    repository::{Checkout, Repository, Safety, checkouts},
};

/// Name of the directory inside a git directory that has all private state: databases of plans, tokens. `orchestra`
/// would be taken for references.
pub const IN_GIT: &str = ".orchestra";
/// Name of the directory inside the state directory.
const IN_STATE: &str = "workspaces";
/// Hexadecimal digits of the digest of a path.
const DIGITS: usize = 32;

/// `place` of the user's configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// The git directory of a workspace in a repository, and the state directory of any other.
    #[default]
    Repository,
    /// The state directory of the user.
    State,
}

/// The directories of a workspace's private state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    shared: Root,
    own: Root,
    main: Option<PathBuf>,
    /// Git directory of all checkouts, and the path of the workspace below the top of each.
    repository: Option<(PathBuf, PathBuf)>,
}

/// A directory that may not exist yet, below one that does.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Root {
    path: PathBuf,
    /// Part of the path that is trusted.
    base: PathBuf,
    is_repository: bool,
}

impl Place {
    /// Finds the place of a workspace, whose path is canonical. Creates nothing, starts no program and reads no
    /// environment variable. `state` is the state directory of the user.
    ///
    /// # Errors
    /// When the repository cannot be used, and when a state directory is needed and there is none.
    pub fn find(
        workspace: &Path,
        state: Option<&Path>,
        choice: Choice,
    ) -> Result<Self, PlaceError> {
        Self::find_as(workspace, state, choice, Safety::Unlisted)
    }

    /// Finds the place of a workspace as [`Place::find`], which the user may have listed as safe.
    ///
    /// # Errors
    /// Those of [`Place::find`].
    pub fn find_as(
        workspace: &Path,
        state: Option<&Path>,
        choice: Choice,
        safety: Safety,
    ) -> Result<Self, PlaceError> {
        let repository = match choice {
            Choice::Repository => Repository::find(workspace, safety)?,
            // Nothing is stored in the git directory, so that other users may write it. One that does not lead back
            // names no main checkout.
            Choice::State => {
                let found = Repository::locate(workspace).ok().flatten();
                found.filter(|found| found.check_back(safety).is_ok())
            }
        };
        let Some(repository) = repository else {
            let own = Root::in_state(workspace, state)?;
            return Ok(Self {
                shared: own.clone(),
                own,
                main: Some(workspace.to_owned()),
                repository: None,
            });
        };
        let below_top = workspace.strip_prefix(&repository.top);
        let below_top = below_top.unwrap_or(Path::new(""));
        let main = repository.main().map(|top| join(&top, below_top));
        let key = key(below_top);
        let in_repository = repository.common.clone();
        let in_repository = in_repository.map(|common| (common, below_top.to_owned()));
        let common = match (repository.common, choice) {
            (Some(common), Choice::Repository) => common,
            (common, _) => {
                // The main checkout names the workspace for all worktrees, and the git directory where there is none.
                let in_common = common.map(|common| common.join(&key));
                let name = main.clone().or(in_common);
                let shared = Root::in_state(name.as_deref().unwrap_or(workspace), state)?;
                let own = Root::in_state(workspace, state)?;
                return Ok(Self {
                    shared,
                    own,
                    main,
                    repository: in_repository,
                });
            }
        };
        Ok(Self {
            shared: Root::in_git(common, &key),
            own: Root::in_git(repository.own, &key),
            main,
            repository: in_repository,
        })
    }

    /// Directory of the workspace in the main checkout, or the workspace itself outside of repositories; `None` where
    /// the repository is bare or its main checkout is not known. It may not exist.
    #[must_use]
    pub fn main(&self) -> Option<&Path> {
        self.main.as_deref()
    }

    /// Directory of what all worktrees of the repository share. It may not exist yet.
    #[must_use]
    pub fn shared(&self) -> &Path {
        &self.shared.path
    }

    /// Trusted directory that [`Place::shared`] is inside: the common git directory, or the state directory.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.shared.base
    }

    /// Returns whether [`Place::shared`] is inside a git directory.
    #[must_use]
    pub const fn is_in_repository(&self) -> bool {
        self.shared.is_repository
    }

    /// Directory of what belongs to this checkout alone. It may not exist yet. Outside of linked worktrees it is the
    /// same as [`Place::shared`].
    #[must_use]
    pub fn own(&self) -> &Path {
        &self.own.path
    }

    /// Returns the other checkouts of the repository in which the workspace has a directory of its own. What cannot be
    /// read is skipped.
    #[must_use]
    pub fn other_checkouts(&self) -> Vec<Checkout> {
        if !self.shared.is_repository {
            return Vec::new();
        }
        let key = self.shared.path.file_name().unwrap_or_default();
        let mut checkouts = checkouts(&self.shared.base);
        checkouts.retain_mut(|checkout| {
            let is_other = checkout.own != self.own.base;
            checkout.own.extend([IN_GIT.as_ref(), key]);
            is_other && checkout.own.is_dir()
        });
        checkouts
    }

    /// Returns the directory of the workspace in each linked worktree that is wanted, exists, and leads back to this
    /// repository.
    #[must_use]
    pub fn in_linked(&self, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        let Some((common, below)) = &self.repository else {
            return Vec::new();
        };
        let linked = checkouts(common).into_iter();
        let linked = linked.filter(|checkout| checkout.own != *common);
        let workspace = |checkout: Checkout| {
            let workspace = join(&checkout.top.canonicalize().ok()?, below);
            if !is_wanted(&workspace) {
                return None;
            }
            // The list is part of the repository, and can name any directory.
            let found = Repository::find(&workspace, Safety::Unlisted).ok()??;
            let is_back = found.common.as_ref() == Some(common)
                && checkout
                    .own
                    .canonicalize()
                    .is_ok_and(|own| own == found.own);
            is_back.then_some(workspace)
        };
        linked.filter_map(workspace).collect()
    }

    /// Returns the places that the workspace would have if it, or a directory above, had the git directory that it does
    /// not have. A git directory can be removed while programs use it.
    #[must_use]
    pub fn without_git(&self) -> Vec<Self> {
        let main = self.main.as_deref();
        let tops = main.into_iter().flat_map(Path::ancestors);
        let lacks_git = |top: &&Path| {
            let found = fs::symlink_metadata(top.join(".git"));
            found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        let in_git = |top: &Path| {
            let below_top = main?.strip_prefix(top).ok()?;
            let root = Root::in_git(top.join(".git"), &key(below_top));
            Some(Self {
                shared: root.clone(),
                own: root,
                main: self.main.clone(),
                repository: Some((top.join(".git"), below_top.to_owned())),
            })
        };
        tops.take_while(lacks_git).filter_map(in_git).collect()
    }

    /// Opens a directory below [`Place::shared`], and creates it for its owner alone.
    ///
    /// # Errors
    /// When it cannot be created, is reached through a symbolic link, or belongs to another user.
    pub fn make_shared(&self, name: &str) -> Result<Directory, PlaceError> {
        self.shared.make(name)
    }

    /// Opens a directory below [`Place::shared`]; `None` where it does not exist. Changes nothing.
    ///
    /// # Errors
    /// When it is reached through a symbolic link, belongs to another user, or cannot be opened.
    pub fn open_shared(&self, name: &str) -> Result<Option<Directory>, PlaceError> {
        self.shared.open(name)
    }

    /// Opens a directory below [`Place::own`]; `None` where it does not exist. Changes nothing.
    ///
    /// # Errors
    /// When it is reached through a symbolic link, belongs to another user, or cannot be opened.
    pub fn open_own(&self, name: &str) -> Result<Option<Directory>, PlaceError> {
        self.own.open(name)
    }

    /// Opens a directory below [`Place::own`], and creates it for its owner alone.
    ///
    /// # Errors
    /// When it cannot be created, is reached through a symbolic link, or belongs to another user.
    pub fn make_own(&self, name: &str) -> Result<Directory, PlaceError> {
        self.own.make(name)
    }
}

/// Joins paths, without a slash at the end where there is nothing to join.
pub(crate) fn join(top: &Path, below: &Path) -> PathBuf {
    match below.as_os_str().is_empty() {
        true => top.to_owned(),
        false => top.join(below),
    }
}

impl Root {
    fn in_git(git: PathBuf, key: &str) -> Self {
        Self {
            path: git.join(IN_GIT).join(key),
            base: git,
            is_repository: true,
        }
    }

    fn in_state(workspace: &Path, state: Option<&Path>) -> Result<Self, PlaceError> {
        let state = state.ok_or(PlaceError::NoState)?;
        let mut name = hex(&Sha256::digest(workspace.as_os_str().as_bytes()));
        name.truncate(DIGITS);
        Ok(Self {
            path: state.join(IN_STATE).join(name),
            base: state.to_owned(),
            is_repository: false,
        })
    }

    fn make(&self, name: &str) -> Result<Directory, PlaceError> {
        let path = self.path.join(name);
        self.walk(&path)
            .map_err(|source| self.unusable(path, source))
    }

    fn open(&self, name: &str) -> Result<Option<Directory>, PlaceError> {
        let path = self.path.join(name);
        self.walk_existing(&path)
            .map_err(|source| self.unusable(path, source))
    }

    /// Opens the directories from the base to the path, and checks the owner of each; `None` where one does not exist.
    fn walk_existing(&self, path: &Path) -> orchestra_fs::Result<Option<Directory>> {
        let mut directory = match Directory::open(&self.base) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            base => base?,
        };
        for name in self.below_base(path) {
            let Some(next) = directory.below(name.as_ref())? else {
                return Ok(None);
            };
            next.check_owner()?;
            directory = next;
        }
        Ok(Some(directory))
    }

    /// The part of a path that is not trusted.
    fn below_base<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.base).unwrap_or(path)
    }

    fn unusable(&self, path: PathBuf, source: orchestra_fs::Error) -> PlaceError {
        PlaceError::Unusable {
            path,
            is_repository: self.is_repository,
            source,
        }
    }

    /// Creates the directories from the base to the path, and checks the owner of each.
    fn walk(&self, path: &Path) -> orchestra_fs::Result<Directory> {
        let mut directory = match self.is_repository {
            true => Directory::open(&self.base)?,
            false => Directory::private(&self.base)?,
        };
        for name in self.below_base(path) {
            directory = directory.make_below(name.as_ref(), Access::Private)?;
            directory.claim()?;
        }
        Ok(directory)
    }
}
