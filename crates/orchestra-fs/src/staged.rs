//! A file that is written completely before it has its name.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write},
    mem,
};

use rustix::{fs::Mode, io::Errno};

use crate::{Access, Directory, Error, Result, directory};

/// Names to try: the second is needed only after another process guessed 64 random bits.
const ATTEMPTS: usize = 4;

/// A temporary file in the directory of the file that it becomes. It is removed when it is dropped.
#[derive(Debug)]
pub struct Staged {
    directory: Directory,
    name: OsString,
    file: File,
    access: Access,
}

impl Staged {
    pub(crate) fn create(directory: Directory, access: Access) -> Result<Self> {
        let failed = |error: io::Error| Error::system("write in", directory.path(), error);
        for _ in 0..ATTEMPTS {
            let number = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
            let name = OsString::from(format!(".orchestra-{number:016x}.tmp"));
            match directory.create_new(&name, access) {
                Ok(file) => {
                    return Ok(Self {
                        directory,
                        name,
                        file,
                        access,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error.into_cause())),
            }
        }
        Err(failed(Errno::EXIST.into()))
    }

    /// Returns the file.
    pub const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Writes content at the end of the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn fill(&mut self, content: &[u8]) -> Result<()> {
        let written = self.file.write_all(content);
        written.map_err(|error| Error::system("write in", self.directory.path(), error))
    }

    /// Gives the file its name, in place of an existing file, and makes both durable.
    ///
    /// # Errors
    /// Those of [`Directory::write`].
    pub fn publish(mut self, name: impl AsRef<OsStr>) -> Result<()> {
        let name = name.as_ref();
        let replaced = self.directory.replaced("write", name)?;
        if let (Access::Shared, Some(stat)) = (self.access, replaced) {
            let mode = directory::mode(&stat) & Mode::from_bits_truncate(0o777);
            let changed = rustix::fs::fchmod(&self.file, mode);
            changed.map_err(|error| self.failed(name, error.into()))?;
        }
        let synced = self.file.sync_all();
        synced.map_err(|error| self.failed(name, error))?;
        self.directory.rename(&self.name, name)?;
        // The temporary name is free, and may be another file's by now.
        mem::take(&mut self.name);
        self.directory.sync()
    }

    /// Gives the file its name and makes both durable; false, and nothing is written, when the name is taken.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn publish_new(self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = name.as_ref();
        let synced = self.file.sync_all();
        synced.map_err(|error| self.failed(name, error))?;
        let is_new = self.directory.link(&self.name, name)?;
        if is_new {
            self.directory.sync()?;
        }
        Ok(is_new)
    }

    fn failed(&self, name: &OsStr, error: io::Error) -> Error {
        Error::system("write", &self.directory.path().join(name), error)
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // It stays behind without a use, where even that fails.
            let _ = self.directory.remove(&self.name);
        }
    }
}
