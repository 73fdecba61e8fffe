//! Removal of directories with all that is in them.

use std::{
    ffi::{CStr, CString},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags},
    io::Errno,
};

use crate::{Error, Result};

/// Removes a directory with all that is in it, if it exists. Symbolic links are not followed. Directories in it may be
/// nested deeper than a path is long, and lack permissions of their owner.
///
/// # Errors
/// When something in it cannot be removed. The rest of it may then be at another path inside the directory.
pub fn remove_tree(path: &Path) -> Result<()> {
    match remove(path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(Error::system("remove", path, error)),
    }
}

/// Removes the entries of the entries of a directory until it is empty. Directories among them are moved to its top, so
/// that neither paths nor the number of open directories grow with the depth.
fn remove(path: &Path) -> rustix::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let top = open(CWD, &path)?;
    let mut number = 0;
    loop {
        let names = entries(&top)?;
        if names.is_empty() {
            return rustix::fs::unlinkat(CWD, &path, AtFlags::REMOVEDIR);
        }
        for name in names {
            if unlink(&top, &name)? {
                continue;
            }
            let directory = open(&top, &name)?;
            for inner in entries(&directory)? {
                if !unlink(&directory, &inner)? {
                    lift(&directory, &inner, &top, &mut number)?;
                }
            }
            rustix::fs::unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
}

/// Opens a directory, and gives its owner all permissions.
fn open(parent: impl AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(&parent, name, flags, Mode::empty());
    let directory = match open() {
        Err(Errno::ACCESS) => {
            permit(&parent, name)?;
            open()
        }
        opened => opened,
    }?;
    // Of a directory of another user, the removal fails later.
    let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
    Ok(directory)
}

/// Gives the owner of a directory that cannot be opened all permissions.
#[cfg(target_os = "linux")]
fn permit(parent: impl AsFd, name: &CStr) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    rustix::fs::chmod(path, Mode::RWXU)
}

/// Gives the owner of a directory that cannot be opened all permissions.
#[cfg(not(target_os = "linux"))]
fn permit(parent: impl AsFd, name: &CStr) -> rustix::io::Result<()> {
    rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)
}

fn entries(directory: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Removes an entry; false for a directory.
fn unlink(directory: &OwnedFd, name: &CStr) -> rustix::io::Result<bool> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        // The second one is that of POSIX.
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Moves a directory to the top, to a name that is free.
fn lift(from: &OwnedFd, name: &CStr, top: &OwnedFd, number: &mut u64) -> rustix::io::Result<()> {
    // The move changes the directory itself, which needs its permissions.
    drop(open(from, name)?);
    loop {
        *number += 1;
        let free = format!(".removed-{number}");
        match rustix::fs::renameat(from, name, top, free) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            renamed => return renamed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    #[test]
    fn deep_and_closed_directories_are_removed_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (top, outside) = (root.path().join("top"), root.path().join("outside"));
        fs::create_dir_all(top.join("a/closed/inner/below")).unwrap();
        fs::create_dir_all(top.join("deep")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "x").unwrap();
        fs::write(top.join("a/closed/inner/file"), "x").unwrap();
        fs::write(top.join(".removed-1"), "the name is taken").unwrap();
        for link in ["link", "a/link", "a/closed/link"] {
            symlink(&outside, top.join(link)).unwrap();
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY;
        let mut deep = rustix::fs::open(top.join("deep"), flags, Mode::empty()).unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&deep, "directory", Mode::RWXU).unwrap();
            deep = rustix::fs::openat(&deep, "directory", flags, Mode::empty()).unwrap();
        }
        for (path, mode) in [("a/closed/inner", 0o500), ("a/closed", 0), ("a", 0o300)] {
            fs::set_permissions(top.join(path), Permissions::from_mode(mode)).unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "x");
        remove_tree(&top).unwrap();
        assert!(remove_tree(&outside.join("file")).is_err());
    }
}
