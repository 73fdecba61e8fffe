//! Appends records to the audit file, which other processes append to and rotate as well.

mod keeping;

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
    note::Note,
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
    /// What is noted of the chain; known while it is locked.
    note: Note,
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
    /// Why the last records were not written, if they were not.
    failing: Option<String>,
}

enum Next {
    Record(Record),
    /// What was written should go to the disk.
    Sync,
    /// Nothing was recorded for long.
    Tidy,
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
            note: Note::settled(Link::BEGINNING, Link::BEGINNING),
            began: None,
            left_at: None,
            lines: Vec::new(),
            waiting: 0,
            unsynced: None,
            swept: None,
            told: 0,
            failing: None,
        })
    }

    pub(super) fn run(mut self, records: &Receiver<Record>, queue: usize) {
        self.tidy_or_warn();
        loop {
            let first = match self.next(records) {
                Next::Record(first) => first,
                Next::Tidy => {
                    self.tidy_or_warn();
                    continue;
                }
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
        let (left, then) = match due {
            Some(since) => (FSYNC_INTERVAL.saturating_sub(since.elapsed()), Next::Sync),
            None => (SWEEP, Next::Tidy),
        };
        if left.is_zero() {
            return then;
        }
        match records.recv_timeout(left) {
            Ok(record) => Next::Record(record),
            Err(RecvTimeoutError::Timeout) => then,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// Writes records; what keeps them from being written is told once, and so is its end.
    fn write_or_warn(&mut self, batch: Vec<Record>) {
        let mut left = batch.len() as u64;
        let path = self.config.path.display().to_string();
        match self.write(batch, &mut left) {
            Ok(()) if self.failing.take().is_some() => {
                let lost = self.shared.dropped.load(Ordering::Relaxed);
                tracing::warn!(lost, path, "the audit log is writable again");
            }
            Ok(()) => {}
            Err(error) => {
                self.shared.dropped.fetch_add(left, Ordering::Relaxed);
                let reason = error.to_string();
                if self.failing.as_ref() != Some(&reason) {
                    tracing::warn!(%error, lost = left, path, "cannot write the audit log");
                }
                self.failing = Some(reason);
            }
        }
    }

    fn sync_or_warn(&mut self) {
        if self.unsynced.take().is_some()
            && let Err(error) = self.sync()
        {
            tracing::warn!(%error, path = %self.config.path.display(), "cannot sync the audit log to disk");
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.place.write_note()?.sync_data()
    }

    /// Writes records; `left` counts down those that are written.
    fn write(&mut self, batch: Vec<Record>, left: &mut u64) -> io::Result<()> {
        self.lines.clear();
        self.waiting = 0;
        if let Err(error) = self.lock_for_records() {
            // It may be locked although it cannot be written; others wait for it.
            let _ = self.file.unlock();
            return Err(error);
        }
        if self.swept.is_none_or(|swept| swept.elapsed() >= SWEEP) {
            self.sweep();
        }
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
        let next = Some(self.link);
        self.set_note(Note { next, ..self.note })?;
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
        let last = self.link;
        self.set_note(Note { last, ..self.note })
    }

    fn set_note(&mut self, note: Note) -> io::Result<()> {
        note.write(&self.place, self.config.fsync)?;
        self.note = note;
        Ok(())
    }

    /// Locks the file to write. Waits for as long as the program runs; one that was stopped while it
    /// had the lock must not hold up the end of another one.
    fn lock_for_records(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let closing = &shared.is_closing;
        let gives_up = |waited| waited >= LOCK_TIME && closing.load(Ordering::Relaxed);
        match self.lock(gives_up)? {
            true => Ok(()),
            false => {
                let held = "another program holds its lock";
                Err(io::Error::new(io::ErrorKind::TimedOut, held))
            }
        }
    }

    /// Locks the file at the path, opens it anew when another process has rotated, and looks where
    /// it ends when another one has written; false where `gives_up` before it is had.
    fn lock(&mut self, gives_up: impl Fn(Duration) -> bool) -> io::Result<bool> {
        loop {
            match wait_for_lock(|| self.file.try_lock(), &gives_up) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                // Where files cannot be locked, one program at a time is still recorded.
                Err(error) => tracing::warn!(%error, "cannot lock the audit file"),
            }
            if self.place.is_there(&self.file) {
                break;
            }
            self.open_anew()?;
        }
        let length = self.file.metadata()?.len();
        let note = Note::read(&self.place)?;
        if self.left_at.take() != Some(length) || note != Some(self.note) {
            self.length = length;
            self.look(note)?;
            self.look_when_it_began()?;
        }
        Ok(true)
    }

    fn open_anew(&mut self) -> io::Result<()> {
        if self.place.make_anew(&self.config.path)? {
            let path = self.config.path.display();
            tracing::warn!(%path, "the directory of the audit file was removed; starting a new file");
            // What was written is removed.
            self.unsynced = None;
        } else if self.config.fsync != Fsync::Never {
            self.sync_or_warn();
        }
        self.file = self.place.append()?;
        self.began = None;
        self.left_at = None;
        Ok(())
    }

    /// Finds out what the next record follows.
    fn look(&mut self, note: Option<Note>) -> io::Result<()> {
        let tail = chain::tail(&self.file, self.length)?;
        let first = match note.and_then(|note| note.first) {
            Some(first) => first,
            None => self.begins()?,
        };
        let last = match &tail {
            Some(tail) => tail.link,
            None => self.last_of_older()?.unwrap_or(first),
        };
        if tail.is_some_and(|tail| tail.is_torn) {
            self.lines.push(b'\n');
            self.length += 1;
        }
        let Some(note) = note else {
            self.link = last;
            return self.set_note(Note::settled(first, last));
        };
        self.note = Note {
            first: Some(first),
            ..note
        };
        // Somebody was killed before they could note it.
        let is_known = note.last == last || !note.is_settled() && self.has(note.last)?;
        self.link = match is_known {
            true => last,
            false => {
                // What came last is not there any more as it was, or something was put behind it:
                // the next record says so.
                tracing::warn!(path = %self.config.path.display(), "the last records of the audit file were changed, removed or inserted");
                note.last
            }
        };
        Ok(())
    }

    fn look_when_it_began(&mut self) -> io::Result<()> {
        if self.began.is_none() && self.length > 0 {
            self.began = line::moment(&first_line(&self.place, 0)?);
        }
        Ok(())
    }

    /// What the first line of all that are there follows, as it says.
    fn begins(&self) -> io::Result<Link> {
        for number in self.place.numbers()?.into_iter().chain([0]) {
            let text = match first_line(&self.place, number) {
                Ok(text) if !text.is_empty() => text,
                // What is no file of ours.
                Ok(_) | Err(_) => continue,
            };
            let record = line::read(&text);
            let prev = record.as_ref().and_then(|record| record.prev());
            return Ok(prev.and_then(Link::parse).unwrap_or(Link::BEGINNING));
        }
        Ok(Link::BEGINNING)
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
        // Nothing was written yet of what is kept.
        if wanted == Link::BEGINNING || self.note.first == Some(wanted) {
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
}

/// The first line of a file; empty where there is none.
fn first_line(place: &Place, number: usize) -> io::Result<Vec<u8>> {
    let mut line = Line::default();
    if let Some(file) = place.read(number)? {
        Lines::new(file).next(&mut line)?;
    }
    Ok(line.text)
}
