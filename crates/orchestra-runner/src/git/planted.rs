//! Repositories that a command in the sandbox created in its worktree. Git that an agent runs there later, outside of
//! the sandbox, would run the programs that their configuration names.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestra_fs::folded;
use orchestra_plan::ids::Commit;

use super::{
    GitError, PathRefusal, Worktree,
    commit::NAMED,
    files,
    nested::small,
    reserved::SETTINGS,
    submodules::{GITLINK, LIST, STAGED},
};

/// Name of the file that exists while the worktree may have such repositories, in the git directory of the worktree.
const FILE: &str = "orchestra-unchecked";

const OPERATION: &str = "look for repositories in a worktree";

/// Paths of a worktree that git does not ignore, relative to its root.
struct Listing {
    root: PathBuf,
    tracked: BTreeSet<PathBuf>,
    submodules: BTreeSet<PathBuf>,
    /// Paths that differ from the commit of the worktree.
    changed: BTreeSet<PathBuf>,
}

/// Directories in which git finds a repository.
#[derive(Default)]
struct Repositories {
    /// They have an entry `.git`.
    nested: Vec<PathBuf>,
    bare: Vec<PathBuf>,
}

impl Worktree {
    /// Notes that a command in the sandbox starts, which may create repositories.
    ///
    /// # Errors
    /// When the note cannot be written.
    pub fn expect_repositories(&self) -> Result<(), GitError> {
        files::replace(&self.directory().join(FILE), b"")
    }

    /// Returns whether a command in the sandbox started after the last check that found nothing.
    pub fn may_have_repositories(&self) -> bool {
        self.directory().join(FILE).exists()
    }

    /// Checks that no directory has a repository, except directories that git ignores, submodules that no command in
    /// the sandbox can configure, and bare repositories that one of these commits has with the same configuration.
    ///
    /// # Errors
    /// The outer error is git's; the inner one names the directories.
    pub async fn check_repositories(
        &self,
        bases: &[&Commit],
    ) -> Result<Result<(), PathRefusal>, GitError> {
        let failed = |source| GitError::File {
            operation: OPERATION,
            path: self.path().to_owned(),
            source,
        };
        let listing = Arc::new(
            self.listing(self.path().canonicalize().map_err(failed)?)
                .await?,
        );
        let listed = Arc::clone(&listing);
        let found = tokio::task::spawn_blocking(move || listed.repositories()).await;
        let found = found.map_err(|error| failed(io::Error::other(error)))?;
        let Repositories { nested, mut bare } = found;
        if !bare.is_empty() {
            let head = self.head().await?;
            for base in bases {
                let known = self.repository().bare_directories(base).await?;
                let changes = self.repository().changed_paths(base, &head).await?;
                let changes: BTreeSet<PathBuf> =
                    changes.into_iter().map(|change| change.path).collect();
                let is_other = |path: &Path| changes.contains(path) || listing.differs(path);
                bare.retain(|directory| {
                    let name = format!("{}/", folded(&directory.to_string_lossy()));
                    let mut settings = SETTINGS.iter().map(|name| directory.join(name));
                    let is_changed = settings
                        .any(|path| may_exist(&listing.root.join(&path)) && is_other(&path));
                    !known.contains(&name) || is_changed
                });
            }
        }
        let submodules = self.foreign_submodules().await?.into_iter();
        let submodules = submodules.filter(|place| !self.is_out_of_reach(place));
        let below = |place: PathBuf| {
            let path = place.strip_prefix(self.path());
            path.unwrap_or(&place).to_owned()
        };
        let mut paths = nested;
        paths.extend(bare);
        paths.extend(submodules.map(below));
        if paths.is_empty() {
            // If the note remains, the next check only repeats this one.
            let _ = fs::remove_file(self.directory().join(FILE));
            return Ok(Ok(()));
        }
        paths.sort_unstable();
        paths.truncate(NAMED);
        Ok(Err(PathRefusal::Repositories(paths)))
    }

    async fn listing(&self, root: PathBuf) -> Result<Listing, GitError> {
        let status = self.status(&self.marker()?.links).await?;
        let changed = status.paths(|_| true).into_iter().collect();
        let answer = self.call(LIST, STAGED).run().await?;
        let (mut tracked, mut submodules) = (BTreeSet::new(), BTreeSet::new());
        for field in answer.fields() {
            let Some(at) = field.iter().position(|byte| *byte == b'\t') else {
                continue;
            };
            let path = PathBuf::from(OsStr::from_bytes(&field[at + 1..]));
            match field.starts_with(GITLINK.as_bytes()) {
                true => submodules.insert(path),
                false => tracked.insert(path),
            };
        }
        Ok(Listing {
            root,
            tracked,
            submodules,
            changed,
        })
    }

    /// Returns whether the git directory of a submodule is where git creates it: in a git directory that commands in
    /// the sandbox cannot write.
    fn is_out_of_reach(&self, place: &Path) -> bool {
        let leads = || {
            let content = small(&place.join(".git"))?;
            let leads = content.strip_prefix(b"gitdir: ")?.trim_ascii_end();
            place.join(OsStr::from_bytes(leads)).canonicalize().ok()
        };
        let Some(directory) = leads() else {
            return false;
        };
        let modules = [self.directory(), self.repository().common_directory()];
        let mut modules = modules
            .iter()
            .filter_map(|git| git.join("modules").canonicalize().ok());
        modules.any(|modules| directory.starts_with(modules))
    }
}

impl Listing {
    /// Looks for repositories in the directories of the paths.
    fn repositories(&self) -> Repositories {
        let is_directory = |path: &Path| {
            let data = self.root.join(path).symlink_metadata();
            data.is_ok_and(|data| data.is_dir())
        };
        // Git lists a new repository as one path.
        let new = self.changed.iter().map(PathBuf::as_path);
        let new = new.filter(|path| !self.submodules.contains(*path) && is_directory(path));
        let files = self.tracked.iter().chain(&self.submodules);
        let parents = files.chain(&self.changed).filter_map(|path| path.parent());
        let mut directories = BTreeSet::new();
        for directory in new.chain(parents) {
            for above in directory.ancestors() {
                if !directories.insert(above) {
                    break;
                }
            }
        }
        // The `.git` file of the worktree itself is checked when the worktree is opened.
        directories.remove(Path::new(""));
        let mut found = Repositories::default();
        for directory in directories {
            let path = self.root.join(directory);
            let Ok(real) = path.canonicalize() else {
                continue;
            };
            // If a link replaces the directory, git searches the target and all directories above it.
            let depth = if real == path { 1 } else { usize::MAX };
            let searched = real.ancestors().take(depth);
            let searched = searched.take_while(|above| !self.root.starts_with(above));
            let searched: Vec<&Path> = searched.collect();
            if searched.iter().any(|place| may_exist(&place.join(".git"))) {
                found.nested.push(directory.to_owned());
            } else if searched.iter().any(|place| is_bare(place)) {
                found.bare.push(directory.to_owned());
            }
        }
        found
    }

    /// Returns whether a file differs from the commit of the worktree. A file that git ignores does.
    fn differs(&self, path: &Path) -> bool {
        !self.tracked.contains(path) || self.changed.contains(path)
    }
}

/// Returns whether git may take a directory for a bare repository.
fn is_bare(directory: &Path) -> bool {
    let has = |name| may_exist(&directory.join(name));
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

/// Returns whether there is something at a path, or this is not known.
fn may_exist(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), NotFound | NotADirectory),
    }
}
