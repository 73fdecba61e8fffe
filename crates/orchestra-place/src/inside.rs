//! Symbolic links inside a git directory.
//!
//! Git follows them. An archive can contain a git directory whose branches, objects or configuration are those of another
//! repository, so that each change here is one there. Entries that neither this program nor git on its behalf writes,
//! such as `hooks`, may be links.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use crate::{
    error::PlaceError,
    repository::{is_missing, unreadable},
};

/// Entries of a git directory that decide what the repository is, or that git changes for worktrees and branches.
const ENTRIES: [&str; 15] = [
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "index",
    "logs",
    "logs/refs",
    "objects",
    "objects/info",
    "objects/pack",
    "packed-refs",
    "refs",
    "refs/heads",
    "worktrees",
];

/// Entries whose own entries are looked at as well before git writes.
const DIRECTORIES: [&str; 4] = ["logs", "objects", REFERENCES, "worktrees"];

/// The one of them whose directories are looked at at any depth: branches have any name.
const REFERENCES: &str = "refs";

/// Maximum number of files and directories in it. Git stores most references in one file.
const MAX_REFERENCES: usize = 100_000;

/// The git directory of a checkout and that of all checkouts, which are often the same. Their paths are canonical.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GitDirectories<'p> {
    pub(crate) own: &'p Path,
    pub(crate) common: &'p Path,
}

impl GitDirectories<'_> {
    /// Refuses entries that are links which lead out of both directories. Lists no directory, so that the cost does not
    /// depend on the repository.
    ///
    /// # Errors
    /// When there is such a link, or an entry cannot be read.
    pub(crate) fn check_entries(self) -> Result<(), PlaceError> {
        let mut paths = self
            .each()
            .flat_map(|directory| ENTRIES.map(|name| directory.join(name)));
        paths.try_for_each(|path| self.check_link(&path))
    }

    /// Refuses links below the entries that lead out of both directories: what git is about to write through.
    ///
    /// # Errors
    /// When there is such a link, there are too many references to look for one, or an entry cannot be read.
    pub(crate) fn check_below_entries(self) -> Result<(), PlaceError> {
        for directory in self.each() {
            for name in DIRECTORIES {
                self.check_below(directory.join(name), name == REFERENCES)?;
            }
        }
        Ok(())
    }

    fn each(&self) -> impl Iterator<Item = &Path> {
        let common = (self.common != self.own).then_some(self.common);
        [Some(self.own), common].into_iter().flatten()
    }

    fn check_below(self, path: PathBuf, is_deep: bool) -> Result<(), PlaceError> {
        let (mut below, mut count) = (vec![path], 0);
        while let Some(path) = below.pop() {
            let entries = match fs::read_dir(&path) {
                Err(error) if is_missing(&error) => continue,
                entries => entries.map_err(|source| unreadable(&path, source))?,
            };
            for entry in entries {
                let entry = entry.map_err(|source| unreadable(&path, source))?;
                count += 1;
                match entry.file_type() {
                    Ok(kind) if kind.is_symlink() => self.check_link(&entry.path())?,
                    Ok(kind) if kind.is_dir() && is_deep => below.push(entry.path()),
                    _ => {}
                }
            }
            if is_deep && count > MAX_REFERENCES {
                return Err(PlaceError::LooseReferences(path));
            }
        }
        Ok(())
    }

    fn check_link(self, link: &Path) -> Result<(), PlaceError> {
        let target = match fs::read_link(link) {
            Ok(target) => target,
            // It is no link, or does not exist.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput || is_missing(&error) => {
                return Ok(());
            }
            Err(source) => return Err(unreadable(link, source)),
        };
        let is_inside = match link.canonicalize() {
            Ok(target) => self.each().any(|path| target.starts_with(path)),
            // `HEAD` may lead to a branch without commits.
            Err(error) if is_missing(&error) => {
                let mut parts = target.components();
                parts.all(|part| matches!(part, Component::Normal(_)))
            }
            Err(source) => return Err(unreadable(link, source)),
        };
        match is_inside {
            true => Ok(()),
            false => Err(PlaceError::LinkOut {
                link: link.to_owned(),
                target,
            }),
        }
    }
}
