//! Where audit files lie: the directory, held open, and the names in it.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, TryLockError},
    io,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime},
};

use orchestra_fs::{Access, Directory};

/// How often a lock is looked for: at first, and when it does not come.
const LOCK_PAUSE: Duration = Duration::from_millis(1);
const LOCK_PAUSE_MOST: Duration = Duration::from_millis(50);

/// Behind the name of the file whose chain it is about.
const HEAD: &str = ".head";

/// More files than anybody keeps.
pub(super) const MAX_NUMBER: usize = 10_000;

/// The directory of the file, held open: whoever replaces it by a link leads us nowhere.
pub(super) struct Place {
    directory: Directory,
    name: OsString,
}

impl Place {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let directory = match directory_of(path).file_name() {
            Some(own) => above(path)?.below(Path::new(own))?,
            None => Some(Directory::open(directory_of(path))?),
        };
        Ok(Self {
            directory: directory.ok_or(io::ErrorKind::NotFound)?,
            name: name.to_owned(),
        })
    }

    /// Makes the directory of a file for its owner alone, with those above it, where it is missing.
    pub(super) fn make_directory(path: &Path) -> io::Result<()> {
        let directory = directory_of(path);
        if directory.file_name().is_some() {
            orchestra_fs::make_private(directory)?;
        }
        Ok(())
    }

    /// Makes the directory anew, for its owner alone, where it was removed; says whether it was. One
    /// that was moved is written to on, whatever stands at its path now; and no directory is made for
    /// it to stand in.
    pub(super) fn make_anew(&mut self, path: &Path) -> io::Result<bool> {
        let own = directory_of(path).file_name();
        let Some(own) = own.filter(|_| self.directory.is_removed()) else {
            return Ok(false);
        };
        self.directory = above(path)?.make_below(Path::new(own), Access::Private)?;
        Ok(true)
    }

    /// Opens the file to be written, made for its owner alone.
    pub(super) fn append(&self) -> io::Result<File> {
        Ok(self.directory.append(&self.name, Access::Private)?)
    }

    /// Opens a file to be read; 0 is the file itself. `None` where there is none.
    pub(super) fn read(&self, number: usize) -> io::Result<Option<File>> {
        Ok(self.directory.open_file(self.numbered(number))?)
    }

    /// Opens what is noted of the chain; `None` where nothing is.
    pub(super) fn read_note(&self) -> io::Result<Option<File>> {
        Ok(self.directory.open_file(self.head_name())?)
    }

    /// Opens it to be noted anew.
    pub(super) fn write_note(&self) -> io::Result<File> {
        let name = self.head_name();
        Ok(self.directory.open_or_create(name, Access::Private)?)
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
        let number = |name: &OsStr| {
            let digits = name.as_bytes().strip_prefix(self.name.as_bytes())?;
            let digits = std::str::from_utf8(digits.strip_prefix(b".")?).ok()?;
            digits.parse::<usize>().ok()
        };
        let names = self.directory.entries()?;
        let numbers = names.iter().filter_map(|name| number(name));
        let mut numbers: Vec<usize> = numbers
            .filter(|number| (1..=MAX_NUMBER).contains(number))
            .collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.dedup();
        Ok(numbers)
    }

    /// Whether `file` is the one that stands at the path.
    pub(super) fn is_there(&self, file: &File) -> bool {
        self.directory.is_current(file, &self.name)
    }

    pub(super) fn rename_if_there(&self, from: usize, to: usize) -> io::Result<()> {
        let (from, to) = (self.numbered(from), self.numbered(to));
        self.directory.move_file(from, to)?;
        Ok(())
    }

    pub(super) fn remove(&self, number: usize) -> io::Result<()> {
        self.directory.remove(self.numbered(number))?;
        Ok(())
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
    path.parent().map_or(Path::new("."), or_here)
}

/// The directory above the one that a file stands in.
fn above(path: &Path) -> io::Result<Directory> {
    let above = directory_of(path).parent();
    Ok(Directory::open(above.map_or(Path::new("."), or_here))?)
}

fn or_here(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
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
