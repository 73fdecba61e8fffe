//! The directory on disk: bounded reads, whole writes, one lock.
//!
//! A file appears complete or not at all, with mode 0600 from its first moment (`orchestra-fs`). A symbolic link is
//! read through, as secrets that a platform mounts are, and is not replaced.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use orchestra_fs::{Access, Directory};
use rustix::fs::OFlags;

use super::error::CertError;

/// No certificate or key file is larger.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// How long another program may hold the lock. It makes a few keys meanwhile, no more.
const LOCK_TIME: Duration = Duration::from_secs(10);

/// How often the lock is tried. A program that makes hundreds of keys lets go of it for microseconds
/// between two of them, and whoever looks seldom never sees that.
const LOCK_STEP: Duration = Duration::from_millis(1);

/// Threads of this program take turns, before it waits for others: hundreds of them that all try the
/// lock would wait longer than any program holds it.
static TURN: Mutex<()> = Mutex::new(());

const LOCK_FILE: &str = ".lock";

/// The directory.
#[derive(Debug, Clone)]
pub(super) struct Files {
    path: PathBuf,
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: orchestra_fs::Lock,
    _turn: MutexGuard<'static, ()>,
}

/// Keeps writers out, until it is dropped.
#[derive(Debug)]
pub(super) struct Reading {
    _file: Option<File>,
}

impl Files {
    /// Opens the directory, which is made if it is not there.
    pub(super) fn open(path: &Path) -> Result<Self, CertError> {
        let failed = |attempt| move |source| error(attempt, path, source);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed("make the directory"))?;
        let path = path.canonicalize().map_err(failed("open the directory"))?;
        let mode = fs::metadata(&path)
            .map_err(failed("open the directory"))?
            .mode();
        if mode & 0o022 != 0 {
            return Err(CertError::Exposed { path });
        }
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file; `None` if it is not there.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, CertError> {
        let path = self.at(name);
        let failed = |source| error("read", &path, source);
        // direct: secrets that a platform mounts are symbolic links.
        let file = match OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)
        {
            Ok(file) => file,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(CertError::Large {
                path,
                most: MAX_FILE_BYTES,
            });
        }
        Ok(Some(bytes))
    }

    /// Whether others than the owner can read a file.
    pub(super) fn is_exposed(&self, name: &str) -> bool {
        fs::metadata(self.at(name)).is_ok_and(|data| data.mode() & 0o077 != 0)
    }

    /// Names of the files that end in `.crt`, in order.
    pub(super) fn certificates(&self) -> Result<Vec<String>, CertError> {
        let failed = |source| error("list", &self.path, source);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(".crt")) {
                names.push(stem.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Waits for the right to write, for a bounded time.
    pub(super) fn lock(&self) -> Result<Lock, CertError> {
        let path = self.at(LOCK_FILE);
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let locked = orchestra_fs::Lock::wait_for(&path, LOCK_TIME).map_err(failed("lock"))?;
        match locked {
            Some(file) => Ok(Lock {
                _file: file,
                _turn: turn,
            }),
            None => Err(is_held(&path)),
        }
    }

    /// Waits until nobody writes, for a bounded time. Who may not write may do this.
    pub(super) fn reading(&self) -> Result<Reading, CertError> {
        let path = self.at(LOCK_FILE);
        let Some(file) = orchestra_fs::open(&path).map_err(failed("lock"))? else {
            // Nobody has ever written here.
            return Ok(Reading { _file: None });
        };
        wait(&path, || file.try_lock_shared())?;
        Ok(Reading { _file: Some(file) })
    }

    /// Writes a file as a whole.
    pub(super) fn write(&self, _lock: &Lock, name: &str, text: &str) -> Result<(), CertError> {
        let path = self.at(name);
        orchestra_fs::write(&path, text.as_bytes(), Access::Private).map_err(failed("write"))
    }

    /// Puts a file in the place of another.
    pub(super) fn rename(&self, _lock: &Lock, from: &str, to: &str) -> Result<(), CertError> {
        orchestra_fs::publish(&self.at(from), &self.at(to)).map_err(failed("write"))
    }

    /// Takes a file away, if it is there.
    pub(super) fn remove(&self, _lock: &Lock, name: &str) -> Result<(), CertError> {
        let directory = Directory::open(&self.path).map_err(failed("open"))?;
        match directory.remove(name).map_err(failed("remove"))? {
            true => directory.sync().map_err(failed("sync")),
            false => Ok(()),
        }
    }
}

/// Tries until the lock is held, for a bounded time.
fn wait(path: &Path, attempt: impl Fn() -> Result<(), TryLockError>) -> Result<(), CertError> {
    let until = Instant::now() + LOCK_TIME;
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_STEP),
            Err(TryLockError::WouldBlock) => return Err(is_held(path)),
            Err(TryLockError::Error(source)) => return Err(error("lock", path, source)),
        }
    }
}

fn is_held(path: &Path) -> CertError {
    CertError::Locked {
        path: path.to_owned(),
        seconds: LOCK_TIME.as_secs(),
    }
}

fn failed(attempt: &'static str) -> impl Fn(orchestra_fs::Error) -> CertError {
    move |failure| {
        let path = failure.path().to_owned();
        error(attempt, &path, failure.into_cause())
    }
}

fn error(attempt: &'static str, path: &Path, source: io::Error) -> CertError {
    CertError::File {
        attempt,
        path: path.to_owned(),
        source,
    }
}
