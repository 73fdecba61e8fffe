//! Where audit files lie: the directory, held open, and the names in it.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt as _,
            fs::{DirBuilderExt as _, MetadataExt},
        },
    },
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime},
};

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, Stat},
    io::Errno,
};

/// How often a lock is looked for: at first, and when it does not come.
const LOCK_PAUSE: Duration = Duration::from_millis(1);
const LOCK_PAUSE_MOST: Duration = Duration::from_millis(50);

/// Behind the name of the file whose chain it is about.
const HEAD: &str = ".head";

/// More files than anybody keeps.
pub(super) const MAX_NUMBER: usize = 10_000;

/// The directory of the file, held open: whoever replaces it by a link leads us nowhere.
pub(super) struct Place {
    directory: OwnedFd,
    name: OsString,
}

impl Place {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = directory_of(path);
        Ok(Self {
            directory: rustix::fs::open(directory, flags, Mode::empty())?,
            name: name.to_owned(),
        })
    }

    /// Makes the directory anew, for its owner alone, where it was removed; says whether it was. One
    /// that was moved is written to on, whatever stands at its path now; and no directory is made for
    /// it to stand in.
    pub(super) fn make_anew(&mut self, path: &Path) -> io::Result<bool> {
        if rustix::fs::fstat(&self.directory)?.st_nlink > 0 {
            return Ok(false);
        }
        match fs::DirBuilder::new().mode(0o700).create(directory_of(path)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) | Ok(()) => {}
        }
        *self = Self::open(path)?;
        Ok(true)
    }

    /// Opens the file to be written, made for its owner alone.
    pub(super) fn append(&self) -> io::Result<File> {
        self.file(&self.name, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)
    }

    /// Opens a file to be read; 0 is the file itself. `None` where there is none.
    pub(super) fn read(&self, number: usize) -> io::Result<Option<File>> {
        there(self.file(&self.numbered(number), OFlags::RDONLY))
    }

    /// Opens what is noted of the chain; `None` where nothing is.
    pub(super) fn read_note(&self) -> io::Result<Option<File>> {
        there(self.file(&self.head_name(), OFlags::RDONLY))
    }

    /// Opens it to be noted anew.
    pub(super) fn write_note(&self) -> io::Result<File> {
        self.file(&self.head_name(), OFlags::WRONLY | OFlags::CREATE)
    }

    /// A link could lead anywhere and a pipe would hold us up; both are refused.
    fn file(&self, name: &OsString, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(rustix::fs::openat(&self.directory, name, flags, mode)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no plain file; remove it"));
        }
        Ok(file)
    }

    /// The name of an older file; 0 is the file itself.
    pub(super) fn numbered(&self, number: usize) -> OsString {
        let mut name = self.name.clone();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        name
    }

    pub(super) fn head_name(&self) -> OsString {
        let mut name = self.name.clone();
        name.push(HEAD);
        name
    }

    /// The numbers of the older files that are there, the oldest first.
    pub(super) fn numbers(&self) -> io::Result<Vec<usize>> {
        let mut numbers = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let rest = name.strip_prefix(self.name.as_bytes());
            let digits = rest.and_then(|rest| rest.strip_prefix(b"."));
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            let number = digits.and_then(|digits| digits.parse::<usize>().ok());
            numbers.extend(number.filter(|number| (1..=MAX_NUMBER).contains(number)));
        }
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.dedup();
        Ok(numbers)
    }

    /// Whether `file` is the one that stands at the path.
    pub(super) fn is_there(&self, file: &File) -> io::Result<bool> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => Ok(is_same(&there, &file.metadata()?)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn rename_if_there(&self, from: usize, to: usize) -> io::Result<()> {
        let (from, to) = (self.numbered(from), self.numbered(to));
        match rustix::fs::renameat(&self.directory, from, &self.directory, to) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn remove(&self, number: usize) -> io::Result<()> {
        let name = self.numbered(number);
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The number from which on older files are too old: nothing was written into them since
    /// `before`. What is no file of ours does not count.
    pub(super) fn too_old(&self, before: SystemTime) -> io::Result<Option<usize>> {
        let mut from = None;
        for number in self.numbers()? {
            let Ok(Some(file)) = self.read(number) else {
                continue;
            };
            if file.metadata()?.modified()? >= before {
                break;
            }
            from = Some(number);
        }
        Ok(from)
    }
}

/// The directory that a file stands in.
fn directory_of(path: &Path) -> &Path {
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    directory.unwrap_or(Path::new("."))
}

/// Waits for a lock that `try_lock` takes, until `gives_up`, which is told for how long; whether it
/// was had.
pub(super) fn wait_for_lock(
    mut try_lock: impl FnMut() -> Result<(), TryLockError>,
    gives_up: impl Fn(Duration) -> bool,
) -> io::Result<bool> {
    let since = Instant::now();
    let mut pause = LOCK_PAUSE;
    loop {
        match try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if gives_up(since.elapsed()) => return Ok(false),
            Err(TryLockError::WouldBlock) => {}
        }
        thread::sleep(pause);
        // Who has it for long may have it for longer.
        if since.elapsed() > Duration::from_secs(1) {
            pause = LOCK_PAUSE_MOST;
        }
    }
}

fn there(file: io::Result<File>) -> io::Result<Option<File>> {
    match file {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a file that is there is the one that is open. Systems differ in how wide these are.
#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    reason = "on this system they may be as wide already"
)]
fn is_same(there: &Stat, ours: &fs::Metadata) -> bool {
    (there.st_dev as u64, there.st_ino as u64) == (ours.dev(), ours.ino())
}
