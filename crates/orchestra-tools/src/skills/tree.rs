//! The directory of the workspace's skills, opened name by name, so that no symbolic link on the
//! way is followed, whoever puts it there when.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::HOME;

/// The most bytes of one file: in base64 it still fits into an answer.
pub(super) const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The directory of the workspace's skills.
pub(super) struct Tree {
    home: OwnedFd,
}

/// What a name in a directory stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    /// A symbolic link, a socket, a device.
    Other,
}

/// A file that is open.
pub(super) struct Opened {
    file: File,
    pub(super) stamp: Stamp,
}

/// What tells that a file is still the same, unless it was changed within the grain of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    pub(super) size: u64,
    modified: (i64, i64),
    /// Seconds and nanoseconds since 1970, set by the system alone.
    pub(super) changed: (i64, i64),
}

impl Tree {
    /// Opens the directory; `None` when there is none, or a link in its place.
    pub(super) fn open(workspace: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut home = match rustix::fs::open(workspace, flags, Mode::empty()) {
            Ok(home) => home,
            Err(error) => return not_there(error),
        };
        for name in HOME {
            match directory_in(&home, name)? {
                Some(directory) => home = directory,
                None => return Ok(None),
            }
        }
        Ok(Some(Self { home }))
    }

    /// The directory itself.
    pub(super) const fn home(&self) -> &OwnedFd {
        &self.home
    }

    /// The contents of a file; `None` when it is not there, or no plain file.
    pub(super) fn read(&self, path: &[String]) -> io::Result<Option<Vec<u8>>> {
        let Some((name, directories)) = path.split_last() else {
            return Ok(None);
        };
        let mut inner: Option<OwnedFd> = None;
        for name in directories {
            match directory_in(inner.as_ref().unwrap_or(&self.home), name)? {
                Some(directory) => inner = Some(directory),
                None => return Ok(None),
            }
        }
        match file_in(inner.as_ref().unwrap_or(&self.home), name)? {
            Some(opened) => opened.read().map(Some),
            None => Ok(None),
        }
    }
}

impl Opened {
    /// The whole contents.
    pub(super) fn read(self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }
}

/// Opens a directory in another; `None` when there is none of that name.
pub(super) fn directory_in(parent: &OwnedFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(error) => not_there(error),
    }
}

/// Opens a plain file in a directory; `None` when there is none of that name.
pub(super) fn file_in(parent: &OwnedFd, name: &str) -> io::Result<Option<Opened>> {
    // Not to block on a fifo somebody put in the place of a file.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) => return not_there(error),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let stamp = Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    };
    Ok(Some(Opened { file, stamp }))
}

/// The names in a directory, sorted, and what they stand for; `None` when there are more than
/// `limit`. A name that is no text is shown as one, and comes with `false`.
pub(super) fn names_in(
    directory: &OwnedFd,
    limit: usize,
) -> io::Result<Option<Vec<(String, Kind, bool)>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if names.len() == limit {
            return Ok(None);
        }
        let file_type = match entry.file_type() {
            FileType::Unknown => type_of(directory, name)?,
            known => known,
        };
        let kind = match file_type {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            _ => Kind::Other,
        };
        let is_text = name.to_str().is_ok();
        names.push((name.to_string_lossy().into_owned(), kind, is_text));
    }
    orchestra_sort::sort_by(&mut names, |a, b| a.0.cmp(&b.0));
    Ok(Some(names))
}

/// Some file systems do not say it in the directory.
fn type_of(directory: impl AsFd, name: &std::ffi::CStr) -> io::Result<FileType> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode)),
        Err(Errno::NOENT) => Ok(FileType::Unknown),
        Err(error) => Err(error.into()),
    }
}

/// Gone, or something else in its place, is no failure.
fn not_there<T>(error: Errno) -> io::Result<Option<T>> {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO => Ok(None),
        error => Err(error.into()),
    }
}
