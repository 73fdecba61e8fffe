//! The audit file: one JSON line per call, written by a thread of its own so that no answer waits
//! for it. Arguments and results are never written, only names, sizes, outcome and duration.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, Write},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, Stat},
    io::Errno,
};
use serde::Serialize;

use crate::{CallEnd, mask, metrics::micros};

/// Records that wait for the thread; more are dropped and counted.
const QUEUE: usize = 4_096;

/// Lines are written when they exceed this.
const BUFFER_BYTES: usize = 64 * 1024;

/// For how long records are gathered, so that the thread need not be woken for each: that would
/// cost a call more than the record itself.
const GATHER: Duration = Duration::from_millis(10);

/// How long a batch of records waits for the lock of the file, and how often it looks.
const LOCK_TIME: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Where the audit file is and how large it may become. Several processes may share one; all must
/// say the same of it.
#[derive(Debug, Clone)]
pub struct AuditConfig {
    /// The file, for its owner alone; older ones stand beside it as `NAME.1`, `NAME.2`, …. Neither it
    /// nor its directory may be a symbolic link.
    pub path: PathBuf,
    /// Size at which the file is rotated, in bytes.
    pub max_bytes: u64,
    /// How many older files are kept.
    pub keep: usize,
}

/// Writes audit records. Dropping it writes what is queued.
#[derive(Debug)]
pub struct Audit {
    queue: Option<SyncSender<Record>>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// One call, as it is recorded.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) ended: SystemTime,
    pub(crate) face: &'static str,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) provider: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) argument_bytes: usize,
    pub(crate) result_bytes: usize,
    pub(crate) end: CallEnd,
    /// What the provider said of it.
    pub(crate) remark: Option<String>,
    pub(crate) elapsed: Duration,
}

/// The line of a record.
#[derive(Serialize)]
struct Row<'a> {
    unix_ms: u128,
    face: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    kind: &'a str,
    name: &'a str,
    argument_bytes: usize,
    result_bytes: usize,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'a str>,
    micros: u64,
}

impl Audit {
    /// Opens the file, creating it and its directory when they are missing, and starts the thread.
    ///
    /// # Errors
    /// When the directory or the file cannot be created, or no thread can be started.
    pub fn open(config: AuditConfig) -> io::Result<Self> {
        if let Some(directory) = config.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let writer = Writer::open(config)?;
        let (queue, records) = sync_channel(QUEUE);
        let thread = thread::Builder::new()
            .name("audit".into())
            .stack_size(128 * 1024)
            .spawn(move || writer.run(&records))?;
        Ok(Self {
            queue: Some(queue),
            dropped: Arc::default(),
            thread: Some(thread),
        })
    }

    /// How many records were dropped because the thread could not keep up.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn record(&self, record: Record) {
        let Some(queue) = &self.queue else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = queue.try_send(record) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panicked thread has nothing left to write.
            let _ = thread.join();
        }
    }
}

/// Appends to the file, which other processes append to and rotate as well. Whoever writes holds
/// the lock of the file that stands at the path, so that none is renamed while a record is on its
/// way into it, and its length is known.
struct Writer {
    config: AuditConfig,
    place: Place,
    file: File,
    /// How long the file is; known while it is locked.
    length: u64,
    /// Lines that are not written yet.
    lines: Vec<u8>,
}

impl Writer {
    fn open(config: AuditConfig) -> io::Result<Self> {
        let place = Place::open(&config.path)?;
        Ok(Self {
            file: place.append()?,
            place,
            config,
            length: 0,
            lines: Vec::new(),
        })
    }

    fn run(mut self, records: &Receiver<Record>) {
        while let Ok(first) = records.recv() {
            thread::park_timeout(GATHER);
            let batch = std::iter::once(first).chain(records.try_iter().take(QUEUE));
            if let Err(error) = self.write(batch) {
                tracing::warn!(%error, path = %self.config.path.display(), "cannot write audit");
            }
        }
    }

    fn write(&mut self, batch: impl Iterator<Item = Record>) -> io::Result<()> {
        self.lines.clear();
        self.lock()?;
        let written = self.write_locked(batch);
        written.and(self.file.unlock())
    }

    fn write_locked(&mut self, batch: impl Iterator<Item = Record>) -> io::Result<()> {
        for record in batch {
            if self.length >= self.config.max_bytes {
                self.put()?;
                self.rotate()?;
            }
            let before = self.lines.len();
            push_line(&mut self.lines, &record)?;
            self.length += (self.lines.len() - before) as u64;
            if self.lines.len() >= BUFFER_BYTES {
                self.put()?;
            }
        }
        self.put()
    }

    fn put(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.lines);
        self.lines.clear();
        written
    }

    /// Locks the file at the path, and opens it anew when another process has rotated.
    fn lock(&mut self) -> io::Result<()> {
        loop {
            wait_for_lock(&self.file);
            let ours = self.file.metadata()?;
            match self.place.stat() {
                Ok(there) if is_same(&there, &ours) => {
                    self.length = ours.len();
                    return Ok(());
                }
                Err(error) if error != Errno::NOENT => return Err(error.into()),
                Ok(_) | Err(_) => self.file = self.place.append()?,
            }
        }
    }

    /// Puts the locked file aside, and locks the one that follows it.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.config.keep).rev() {
            self.place.rename_if_there(number, number + 1)?;
        }
        if self.config.keep > 0 {
            self.place.rename_if_there(0, 1)?;
        } else {
            self.place.remove()?;
        }
        self.lock()
    }
}

/// The directory of the file, held open: whoever replaces it by a link leads us nowhere.
struct Place {
    directory: OwnedFd,
    name: OsString,
}

impl Place {
    fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let directory = path.parent().filter(|parent| *parent != Path::new(""));
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = directory.unwrap_or(Path::new("."));
        Ok(Self {
            directory: rustix::fs::open(directory, flags, Mode::empty())?,
            name: name.to_owned(),
        })
    }

    /// Opens the file, made for its owner alone. A link could lead anywhere and a pipe would hold us
    /// up; both are refused.
    fn append(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.directory, &self.name, flags, mode)?;
        let file = File::from(file);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no plain file; remove it"));
        }
        Ok(file)
    }

    /// The name of an older file; 0 is the file itself.
    fn numbered(&self, number: usize) -> OsString {
        let mut name = self.name.clone();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        name
    }

    fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn rename_if_there(&self, from: usize, to: usize) -> io::Result<()> {
        let (from, to) = (self.numbered(from), self.numbered(to));
        match rustix::fs::renameat(&self.directory, from, &self.directory, to) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.directory,
            &self.name,
            AtFlags::empty(),
        )?)
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

/// Waits for the lock, but not for ever: a process that was stopped while it had it must not hold
/// up the end of another one. Without it, a record may be lost or the file become too long.
fn wait_for_lock(file: &File) {
    let end = Instant::now() + LOCK_TIME;
    while let Err(error) = file.try_lock() {
        if matches!(error, TryLockError::Error(_)) || Instant::now() >= end {
            tracing::warn!(%error, "the audit file is not locked");
            return;
        }
        thread::sleep(LOCK_PAUSE);
    }
}

fn push_line(lines: &mut Vec<u8>, record: &Record) -> io::Result<()> {
    let client = record.client.as_deref().map(mask::mask);
    let remark = record.remark.as_deref().map(mask::mask);
    let row = Row {
        unix_ms: record
            .ended
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis(),
        face: record.face,
        client: client.as_deref(),
        provider: record.provider.as_deref(),
        kind: record.kind,
        name: &mask::mask(&record.name),
        argument_bytes: record.argument_bytes,
        result_bytes: record.result_bytes,
        outcome: record.end.name(),
        remark: remark.as_deref(),
        micros: micros(record.elapsed),
    };
    serde_json::to_writer(&mut *lines, &row)?;
    lines.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str) -> Record {
        Record {
            ended: UNIX_EPOCH + Duration::from_millis(5),
            face: "stdio",
            client: Some("agent".into()),
            provider: Some("board".into()),
            kind: "tool",
            name: name.into(),
            argument_bytes: 12,
            result_bytes: 34,
            end: CallEnd::Answered,
            remark: None,
            elapsed: Duration::from_micros(56),
        }
    }

    #[test]
    fn a_record_is_one_line_with_sizes_and_no_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/audit.jsonl");
        let audit = Audit::open(AuditConfig {
            path: path.clone(),
            max_bytes: 1 << 20,
            keep: 1,
        })
        .unwrap();
        audit.record(record("https://h/?token=abc"));
        drop(audit);
        assert_eq!(
            fs::read_to_string(path).unwrap(),
            "{\"unix_ms\":5,\"face\":\"stdio\",\"client\":\"agent\",\"provider\":\"board\",\
             \"kind\":\"tool\",\"name\":\"https://h/?token=***\",\"argument_bytes\":12,\
             \"result_bytes\":34,\"outcome\":\"answered\",\"micros\":56}\n"
        );
    }

    #[test]
    fn no_link_is_followed_and_the_file_is_its_owners() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let directory = tempfile::tempdir().unwrap();
        let [run, elsewhere] = ["run", "elsewhere"].map(|name| directory.path().join(name));
        fs::create_dir(&run).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        let config = |path: PathBuf| AuditConfig {
            path,
            max_bytes: 500,
            keep: 1,
        };
        symlink(elsewhere.join("file"), run.join("link.jsonl")).unwrap();
        Audit::open(config(run.join("link.jsonl"))).unwrap_err();
        symlink(&elsewhere, directory.path().join("linked")).unwrap();
        Audit::open(config(directory.path().join("linked/audit.jsonl"))).unwrap_err();
        // Also not when the directory is replaced while it is in use.
        let audit = Audit::open(config(run.join("audit.jsonl"))).unwrap();
        let aside = directory.path().join("aside");
        fs::rename(&run, &aside).unwrap();
        symlink(&elsewhere, &run).unwrap();
        (0..40).for_each(|_| audit.record(record("a")));
        drop(audit);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        let made = fs::metadata(aside.join("audit.jsonl")).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn processes_share_a_file_and_its_bound() {
        let directory = tempfile::tempdir().unwrap();
        let config = AuditConfig {
            path: directory.path().join("audit.jsonl"),
            max_bytes: 20_000,
            keep: 200,
        };
        // Each has a file of its own open, as a process has.
        let audits: Vec<Audit> = (0..8)
            .map(|_| Audit::open(config.clone()).unwrap())
            .collect();
        std::thread::scope(|scope| {
            for audit in audits {
                scope.spawn(move || (0..1_000).for_each(|_| audit.record(record("a"))));
            }
        });
        let mut records = 0;
        for entry in fs::read_dir(directory.path()).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            assert!(text.len() < 20_500, "{}", text.len());
            records += text.lines().count();
        }
        assert_eq!(records, 8_000);
    }

    #[test]
    fn one_that_writes_rarely_finds_the_file_again() {
        let directory = tempfile::tempdir().unwrap();
        let config = AuditConfig {
            path: directory.path().join("audit.jsonl"),
            max_bytes: 500,
            keep: 1,
        };
        let rare = Audit::open(config.clone()).unwrap();
        let busy = Audit::open(config.clone()).unwrap();
        (0..40).for_each(|_| busy.record(record("busy")));
        drop(busy);
        rare.record(record("rare"));
        drop(rare);
        let now = fs::read_to_string(&config.path).unwrap();
        assert!(now.contains("\"name\":\"rare\""), "{now}");
    }

    #[test]
    fn files_are_rotated_and_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let audit = Audit::open(AuditConfig {
            path: path.clone(),
            max_bytes: 500,
            keep: 2,
        })
        .unwrap();
        for number in 0..40 {
            audit.record(record(&number.to_string()));
        }
        drop(audit);
        let names = |entry: io::Result<fs::DirEntry>| entry.unwrap().path();
        let mut files: Vec<PathBuf> = fs::read_dir(directory.path()).unwrap().map(names).collect();
        files.sort();
        assert_eq!(
            files,
            [
                path.clone(),
                directory.path().join("audit.jsonl.1"),
                directory.path().join("audit.jsonl.2")
            ]
        );
        for file in files {
            assert!(fs::metadata(file).unwrap().len() < 1_000);
        }
        assert!(
            fs::read_to_string(path)
                .unwrap()
                .contains("\"name\":\"39\"")
        );
    }
}
