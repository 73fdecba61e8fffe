//! The hub for those who come over QUIC: plugins that call back, and bridges.
//!
//! Who somebody is, its certificate says and nothing else. `<id>-client` is the plugin `<id>`;
//! `transport.stdio-client` and `transport.quic-bridge-client` are bridges, which may call whatever
//! the server shows. A plugin may do what its manifest says that it needs and its [`Host`] permits,
//! after it has registered; before, it may register and be asked how we are.
//!
//! Older peers are answered as the first orchestrator answered them. Ours send MCP as it is, in
//! `tool_call`, `prompt_get` and `stream_start` with `mcp_params` and in `mcp`: it is answered by
//! [`Relay`], as an HTTP POST would be, and what belongs to a call comes as frames of the kind
//! `mcp_message` before its answer.

mod dispatch;
mod documents;
mod failure;
mod lists;
mod permission;
mod prompts;
mod replies;
mod streams;
mod tools;
mod verbatim;
mod who;

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use orchestra_mcp::{Asking, Direct, Relay, RelayBudget, Server, http::Identity};
use orchestra_plugin::{
    envelope::{Request, RequestKind, Response},
    generated::PluginManifest,
    ids::PluginId,
    quic::{ConnectionId, Handler, MAX_FRAME_BYTES, Peer, Reply, ReplyError},
};
use tokio::{select, sync::watch};

use crate::{events::Events, reached::Reached, storage::Storage};
use failure::{Failure, chain};
use lists::Lists;
pub use permission::{Allowed, Host, Permissions};
use replies::Replies;
use streams::Streams;
use who::Who;
pub use who::bridges;

/// The name of the face, under which its calls are recorded.
const FACE: &str = "quic";

/// How the hub is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceOptions {
    /// Replies that wait for peers to read them, in bytes, those of all peers together.
    pub reply_bytes: usize,
    /// Those of one plugin, or of one connection of a bridge.
    pub peer_reply_bytes: usize,
    /// How long a storage may take to answer.
    pub storage_time: Duration,
    /// Whether a tool of the AI provider `claude` goes before another tool of the same name when no
    /// provider is asked for, as it did in the first orchestrator.
    pub claude_first: bool,
}

impl Default for FaceOptions {
    fn default() -> Self {
        Self {
            reply_bytes: 256 * 1024 * 1024,
            peer_reply_bytes: 64 * 1024 * 1024,
            storage_time: Duration::from_secs(60),
            claude_first: false,
        }
    }
}

/// The hub for those who come over QUIC. Clones are the same face.
#[derive(Clone)]
pub struct Face(Arc<Inner>);

struct Inner {
    server: Server,
    reached: Reached,
    options: FaceOptions,
    host: Arc<dyn Host>,
    storage: Arc<dyn Storage>,
    events: Events,
    replies: RelayBudget,
    lists: Lists,
    streams: Streams,
    stopping: watch::Sender<bool>,
    state: Mutex<State>,
}

/// Who is here.
#[derive(Default)]
struct State {
    connections: HashMap<ConnectionId, Arc<Connected>>,
    /// Only plugins that the host admits are here, and it knows how many there are.
    registered: HashMap<PluginId, Registered>,
    /// How often anybody was reviewed.
    reviews: u64,
}

/// What a plugin may do, since it has registered and until its last connection ends.
struct Registered {
    /// What its manifest says that it needs, for whoever looks at that again.
    needs: Arc<PluginManifest>,
    permissions: Arc<Permissions>,
    /// The events that it needs.
    topics: Arc<[String]>,
}

/// A connection of somebody whom we know.
struct Connected {
    who: Who,
    direct: Direct,
    relay: Relay,
    replies: Replies,
}

impl Face {
    /// The face of `server`.
    #[must_use]
    pub fn new(
        server: &Server,
        host: Arc<dyn Host>,
        storage: Arc<dyn Storage>,
        events: Events,
        options: FaceOptions,
    ) -> Self {
        Self(Arc::new(Inner {
            server: server.clone(),
            reached: Reached::default(),
            host,
            storage,
            events,
            replies: RelayBudget::new(options.reply_bytes),
            lists: Lists::default(),
            streams: Streams::default(),
            stopping: watch::Sender::new(false),
            state: Mutex::default(),
            options,
        }))
    }

    /// What peers tell each other.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// Which orchestrators are reached from here, as peers are told that ask how it is.
    #[must_use]
    pub fn reached(&self) -> &Reached {
        &self.0.reached
    }

    /// Asks the host anew what a plugin may do that has registered, and holds it to that from now on,
    /// over connections that are open as well. One that is not admitted any more may do nothing until
    /// it registers again.
    pub fn review(&self, plugin: &PluginId) {
        self.0.review(plugin);
    }

    /// Ends what has no end by itself, so that the server can be stopped: subscriptions are
    /// answered.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }
}

impl Handler for Face {
    fn handle<'a>(&'a self, peer: &'a Peer, request: Bytes, reply: Reply) -> BoxFuture<'a, ()> {
        Box::pin(self.0.handle(peer, request, reply))
    }

    fn opened(&self, peer: &Peer) {
        self.0.open(peer);
    }

    fn closed(&self, peer: &Peer) {
        self.0.close(peer);
    }

    fn busy(&self, peer: &Peer, request: &Bytes) -> Option<Bytes> {
        let request = Request::decode(request).ok()?;
        if let Some(answer) = self.0.answer_at_once(peer, &request) {
            let answer = answer.unwrap_or_else(|failure| failure.answer(&request));
            return Some(answer.encode());
        }
        let text = "too many calls of this peer are running: send again later";
        Some(Failure::new("busy", text).answer(&request).encode())
    }

    fn duplex(&self, _peer: &Peer, request: &Bytes) -> bool {
        // Its caller may cancel it on the same stream.
        Request::decode(request)
            .is_ok_and(|request| request.kind() == Some(RequestKind::StreamStart))
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, peer: &Peer) {
        let Ok(who) = Who::of(peer.name()) else {
            tracing::warn!(peer = %peer.name(), "peer connected with a name that has no permission to call");
            return;
        };
        let asking = Asking {
            owner: Identity::proven(peer.name().as_str()),
            // A bridge speaks for clients, which have names of their own.
            name: who.plugin().map(|id| id.as_str().into()),
        };
        let plugin = who.plugin();
        let mut state = self.state();
        let mut others = state.connections.values();
        let other = others.find(|other| plugin.is_some() && other.who.plugin() == plugin);
        let replies = match other {
            Some(other) => other.replies.clone(),
            None => Replies::new(self.options.peer_reply_bytes, &self.replies),
        };
        let connected = Connected {
            who,
            direct: Direct::new(&self.server, FACE),
            relay: Relay::new(&self.server, FACE, asking, &self.replies),
            replies,
        };
        state
            .connections
            .insert(peer.connection(), Arc::new(connected));
    }

    fn close(&self, peer: &Peer) {
        let mut state = self.state();
        let Some(closed) = state.connections.remove(&peer.connection()) else {
            return;
        };
        let is_last = !state.connections.values().any(|other| {
            let (ours, theirs) = (closed.who.plugin(), other.who.plugin());
            ours.is_some() && ours == theirs
        });
        self.events.disconnected(peer.connection());
        // What a plugin may do changes under the lock, so that nobody undoes what another has done.
        if let (Some(plugin), true) = (closed.who.plugin(), is_last) {
            state.registered.remove(plugin);
            self.events.need(plugin, &[]);
        }
    }

    fn connected(&self, peer: &Peer) -> Option<Arc<Connected>> {
        self.state().connections.get(&peer.connection()).cloned()
    }

    /// Answers one call. A panic of whatever answers ends this call alone, with an error.
    async fn handle(&self, peer: &Peer, request: Bytes, mut reply: Reply) {
        let request = match Request::decode(&request) {
            Ok(request) => request,
            Err(error) => {
                let failure = Failure::new("invalid_request", chain(&error));
                let answer = failure.answer(&Request::empty(""));
                return written(reply.answer(&answer).await);
            }
        };
        let mut cancelled = reply.cancelled();
        let replies = self.connected(peer).map(|peer| peer.replies.clone());
        let answer = {
            let answering = self.answer(peer, &request, &mut reply);
            select! {
                biased;
                // Whatever was begun is dropped, and by that cancelled.
                () = cancelled.cancelled() => return,
                answer = AssertUnwindSafe(answering).catch_unwind() => answer,
            }
        };
        let answer = answer.unwrap_or_else(|_| {
            tracing::error!(peer = %peer.name(), "call failed: its handler panicked");
            let text = "the call failed: its handler panicked";
            Ok(Failure::new("handler_error", text).answer(&request))
        });
        let answer = answer.and_then(|answer| fitting(answer, replies.as_ref()));
        let answer = answer.unwrap_or_else(|failure| failure.answer(&request));
        drop(request);
        written(reply.answer(&answer).await);
    }
}

/// An answer that counts until it is taken, or why it cannot be sent.
fn fitting(answer: Response, replies: Option<&Replies>) -> Result<Response, Failure> {
    let length = answer.encoded_len();
    if length > MAX_FRAME_BYTES {
        let text = format!(
            "the result has {length} bytes, and a frame holds {MAX_FRAME_BYTES}: ask for less"
        );
        return Err(Failure::new("result_too_large", text));
    }
    match replies {
        Some(replies) => replies.hold(answer),
        // Nobody whom we know, who gets refusals alone.
        None => Ok(answer),
    }
}

/// Nobody is left to be told when an answer cannot be written.
fn written(result: Result<(), ReplyError>) {
    if let Err(error) = result {
        tracing::debug!(%error, "the peer did not accept a response");
    }
}
