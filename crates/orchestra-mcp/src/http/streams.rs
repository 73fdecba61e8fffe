//! What the server says in one session, sorted into streams: one for each POST of requests, and one
//! of the session's own. Events are kept for a while, so that a client whose connection broke can
//! go on where it was (MCP 2025-11-25, transports, resumability).

mod reader;
mod stream;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use orchestra_wire::{RequestId, Rope, write};

use super::{batch, budget::Budget};
use crate::{report::Emit, session::Outbox};
pub(super) use reader::{Beginning, StreamReader};
use stream::{Loss, MAX_WAITING, Stream};

/// The stream of the session's own, which a GET reads.
pub(super) const OWN: u64 = 0;

/// Messages that nobody waits for are dropped, or wait with the hub, when a stream holds more that
/// was not read.
const EMIT_BYTES: usize = 256 * 1024;

/// Answers on a joined stream that are not read, in bytes; past that, messages are refused.
const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;

/// Streams that are kept after their requests were answered, and the bytes of their events; the
/// last is kept however large it is.
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
    is_closed: bool,
    /// Whether all is one stream, answers included.
    is_joined: bool,
}

/// Why a request has no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unopened {
    /// The session is over.
    Closed,
    /// A request with its id is open.
    Taken,
}

/// Why a stream cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The session is over.
    Closed,
    /// There is none, or it has no such place.
    Unknown,
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

    /// Opens the stream of the requests of one message, and reads it.
    ///
    /// # Errors
    /// When the session is over, or one of the ids is in use.
    pub(super) fn open(self: &Arc<Self>, requests: &[RequestId]) -> Result<StreamReader, Unopened> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Unopened::Closed);
        }
        if requests.iter().any(|id| state.open.contains_key(id)) {
            return Err(Unopened::Taken);
        }
        state.last += 1;
        let key = state.last;
        for (count, id) in requests.iter().enumerate() {
            if state.open.insert(id.clone(), key).is_some() {
                let begun = &requests[..count];
                begun.iter().for_each(|id| {
                    state.open.remove(id);
                });
                return Err(Unopened::Taken);
            }
        }
        let mut stream = Stream::new(Loss::Never);
        stream.requests = requests.len();
        let number = stream.begin_reading();
        state.streams.insert(key, stream);
        Ok(self.reader(key, number, 1))
    }

    /// Has all said on the own stream, answers included.
    pub(super) fn join(&self) {
        let mut state = self.lock();
        state.is_joined = true;
        state.own().loss = Loss::Never;
    }

    /// Reads the own stream from where it was read last. The reader before it ends: its connection is
    /// often closed already, and a message is sent on one connection only.
    ///
    /// # Errors
    /// When the session is over.
    pub(super) fn listen(self: &Arc<Self>) -> Result<StreamReader, Unreadable> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Unreadable::Closed);
        }
        let own = state.own();
        let (number, next) = (own.begin_reading(), own.last_read() + 1);
        Ok(self.reader(OWN, number, next))
    }

    /// Goes on with a stream behind event `after`, or at the first that is still kept. Whoever
    /// reads it reads it no longer: a client knows better than we do which of its connections
    /// broke.
    ///
    /// # Errors
    /// When the session is over, or never had such a place.
    pub(super) fn resume(
        self: &Arc<Self>,
        key: u64,
        after: u64,
    ) -> Result<StreamReader, Unreadable> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Unreadable::Closed);
        }
        let stream = state.streams.get_mut(&key);
        let stream = stream.filter(|stream| after <= stream.last());
        let stream = stream.ok_or(Unreadable::Unknown)?;
        let (number, next) = (stream.begin_reading(), stream.first().max(after + 1));
        Ok(self.reader(key, number, next))
    }

    fn reader(self: &Arc<Self>, key: u64, number: u64, next: u64) -> StreamReader {
        StreamReader {
            streams: Arc::clone(self),
            key,
            number,
            next,
        }
    }

    /// Whether anybody reads or waits for an answer.
    pub(super) fn is_in_use(&self) -> bool {
        let state = self.lock();
        !state.open.is_empty() || state.streams.values().any(|stream| stream.is_read)
    }

    /// Whether all is one stream, answers included.
    pub(super) fn is_joined(&self) -> bool {
        self.lock().is_joined
    }

    /// Whether so much waits on the own stream that its client is to read first.
    pub(super) fn is_full(&self) -> bool {
        let state = self.lock();
        let own = state.streams.get(&OWN);
        own.is_some_and(|own| {
            own.waiting() > MAX_WAITING || own.waiting_bytes() > MAX_WAITING_BYTES
        })
    }

    /// Ends all streams.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.streams.values_mut().for_each(Stream::end);
    }

    /// Forgets what waits and nobody reads: streams whose requests were answered, and notices.
    pub(super) fn forget_unread(&self) {
        let mut state = self.lock();
        for key in state.finished() {
            state.streams.remove(&key);
        }
        if let Some(own) = state.streams.get_mut(&OWN)
            && !own.is_read
        {
            own.clear();
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
        for message in batch::lines(&messages) {
            if message.starts_with(b"[") {
                let requests = batch::answered(&message);
                state.answer_all(&requests, self.budget.hold(message));
            } else if let Some((request, _)) = write::answered(&message) {
                state.answer(&request, self.budget.hold(message));
            } else {
                state.say(about, self.budget.count(message));
            }
        }
    }

    /// Whether a stream has room for what nobody waits for.
    fn has_room(&self, request: Option<&RequestId>) -> bool {
        let state = self.lock();
        let key = request.and_then(|request| state.open.get(request));
        let stream = state.streams.get(key.unwrap_or(&OWN));
        stream.is_none_or(|stream| {
            stream.waiting() < MAX_WAITING && stream.waiting_bytes() <= EMIT_BYTES
        })
    }
}

impl State {
    /// The session's own stream.
    fn own(&mut self) -> &mut Stream {
        let own = || Stream::new(Loss::Oldest);
        self.streams.entry(OWN).or_insert_with(own)
    }

    fn answer(&mut self, request: &RequestId, message: Bytes) {
        let Some(key) = self.open.remove(request) else {
            return self.say_joined(message);
        };
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.requests -= 1;
            stream.is_over = stream.requests == 0;
            stream.push(message);
        }
        self.forget_old();
    }

    /// The answers of a batch, which come together.
    fn answer_all(&mut self, requests: &[RequestId], message: Bytes) {
        let Some(key) = requests.iter().find_map(|id| self.open.get(id)).copied() else {
            return self.say_joined(message);
        };
        self.open.retain(|_, of| *of != key);
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.requests = 0;
            stream.is_over = true;
            stream.push(message);
        }
        self.forget_old();
    }

    /// An answer that nobody waits for on a stream of its own.
    fn say_joined(&mut self, answer: Bytes) {
        if self.is_joined {
            self.own().push(answer);
        }
    }

    fn say(&mut self, about: Option<&RequestId>, message: Bytes) {
        let key = about.and_then(|request| self.open.get(request)).copied();
        match key {
            None => self.own().push(message),
            Some(key) => {
                if let Some(stream) = self.streams.get_mut(&key) {
                    stream.push(message);
                }
            }
        }
    }

    /// Forgets the oldest streams whose requests were answered and that nobody reads.
    fn forget_old(&mut self) {
        let mut bytes = 0;
        for (place, key) in self.finished().into_iter().rev().enumerate() {
            bytes += self.streams.get(&key).map_or(0, Stream::bytes);
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

impl Emit for Streams {
    fn emit(&self, request: Option<&RequestId>, message: Rope) {
        if !self.budget.is_spent() && self.has_room(request) {
            self.sort(request, message);
        }
    }

    fn closed(&self, request: &RequestId) {
        let mut state = self.lock();
        let Some(key) = state.open.remove(request) else {
            return;
        };
        if let Some(stream) = state.streams.get_mut(&key) {
            stream.requests -= 1;
            if stream.requests == 0 {
                stream.end();
            }
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
                let room = self.lock().own().room();
                let mut room = std::pin::pin!(room.notified());
                room.as_mut().enable();
                if self.has_room(None) {
                    break;
                }
                room.await;
            }
            self.budget.room().await;
        })
    }
}
