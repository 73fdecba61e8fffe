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
const DIRECTORIES: [&str; 4] = ["logs", "objects", "refs", "worktrees"];

/// Refuses links of git directories, whose paths are canonical, that lead out of all of them.
///
/// # Errors
/// When there is such a link, or an entry cannot be read.
pub(crate) fn check_links(directories: &[&Path]) -> Result<(), PlaceError> {
    for directory in directories {
        for name in ENTRIES {
            check_link(&directory.join(name), directories)?;
        }
        for name in DIRECTORIES {
            let path = directory.join(name);
            let entries = match fs::read_dir(&path) {
                Err(error) if is_missing(&error) => continue,
                entries => entries.map_err(|source| unreadable(&path, source))?,
            };
            for entry in entries {
                let entry = entry.map_err(|source| unreadable(&path, source))?;
                if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                    check_link(&entry.path(), directories)?;
                }
            }
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
