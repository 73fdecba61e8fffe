//! Writing lines, beside another who does.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use orchestra_secret::Masker;

use super::{Bounds, Line, MAX_LINE_BYTES, Stream, line::Splitter, segments::Segments};

/// The file of an attempt's lines.
pub(crate) const LINES: &str = "lines.jsonl";

/// How long the other one may take for a batch. Whoever is stopped in it does not stop a job.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the lock is tried in that time.
const TRY_EVERY: Duration = Duration::from_micros(500);

/// Where the last whole line of a file is looked for: a line is at most six times its text, and its
/// frame.
const LAST_LINE_BYTES: u64 = MAX_LINE_BYTES as u64 * 7;

/// Which run of which phase lines are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The attempt.
    pub attempt: u32,
    /// The phase, by its name on the wire.
    pub phase: String,
    /// Which run of the phase.
    pub run: u32,
}

/// Appends lines to the log of an attempt, in batches. Blocks for as long as a write to a file does.
#[derive(Debug)]
pub struct Lines {
    segments: Segments,
    bounds: Bounds,
    masker: Masker,
    /// The head, which is there for good, and whose lock is that of the whole log.
    lock: Option<File>,
    /// The file that grows, its number, where it ended after our last batch, and the next line's
    /// number.
    current: Option<(File, u64, u64, u64)>,
}

impl Lines {
    /// For the directory of an attempt. Nothing is made before there is something to write. Texts that
    /// are not split here are masked by `masker`.
    #[must_use]
    pub fn new(directory: &Path, bounds: Bounds, masker: Masker) -> Self {
        Self {
            segments: Segments::new(directory, LINES),
            bounds,
            masker,
            lock: None,
            current: None,
        }
    }

    /// Appends one or more lines of the runner's own. A text of several lines is several.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn say(&mut self, source: &Source, text: &str) -> io::Result<()> {
        let mut texts = Vec::new();
        let mut splitter = Splitter::default();
        splitter.push(self.masker.stream().text(text).as_bytes(), |text, more| {
            texts.push((Stream::Runner, text, more));
        });
        splitter.finish(|text, more| texts.push((Stream::Runner, text, more)));
        self.append(source, texts)
    }

    /// Appends a batch of texts as they are.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(
        &mut self,
        source: &Source,
        texts: Vec<(Stream, String, bool)>,
    ) -> io::Result<()> {
        if texts.is_empty() {
            return Ok(());
        }
        if self.lock.is_none() {
            self.lock = Some(self.segments.open(0)?);
        }
        let locked = self.lock.as_ref().is_some_and(take);
        let written = self.append_alone(source, texts);
        if locked && let Some(lock) = &self.lock {
            // Closing it would free it as well.
            let _ = lock.unlock();
        }
        written
    }

    fn append_alone(
        &mut self,
        source: &Source,
        texts: Vec<(Stream, String, bool)>,
    ) -> io::Result<()> {
        self.catch_up()?;
        let Some((file, number, length, next)) = &mut self.current else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let ts = now();
        let mut batch = Vec::new();
        for (stream, text, more) in texts {
            let line = Line {
                ts,
                seq: *next,
                attempt: source.attempt,
                phase: source.phase.clone(),
                run: source.run,
                stream,
                text,
                more,
            };
            *next += 1;
            let full = match number {
                0 => self.bounds.head,
                _ => self.bounds.piece(),
            };
            let line = serde_json::to_vec(&line)?;
            if *length + (batch.len() + line.len()) as u64 >= full
                && *length + batch.len() as u64 > 0
            {
                file.write_all(&batch)?;
                batch.clear();
                *number += 1;
                *file = self.segments.open(*number)?;
                *length = 0;
                self.segments.forget_before(*number)?;
            }
            batch.extend_from_slice(&line);
            batch.push(b'\n');
        }
        file.write_all(&batch)?;
        *length += batch.len() as u64;
        Ok(())
    }

    /// Sees what the other one has written since.
    fn catch_up(&mut self) -> io::Result<()> {
        if let Some((file, number, length, _)) = &self.current {
            let is_newest = !self.segments.path(*number + 1).exists();
            if is_newest && file.metadata()?.len() == *length {
                return Ok(());
            }
        }
        let present = self.segments.present()?;
        let newest = present.last().copied().unwrap_or(0);
        let mut file = self.segments.open(newest)?;
        let length = end_last_line(&mut file)?;
        let mut next = None;
        // A file that was begun and not written to says nothing.
        for number in present.iter().rev() {
            next = last_number(&mut self.segments.open(*number)?)?;
            if next.is_some() {
                break;
            }
        }
        self.current = Some((file, newest, length, next.map_or(1, |last| last + 1)));
        Ok(())
    }
}

/// Whether the lock was had in time.
fn take(lock: &File) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        match lock.try_lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(TRY_EVERY),
            Err(_) => return false,
        }
    }
}

/// Ends the last line of a file, when a machine or a disk has stopped in it; the file's length.
fn end_last_line(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 {
        return Ok(0);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(length);
    }
    file.write_all(b"\n")?;
    Ok(length + 1)
}

/// The number of the last line that is whole.
fn last_number(file: &mut File) -> io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_LINE_BYTES)))?;
    let mut end = Vec::new();
    file.take(LAST_LINE_BYTES).read_to_end(&mut end)?;
    let lines = end.rsplit(|byte| *byte == b'\n');
    let mut lines = lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    Ok(lines.next().map(|line| line.seq))
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
