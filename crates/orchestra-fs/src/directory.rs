//! An open directory, and the files in it.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::{
    Access, Error, Reason, Result, Staged,
    name::{Name, names},
};

/// Permissions of other users to change a file or a directory.
const OTHERS_WRITE: Mode = Mode::WGRP.union(Mode::WOTH);

/// An open directory. Its files are found also after it was moved.
#[derive(Debug)]
pub struct Directory {
    handle: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens a directory. Symbolic links in the path are followed: the caller trusts it.
    ///
    /// # Errors
    /// When it does not exist, is not a directory, or cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(handle) => Ok(Self {
                handle,
                path: path.to_owned(),
            }),
            Err(Errno::NOTDIR) => Err(Error::new("open", path, Reason::NotADirectory)),
            Err(error) => Err(Error::system("open", path, error)),
        }
    }

    /// Opens a directory, and creates it with the directories above it as the umask has them. Symbolic links in the
    /// path are followed.
    ///
    /// # Errors
    /// When it cannot be created or opened.
    pub fn make(path: &Path) -> Result<Self> {
        let created = std::fs::create_dir_all(path);
        created.map_err(|error| Error::system("create", path, error))?;
        Self::open(path)
    }

    /// Opens a directory of the user's own state, such as one below `~/.local/state`, and creates it with the
    /// directories above it, each for its owner alone. Symbolic links in the path are followed.
    ///
    /// # Errors
    /// When it cannot be created or opened, and those of [`Directory::claim`].
    pub fn private(path: &Path) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let created = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path);
        created.map_err(|error| Error::system("create", path, error))?;
        let directory = Self::open(path)?;
        directory.claim()?;
        Ok(directory)
    }

    /// Opens a directory below this one, reached without symbolic links; `None` when it does not exist.
    ///
    /// # Errors
    /// When a component is a symbolic link or not a directory, or cannot be opened.
    pub fn below(&self, relative: &Path) -> Result<Option<Self>> {
        let mut directory = self.duplicate()?;
        for name in self.names(relative)? {
            match directory.enter(name)? {
                Some(next) => directory = next,
                None => return Ok(None),
            }
        }
        Ok(Some(directory))
    }

    /// Opens a directory below this one, and creates it with those between them, reached without symbolic links.
    ///
    /// # Errors
    /// When a component is a symbolic link, not a directory, or cannot be created.
    pub fn make_below(&self, relative: &Path, access: Access) -> Result<Self> {
        let mut directory = self.duplicate()?;
        for name in self.names(relative)? {
            if let Some(next) = directory.enter(name)? {
                directory = next;
                continue;
            }
            let mode = access.of_directory();
            let created = rustix::fs::mkdirat(&directory.handle, name.as_os_str(), mode);
            // Another program may have created it meanwhile.
            directory = match (directory.enter(name)?, created) {
                (Some(next), _) => next,
                (None, created) => {
                    let error = created.err().unwrap_or(Errno::NOENT);
                    let path = directory.path.join(name.as_os_str());
                    return Err(Error::system("create", &path, error));
                }
            };
        }
        Ok(directory)
    }

    /// Checks that the directory belongs to the user, and removes the write permission of other users.
    ///
    /// # Errors
    /// When it belongs to another user, all users share it, or its permissions cannot be changed.
    pub fn claim(&self) -> Result<()> {
        match mode(&self.own()?) {
            // Such as `/tmp` for the superuser: all other users would lose it.
            mode if mode.contains(Mode::SVTX | Mode::WOTH) => {
                Err(Error::new("use", &self.path, Reason::Shared))
            }
            mode if mode.intersects(OTHERS_WRITE) => {
                let protected = rustix::fs::fchmod(&self.handle, mode - OTHERS_WRITE);
                protected.map_err(|error| Error::system("protect", &self.path, error))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether it belongs to the user and other users have no permission on it. Only then can no other user have
    /// put a file into it, or hold a lock in it.
    #[must_use]
    pub fn is_private(&self) -> bool {
        let others = Mode::RWXG | Mode::RWXO;
        rustix::fs::fstat(&self.handle)
            .is_ok_and(|stat| is_own(&stat) && !mode(&stat).intersects(others))
    }

    /// Checks that the directory belongs to the user. Changes nothing.
    ///
    /// # Errors
    /// When it belongs to another user.
    pub fn check_owner(&self) -> Result<()> {
        self.own().map(drop)
    }

    /// Returns its metadata where it belongs to the user.
    fn own(&self) -> Result<Stat> {
        let stat = rustix::fs::fstat(&self.handle);
        let stat = stat.map_err(|error| Error::system("use", &self.path, error))?;
        match is_own(&stat) {
            true => Ok(stat),
            false => Err(Error::new("use", &self.path, Reason::AnotherOwner)),
        }
    }

    /// Returns whether its path still leads to it: it was neither removed, moved nor replaced. What cannot be looked at
    /// is taken for it.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        match (
            rustix::fs::stat(&self.path),
            rustix::fs::fstat(&self.handle),
        ) {
            (Ok(named), Ok(open)) => (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino),
            (Err(Errno::NOENT | Errno::NOTDIR), _) => false,
            _ => true,
        }
    }

    /// Returns the present path of the directory, also after it was moved; `None` where it was removed, or the system
    /// does not report the path.
    #[must_use]
    pub fn current_path(&self) -> Option<PathBuf> {
        #[cfg(target_vendor = "apple")]
        let path = rustix::fs::getpath(&self.handle).ok()?;
        #[cfg(target_vendor = "apple")]
        let path = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
        #[cfg(not(target_vendor = "apple"))]
        let path = {
            use std::os::fd::AsRawFd as _;
            std::fs::read_link(format!("/proc/self/fd/{}", self.handle.as_raw_fd())).ok()?
        };
        let named = rustix::fs::stat(&path).ok()?;
        let open = rustix::fs::fstat(&self.handle).ok()?;
        ((named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)).then_some(path)
    }

    /// Returns the path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a file; `None` when it does not exist.
    ///
    /// # Errors
    /// When it is not a regular file, is longer than `limit` bytes, or cannot be read.
    pub fn read(&self, name: impl AsRef<OsStr>, limit: u64) -> Result<Option<Vec<u8>>> {
        let name = name.as_ref();
        match self.open_file(name)? {
            Some(file) => self.contents(name, file, limit).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a file that only the user can have written; `None` when it does not exist.
    ///
    /// # Errors
    /// Those of [`Directory::read`], and when the file belongs to another user or other users can write it.
    pub fn read_own(&self, name: impl AsRef<OsStr>, limit: u64) -> Result<Option<Vec<u8>>> {
        let name = name.as_ref();
        let Some(file) = self.open_file(name)? else {
            return Ok(None);
        };
        let path = self.path.join(name);
        let stat = rustix::fs::fstat(&file).map_err(|error| Error::system("read", &path, error))?;
        match () {
            () if !is_own(&stat) => Err(Error::new("read", &path, Reason::AnotherOwner)),
            () if mode(&stat).intersects(OTHERS_WRITE) => {
                Err(Error::new("read", &path, Reason::WritableByOthers))
            }
            () => self.contents(name, file, limit).map(Some),
        }
    }

    /// Opens a file to read; `None` when it does not exist.
    ///
    /// # Errors
    /// When it is not a regular file or cannot be opened.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> Result<Option<File>> {
        match self.file("read", name.as_ref(), OFlags::RDONLY, Mode::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => file.map(Some),
        }
    }

    /// Opens a file to write, and creates it where it does not exist. Its content stays.
    ///
    /// # Errors
    /// When it is not a regular file or cannot be opened.
    pub fn open_or_create(&self, name: impl AsRef<OsStr>, access: Access) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        self.file("open", name.as_ref(), flags, access.of_file())
    }

    /// Opens a file to append to, and creates it where it does not exist.
    ///
    /// # Errors
    /// When it is not a regular file or cannot be opened.
    pub fn append(&self, name: impl AsRef<OsStr>, access: Access) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        self.file("open", name.as_ref(), flags, access.of_file())
    }

    /// Creates a file and opens it to write.
    ///
    /// # Errors
    /// When the name is taken ([`io::ErrorKind::AlreadyExists`]), by a symbolic link as well, or the file cannot be
    /// created.
    pub fn create_new(&self, name: impl AsRef<OsStr>, access: Access) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.file("create", name.as_ref(), flags, access.of_file())
    }

    /// Replaces a file, or creates it, in one step and durably.
    ///
    /// # Errors
    /// When the file is a symbolic link or not a regular file, and when it cannot be written. It then has the content
    /// that it had before. Only when its directory cannot be synced may it have the new one.
    pub fn write(&self, name: impl AsRef<OsStr>, content: &[u8], access: Access) -> Result<()> {
        let mut staged = self.stage(access)?;
        staged.fill(content)?;
        staged.publish(name)
    }

    /// Creates a temporary file in the directory, which is removed unless it is published.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn stage(&self, access: Access) -> Result<Staged> {
        Staged::create(self.duplicate()?, access)
    }

    /// Renames a file that was written completely, durably, in place of the file `to`.
    ///
    /// # Errors
    /// When either is a symbolic link or not a regular file, and when the file cannot be synced or renamed.
    pub fn publish(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let file = self.file("publish", from, OFlags::RDONLY, Mode::empty())?;
        let synced = file.sync_all();
        synced.map_err(|error| Error::system("sync", &self.path.join(from), error))?;
        self.replaced("write", to)?;
        self.rename(from, to)?;
        self.sync()
    }

    /// Removes a file or a symbolic link; returns whether it existed.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = self.name("remove", name.as_ref())?;
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(Error::system("remove", &self.path.join(name), error)),
        }
    }

    /// Renames a file in place of another one, but does not make that durable; returns whether it existed.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn move_file(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> Result<bool> {
        let from = self.name("move", from.as_ref())?;
        match self.rename(from, self.name("move", to.as_ref())?) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of its entries, in no order.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn entries(&self) -> Result<Vec<OsString>> {
        let system = |error| Error::system("read", &self.path, error);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle).map_err(system)? {
            let entry = entry.map_err(system)?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Returns whether it was removed, which a directory that was only moved was not.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.handle).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Makes the names in the directory durable.
    ///
    /// # Errors
    /// When the system cannot do that. A file system that has no such operation is not an error.
    pub fn sync(&self) -> Result<()> {
        match rustix::fs::fsync(&self.handle) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(Error::system("sync", &self.path, error)),
        }
    }

    /// Returns whether an open file is the one with this name. A name that cannot be looked at is taken for the one
    /// of the file.
    #[must_use]
    pub fn is_current(&self, file: &File, name: impl AsRef<OsStr>) -> bool {
        let named = rustix::fs::statat(&self.handle, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW);
        match (named, rustix::fs::fstat(file)) {
            (Ok(named), Ok(open)) => (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino),
            (Err(Errno::NOENT), _) => false,
            _ => true,
        }
    }

    /// Checks what a file with this name would replace; `None` when nothing.
    pub(crate) fn replaced(&self, operation: &'static str, name: &OsStr) -> Result<Option<Stat>> {
        let name = self.name(operation, name)?;
        let path = || self.path.join(name);
        match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Ok(Some(stat)),
                FileType::Symlink => Err(Error::new(operation, &path(), Reason::SymbolicLink)),
                _ => Err(Error::new(operation, &path(), Reason::NotAFile)),
            },
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(Error::system(operation, &path(), error)),
        }
    }

    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> Result<()> {
        let renamed = rustix::fs::renameat(&self.handle, from, &self.handle, to);
        renamed.map_err(|error| Error::system("write", &self.path.join(to), error))
    }

    /// Gives a file a second name; false when that name is taken.
    pub(crate) fn link(&self, from: &OsStr, to: &OsStr) -> Result<bool> {
        let to = self.name("create", to)?;
        let (handle, flags) = (&self.handle, AtFlags::empty());
        match rustix::fs::linkat(handle, from, handle, to, flags) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(Error::system("create", &self.path.join(to), error)),
        }
    }

    fn duplicate(&self) -> Result<Self> {
        let handle = self.handle.try_clone();
        Ok(Self {
            handle: handle.map_err(|error| Error::system("open", &self.path, error))?,
            path: self.path.clone(),
        })
    }

    /// Opens an entry that is a directory itself.
    fn enter(&self, name: Name<'_>) -> Result<Option<Self>> {
        let path = self.path.join(name.as_os_str());
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.handle, name.as_os_str(), flags, Mode::empty());
        match opened {
            Ok(handle) => Ok(Some(Self { handle, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(match self.kind_of(name.as_os_str()) {
                Some(FileType::Symlink) => Error::new("open", &path, Reason::SymbolicLink),
                Some(FileType::Directory) | None => Error::system("open", &path, error),
                Some(_) => Error::new("open", &path, Reason::NotADirectory),
            }),
        }
    }

    /// Opens a regular file: a symbolic link is not followed, and a pipe is not waited for.
    fn file(
        &self,
        operation: &'static str,
        name: &OsStr,
        flags: OFlags,
        mode: Mode,
    ) -> Result<File> {
        let name = self.name(operation, name)?;
        let path = || self.path.join(name);
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.handle, name, flags, mode).map_err(|error| {
            if error == Errno::EXIST {
                return Error::system(operation, &path(), error);
            }
            match self.kind_of(name) {
                Some(FileType::Symlink) => Error::new(operation, &path(), Reason::SymbolicLink),
                Some(FileType::RegularFile) | None => Error::system(operation, &path(), error),
                Some(_) => Error::new(operation, &path(), Reason::NotAFile),
            }
        })?;
        let stat = rustix::fs::fstat(&handle);
        let stat = stat.map_err(|error| Error::system(operation, &path(), error))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(handle.into()),
            _ => Err(Error::new(operation, &path(), Reason::NotAFile)),
        }
    }

    fn kind_of(&self, name: &OsStr) -> Option<FileType> {
        let stat = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    }

    fn contents(&self, name: &OsStr, file: File, limit: u64) -> Result<Vec<u8>> {
        let path = || self.path.join(name);
        let mut content = Vec::new();
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut content);
        read.map_err(|error| Error::system("read", &path(), error))?;
        match content.len() as u64 > limit {
            true => Err(Error::new("read", &path(), Reason::TooLarge { limit })),
            false => Ok(content),
        }
    }

    fn name<'a>(&self, operation: &'static str, name: &'a OsStr) -> Result<&'a OsStr> {
        let invalid = || Error::new(operation, &self.path.join(name), Reason::InvalidName);
        Ok(Name::new(name).ok_or_else(invalid)?.as_os_str())
    }

    fn names<'a>(&self, relative: &'a Path) -> Result<Vec<Name<'a>>> {
        let invalid = || Error::new("open", &self.path.join(relative), Reason::InvalidName);
        names(relative).ok_or_else(invalid)
    }
}

pub(crate) fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode)
}

pub(crate) fn is_own(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}
