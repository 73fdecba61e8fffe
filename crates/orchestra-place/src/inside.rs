//! Symbolic links inside a git directory.
//!
//! Git follows them. An archive can contain a git directory whose branches, objects or configuration are those of another
//! repository, so that each change here is one there. Entries that neither this program nor git on its behalf writes,
//! such as `hooks`, may be links.

use std::{
    fs, io,
    path::{Component, Path},
};

use crate::{
    error::PlaceError,
    repository::{is_missing, unreadable},
};

/// Entries of a git directory that decide what the repository is, or that git changes for worktrees and branches.
const ENTRIES: [&str; 11] = [
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "index",
    "logs",
    "objects",
    "packed-refs",
    "refs",
    "worktrees",
];

/// Entries whose own entries are looked at as well.
const DIRECTORIES: [&str; 4] = ["logs", "objects", REFERENCES, "worktrees"];

/// The one of them whose directories are looked at at any depth: branches have any name.
const REFERENCES: &str = "refs";

/// Maximum number of files and directories in it. Git stores most references in one file.
const MAX_REFERENCES: usize = 100_000;

/// Refuses links of git directories, whose paths are canonical, that lead out of all of them.
///
/// # Errors
/// When there is such a link, there are too many references to look for one, or an entry cannot be read.
pub(crate) fn check_links(directories: &[&Path]) -> Result<(), PlaceError> {
    for directory in directories {
        for name in ENTRIES {
            check_link(&directory.join(name), directories)?;
        }
        for name in DIRECTORIES {
            check_below(&directory.join(name), name == REFERENCES, directories)?;
        }
    }
    Ok(())
}

fn check_below(path: &Path, is_deep: bool, directories: &[&Path]) -> Result<(), PlaceError> {
    let (mut below, mut count) = (vec![path.to_owned()], 0);
    while let Some(path) = below.pop() {
        let entries = match fs::read_dir(&path) {
            Err(error) if is_missing(&error) => continue,
            entries => entries.map_err(|source| unreadable(&path, source))?,
        };
        for entry in entries {
            let entry = entry.map_err(|source| unreadable(&path, source))?;
            count += 1;
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => check_link(&entry.path(), directories)?,
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

fn check_link(link: &Path, directories: &[&Path]) -> Result<(), PlaceError> {
    let target = match fs::read_link(link) {
        Ok(target) => target,
        // It is no link, or does not exist.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput || is_missing(&error) => {
            return Ok(());
        }
        Err(source) => return Err(unreadable(link, source)),
    };
    let is_inside = match link.canonicalize() {
        Ok(target) => directories.iter().any(|path| target.starts_with(path)),
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
