//! What the server says in one session, sorted into streams: one for each request of the client,
//! and one of the session's own. Events are kept for a while, so that a client whose connection
//! broke can go on where it was (MCP 2025-11-25, transports, resumability).

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use orchestra_wire::{RequestId, Rope, write};
use tokio::sync::Notify;

use super::budget::Budget;
use crate::{report::Emit, session::Outbox};

/// The stream of the session's own, which a GET reads.
pub(super) const OWN: u64 = 0;

/// Messages that nobody waits for are dropped, or wait with the hub, when a stream holds more.
const EMIT_BYTES: usize = 256 * 1024;

/// Events that a stream keeps for clients that come back.
const KEPT_EVENTS: usize = 256;

/// Streams that are kept after their request was answered, and the bytes of their events; the last
/// is kept however large it is.
const KEPT_STREAMS: usize = 16;
const KEPT_BYTES: usize = 4 * 1024 * 1024;

/// The streams of one session.
#[derive(Debug)]
pub(super) struct Streams {
    state: Mutex<State>,
    budget: Budget,
}

#[derive(Debug, Default)]
struct State {
    streams: BTreeMap<u64, Stream>,
    /// Requests that are not answered yet.
    open: HashMap<RequestId, u64>,
    last: u64,
    closed: bool,
    /// Whether all is one stream, answers included.
    joined: bool,
}

#[derive(Debug)]
struct Stream {
    events: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first event that is kept; the first of all has number 1.
    first: u64,
    /// The number of the last event that was read.
    read: u64,
    /// Whether no event follows the last one.
    is_over: bool,
    /// The number of the last reader, and whether it still reads.
    reader: u64,
    is_read: bool,
    filled: Arc<Notify>,
    room: Arc<Notify>,
}

/// What a reader finds.
#[derive(Debug)]
pub(super) enum Next {
    /// An event and its number.
    Event(u64, Bytes),
    /// Nothing yet; there may be when this rings.
    Wait(Arc<Notify>),
    /// The stream is over, or somebody else reads it.
    End,
}

/// Reads a stream; there is one reader at a time. Dropping it leaves what it did not read.
#[derive(Debug)]
pub(super) struct StreamReader {
    streams: Arc<Streams>,
    key: u64,
    number: u64,
    /// The next event to read.
    next: u64,
}

/// Why a stream cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// There is none, or its events are no longer kept.
    Gone,
    /// Somebody reads it.
    Taken,
}

impl Streams {
    pub(super) fn new(budget: Budget) -> Self {
        Self {
            state: Mutex::default(),
            budget,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the stream of a request and reads it; `None` when one with its id is open.
    pub(super) fn open(self: &Arc<Self>, request: &RequestId) -> Option<StreamReader> {
        let mut state = self.lock();
        if state.closed || state.open.contains_key(request) {
            return None;
        }
        state.last += 1;
        let key = state.last;
        state.open.insert(request.clone(), key);
        state.streams.insert(key, Stream::new());
        drop(state);
        self.read(key, 0).ok()
    }

    /// Has all said on the own stream, answers included.
    pub(super) fn join(&self) {
        self.lock().joined = true;
    }

    /// Reads a stream behind event `after`. The own stream can be read by one at a time.
    pub(super) fn read(self: &Arc<Self>, key: u64, after: u64) -> Result<StreamReader, Unreadable> {
        let mut state = self.lock();
        if state.closed {
            return Err(Unreadable::Gone);
        }
        if key == OWN {
            state.streams.entry(OWN).or_insert_with(Stream::new);
        }
        let stream = state.streams.get_mut(&key).ok_or(Unreadable::Gone)?;
        if key == OWN && stream.is_read {
            return Err(Unreadable::Taken);
        }
        let next = after.saturating_add(1);
        if next < stream.first {
            return Err(Unreadable::Gone);
        }
        stream.reader += 1;
        stream.is_read = true;
        // Whoever read it before learns that it does so no longer.
        stream.filled.notify_waiters();
        Ok(StreamReader {
            number: stream.reader,
            next,
            key,
            streams: Arc::clone(self),
        })
    }

    /// The number of the last event of the own stream that was read.
    pub(super) fn own_place(&self) -> u64 {
        self.lock().streams.get(&OWN).map_or(0, |own| own.read)
    }

    /// Whether anybody reads or waits for an answer.
    pub(super) fn is_in_use(&self) -> bool {
        let state = self.lock();
        !state.open.is_empty() || state.streams.values().any(|stream| stream.is_read)
    }

    /// Ends all streams.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for stream in state.streams.values_mut() {
            stream.is_over = true;
            stream.filled.notify_waiters();
        }
    }

    /// Forgets the streams whose requests were answered and that nobody reads.
    pub(super) fn forget_finished(&self) {
        let mut state = self.lock();
        for key in state.finished() {
            state.streams.remove(&key);
        }
    }

    /// Sorts messages into their streams; what belongs to no request, or to one that is answered,
    /// goes to `about`'s stream or to the own.
    fn sort(&self, about: Option<&RequestId>, messages: Rope) {
        if messages.is_empty() {
            return;
        }
        let messages = Bytes::from(messages.into_vec());
        let mut state = self.lock();
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &messages[start..]) {
            let message = messages.slice(start..start + length);
            start += length + 1;
            match write::answered(&message) {
                Some((request, _)) => state.answer(&request, self.budget.hold(message)),
                None => state.say(about, self.budget.hold(message)),
            }
        }
    }

    fn bytes_of(&self, request: Option<&RequestId>) -> usize {
        let state = self.lock();
        let key = request.and_then(|request| state.open.get(request));
        let stream = state.streams.get(key.unwrap_or(&OWN));
        stream.map_or(0, Stream::unread)
    }
}

impl State {
    fn answer(&mut self, request: &RequestId, message: Bytes) {
        let Some(key) = self.open.remove(request) else {
            if self.joined {
                self.say(None, message);
            }
            return;
        };
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.is_over = true;
            stream.push(message);
        }
        self.forget_old();
    }

    fn say(&mut self, about: Option<&RequestId>, message: Bytes) {
        let key = about.and_then(|request| self.open.get(request));
        let stream = match key {
            Some(key) => self.streams.get_mut(key),
            None => Some(self.streams.entry(OWN).or_insert_with(Stream::new)),
        };
        if let Some(stream) = stream {
            stream.push(message);
        }
    }

    /// Forgets the oldest streams whose requests were answered and that nobody reads.
    fn forget_old(&mut self) {
        let mut bytes = 0;
        for (place, key) in self.finished().into_iter().rev().enumerate() {
            bytes += self.streams.get(&key).map_or(0, |stream| stream.bytes);
            if place >= KEPT_STREAMS || (place > 0 && bytes > KEPT_BYTES) {
                self.streams.remove(&key);
            }
        }
    }

    /// The streams whose requests were answered and that nobody reads, oldest first.
    fn finished(&self) -> Vec<u64> {
        let finished = |(key, stream): (&u64, &Stream)| {
            (*key != OWN && stream.is_over && !stream.is_read).then_some(*key)
        };
        self.streams.iter().filter_map(finished).collect()
    }
}

impl Stream {
    fn new() -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            first: 1,
            read: 0,
            is_over: false,
            reader: 0,
            is_read: false,
            filled: Arc::default(),
            room: Arc::default(),
        }
    }

    fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.events.push_back(message);
        self.trim();
        self.filled.notify_waiters();
    }

    /// Forgets the oldest events: those that were read first, others only where far too many wait.
    fn trim(&mut self) {
        while self.events.len() > 1 {
            let was_read = self.first <= self.read;
            let most = if was_read {
                KEPT_EVENTS
            } else {
                4 * KEPT_EVENTS
            };
            let too_many = self.events.len() > most || (was_read && self.bytes > EMIT_BYTES);
            if !too_many {
                return;
            }
            if let Some(event) = self.events.pop_front() {
                self.bytes -= event.len();
                self.first += 1;
            }
        }
    }

    /// The bytes of the events that were not read.
    fn unread(&self) -> usize {
        let read = usize::try_from((self.read + 1).saturating_sub(self.first));
        let unread = self.events.iter().skip(read.unwrap_or(usize::MAX));
        unread.map(Bytes::len).sum()
    }
}

impl StreamReader {
    /// The next event.
    pub(super) fn next(&mut self) -> Next {
        let mut state = self.streams.lock();
        let Some(stream) = state.streams.get_mut(&self.key) else {
            return Next::End;
        };
        if stream.reader != self.number {
            return Next::End;
        }
        // What was forgotten meanwhile is lost.
        self.next = self.next.max(stream.first);
        let at = usize::try_from(self.next - stream.first).unwrap_or(usize::MAX);
        let Some(event) = stream.events.get(at).cloned() else {
            return if stream.is_over {
                Next::End
            } else {
                Next::Wait(Arc::clone(&stream.filled))
            };
        };
        stream.read = stream.read.max(self.next);
        stream.trim();
        stream.room.notify_waiters();
        let number = self.next;
        self.next += 1;
        Next::Event(number, event)
    }

    /// Waits for the next event; `None` at the end.
    pub(super) async fn wait(&mut self) -> Option<(u64, Bytes)> {
        loop {
            match self.next() {
                Next::Event(number, event) => return Some((number, event)),
                Next::End => return None,
                Next::Wait(filled) => {
                    let mut filled = std::pin::pin!(filled.notified());
                    // Enlisted before it is looked again, so that nothing falls between the two.
                    filled.as_mut().enable();
                    match self.next() {
                        Next::Event(number, event) => return Some((number, event)),
                        Next::End => return None,
                        Next::Wait(_) => filled.await,
                    }
                }
            }
        }
    }

    /// Whether `event`, which was read last, ends the stream.
    pub(super) fn is_at_end(&self) -> bool {
        let state = self.streams.lock();
        let stream = state.streams.get(&self.key);
        stream.is_none_or(|stream| {
            let end = stream.first + u64::try_from(stream.events.len()).unwrap_or(u64::MAX);
            stream.is_over && self.next >= end
        })
    }

    /// Gives back the event that was read last.
    pub(super) fn step_back(&mut self) {
        self.next -= 1;
    }

    /// The stream's key.
    pub(super) const fn key(&self) -> u64 {
        self.key
    }

    /// Forgets the stream, for what was read is all of it and can be sent in one piece.
    pub(super) fn forget(self) {
        self.streams.lock().streams.remove(&self.key);
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.streams.lock();
        if let Some(stream) = state.streams.get_mut(&self.key)
            && stream.reader == self.number
        {
            stream.is_read = false;
        }
        state.forget_old();
    }
}

impl Emit for Streams {
    fn emit(&self, request: Option<&RequestId>, message: Rope) {
        if self.bytes_of(request) <= EMIT_BYTES {
            self.sort(request, message);
        }
    }

    fn closed(&self, request: &RequestId) {
        let mut state = self.lock();
        let Some(key) = state.open.remove(request) else {
            return;
        };
        if let Some(stream) = state.streams.get_mut(&key) {
            stream.is_over = true;
            stream.filled.notify_waiters();
        }
        state.forget_old();
    }
}

impl Outbox for Streams {
    fn send(&self, message: Rope) {
        self.sort(None, message);
    }

    fn enqueue(&self, message: Rope) {
        self.sort(None, message);
    }

    fn ask(&self, about: &RequestId, questions: Rope) {
        self.sort(Some(about), questions);
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            loop {
                let room = {
                    let mut state = self.lock();
                    let own = state.streams.entry(OWN).or_insert_with(Stream::new);
                    Arc::clone(&own.room)
                };
                let mut room = std::pin::pin!(room.notified());
                room.as_mut().enable();
                if self.bytes_of(None) <= EMIT_BYTES {
                    return;
                }
                room.await;
            }
        })
    }
}
