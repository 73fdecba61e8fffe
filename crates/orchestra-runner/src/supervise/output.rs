//! What a command prints, on its way into the logs of its run.

use std::{future::pending, io};

use orchestra_secret::Masker;
use tokio::net::unix::pipe::Receiver;

use super::{job::complain, order::WireOrder};
use crate::logs::{Lines, Raw, Source, Splitter, Stream};

/// Both logs of a run. A log that cannot be written loses what was printed, and not the run.
pub(crate) struct Logs {
    raw: Raw,
    lines: Lines,
    source: Source,
    pub(super) masker: Masker,
    pub(super) broken: bool,
}

/// What is written of one stream.
pub(super) struct Output {
    stream: Stream,
    pub(super) pipe: Option<Receiver>,
    mask: orchestra_secret::Stream,
    splitter: Splitter,
    pub(super) bytes: u64,
}

impl Logs {
    pub(crate) fn new(order: &WireOrder) -> Self {
        let bounds = order.log_bounds();
        let masker = Masker::new(order.secrets.iter().map(String::as_str));
        Self {
            raw: Raw::new(&order.attempt, &order.id.stem(), bounds.raw),
            lines: Lines::new(&order.attempt, bounds.lines, masker.clone()),
            source: Source {
                attempt: order.id.attempt(),
                phase: order.id.phase().to_owned(),
                run: order.id.run(),
            },
            masker,
            broken: false,
        }
    }

    /// Writes a line of our own.
    pub(crate) fn say(&mut self, text: &str) {
        let written = self.lines.say(&self.source, text);
        self.note(written);
    }

    fn write(&mut self, bytes: &[u8], texts: Vec<(Stream, String, bool)>) {
        let written = self.raw.write(bytes);
        let written = written.and_then(|()| self.lines.append(&self.source, texts));
        self.note(written);
    }

    /// Says once that a log cannot be written.
    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && !self.broken
        {
            self.broken = true;
            complain(&format!("a log cannot be written: {error}"));
        }
    }
}

impl Output {
    pub(super) fn new(stream: Stream, pipe: Receiver, masker: &Masker) -> Self {
        Self {
            stream,
            pipe: Some(pipe),
            mask: masker.stream(),
            splitter: Splitter::default(),
            bytes: 0,
        }
    }

    /// Resolves when there is something to read or nothing will come any more; never once that is
    /// known.
    pub(super) async fn ready(&self) {
        match &self.pipe {
            // An error is met again by whoever reads.
            Some(pipe) => drop(pipe.readable().await),
            None => pending().await,
        }
    }

    /// Reads and writes a piece; how long it was.
    pub(super) fn pump(&mut self, buffer: &mut [u8], logs: &mut Logs) -> usize {
        let Some(pipe) = &self.pipe else { return 0 };
        match pipe.try_read(buffer) {
            Ok(0) => self.close(logs),
            Ok(length) => {
                self.bytes += length as u64;
                let mut safe = Vec::with_capacity(length);
                self.mask.push(&buffer[..length], &mut safe);
                self.write(&safe, false, logs);
                return length;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                complain(&error);
                self.close(logs);
            }
        }
        0
    }

    /// Writes what was held back.
    pub(super) fn close(&mut self, logs: &mut Logs) {
        if self.pipe.take().is_some() {
            let mut rest = Vec::new();
            self.mask.finish(&mut rest);
            self.write(&rest, true, logs);
        }
    }

    fn write(&mut self, bytes: &[u8], ended: bool, logs: &mut Logs) {
        let mut texts = Vec::new();
        let stream = self.stream;
        self.splitter
            .push(bytes, |text, more| texts.push((stream, text, more)));
        if ended {
            self.splitter
                .finish(|text, more| texts.push((stream, text, more)));
        }
        logs.write(bytes, texts);
    }
}
