//! The one door to the readable files: everything that is read, written, synced, renamed or listed
//! below `.projects/` goes through [`FileIo`], so that a test can record the calls and lose some.
//!
//! No method follows a symbolic link at the end of a path; that no directory on the way is one is
//! checked by the callers, who walk down from `.projects/` (see `files::place`).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size: u64,
    /// When its content last changed, in nanoseconds since the Unix epoch.
    pub modified: i64,
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else: a symbolic link, a socket, a device.
    Other,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
}

/// File operations, as the readable files need them.
///
/// Every method fails only as the operating system does; nothing is retried here.
#[expect(clippy::missing_errors_doc, reason = "said once, for all of them")]
pub trait FileIo: Send + Sync + std::fmt::Debug {
    /// Reads a regular file whole; one with more than `limit` bytes is an error of the kind
    /// [`io::ErrorKind::FileTooLarge`].
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;
    /// [`FileIo::read`], and what the file looked like then; `None` when nothing is there.
    fn read_whole(&self, path: &Path, limit: u64) -> io::Result<Option<(Vec<u8>, Stat)>> {
        match self.stat(path)? {
            Some(stat) if stat.kind == EntryKind::File => Ok(Some((self.read(path, limit)?, stat))),
            Some(_) => Err(not_a_file()),
            None => Ok(None),
        }
    }
    /// What stands at `path`, links not followed; `None` when nothing does.
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>>;
    /// The entries of a directory, in no order; none when there is no such directory.
    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>>;
    /// Makes one directory; no error when it is there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Writes a file under a temporary name, replacing what an earlier run left behind.
    fn write_temp(&self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// [`FileIo::write_temp`] of a file that only its owner may read, where the system knows owners.
    fn write_private_temp(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.write_temp(path, content)
    }
    /// Makes a file's content durable.
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// [`FileIo::sync_file`] of a file that is open already, the one at `path`. The database's log
    /// is synced by this; everything else of the database SQLite does by itself.
    fn sync_open(&self, file: &File, path: &Path) -> io::Result<()> {
        let _ = path;
        file.sync_data()
    }
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes everything durable that was written to the file system that holds `path`; `false`
    /// when the system has no call for that, and files must be synced one by one.
    fn sync_all(&self, path: &Path) -> io::Result<bool>;
    /// Renames a file, replacing what was there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; no error when it is not there.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames the file `temp` to `path`, if what stands there still looks as `expected`; says
    /// whether it did. Otherwise what stands there stays, and `temp` as well. Where the system can,
    /// nothing comes in between the look and the renaming.
    fn replace(&self, temp: &Path, path: &Path, expected: Option<Stat>) -> io::Result<bool> {
        replace_in_steps(self, temp, path, expected)
    }
    /// Removes the file `path`, if it still looks as `expected`; says whether it did. Otherwise it
    /// stays. `aside` is a name beside it that is free to use. Where the system can, nothing comes
    /// in between the look and the removing.
    fn remove_known(&self, path: &Path, aside: &Path, expected: Stat) -> io::Result<bool> {
        let _ = aside;
        remove_in_steps(self, path, expected)
    }
    /// Removes a directory if it is empty; says whether it did.
    fn remove_dir(&self, path: &Path) -> io::Result<bool>;
}

fn replace_in_steps(
    files: &(impl FileIo + ?Sized),
    temp: &Path,
    path: &Path,
    expected: Option<Stat>,
) -> io::Result<bool> {
    if files.stat(path)? != expected {
        return Ok(false);
    }
    files.rename(temp, path)?;
    Ok(true)
}

fn remove_in_steps(
    files: &(impl FileIo + ?Sized),
    path: &Path,
    expected: Stat,
) -> io::Result<bool> {
    if files.stat(path)? != Some(expected) {
        return Ok(false);
    }
    files.remove(path)?;
    Ok(true)
}

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl RealFs {
    fn open(path: &Path) -> io::Result<File> {
        // direct: the caller holds the directory, and syncs many files at once.
        let mut options = OpenOptions::new();
        options.read(true);
        no_follow(&mut options);
        options.open(path)
    }

    /// Writes a file that is not there, or replaces it by another.
    fn write_new(path: &Path, content: &[u8], options: &OpenOptions) -> io::Result<()> {
        let open = || options.clone().write(true).create_new(true).open(path);
        let mut file = match open() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(path)?;
                open()?
            }
            other => other?,
        };
        file.write_all(content)
    }
}

#[cfg(unix)]
fn no_follow(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;

    // Not to block on a fifo somebody put in the place of a file.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).expect("open flags fit"));
}

#[cfg(not(unix))]
fn no_follow(_: &mut OpenOptions) {}

fn kind_of(file_type: fs::FileType) -> EntryKind {
    if file_type.is_file() {
        EntryKind::File
    } else if file_type.is_dir() {
        EntryKind::Directory
    } else {
        EntryKind::Other
    }
}

fn modified(metadata: &fs::Metadata) -> i64 {
    let since = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}

fn missing_is<T>(result: io::Result<T>, instead: T) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(instead),
        // A file where a directory should be: nothing can be below it.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(instead),
        other => other,
    }
}

/// Renaming that never replaces anything unseen, where the system has it.
#[cfg(target_os = "linux")]
mod exact {
    use std::fs;
    use std::io;
    use std::path::Path;

    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;

    use super::{FileIo, RealFs, Stat};

    /// What came of a renaming that has conditions.
    #[derive(PartialEq, Eq)]
    enum Renamed {
        Yes,
        /// What is at the new name, or is not, forbids it.
        No,
        /// The file system has no such call.
        Unable,
    }

    fn rename(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<Renamed> {
        match renameat_with(CWD, from, CWD, to, flags) {
            Ok(()) => Ok(Renamed::Yes),
            Err(Errno::EXIST | Errno::NOENT) => Ok(Renamed::No),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(Renamed::Unable),
            Err(error) => Err(error.into()),
        }
    }

    /// [`FileIo::replace`]; `None` when the file system cannot.
    pub(super) fn replace(
        temp: &Path,
        path: &Path,
        expected: Option<Stat>,
    ) -> io::Result<Option<bool>> {
        let flags = match expected {
            Some(_) => RenameFlags::EXCHANGE,
            None => RenameFlags::NOREPLACE,
        };
        match rename(temp, path, flags)? {
            Renamed::Yes if expected.is_none() => return Ok(Some(true)),
            Renamed::Yes => {}
            Renamed::No => return Ok(Some(false)),
            Renamed::Unable => return Ok(None),
        }
        // What stood there has the other name now, so nobody replaces it any more.
        if RealFs.stat(temp)? == expected {
            fs::remove_file(temp)?;
            return Ok(Some(true));
        }
        if rename(temp, path, RenameFlags::EXCHANGE)? != Renamed::Yes {
            // Ours was removed already, so theirs goes back into a place that is free.
            fs::rename(temp, path)?;
        }
        Ok(Some(false))
    }

    /// [`FileIo::remove_known`]; `None` when the file system cannot.
    pub(super) fn remove(path: &Path, aside: &Path, expected: Stat) -> io::Result<Option<bool>> {
        match rename(path, aside, RenameFlags::NOREPLACE)? {
            Renamed::Yes => {}
            Renamed::No => return Ok(Some(false)),
            Renamed::Unable => return Ok(None),
        }
        if RealFs.stat(aside)? == Some(expected) {
            fs::remove_file(aside)?;
            return Ok(Some(true));
        }
        if rename(aside, path, RenameFlags::NOREPLACE)? != Renamed::Yes {
            // Whoever wrote a new file meanwhile saw that there was none: theirs is the newest.
            fs::remove_file(aside)?;
        }
        Ok(Some(false))
    }
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

fn read_open(file: File, limit: u64) -> io::Result<(Vec<u8>, Stat)> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(not_a_file());
    }
    let expected = usize::try_from(metadata.len().min(limit)).unwrap_or(0);
    let mut content = Vec::with_capacity(expected + 1);
    file.take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    if u64::try_from(content.len()).is_ok_and(|length| length > limit) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let stat = Stat {
        kind: EntryKind::File,
        size: metadata.len(),
        modified: modified(&metadata),
    };
    Ok((content, stat))
}

impl FileIo for RealFs {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        read_open(Self::open(path)?, limit).map(|(content, _)| content)
    }

    fn read_whole(&self, path: &Path, limit: u64) -> io::Result<Option<(Vec<u8>, Stat)>> {
        match missing_is(Self::open(path).map(Some), None)? {
            Some(file) => read_open(file, limit).map(Some),
            None => Ok(None),
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let found = missing_is(fs::symlink_metadata(path).map(Some), None)?;
        Ok(found.map(|metadata| Stat {
            kind: kind_of(metadata.file_type()),
            size: metadata.len(),
            modified: modified(&metadata),
        }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let Some(entries) = missing_is(fs::read_dir(directory).map(Some), None)? else {
            return Ok(Vec::new());
        };
        entries
            .map(|entry| {
                let entry = entry?;
                Ok(Entry {
                    name: entry.file_name(),
                    kind: kind_of(entry.file_type()?),
                })
            })
            .collect()
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn write_temp(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        // direct: as for `open`.
        Self::write_new(path, content, &OpenOptions::new())
    }

    fn write_private_temp(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        // direct: as for `open`.
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Self::write_new(path, content, &options)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        Self::open(path)?.sync_data()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if cfg!(windows) {
            return Ok(());
        }
        missing_is(
            File::open(path).and_then(|directory| directory.sync_all()),
            (),
        )
    }

    #[cfg(target_os = "linux")]
    fn sync_all(&self, path: &Path) -> io::Result<bool> {
        rustix::fs::syncfs(File::open(path)?)?;
        Ok(true)
    }

    #[cfg(not(target_os = "linux"))]
    fn sync_all(&self, _: &Path) -> io::Result<bool> {
        Ok(false)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        missing_is(fs::remove_file(path), ())
    }

    #[cfg(target_os = "linux")]
    fn replace(&self, temp: &Path, path: &Path, expected: Option<Stat>) -> io::Result<bool> {
        match exact::replace(temp, path, expected)? {
            Some(done) => Ok(done),
            None => replace_in_steps(self, temp, path, expected),
        }
    }

    #[cfg(target_os = "linux")]
    fn remove_known(&self, path: &Path, aside: &Path, expected: Stat) -> io::Result<bool> {
        match exact::remove(path, aside, expected)? {
            Some(done) => Ok(done),
            None => remove_in_steps(self, path, expected),
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<bool> {
        match fs::remove_dir(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{FileIo, RealFs, Stat};

    fn stat(path: &Path) -> Option<Stat> {
        RealFs.stat(path).expect("looks")
    }

    #[test]
    fn only_what_is_expected_is_replaced_or_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let (temp, path) = (directory.path().join("temp"), directory.path().join("file"));
        let replace = |text: &str, expected| {
            RealFs.write_temp(&temp, text.as_bytes()).expect("writes");
            RealFs.replace(&temp, &path, expected).expect("replaces")
        };
        assert!(replace("first", None));
        let first = stat(&path);
        assert!(!replace("second", None), "there is one");
        assert!(replace("second", first));
        assert!(!temp.exists());
        fs::write(&path, "by hand").expect("writes");
        assert!(!replace("third", first), "it is another");
        assert_eq!(fs::read_to_string(&path).expect("reads"), "by hand");
        assert_eq!(fs::read_to_string(&temp).expect("reads"), "third");
        RealFs.remove(&temp).expect("removes");
        let remove = |expected: Option<Stat>| {
            RealFs
                .remove_known(&path, &temp, expected.expect("a file"))
                .expect("removes")
        };
        assert!(!remove(first));
        assert_eq!(fs::read_to_string(&path).expect("reads"), "by hand");
        let by_hand = stat(&path);
        assert!(remove(by_hand));
        assert!(!path.exists() && !temp.exists());
        assert!(!remove(by_hand), "there is none");
        assert!(!replace("fourth", by_hand), "there is none");
        assert!(!path.exists());
    }
}
