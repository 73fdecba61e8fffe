//! Files of the user's home that are symbolic links, as those of a repository of dotfiles are.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::{Error, Reason, Result};

/// Returns the path to read and write for a file of the user's home. A symbolic link there is the user's own
/// arrangement: it stays, and the file that it leads to is used, if that file and its directory belong to the user
/// and are not writable by everyone, and if it is outside of `workspace`, whose content the user may not know.
///
/// # Errors
/// When `path` is a symbolic link that leads to nothing, to what is not a regular file, or to a file that those
/// conditions exclude.
pub fn own_target(path: &Path, workspace: &Path) -> Result<PathBuf> {
    let refused = |reason| Error::new("use", path, reason);
    let system = |error| Error::system("use", path, error);
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {}
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(system(error)),
        _ => return Ok(path.to_owned()),
    }
    let target = path.canonicalize().map_err(system)?;
    let workspace = workspace
        .canonicalize()
        .unwrap_or_else(|_| workspace.to_owned());
    if target.starts_with(workspace) {
        return Err(refused(Reason::InsideWorkspace));
    }
    let file = fs::metadata(&target).map_err(system)?;
    if !file.is_file() {
        return Err(refused(Reason::NotAFile));
    }
    let directory = fs::metadata(target.parent().unwrap_or(&target)).map_err(system)?;
    for found in [file, directory] {
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(refused(Reason::AnotherOwner));
        }
        if found.mode() & 0o002 != 0 {
            return Err(refused(Reason::WritableByOthers));
        }
    }
    Ok(target)
}
