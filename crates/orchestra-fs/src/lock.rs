//! Locks between processes: `flock` on a file that is only there for that.

use std::{
    fs::{File, TryLockError},
    io::{self, ErrorKind, Seek as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::{
    Access, Error, Result,
    path::{entry, existing},
};

/// Interval at which a lock that another process holds is tried again. A process that takes it again and again releases
/// it only briefly.
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum time that another process needs for [`is_shared`], which holds the lock alone for a moment.
const LOOK_PATIENCE: Duration = Duration::from_millis(200);
/// Number of times that a lock is found shared before it counts as that. Once is not enough: a process that held it alone
/// can have released it between the two steps.
const LOOKS: u32 = 3;

/// A lock that this process holds, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Waits for the lock.
    ///
    /// # Errors
    /// When the file is a symbolic link or not a regular file, or cannot be opened or locked.
    pub fn wait(path: &Path) -> Result<Self> {
        Self::block(path, File::lock)
    }

    /// Waits until no process holds the lock by [`Lock::wait`], and shares it with processes that call this as well.
    ///
    /// # Errors
    /// Those of [`Lock::wait`].
    pub fn share(path: &Path) -> Result<Self> {
        Self::block(path, File::lock_shared)
    }

    /// Takes the lock; `None` while another process holds it.
    ///
    /// # Errors
    /// Those of [`Lock::wait`].
    pub fn attempt(path: &Path) -> Result<Option<Self>> {
        Self::take(path, File::try_lock)
    }

    /// Waits for the lock for a bounded time; `None` when another process holds it for longer.
    ///
    /// # Errors
    /// Those of [`Lock::wait`].
    pub fn wait_for(path: &Path, time: Duration) -> Result<Option<Self>> {
        let end = Instant::now() + time;
        loop {
            if let Some(lock) = Self::attempt(path)? {
                return Ok(Some(lock));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Returns the file.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the content of the file, which nothing makes durable.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, content: &[u8]) -> Result<()> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        let written = emptied.and_then(|()| self.file.write_all(content));
        written.map_err(|error| Error::system("write", &self.path, error))
    }

    /// Returns whether the file that is locked is the one at its path, which other processes would lock. What cannot
    /// be looked at is taken for it.
    #[must_use]
    pub fn is_current(&self) -> bool {
        match existing("open", &self.path) {
            Ok(Some((directory, name))) => directory.is_current(&self.file, name),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    fn block(path: &Path, lock: impl Fn(&File) -> io::Result<()>) -> Result<Self> {
        loop {
            if let Some(lock) = Self::take(path, |file| lock(file).map_err(TryLockError::Error))? {
                return Ok(lock);
            }
        }
    }

    /// Locks the file that has the name afterwards: a removed or replaced file locks nothing.
    fn take(
        path: &Path,
        lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
    ) -> Result<Option<Self>> {
        loop {
            let (directory, name) = entry("lock", path)?;
            let file = directory.open_or_create(name, Access::Private)?;
            match lock(&file) {
                Ok(()) if directory.is_current(&file, name) => {
                    let path = path.to_owned();
                    return Ok(Some(Self { file, path }));
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(Error::system("lock", path, error)),
            }
        }
    }
}

/// Returns whether a process holds the lock alone. Creates nothing, and delays another process that takes the lock by a
/// moment at most.
///
/// # Errors
/// When the file is a symbolic link or not a regular file, or cannot be opened or locked.
pub fn is_locked(path: &Path) -> Result<bool> {
    is_refused(path, File::try_lock_shared)
}

/// Returns whether a process holds the lock, alone or shared. Creates nothing. Processes that call this at the same time
/// do not see each other.
///
/// # Errors
/// Those of [`is_locked`].
pub fn is_shared(path: &Path) -> Result<bool> {
    let end = Instant::now() + LOOK_PATIENCE;
    let mut looks = 0;
    while is_refused(path, File::try_lock)? {
        looks += u32::from(!is_locked(path)?);
        if looks == LOOKS || Instant::now() >= end {
            return Ok(true);
        }
        thread::sleep(PAUSE);
    }
    Ok(false)
}

fn is_refused(
    path: &Path,
    lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<bool> {
    let Some((directory, name)) = existing("lock", path)? else {
        return Ok(false);
    };
    let Some(file) = directory.open_file(name)? else {
        return Ok(false);
    };
    match lock(&file) {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(Error::system("lock", path, error)),
    }
}
