//! Operations on files by path. Symbolic links in the path of their directory are followed, those in the place of
//! the file are refused.

use std::{ffi::OsStr, fs::File, io, path::Path};

use crate::{Access, Directory, Error, Reason, Result, Staged, name::split};

/// Reads a file as [`Directory::read`] does; `None` when it or its directory does not exist.
///
/// # Errors
/// Those of [`Directory::read`].
pub fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    match existing("read", path)? {
        Some((directory, name)) => directory.read(name, limit),
        None => Ok(None),
    }
}

/// Reads a file as [`Directory::read_own`] does; `None` when it or its directory does not exist.
///
/// # Errors
/// Those of [`Directory::read_own`].
pub fn read_own(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    match existing("read", path)? {
        Some((directory, name)) => directory.read_own(name, limit),
        None => Ok(None),
    }
}

/// Opens a file to read as [`Directory::open_file`] does; `None` when it or its directory does not exist.
///
/// # Errors
/// Those of [`Directory::open_file`].
pub fn open(path: &Path) -> Result<Option<File>> {
    match existing("read", path)? {
        Some((directory, name)) => directory.open_file(name),
        None => Ok(None),
    }
}

/// Replaces a file as [`Directory::write`] does.
///
/// # Errors
/// Those of [`Directory::write`].
pub fn write(path: &Path, content: &[u8], access: Access) -> Result<()> {
    let (directory, name) = entry("write", path)?;
    directory.write(name, content, access)
}

/// Creates a temporary file beside `path`, as [`Directory::stage`] does.
///
/// # Errors
/// Those of [`Directory::stage`].
pub fn stage(path: &Path, access: Access) -> Result<Staged> {
    entry("write", path)?.0.stage(access)
}

/// Opens a file to append to as [`Directory::append`] does.
///
/// # Errors
/// Those of [`Directory::append`].
pub fn append(path: &Path, access: Access) -> Result<File> {
    let (directory, name) = entry("open", path)?;
    directory.append(name, access)
}

/// Creates a file as [`Directory::create_new`] does.
///
/// # Errors
/// Those of [`Directory::create_new`].
pub fn create_new(path: &Path, access: Access) -> Result<File> {
    let (directory, name) = entry("create", path)?;
    directory.create_new(name, access)
}

/// Removes a file or a symbolic link; returns whether it existed.
///
/// # Errors
/// Those of [`Directory::remove`].
pub fn remove(path: &Path) -> Result<bool> {
    match existing("remove", path)? {
        Some((directory, name)) => directory.remove(name),
        None => Ok(false),
    }
}

/// Renames a file that was written completely, durably, in place of `to`, a file in the same directory.
///
/// # Errors
/// Those of [`Directory::publish`].
pub fn publish(from: &Path, to: &Path) -> Result<()> {
    let (directory, to) = entry("write", to)?;
    let (_, from) = split(from).ok_or_else(|| invalid("publish", from))?;
    directory.publish(from.as_os_str(), to)
}

/// Opens a file to read and write as [`Directory::open_or_create`] does.
///
/// # Errors
/// Those of [`Directory::open_or_create`].
pub fn open_or_create(path: &Path, access: Access) -> Result<File> {
    let (directory, name) = entry("open", path)?;
    directory.open_or_create(name, access)
}

/// Opens a directory that is the user's own as [`Directory::claim`] makes it, and creates it for its owner alone, with
/// those above it as the umask has them. A symbolic link in its place is refused.
///
/// # Errors
/// Those of [`Directory::make_below`] and [`Directory::claim`].
pub fn make_private(path: &Path) -> Result<Directory> {
    let (above, name) = split(path).ok_or_else(|| invalid("create", path))?;
    let directory =
        Directory::make(above)?.make_below(name.as_os_str().as_ref(), Access::Private)?;
    directory.claim()?;
    Ok(directory)
}

pub(crate) fn entry<'p>(operation: &'static str, path: &'p Path) -> Result<(Directory, &'p OsStr)> {
    let (directory, name) = split(path).ok_or_else(|| invalid(operation, path))?;
    Ok((Directory::open(directory)?, name.as_os_str()))
}

pub(crate) fn existing<'p>(
    operation: &'static str,
    path: &'p Path,
) -> Result<Option<(Directory, &'p OsStr)>> {
    match entry(operation, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        entry => entry.map(Some),
    }
}

fn invalid(operation: &'static str, path: &Path) -> Error {
    Error::new(operation, path, Reason::InvalidName)
}
