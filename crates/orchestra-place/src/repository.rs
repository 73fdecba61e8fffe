//! The git repository of a workspace, found from the files `.git` and `commondir` alone.
//!
//! A bare repository inside a working tree is content that a clone can bring: only entries named `.git` are followed,
//! and git itself checks out no file of that name.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use crate::{
    error::PlaceError,
    inside::GitDirectories,
    shared::{is_bare, is_shared, working_trees},
};

/// Largest size of a `.git` or `commondir` file.
const MAX_LINK_BYTES: u64 = 64 * 1024;
/// Largest size of a configuration file.
const MAX_CONFIG_BYTES: u64 = 4 * 1024 * 1024;
/// Most worktrees of submodules inside each other.
const MAX_NESTING: usize = 8;

/// The repository of a directory.
#[derive(Debug)]
pub(crate) struct Repository {
    /// Top of the working tree: the directory with the entry `.git`.
    pub(crate) top: PathBuf,
    /// Git directory of this checkout.
    pub(crate) own: PathBuf,
    /// Git directory of all checkouts, which outlives each linked worktree; `None` when there is no such directory.
    pub(crate) common: Option<PathBuf>,
}

/// Whether the user lists a workspace as safe, in `safe_directories` of the own configuration. Only then it may have a
/// git directory that names no working tree, or that has links to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safety {
    /// It is listed.
    Safe,
    /// It is not.
    Unlisted,
}

/// A checkout of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// Top of its working tree, or the git directory of a bare repository.
    pub top: PathBuf,
    /// Directory of its own: where its private state is.
    pub own: PathBuf,
}

impl Repository {
    /// Finds the repository of a directory, whose path is canonical; `None` outside of repositories. The search ends
    /// where another file system begins.
    ///
    /// # Errors
    /// When a `.git` file does not name a git directory, when that directory does not lead back or has entries that are
    /// links out of it, when other users own or may write it or its configuration, and when it cannot be read.
    pub(crate) fn find(directory: &Path, safety: Safety) -> Result<Option<Self>, PlaceError> {
        let found = Self::locate(directory)?;
        if let Some(found) = &found {
            check(&found.own)?;
            if let Some(common) = found.common.as_ref().filter(|it| **it != found.own) {
                check(common)?;
            }
            found.check_back(safety)?;
        }
        Ok(found)
    }

    /// Finds the repository of a directory as [`Repository::find`], whoever may write its git directory, and wherever
    /// that leads.
    ///
    /// # Errors
    /// When a `.git` file does not name a git directory, and when it cannot be read.
    pub(crate) fn locate(directory: &Path) -> Result<Option<Self>, PlaceError> {
        let device = metadata(directory)?.map(|found| found.dev());
        for top in directory.ancestors() {
            if metadata(top)?.map(|found| found.dev()) != device {
                return Ok(None);
            }
            let Some(own) = git_directory(top)? else {
                continue;
            };
            let common = lasting(common_directory(&own)?)?;
            return Ok(Some(Self {
                top: top.to_owned(),
                own,
                common,
            }));
        }
        Ok(None)
    }
}

impl Repository {
    /// Refuses a git directory that does not lead back to this working tree, or has entries that are links out of it. A `.git`
    /// file, a link and `commondir` can name any directory, so that they prove nothing about the repository that they lead
    /// to.
    pub(crate) fn check_back(&self, safety: Safety) -> Result<(), PlaceError> {
        let entry = self.top.join(".git");
        let target = self.own.clone();
        let is_named = has_working_tree(&self.own, &self.top)?;
        let common = common_directory(&self.own)?;
        if safety == Safety::Unlisted {
            let (own, common) = (&*self.own, &*common);
            GitDirectories { own, common }.check_entries()?;
        }
        if common != self.own {
            let is_inside = self.own.parent() == Some(&*common.join("worktrees"));
            let is_back = is_inside && is_linked_to(&self.own, &self.top)?;
            return match (is_back, main_top(&common)) {
                (false, _) => Err(PlaceError::Elsewhere { entry, target }),
                (true, Some(main)) => has_working_tree(&common, main).map(drop),
                (true, None) => Ok(()),
            };
        }
        if is_named || self.own == entry {
            return Ok(());
        }
        match (main_top(&self.own), safety) {
            // The git directory of the main checkout there.
            (Some(_), _) => Err(PlaceError::Elsewhere { entry, target }),
            (None, Safety::Safe) => Ok(()),
            (None, Safety::Unlisted) => Err(PlaceError::Separate { entry, target }),
        }
    }

    /// Refuses links in the git directory, at any depth, that lead out of it.
    fn check_links(&self, safety: Safety) -> Result<(), PlaceError> {
        if safety == Safety::Safe {
            return Ok(());
        }
        let (own, common) = (&*self.own, &*common_directory(&self.own)?);
        GitDirectories { own, common }.check_below_entries()
    }

    /// Returns the top of the main checkout; `None` where the repository is bare, or its git directory does not tell.
    pub(crate) fn main(&self) -> Option<PathBuf> {
        let common = self.common.as_ref()?;
        if self.own == *common {
            return Some(self.top.clone());
        }
        let top = main_top(common)?;
        let config = read(&common.join("config"), MAX_CONFIG_BYTES);
        let is_bare = config.is_ok_and(|text| text.is_some_and(|text| is_bare(&text)));
        (!is_bare).then(|| top.to_owned())
    }
}

/// Returns the top of the checkout whose git directory has the usual name.
fn main_top(git: &Path) -> Option<&Path> {
    let is_usual = git.file_name() == Some(OsStr::new(".git"));
    git.parent().filter(|_| is_usual)
}

/// Returns whether the git directory of a linked worktree names the entry `.git` of this directory.
fn is_linked_to(own: &Path, top: &Path) -> Result<bool, PlaceError> {
    let Some(text) = read(&own.join("gitdir"), MAX_LINK_BYTES)? else {
        return Ok(false);
    };
    let entry = own.join(OsStr::from_bytes(without_line_end(&text)));
    // The entry itself may be a link to that of another working tree.
    match main_top(&entry) {
        Some(named) => is_same(named, top),
        None => Ok(false),
    }
}

/// Returns whether the configuration of a git directory names a working tree.
///
/// # Errors
/// When it names another one.
fn has_working_tree(git: &Path, top: &Path) -> Result<bool, PlaceError> {
    let mut has_one = false;
    for name in ["config", "config.worktree"] {
        let config = git.join(name);
        let Some(path) = config.canonicalize().ok() else {
            continue;
        };
        let text = read(&path, MAX_CONFIG_BYTES)?.unwrap_or_default();
        for named in working_trees(&text) {
            if !is_same(&git.join(named), top)? {
                let top = top.to_owned();
                return Err(PlaceError::OtherWorkingTree { config, top });
            }
            has_one = true;
        }
    }
    Ok(has_one)
}

/// Returns whether two paths lead to one directory, which can have several paths.
fn is_same(one: &Path, other: &Path) -> Result<bool, PlaceError> {
    let id = |found: fs::Metadata| (found.dev(), found.ino());
    let (one, other) = (metadata(one)?.map(id), metadata(other)?.map(id));
    Ok(one.is_some() && one == other)
}

/// Returns the checkouts of a repository with their git directories, in the order of these.
pub(crate) fn checkouts(common: &Path) -> Vec<Checkout> {
    let top = match common.file_name() {
        Some(name) if name == ".git" => common.parent().unwrap_or(common),
        _ => common,
    };
    let mut checkouts = vec![Checkout {
        top: top.to_owned(),
        own: common.to_owned(),
    }];
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten();
    checkouts.extend(linked.flatten().filter_map(|entry| {
        let own = entry.path();
        let file = read(&own.join("gitdir"), MAX_LINK_BYTES).ok()??;
        let file = own.join(OsStr::from_bytes(without_line_end(&file)));
        let top = file.parent()?.to_owned();
        Some(Checkout { top, own })
    }));
    orchestra_sort::sort_by(&mut checkouts, |a, b| a.own.cmp(&b.own));
    checkouts
}

/// Returns the git directory that the entry `.git` of a directory is or names.
fn git_directory(top: &Path) -> Result<Option<PathBuf>, PlaceError> {
    let entry = top.join(".git");
    let Some(found) = metadata(&entry)? else {
        return Ok(None);
    };
    if !found.is_file() {
        // As git has it: a directory that is not a git directory does not end the search.
        let is_one = found.is_dir() && is_git_directory(&entry)?;
        return is_one.then(|| canonical(&entry)).transpose();
    }
    let text = read(&canonical(&entry)?, MAX_LINK_BYTES)?.unwrap_or_default();
    let target = text.strip_prefix(b"gitdir: ").map(without_line_end);
    let target = target.filter(|target| !target.is_empty());
    let target = target.ok_or_else(|| PlaceError::NotALink(entry.clone()))?;
    let target = top.join(OsStr::from_bytes(target));
    match is_git_directory(&target)? {
        true => canonical(&target).map(Some),
        false => Err(PlaceError::Dangling {
            file: entry,
            target,
        }),
    }
}

/// Returns the common directory of a git directory: itself, or the one that its file `commondir` names.
fn common_directory(own: &Path) -> Result<PathBuf, PlaceError> {
    let file = own.join("commondir");
    let Some(text) = read(&file, MAX_LINK_BYTES)? else {
        return Ok(own.to_owned());
    };
    let target = own.join(OsStr::from_bytes(without_line_end(&text)));
    match is_git_directory(&target)? {
        true => canonical(&target),
        false => Err(PlaceError::Dangling { file, target }),
    }
}

/// Returns the directory that outlives linked worktrees. The git directory of a submodule inside a linked worktree of
/// its superproject is removed with the worktree; the one of the same submodule in the main checkout stays.
fn lasting(mut common: PathBuf) -> Result<Option<PathBuf>, PlaceError> {
    for _ in 0..MAX_NESTING {
        let Some((worktree, module)) = in_linked_worktree(&common) else {
            return Ok(Some(common));
        };
        let main = common_directory(&worktree)?;
        let is_linked = worktree.parent() == Some(&*main.join("worktrees"));
        let target = main.join("modules").join(module);
        if !is_linked || target == common || !is_git_directory(&target)? {
            return Ok(None);
        }
        // Neither a link nor `commondir` leads to another repository.
        if canonical(&target)? != target || common_directory(&target)? != target {
            return Ok(None);
        }
        common = target;
    }
    Ok(None)
}

/// Splits `…/worktrees/NAME/modules/PATH`, where the first part is the git directory of a linked worktree, into that
/// part and PATH.
fn in_linked_worktree(git: &Path) -> Option<(PathBuf, PathBuf)> {
    git.ancestors().find_map(|modules| {
        let worktree = modules.parent()?;
        let is_form = modules.file_name()? == "modules"
            && worktree.parent()?.file_name()? == "worktrees"
            && worktree.join("commondir").is_file();
        let module = git.strip_prefix(modules).ok()?;
        (is_form && !module.as_os_str().is_empty())
            .then(|| (worktree.to_owned(), module.to_owned()))
    })
}

/// Returns whether a directory has the entries of a git directory.
fn is_git_directory(path: &Path) -> Result<bool, PlaceError> {
    // `HEAD` may be a symbolic link to a branch without commits.
    if path.join("HEAD").symlink_metadata().is_err() {
        return metadata(&path.join("HEAD")).map(|_| false);
    }
    let has_common = path.join("commondir").is_file();
    Ok(has_common || (path.join("objects").is_dir() && path.join("refs").is_dir()))
}

/// Refuses a git directory that other users may write, and one whose configuration they may: it names programs that
/// git starts.
fn check(path: &Path) -> Result<(), PlaceError> {
    let user = rustix::process::geteuid().as_raw();
    check_own(path, &[user])?;
    for name in ["config", "config.worktree"] {
        let config = path.join(name);
        // Root may do everything anyway, and `sudo git config` gives the file to root.
        check_own(&config, &[user, 0])?;
        if metadata(&config)?.is_some() {
            let text = read(&canonical(&config)?, MAX_CONFIG_BYTES)?.unwrap_or_default();
            if is_shared(&text) {
                return Err(PlaceError::SharedRepository(config));
            }
        }
    }
    Ok(())
}

/// Refuses what belongs to none of these users, and what another user may write. What does not exist passes.
fn check_own(path: &Path, users: &[u32]) -> Result<(), PlaceError> {
    let Some(found) = metadata(path)? else {
        return Ok(());
    };
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if !users.contains(&owner) {
        return Err(PlaceError::AnotherOwner(path.to_owned()));
    }
    let is_shared = mode & 0o020 != 0 && !orchestra_fs::is_alone_in(owner, found.gid());
    match mode & 0o002 != 0 || is_shared {
        true => Err(PlaceError::Writable {
            path: path.to_owned(),
            mode,
        }),
        false => Ok(()),
    }
}

fn without_line_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b'\n' | b'\r'] = text {
        text = rest;
    }
    text
}

/// Returns the metadata of what a path leads to; `None` when it leads nowhere.
fn metadata(path: &Path) -> Result<Option<fs::Metadata>, PlaceError> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(source) => Err(unreadable(path, source)),
    }
}

pub(crate) fn is_missing(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::NotFound || kind == io::ErrorKind::NotADirectory
}

fn canonical(path: &Path) -> Result<PathBuf, PlaceError> {
    path.canonicalize()
        .map_err(|source| unreadable(path, source))
}

fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, PlaceError> {
    orchestra_fs::read(path, limit).map_err(|error| unreadable(path, error.into_cause()))
}

pub(crate) fn unreadable(path: &Path, source: io::Error) -> PlaceError {
    let path = path.to_owned();
    PlaceError::Unreadable { path, source }
}

/// Checks that no link in the git directory of a workspace, at any depth, leads out of it. A git directory in which no
/// place can be is not looked at.
///
/// # Errors
/// When there is such a link, when there are too many references to look for one, and when the workspace or a directory
/// cannot be read.
pub fn check_links(workspace: &Path, safety: Safety) -> Result<(), PlaceError> {
    let found = Repository::find(&canonical(workspace)?, safety);
    match found.ok().flatten() {
        Some(found) => found.check_links(safety),
        None => Ok(()),
    }
}

/// Checks that git has found the working tree and the git directory of a workspace that its files name, that these
/// lead to each other, and that no link in the git directory, at any depth, leads out of it. Comes before git is asked
/// to write there.
///
/// # Errors
/// When they do not, when there is such a link or too many references to look for one, and when they cannot be read.
pub fn check_answer(
    workspace: &Path,
    safety: Safety,
    top: &Path,
    own: &Path,
) -> Result<(), PlaceError> {
    let workspace = canonical(workspace)?;
    if let Some(found) = Repository::locate(&workspace)? {
        found.check_back(safety)?;
        found.check_links(safety)?;
        if is_same(&found.top, top)? && is_same(&found.own, own)? {
            return Ok(());
        }
    }
    let top = top.to_owned();
    Err(PlaceError::OtherAnswer { workspace, top })
}
