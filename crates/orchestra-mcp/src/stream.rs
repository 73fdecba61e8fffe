//! MCP over any pair of async byte streams: sockets, and pipes in memory for tests and other
//! faces. Framing and rules are those of stdio.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use orchestra_wire::{Frame, Line, LineDecoder, RequestId, Rope, write};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex},
    runtime::Handle,
    select,
    sync::Notify,
    task::JoinHandle,
};

use crate::{
    connection::Lifetime,
    http::{
        Identity,
        budget::{Budget, Held},
    },
    report::Emit,
    server::Server,
    session::{Outbox, Session},
    stdio::AbortOnDrop,
};

/// One read takes at most this much.
const CHUNK_BYTES: usize = 64 * 1024;

/// Messages that may wait before reading stops, in bytes.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// Messages that nobody waits for are dropped, or wait with the hub, when more than this waits, in
/// bytes.
const EMIT_BYTES: usize = 1024 * 1024;

/// Serves one connection of `face` until its input ends or its output breaks. At the end of input
/// calls in flight may finish within the grace time. May be cancelled at any time, which ends the
/// calls.
///
/// # Errors
/// When reading or writing fails.
pub async fn serve<R, W>(
    server: &Server,
    face: &'static str,
    mut input: R,
    output: W,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (session, outbox, attendant) = begin(server, face, QueueOutbox::default());
    // Without it, calls would keep the session that they keep alive.
    let _abandoned = Abandoned(&session);
    let reading = async {
        read_all(server, &session, &outbox, &mut input).await?;
        session.wind_up(server.0.limits.grace).await;
        Ok(())
    };
    let served = write_while(reading, &outbox, output).await;
    drop(attendant);
    served
}

/// A session, where its messages wait, and what attends it until it is dropped.
fn begin(
    server: &Server,
    face: &'static str,
    outbox: QueueOutbox,
) -> (Arc<Session>, Arc<QueueOutbox>, AbortOnDrop) {
    let outbox = Arc::new(outbox);
    let emit: Arc<dyn Emit> = outbox.clone();
    let runtime = Handle::current();
    let session = Session::new(
        server,
        face,
        outbox.clone(),
        emit,
        Lifetime::Stream,
        runtime.clone(),
    );
    let attendant = AbortOnDrop(runtime.spawn(session.clone().attend()).abort_handle());
    (session, outbox, attendant)
}

/// Ends the calls of a session that nobody serves any more.
struct Abandoned<'s>(&'s Session);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The stream that one `subscriptions/listen` opens, for a driver that gives each request its own.
/// Dropping it ends the subscription.
pub(crate) struct Listening {
    session: Arc<Session>,
    outbox: Arc<QueueOutbox>,
    lines: VecDeque<Bytes>,
    is_over: bool,
    _attendant: AbortOnDrop,
}

impl Listening {
    /// Takes the request of `owner`; `message` is one line. What waits counts in the budget.
    pub(crate) fn begin(
        server: &Server,
        face: &'static str,
        owner: Identity,
        message: Bytes,
        budget: &Budget,
    ) -> Self {
        let outbox = QueueOutbox {
            budget: Some(budget.clone()),
            ..QueueOutbox::default()
        };
        let (session, outbox, attendant) = begin(server, face, outbox);
        session.owned_by(owner);
        let mut out = Rope::new();
        let mut feeder = session.begin();
        feeder.feed(&Frame::Line(Line::Shared(message)), &mut out);
        feeder.end(&mut out);
        outbox.send(out);
        Self {
            session,
            outbox,
            lines: VecDeque::new(),
            is_over: false,
            _attendant: attendant,
        }
    }

    /// Whether the last message was the answer.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends the subscription in good order.
    pub(crate) async fn end(&self) {
        self.session.wind_up(Duration::ZERO).await;
    }

    /// The next message; `None` after the answer, which is the last one.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            // What is announced behind the answer is for streams that go on.
            if self.is_over {
                return None;
            }
            if let Some(line) = self.lines.pop_front() {
                self.is_over = write::answered(&line).is_some();
                return Some(line);
            }
            self.outbox.filled().await;
            while let Some((messages, _held)) = self.outbox.pop() {
                let mut messages = Bytes::from(messages.into_vec());
                if let Some(budget) = &self.outbox.budget {
                    messages = budget.count(messages);
                }
                let mut start = 0;
                while let Some(length) = memchr::memchr(b'\n', &messages[start..]) {
                    self.lines.push_back(messages.slice(start..start + length));
                    start += length + 1;
                }
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.session.abandon();
    }
}

/// A server in memory: the other end of its stream, and its end.
#[must_use]
pub fn in_memory(
    server: &Server,
    face: &'static str,
) -> (DuplexStream, JoinHandle<io::Result<()>>) {
    let (ours, theirs) = duplex(CHUNK_BYTES);
    let server = server.clone();
    let task = tokio::spawn(async move {
        let (input, output) = tokio::io::split(theirs);
        serve(&server, face, input, output).await
    });
    (ours, task)
}

async fn read_all(
    server: &Server,
    session: &Arc<Session>,
    outbox: &QueueOutbox,
    input: &mut (impl AsyncRead + Unpin),
) -> io::Result<()> {
    let mut decoder = LineDecoder::new(server.0.limits.line_bytes);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = input.read(&mut chunk).await?;
        if length == 0 {
            break;
        }
        outbox.send(feed(session, &mut decoder, &chunk[..length]));
        outbox.below(QUEUE_BYTES).await;
    }
    if let Some(frame) = decoder.finish() {
        let mut out = Rope::new();
        let mut feeder = session.begin();
        feeder.feed(&frame, &mut out);
        feeder.end(&mut out);
        outbox.send(out);
    }
    Ok(())
}

/// Takes the frames of one read; what can be answered at once is.
fn feed(session: &Arc<Session>, decoder: &mut LineDecoder, mut bytes: &[u8]) -> Rope {
    let mut out = Rope::new();
    let mut feeder = session.begin();
    while let Some(frame) = decoder.next(&mut bytes) {
        feeder.feed(&frame, &mut out);
    }
    feeder.end(&mut out);
    out
}

/// Writes what the outbox holds until `reading` is done and the outbox is empty. Reading ends with
/// the first write that fails: nothing can be answered any more.
async fn write_while<W: AsyncWrite + Unpin>(
    reading: impl Future<Output = io::Result<()>>,
    outbox: &QueueOutbox,
    mut output: W,
) -> io::Result<()> {
    let done = Notify::new();
    let writing = async {
        loop {
            let last = select! {
                biased;
                () = outbox.filled() => false,
                () = done.notified() => true,
            };
            while let Some((message, _)) = outbox.pop() {
                for piece in message.pieces() {
                    output.write_all(piece).await?;
                }
            }
            output.flush().await?;
            if last {
                return io::Result::Ok(());
            }
        }
    };
    let mut writing = pin!(writing);
    // Reading must go on while writing waits, and the other way round.
    let read = select! {
        written = &mut writing => return written,
        read = reading => read,
    };
    done.notify_one();
    read.and(writing.await)
}

#[derive(Default)]
struct QueueOutbox {
    state: Mutex<State>,
    /// Where what waits counts, if it does.
    budget: Option<Budget>,
    filled: Notify,
    taken: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Rope, Option<Held>)>,
    bytes: usize,
}

impl QueueOutbox {
    fn with<T>(&self, use_state: impl FnOnce(&mut State) -> T) -> T {
        use_state(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn pop(&self) -> Option<(Rope, Option<Held>)> {
        let message = self.with(|state| {
            let message = state.queue.pop_front()?;
            state.bytes -= message.0.len();
            Some(message)
        });
        self.taken.notify_waiters();
        message
    }

    async fn filled(&self) {
        while self.with(|state| state.queue.is_empty()) {
            self.filled.notified().await;
        }
    }

    async fn below(&self, bytes: usize) {
        loop {
            let mut taken = pin!(self.taken.notified());
            // Enlisted before the bytes are read, so that nothing falls between the two.
            taken.as_mut().enable();
            if self.with(|state| state.bytes) <= bytes {
                return;
            }
            taken.await;
        }
    }
}

impl Emit for QueueOutbox {
    fn emit(&self, _request: Option<&RequestId>, message: Rope) {
        if self.with(|state| state.bytes) <= EMIT_BYTES {
            self.send(message);
        }
    }
}

impl Outbox for QueueOutbox {
    fn send(&self, message: Rope) {
        self.enqueue(message);
        self.filled.notify_one();
    }

    fn enqueue(&self, message: Rope) {
        if !message.is_empty() {
            let budget = self.budget.as_ref();
            let held = budget.map(|budget| budget.reserve(message.len()));
            self.with(|state| {
                state.bytes += message.len();
                state.queue.push_back((message, held));
            });
        }
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.below(EMIT_BYTES).await;
            if let Some(budget) = &self.budget {
                budget.room().await;
            }
        })
    }
}
