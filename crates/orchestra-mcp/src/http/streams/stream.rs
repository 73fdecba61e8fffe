//! One stream: its events in order, those that were read as long as a client may come back for
//! them.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use tokio::sync::Notify;

/// Events that a stream keeps for clients that come back, and their bytes; the last is kept however
/// large it is.
pub(super) const KEPT_EVENTS: usize = 256;
pub(super) const KEPT_READ_BYTES: usize = 256 * 1024;

/// Events that wait to be read; past that the oldest are forgotten, where that loses no answer.
pub(super) const MAX_WAITING: usize = 1_024;

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    events: VecDeque<Bytes>,
    /// The number of the first event that is kept; the first of all has number 1.
    first: u64,
    /// The number of the last event that was read, or forgotten before it was.
    read: u64,
    read_bytes: usize,
    waiting_bytes: usize,
    /// Whether events are forgotten that were not read.
    pub(super) loss: Loss,
    /// Its requests that are not answered yet.
    pub(super) requests: usize,
    /// Whether no event follows the last one.
    pub(super) is_over: bool,
    /// The number of the last reader, and whether it still reads.
    pub(super) reader: u64,
    pub(super) is_read: bool,
    filled: Arc<Notify>,
    room: Arc<Notify>,
}

/// Whether a stream may lose what was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The oldest events, where far too many wait.
    Oldest,
    /// None, for answers are among them; whoever fills it sees to its bounds.
    Never,
}

impl Stream {
    pub(super) fn new(loss: Loss) -> Self {
        Self {
            events: VecDeque::new(),
            first: 1,
            read: 0,
            read_bytes: 0,
            waiting_bytes: 0,
            loss,
            requests: 0,
            is_over: false,
            reader: 0,
            is_read: false,
            filled: Arc::default(),
            room: Arc::default(),
        }
    }

    /// The next event is this one.
    pub(super) fn push(&mut self, message: Bytes) {
        self.waiting_bytes += message.len();
        self.events.push_back(message);
        self.trim();
        self.wake();
    }

    /// No event follows.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.wake();
    }

    /// A reader begins, and the one before it learns that it reads no longer. Answers its number.
    pub(super) fn begin_reading(&mut self) -> u64 {
        self.reader += 1;
        self.is_read = true;
        self.wake();
        self.reader
    }

    fn wake(&self) {
        self.filled.notify_waiters();
    }

    /// The number of the first event that is kept.
    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    /// The number of the last event that was read.
    pub(super) const fn last_read(&self) -> u64 {
        self.read
    }

    /// The number of the last event.
    pub(super) fn last(&self) -> u64 {
        self.first - 1 + count(self.events.len())
    }

    /// The event with a number, if it is kept.
    pub(super) fn event(&self, number: u64) -> Option<&Bytes> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.events.get(at)
    }

    /// Notes that all events up to this one were read.
    pub(super) fn mark_read(&mut self, number: u64) {
        while self.read < number.min(self.last()) {
            self.read += 1;
            let length = self.event(self.read).map_or(0, Bytes::len);
            self.waiting_bytes -= length;
            self.read_bytes += length;
        }
        self.trim();
        self.room.notify_waiters();
    }

    /// Forgets the oldest events: those that were read first, and others only where far too many
    /// wait and none of them is an answer.
    fn trim(&mut self) {
        while self.read >= self.first && self.events.len() > 1 {
            let is_room = self.events.len() <= KEPT_EVENTS && self.read_bytes <= KEPT_READ_BYTES;
            if is_room {
                return;
            }
            self.read_bytes -= self.pop();
        }
        while self.loss == Loss::Oldest && self.waiting() > MAX_WAITING {
            self.waiting_bytes -= self.pop();
            self.read = self.first - 1;
        }
    }

    /// Forgets the first event; answers its bytes.
    fn pop(&mut self) -> usize {
        self.first += 1;
        self.events.pop_front().map_or(0, |event| event.len())
    }

    /// Forgets all events that wait, and those that were read.
    pub(super) fn clear(&mut self) {
        self.read = self.last();
        self.first = self.read + 1;
        (self.read_bytes, self.waiting_bytes) = (0, 0);
        self.events = VecDeque::new();
        self.room.notify_waiters();
    }

    /// How many events were not read.
    pub(super) fn waiting(&self) -> usize {
        usize::try_from(self.last() - self.read).unwrap_or(usize::MAX)
    }

    /// The bytes of the events that were not read.
    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// The bytes of all events that are kept.
    pub(super) const fn bytes(&self) -> usize {
        self.read_bytes + self.waiting_bytes
    }

    /// Rings when there may be more to read.
    pub(super) fn filled(&self) -> Arc<Notify> {
        Arc::clone(&self.filled)
    }

    /// Rings when less waits.
    pub(super) fn room(&self) -> Arc<Notify> {
        Arc::clone(&self.room)
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
