//! One live connection to a server, whatever carries its messages.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};

use orchestra_hub::{Along, BoxFuture};
use orchestra_secret::Masker;
use orchestra_wire::{RawJson, RequestId, Revision, RpcError};
use tokio::{sync::mpsc, time::Instant};

use super::{ClientError, LinkCounters};

/// Messages of a server that wait for whoever listens. A link never waits for its listener: past
/// this, notifications are dropped and reported as missed, and requests are answered with an error.
pub const LINK_QUEUE: usize = 1_024;

/// Number of bytes above which a message of a server is large.
const LARGE_BYTES: usize = 256 * 1024;

/// Number of messages behind which a large one does not wait, so that a queue has a bound in bytes.
const LARGE_QUEUE: usize = 16;

/// The longest message of a server unless told otherwise; the same as for those of our own clients.
pub const MAX_MESSAGE_BYTES: usize = orchestra_wire::MAX_LINE_BYTES;

/// Knows how to reach one server.
pub trait Connector: Send + Sync + 'static {
    /// What carries the messages.
    fn transport(&self) -> TransportType;

    /// Starts or reaches the server. No message is exchanged yet. Dropping the future undoes what
    /// was begun.
    fn connect(&self) -> BoxFuture<Result<Connected, ClientError>>;

    /// How much longer than the time of a start reaching the server may take: for one that bounds
    /// itself, and says more than that the time is over, or waits for others before it begins.
    fn leeway(&self) -> Duration {
        Duration::ZERO
    }
}

/// What carries the messages (seed 002, `TransportMetadata.Type`, which knows the first two).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportType {
    /// A child process.
    Stdio,
    /// HTTP, whatever its flavour.
    Http,
    /// A connection of QUIC: to a plugin, or to another orchestrator. It ends with its peer, as the
    /// pipes of a child do.
    Quic,
}

/// A connection that was opened.
pub struct Connected {
    /// Sends.
    pub link: Arc<dyn Link>,
    /// What the server says without being asked, in order. It ends with the link.
    pub incoming: mpsc::Receiver<Incoming>,
}

/// One live connection: messages of JSON-RPC out and in, nothing of MCP but what HTTP puts into
/// headers.
pub trait Link: Send + Sync + 'static {
    /// Sends a request and waits for its response. Any number may run at once; responses are told
    /// apart by their ids, whatever their order. The request is on its way, as far as bounds
    /// permit, when the future was polled once.
    ///
    /// A request that has a [`Departure`] notes there when it leaves, and does not leave once that is
    /// given up.
    ///
    /// Dropping the future gives the request up: the id is forgotten and a late response is
    /// dropped. HTTP closes the stream of the response; on other links telling the server is up to
    /// whoever dropped it.
    ///
    /// # Errors
    /// When the link ends before the response, the response is no message, or a bound is reached.
    /// A JSON-RPC error is an [`Answer`].
    fn request(&self, request: Outgoing) -> BoxFuture<Result<Answer, ClientError>>;

    /// Sends a notification; resolves when it was handed to the system.
    ///
    /// # Errors
    /// When the link has ended.
    fn notify(&self, method: &str, params: Option<RawJson>) -> BoxFuture<Result<(), ClientError>>;

    /// Answers a request of the server.
    ///
    /// # Errors
    /// When the link has ended.
    fn respond(&self, id: RequestId, answer: Answer) -> BoxFuture<Result<(), ClientError>>;

    /// Observes a message of [`Connected::incoming`]. The receiver passes each message here before it acts on it, so that
    /// a link can record messages without changing their order. Does nothing by default.
    fn observe(&self, _message: &ServerMessage) {}

    /// The handshake is over. HTTP puts the revision into its headers from now on and, for a
    /// session, opens the stream for what the server says by itself; this goes on without the
    /// future, which resolves when the server can be heard or it was waited for long enough.
    fn agreed(&self, agreed: Agreed) -> BoxFuture<()>;

    /// Resolves when the link has ended, with the reason. Any number may wait.
    fn ended(&self) -> BoxFuture<ClientError>;

    /// Ends the link in good order, within the times of its configuration: open requests fail with
    /// [`ClientError::Closed`] first. Resolves when nothing of it is left. Idempotent.
    fn close(&self) -> BoxFuture<()>;

    /// As [`close`](Self::close), where the times of its configuration are too long: a process at the
    /// other end is asked, told and killed early enough that nothing of it is left at `deadline`. A
    /// link without a process may leave the deadline to whoever waits.
    fn close_by(&self, deadline: Instant) -> BoxFuture<()> {
        let _ = deadline;
        self.close()
    }

    /// What is wrong with the connection although it goes on, for instance that the server prints
    /// what is no message.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// The end of what the process at the other end wrote to standard error until now, without
    /// secrets.
    fn stderr_tail(&self) -> String {
        String::new()
    }

    /// Masks the secrets that the server was given, as the link knows them now. `None` where the link knows none.
    fn masker(&self) -> Option<Masker> {
        None
    }

    /// What was seen on it that was no answer to anybody, where that is counted.
    fn counters(&self) -> Option<Arc<LinkCounters>> {
        None
    }

    /// The process at the other end, if it is one of ours.
    fn process_id(&self) -> Option<u32> {
        None
    }
}

/// A request on its way out.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Its id: numbers counting up, unique on this link.
    pub id: RequestId,
    /// Its method.
    pub method: String,
    /// Its parameters, whole.
    pub params: Option<RawJson>,
    /// The tool, prompt or resource that is meant (header `Mcp-Name` of 2026-07-28).
    pub name: Option<String>,
    /// More headers of this request, for HTTP (`Mcp-Param-…` of 2026-07-28), values as they are
    /// sent.
    pub headers: Vec<(String, String)>,
    /// What goes along with it, where the connection has a place for that.
    pub along: Along,
    /// How far it has come, where somebody wants to know that.
    pub departure: Option<Departure>,
}

/// How far a request has come on its way, so that whoever gives it up knows whether the server may
/// have it, and can have it not leave any more. Clones are about the same request.
#[derive(Debug, Clone, Default)]
pub struct Departure(Arc<AtomicU8>);

impl Departure {
    const WAITS: u8 = 0;
    const LEFT: u8 = 1;
    const GIVEN_UP: u8 = 2;

    /// It leaves now. False when it was given up before: then it must not.
    #[must_use]
    pub fn leave(&self) -> bool {
        self.go(Self::WAITS, Self::LEFT)
    }

    /// It is about to be sent: for the first time, or once more after the server has refused it. False
    /// when it was given up: then it must not.
    #[must_use]
    pub fn prepare(&self) -> bool {
        self.go(Self::LEFT, Self::WAITS)
    }

    /// Nobody wants it any more. Whether it has left; if not, it does not.
    #[must_use]
    pub fn give_up(&self) -> bool {
        self.0.swap(Self::GIVEN_UP, Ordering::AcqRel) == Self::LEFT
    }

    /// Goes from one state to another, unless it is there already; false when it was given up.
    fn go(&self, from: u8, to: u8) -> bool {
        let went = self
            .0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        went.is_ok() || went == Err(to)
    }
}

/// The part of `deadline` that is kept for killing a process and for what is left of it.
const KILLING: Duration = Duration::from_millis(500);

/// How long a process may take for one of the steps by which it is ended: as long as its
/// configuration says, and at most so long that there is time for the steps that are `left`, this one
/// included, and for killing it.
#[must_use]
pub fn step_of_ending(configured: Duration, deadline: Option<Instant>, left: u32) -> Duration {
    let Some(deadline) = deadline else {
        return configured;
    };
    let all = deadline.saturating_duration_since(Instant::now());
    let steps = all.saturating_sub(KILLING.min(all / 4));
    // Finishing its work takes a process longer than ending.
    configured.min(if left > 1 { steps * 2 / 3 } else { steps })
}

/// What a response brought: `result`, or a JSON-RPC error.
pub type Answer = Result<RawJson, RpcError>;

/// Something a server says by itself.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// What it says.
    pub message: ServerMessage,
    /// The request of ours it came with, where the connection tells them apart (HTTP).
    pub related: Option<RequestId>,
}

/// A request or notification of a server.
#[derive(Debug, Clone)]
pub enum ServerMessage {
    /// It wants an answer, by [`Link::respond`].
    Request {
        /// Its id.
        id: RequestId,
        /// Its method.
        method: String,
        /// Its parameters, verbatim.
        params: Option<RawJson>,
    },
    /// It wants none.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters, verbatim.
        params: Option<RawJson>,
    },
    /// Notifications were lost, or may have been: what they would report may have changed.
    Missed,
}

impl ServerMessage {
    /// Number of bytes that the server has written.
    fn bytes(&self) -> usize {
        let (id, method, params) = match self {
            Self::Request { id, method, params } => (id.as_bytes().len(), method, params),
            Self::Notification { method, params } => (0, method, params),
            Self::Missed => return 0,
        };
        let params = params.as_ref();
        id + method.len() + params.map_or(0, |params| params.as_bytes().len())
    }
}

/// Returns whether a message of a server has room behind others.
pub(super) const fn has_room(bytes: usize, waiting: usize) -> bool {
    bytes <= LARGE_BYTES || waiting < LARGE_QUEUE
}

/// Hands what a server says by itself to whoever listens; never waits. Clones use the same queue.
#[derive(Debug, Clone)]
pub struct IncomingSender {
    queue: mpsc::Sender<Incoming>,
    /// [`ServerMessage::Missed`] waits for room in the queue.
    is_missing: Arc<AtomicBool>,
}

impl IncomingSender {
    /// Creates a queue of [`LINK_QUEUE`] messages.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<Incoming>) {
        let (queue, receiver) = mpsc::channel(LINK_QUEUE);
        let is_missing = Arc::default();
        (Self { queue, is_missing }, receiver)
    }

    /// Sends a message. Returns the message if there is no room; a notification is then reported as
    /// missed. Where nobody listens any more, it is dropped.
    pub fn send(&self, incoming: Incoming) -> Option<Incoming> {
        let waiting = self.queue.max_capacity() - self.queue.capacity();
        let left = match has_room(incoming.message.bytes(), waiting) {
            true => match self.queue.try_send(incoming) {
                Err(mpsc::error::TrySendError::Full(left)) => left,
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => return None,
            },
            false => incoming,
        };
        if matches!(left.message, ServerMessage::Notification { .. }) {
            self.miss();
        }
        Some(left)
    }

    /// Reports that notifications were lost, or may have been, as soon as there is room.
    pub fn miss(&self) {
        if self.is_missing.swap(true, Ordering::AcqRel) {
            return;
        }
        // Outside of a runtime, at its very end, nobody listens.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (queue, is_missing) = (self.queue.clone(), Arc::clone(&self.is_missing));
        runtime.spawn(async move {
            let room = queue.reserve().await;
            // What is lost from now on is reported once more.
            is_missing.store(false, Ordering::Release);
            if let Ok(room) = room {
                room.send(Incoming {
                    message: ServerMessage::Missed,
                    related: None,
                });
            }
        });
    }
}

/// What a handshake has agreed upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// The revision both speak.
    pub revision: Revision,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_messages_wait_up_to_a_number_and_small_ones_behind_them() {
        let (sender, mut receiver) = IncomingSender::new();
        let message = |bytes| Incoming {
            message: ServerMessage::Notification {
                method: "x".repeat(bytes),
                params: None,
            },
            related: None,
        };
        for _ in 0..LARGE_QUEUE {
            assert!(sender.send(message(LARGE_BYTES + 1)).is_none());
        }
        assert!(sender.send(message(LARGE_BYTES + 1)).is_some());
        assert!(sender.send(message(LARGE_BYTES)).is_none());
        for _ in 0..2 {
            receiver.try_recv().unwrap();
        }
        assert!(sender.send(message(LARGE_BYTES + 1)).is_none());
    }
}
