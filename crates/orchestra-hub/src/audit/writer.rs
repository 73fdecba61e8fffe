//! Appends records to the audit file, which other processes append to and rotate as well.

use std::{
    fs::File,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::{
    AuditConfig, Fsync, Record,
    chain::{self, Line, Lines, Link},
    line,
    place::{MAX_NUMBER, Place, wait_for_lock},
};

/// Lines are written when they exceed this.
const BUFFER_BYTES: usize = 64 * 1024;

/// For how long records are gathered, so that the thread need not be woken for each: that would
/// cost a call more than the record itself.
const GATHER: Duration = Duration::from_millis(10);

/// How long the lock of the file is waited for at the end.
const LOCK_TIME: Duration = Duration::from_secs(1);

/// How long written records wait for the disk, where they need not be there at once.
const FSYNC_INTERVAL: Duration = Duration::from_secs(5);

/// How often it is looked for older files that are too old.
const SWEEP: Duration = Duration::from_secs(60 * 60);

/// What the thread shares with whoever records.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Records that were not written.
    pub(super) dropped: AtomicU64,
    /// The program ends.
    pub(super) is_closing: AtomicBool,
}

/// Whoever writes holds the lock of the file that stands at the path, so that none is renamed while
/// a record is on its way into it, and its length and its last line are known.
pub(super) struct Writer {
    config: AuditConfig,
    shared: Arc<Shared>,
    place: Place,
    file: File,
    /// How long the file is; known while it is locked.
    length: u64,
    /// The hash of its last line, or of the file's before; known while it is locked.
    link: Link,
    /// When its first record was made.
    began: Option<SystemTime>,
    /// How long it was when we let it go, where nobody else has written since.
    left_at: Option<u64>,
    /// Lines that are not written yet, and how many records they hold.
    lines: Vec<u8>,
    waiting: u64,
    /// Since when something that was written may not be on the disk.
    unsynced: Option<Instant>,
    swept: Option<Instant>,
    /// Lost records that were told.
    told: u64,
}

enum Next {
    Record(Record),
    /// What was written should go to the disk.
    Sync,
    End,
}

impl Writer {
    pub(super) fn open(config: AuditConfig, shared: Arc<Shared>) -> io::Result<Self> {
        let place = Place::open(&config.path)?;
        Ok(Self {
            file: place.append()?,
            place,
            config: AuditConfig {
                keep: config.keep.min(MAX_NUMBER),
                ..config
            },
            shared,
            length: 0,
            link: Link::BEGINNING,
            began: None,
            left_at: None,
            lines: Vec::new(),
            waiting: 0,
            unsynced: None,
            swept: None,
            told: 0,
        })
    }

    pub(super) fn run(mut self, records: &Receiver<Record>, queue: usize) {
        loop {
            let first = match self.next(records) {
                Next::Record(first) => first,
                Next::Sync => {
                    self.sync_or_warn();
                    continue;
                }
                Next::End => break,
            };
            thread::park_timeout(GATHER);
            let batch = std::iter::once(first).chain(records.try_iter().take(queue));
            self.write_or_warn(batch.collect());
        }
        if self.config.fsync != Fsync::Never {
            self.sync_or_warn();
        }
    }

    fn next(&self, records: &Receiver<Record>) -> Next {
        let due = self
            .unsynced
            .filter(|_| self.config.fsync == Fsync::Interval);
        let Some(since) = due else {
            return records.recv().map_or(Next::End, Next::Record);
        };
        let left = FSYNC_INTERVAL.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Next::Sync;
        }
        match records.recv_timeout(left) {
            Ok(record) => Next::Record(record),
            Err(RecvTimeoutError::Timeout) => Next::Sync,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    fn write_or_warn(&mut self, batch: Vec<Record>) {
        let mut left = batch.len() as u64;
        if let Err(error) = self.write(batch, &mut left) {
            self.shared.dropped.fetch_add(left, Ordering::Relaxed);
            tracing::warn!(%error, lost = left, path = %self.config.path.display(), "cannot write audit");
        }
    }

    fn sync_or_warn(&mut self) {
        if self.unsynced.take().is_some()
            && let Err(error) = self.file.sync_data()
        {
            tracing::warn!(%error, path = %self.config.path.display(), "audit may not be on the disk");
        }
    }

    /// Writes records; `left` counts down those that are written.
    fn write(&mut self, batch: Vec<Record>, left: &mut u64) -> io::Result<()> {
        self.lines.clear();
        self.waiting = 0;
        self.lock()?;
        self.sweep();
        let written = self.write_locked(batch, left);
        // After a failure nobody knows what of it stands there.
        self.left_at = written.is_ok().then_some(self.length);
        written.and(self.file.unlock())
    }

    fn write_locked(&mut self, batch: Vec<Record>, left: &mut u64) -> io::Result<()> {
        for record in batch {
            if self.is_full(record.ended) {
                self.put(left)?;
                self.rotate()?;
            }
            let before = self.lines.len();
            let lost = self.shared.dropped.load(Ordering::Relaxed);
            line::push(&mut self.lines, &record, lost - self.told, self.link)?;
            self.told = lost;
            self.link = Link::of(&self.lines[before..self.lines.len() - 1]);
            self.length += (self.lines.len() - before) as u64;
            self.waiting += 1;
            self.began.get_or_insert(record.ended);
            if self.lines.len() >= BUFFER_BYTES {
                self.put(left)?;
            }
        }
        self.put(left)
    }

    /// Whether the file is to be put aside before a record of this moment.
    fn is_full(&self, now: SystemTime) -> bool {
        let age = self.began.and_then(|began| now.duration_since(began).ok());
        let is_old = age
            .zip(self.config.max_age)
            .is_some_and(|(age, most)| age >= most);
        self.length >= self.config.max_bytes || is_old
    }

    fn put(&mut self, left: &mut u64) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.lines);
        self.lines.clear();
        written?;
        *left = left.saturating_sub(self.waiting);
        self.waiting = 0;
        self.unsynced.get_or_insert_with(Instant::now);
        if self.config.fsync == Fsync::Always {
            self.unsynced = None;
            self.file.sync_data()?;
        }
        self.place.set_head(self.link)
    }

    /// Locks the file at the path, opens it anew when another process has rotated, and looks where
    /// it ends when another one has written. Waits for as long as the program runs; one that was
    /// stopped while it had the lock must not hold up the end of another one.
    fn lock(&mut self) -> io::Result<()> {
        loop {
            let closing = &self.shared.is_closing;
            let gives_up = |waited| waited >= LOCK_TIME && closing.load(Ordering::Relaxed);
            match wait_for_lock(|| self.file.try_lock(), gives_up) {
                Ok(true) => {}
                Ok(false) => {
                    let held = "another program holds its lock";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, held));
                }
                // Where files cannot be locked, one program at a time is still recorded.
                Err(error) => tracing::warn!(%error, "the audit file is not locked"),
            }
            if self.place.is_there(&self.file)? {
                break;
            }
            self.open_anew()?;
        }
        let length = self.file.metadata()?.len();
        if self.left_at.take() != Some(length) {
            self.length = length;
            self.look()?;
        }
        Ok(())
    }

    fn open_anew(&mut self) -> io::Result<()> {
        if self.config.fsync != Fsync::Never {
            self.sync_or_warn();
        }
        self.file = self.place.append()?;
        self.began = None;
        self.left_at = None;
        Ok(())
    }

    /// Finds out what the next record follows.
    fn look(&mut self) -> io::Result<()> {
        let tail = chain::tail(&self.file, self.length)?;
        let last = match &tail {
            Some(tail) => tail.link,
            None => self.last_of_older()?.unwrap_or(Link::BEGINNING),
        };
        if tail.is_some_and(|tail| tail.is_torn) {
            self.lines.push(b'\n');
            self.length += 1;
        }
        self.link = match self.place.head()? {
            // Somebody was killed before they could note it.
            Some(head) if head != last && !self.has(head)? => {
                // What came last is not there any more as it was: the next record says so.
                tracing::warn!(path = %self.config.path.display(), "the last records of the audit file were changed or removed");
                head
            }
            Some(_) => last,
            None => {
                self.place.set_head(last)?;
                last
            }
        };
        if self.began.is_none() && self.length > 0 {
            self.began = line::moment(&first_line(&self.place)?);
        }
        Ok(())
    }

    fn last_of_older(&self) -> io::Result<Option<Link>> {
        let Some(file) = self.place.read(1)? else {
            return Ok(None);
        };
        let length = file.metadata()?.len();
        Ok(chain::tail(&file, length)?.map(|tail| tail.link))
    }

    /// Whether a line with this hash is there.
    fn has(&self, wanted: Link) -> io::Result<bool> {
        if wanted == Link::BEGINNING {
            return Ok(true);
        }
        for number in [0, 1] {
            let Some(file) = self.place.read(number)? else {
                continue;
            };
            let (mut lines, mut line) = (Lines::new(file), Line::default());
            while let Some(link) = lines.next(&mut line)? {
                if link == wanted {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Puts the locked file aside, and locks the one that follows it.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.config.keep).rev() {
            self.place.rename_if_there(number, number + 1)?;
        }
        if self.config.keep > 0 {
            self.place.rename_if_there(0, 1)?;
        } else {
            self.place.remove(0)?;
        }
        self.swept = None;
        self.lock()?;
        self.sweep();
        Ok(())
    }

    /// Removes older files whose records are all too old.
    fn sweep(&mut self) {
        let Some(most) = self.config.max_age else {
            return;
        };
        if self.swept.is_some_and(|swept| swept.elapsed() < SWEEP) {
            return;
        }
        self.swept = Some(Instant::now());
        let Some(before) = SystemTime::now().checked_sub(most) else {
            return;
        };
        if let Err(error) = self.place.remove_before(before) {
            tracing::warn!(%error, path = %self.config.path.display(), "old audit files are not removed");
        }
    }
}

fn first_line(place: &Place) -> io::Result<Vec<u8>> {
    let mut line = Line::default();
    if let Some(file) = place.read(0)? {
        Lines::new(file).next(&mut line)?;
    }
    Ok(line.text)
}
