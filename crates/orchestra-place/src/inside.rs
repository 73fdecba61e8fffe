//! Symbolic links inside a git directory.
//!
//! Git follows them. An archive can contain a git directory whose branches, objects or configuration are those of another
//! repository, so that each change here is one there. Entries that neither this program nor git on its behalf writes,
//! such as `hooks`, may be links.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt as _,
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

/// Entries that are looked at only before git writes.
const WRITTEN: [&str; 2] = ["info", "shallow"];

/// Directories whose entries are looked at as well before git writes.
const DIRECTORIES: [&str; 4] = ["objects", "objects/info", "objects/pack", WORKTREES];

/// Directories that are looked at at any depth: references have any name, and git writes a log for each of them.
const TREES: [&str; 2] = ["logs", "refs"];

/// The directory with the git directories of linked worktrees. Git changes references and logs there as well.
const WORKTREES: &str = "worktrees";

/// Maximum number of files and directories in one of [`TREES`]. Git stores most references in one file.
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

    /// Refuses links below the entries that lead out of both directories, and such links in the git directories of all
    /// linked worktrees: what git is about to write through.
    ///
    /// # Errors
    /// When there is such a link, there are too many references to look for one, or an entry cannot be read.
    pub(crate) fn check_below_entries(self) -> Result<(), PlaceError> {
        for directory in self.each() {
            self.check_all_below(directory)?;
        }
        for worktree in subdirectories(&self.common.join(WORKTREES))? {
            for name in ENTRIES {
                self.check_link(&worktree.join(name))?;
            }
            self.check_all_below(&worktree)?;
        }
        Ok(())
    }

    fn check_all_below(self, directory: &Path) -> Result<(), PlaceError> {
        for name in WRITTEN {
            self.check_link(&directory.join(name))?;
        }
        self.check_below(directory.to_owned(), Depth::PseudoReferences)?;
        for name in DIRECTORIES {
            self.check_below(directory.join(name), Depth::Entries)?;
        }
        for name in TREES {
            self.check_below(directory.join(name), Depth::Any)?;
        }
        Ok(())
    }

    fn each(&self) -> impl Iterator<Item = &Path> {
        let common = (self.common != self.own).then_some(self.common);
        [Some(self.own), common].into_iter().flatten()
    }

    fn check_below(self, path: PathBuf, depth: Depth) -> Result<(), PlaceError> {
        let (mut below, mut count) = (vec![path], 0);
        while let Some(path) = below.pop() {
            let entries = match fs::read_dir(&path) {
                Err(error) if is_missing(&error) => continue,
                entries => entries.map_err(|source| unreadable(&path, source))?,
            };
            for entry in entries {
                let entry = match entry {
                    // Another program removed the directory, such as that of a worktree.
                    Err(error) if is_missing(&error) => break,
                    entry => entry.map_err(|source| unreadable(&path, source))?,
                };
                if depth == Depth::PseudoReferences && !is_pseudo_reference(&entry.file_name()) {
                    continue;
                }
                count += 1;
                match entry.file_type() {
                    Ok(kind) if kind.is_symlink() => self.check_link(&entry.path())?,
                    Ok(kind) if kind.is_dir() && depth == Depth::Any => below.push(entry.path()),
                    _ => {}
                }
            }
            if depth == Depth::Any && count > MAX_REFERENCES {
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

/// Entries of a directory that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Those with the name of a pseudo-reference.
    PseudoReferences,
    /// All of its own entries.
    Entries,
    /// All entries at any depth.
    Any,
}

/// Returns whether git uses a name at the top of a git directory for a pseudo-reference, such as `ORIG_HEAD`, or for a
/// file of that form, such as `FETCH_HEAD`.
fn is_pseudo_reference(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.iter()
        .all(|byte| byte.is_ascii_uppercase() || *byte == b'_')
}

/// Returns the directories in a directory, without links.
fn subdirectories(path: &Path) -> Result<Vec<PathBuf>, PlaceError> {
    let entries = match fs::read_dir(path) {
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        entries => entries.map_err(|source| unreadable(path, source))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = match entry {
            Err(error) if is_missing(&error) => break,
            entry => entry.map_err(|source| unreadable(path, source))?,
        };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}
