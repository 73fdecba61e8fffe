//! The answering side: handshakes, connections and calls, each bounded and each owned.
//!
//! One task accepts, one serves each connection, one each call. All end with [`Serving::stop`], or
//! at once when [`Serving`] is dropped.

use std::{
    future::pending,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use quinn::{Connection, Incoming, RecvStream, SendStream};
use tokio::{
    select,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::{JoinError, JoinHandle, JoinSet},
    time::{Instant, timeout, timeout_at},
};

use super::{
    admission::{Admission, Role},
    codes,
    endpoint::UNTRUSTED,
    error::WireError,
    limits::{Limits, PeerLimits, Peers, Place, Room},
    nobody::deserted_here,
    peer::Peer,
    reply::{Cancelled, Reply, Requests},
    transport::HANDSHAKE_TIME,
    wire::{Frames, Step},
};

/// How long an answer may take to arrive after it was written, when the connection is to close.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// A future of which only the outcome is known.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Answers calls.
pub trait Handler: Send + Sync + 'static {
    /// Handles one call. The peer is who its certificate says.
    ///
    /// The future is polled until it ends, also after the caller has given up; [`Reply::cancelled`]
    /// tells when. A panic ends this call alone.
    fn handle<'a>(&'a self, peer: &'a Peer, request: Bytes, reply: Reply) -> BoxFuture<'a, ()>;

    /// A peer has connected; before any of its calls. It must be quick.
    fn opened(&self, peer: &Peer) {
        let _ = peer;
    }

    /// The connection of a peer is over, and so is every call that came over it. It must be quick.
    fn closed(&self, peer: &Peer) {
        let _ = peer;
    }

    /// What to answer to a call that is one too many; `None` resets the stream with a code that a
    /// [`Caller`](super::Caller) understands. It must be quick.
    fn busy(&self, peer: &Peer, request: &Bytes) -> Option<Bytes> {
        let _ = (peer, request);
        None
    }

    /// Whether more request frames may follow this one on its stream.
    fn duplex(&self, peer: &Peer, request: &Bytes) -> bool {
        let _ = (peer, request);
        false
    }
}

/// A server that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct Serving {
    endpoint: quinn::Endpoint,
    stopping: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Serving {
    pub(super) fn start(
        endpoint: quinn::Endpoint,
        admission: Admission,
        handler: Arc<dyn Handler>,
        limits: Limits,
    ) -> Self {
        let (stopping, stopped) = watch::channel(false);
        let server = Arc::new(Server {
            admission,
            handler,
            handshakes: Arc::new(Semaphore::new(limits.handshakes)),
            peers: Peers::new(limits.clone()),
            limits,
            stopped,
        });
        let task = tokio::spawn(accept(endpoint.clone(), server));
        Self {
            endpoint,
            stopping,
            task: Some(task),
        }
    }

    /// Takes no more calls, waits for those that run until `deadline`, and closes every connection
    /// that was accepted. Calls that come meanwhile are told that we are busy.
    pub async fn stop(mut self, deadline: Instant) {
        self.stopping.send_replace(true);
        if let Some(mut task) = self.task.take()
            && timeout_at(deadline, &mut task).await.is_err()
        {
            task.abort();
            // It was aborted, and says so.
            let _ = task.await;
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.endpoint.set_server_config(None);
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

struct Server {
    admission: Admission,
    handler: Arc<dyn Handler>,
    handshakes: Arc<Semaphore>,
    peers: Peers,
    limits: Limits,
    stopped: watch::Receiver<bool>,
}

async fn accept(endpoint: quinn::Endpoint, server: Arc<Server>) {
    let mut stopped = server.stopped.clone();
    let mut connections = JoinSet::new();
    loop {
        select! {
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => {
                    if let Some((incoming, permit)) = admit(incoming, &server) {
                        connections.spawn(serve_connection(incoming, permit, server.clone()));
                    }
                }
                None => break,
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => report(ended),
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
    }
    endpoint.set_server_config(None);
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

/// Lets a handshake begin, or has the peer prove its address first, or refuses it.
fn admit(incoming: Incoming, server: &Server) -> Option<(Incoming, OwnedSemaphorePermit)> {
    let free = server.handshakes.available_permits();
    let busy = server.limits.handshakes.saturating_sub(free) >= server.limits.unproven_handshakes;
    if busy && incoming.may_retry() && !incoming.remote_address_validated() {
        if let Err(unretried) = incoming.retry() {
            unretried.into_incoming().refuse();
        }
        return None;
    }
    match server.handshakes.clone().try_acquire_owned() {
        Ok(permit) => Some((incoming, permit)),
        Err(_) => {
            incoming.refuse();
            None
        }
    }
}

async fn serve_connection(
    incoming: Incoming,
    handshake: OwnedSemaphorePermit,
    server: Arc<Server>,
) {
    let from = incoming.remote_address();
    let connection = match incoming.accept() {
        Ok(connecting) => match timeout(HANDSHAKE_TIME, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return tracing::debug!(%from, %error, "handshake failed"),
            Err(_) => return tracing::debug!(%from, "handshake timed out"),
        },
        Err(error) => return tracing::debug!(%from, %error, "handshake failed"),
    };
    drop(handshake);
    let Some(peer) = Peer::of(&connection) else {
        tracing::warn!(%from, "the peer's certificate has no usable name");
        return connection.close(codes::WRONG_PEER, b"the certificate has no usable name");
    };
    let limits = server.peers.of(peer.name());
    let Some(place) = limits.place(&connection).await else {
        tracing::warn!(peer = %peer.name(), %from, "too many connections");
        return connection.close(codes::TOO_MANY, b"too many connections");
    };
    tracing::debug!(peer = %peer.name(), %from, "connected");
    let calls = Calls {
        server,
        peer,
        limits,
        place,
    };
    let told = Told::open(&calls);
    serve_calls(&connection, Arc::new(calls)).await;
    drop(told);
    connection.close(codes::CLOSED, b"server closed");
}

/// Tells the handler of the end of a connection, however it ends.
struct Told {
    handler: Arc<dyn Handler>,
    peer: Peer,
}

impl Told {
    fn open(calls: &Calls) -> Self {
        let told = Self {
            handler: calls.server.handler.clone(),
            peer: calls.peer.clone(),
        };
        told.handler.opened(&told.peer);
        told
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.handler.closed(&self.peer);
    }
}

/// What the calls of a connection share.
struct Calls {
    server: Arc<Server>,
    peer: Peer,
    limits: Arc<PeerLimits>,
    place: Place,
}

async fn serve_calls(connection: &Connection, calls: Arc<Calls>) {
    let mut stopped = calls.server.stopped.clone();
    let mut stopping = false;
    let mut running = JoinSet::new();
    let mut killed = pin!(deserted_here(connection));
    let admission = &calls.server.admission;
    let mut untrusted = pin!(admission.withdrawn(connection, Role::Client));
    while !(stopping && running.is_empty()) {
        select! {
            stream = connection.accept_bi() => match stream {
                Ok((mut send, mut recv)) if stopping => {
                    // They fail when the stream is over, which is as good.
                    let _ = (recv.stop(codes::BUSY), send.reset(codes::BUSY));
                }
                Ok((send, recv)) => {
                    running.spawn(serve_call(send, recv, calls.clone()));
                }
                Err(_) => break,
            },
            Some(ended) = running.join_next(), if !running.is_empty() => report(ended),
            _ = stopped.wait_for(|stopped| *stopped), if !stopping => stopping = true,
            () = &mut untrusted => {
                tracing::info!(peer = %calls.peer.name(), "closed a connection whose certificate is no longer trusted");
                connection.close(codes::UNTRUSTED, UNTRUSTED);
                break;
            }
            () = &mut killed => {
                tracing::debug!(peer = %calls.peer.name(), "the process of the peer was killed");
                connection.close(codes::CLOSED, b"the process of the peer was killed");
                break;
            }
        }
    }
    // The connection is gone, and the handlers have been told.
    while let Some(ended) = running.join_next().await {
        report(ended);
    }
}

async fn serve_call(mut send: SendStream, recv: RecvStream, calls: Arc<Calls>) {
    let mut frames = Frames::new(recv);
    let (request, room) = match read_request(&mut frames, &calls).await {
        Ok(Some(request)) => request,
        // Nothing was asked, so nothing is answered.
        Ok(None) => return,
        Err(code) => {
            frames.stop(code);
            let _ = send.reset(code);
            return;
        }
    };
    let handler = &calls.server.handler;
    let Ok(permit) = calls.limits.calls.clone().try_acquire_owned() else {
        return refuse(send, frames, &request, &calls).await;
    };
    let (cancel, cancelled) = Cancelled::pair();
    let (stopped, arrived) = (send.stopped(), send.stopped());
    let (mut tail, mut requests) = (None, None);
    if handler.duplex(&calls.peer, &request) {
        requests = Some(Requests::new(frames, cancel.clone()));
    } else {
        tail = Some(frames);
    }
    let reply = Reply::new(send, cancelled, requests, calls.server.limits.reply_time);
    let handled = handler.handle(&calls.peer, request, reply);
    let watched = async {
        let reset = async {
            match &mut tail {
                Some(frames) => frames.tail().await,
                None => false,
            }
        };
        select! {
            // The stream was stopped, or the connection is gone; otherwise all has arrived.
            Some(()) = async { (!matches!(stopped.await, Ok(None))).then_some(()) } => {}
            true = reset => {}
            else => pending().await,
        }
        cancel.send_replace(true);
        pending::<()>().await;
    };
    select! {
        () = handled => {}
        () = watched => {}
    }
    drop((tail, permit, room));
    // A connection that closes takes along what has not arrived.
    let _ = timeout(LINGER_TIME, arrived).await;
}

/// Reads the one frame of a request; `Err` is the code to end the stream with.
async fn read_request(
    frames: &mut Frames,
    calls: &Calls,
) -> Result<Option<(Bytes, Room)>, quinn::VarInt> {
    let Limits {
        header_time,
        request_time,
        ..
    } = calls.server.limits;
    let until = Instant::now() + request_time;
    let code = |error: WireError| {
        tracing::debug!(peer = %calls.peer.name(), %error, "cannot read a request");
        codes::MALFORMED
    };
    let length = match timeout(header_time, frames.length()).await {
        Ok(length) => length.map_err(code)?,
        Err(_) => return Err(codes::TOO_SLOW),
    };
    let Some(length) = length else {
        return Ok(None);
    };
    let Ok(mut room) = timeout_at(until, calls.place.room(length)).await else {
        return Err(codes::BUSY);
    };
    let reading = async {
        loop {
            let come = match frames.step().await.map_err(code)? {
                Step::Payload(request) => return Ok(Some(request)),
                Step::End => return Ok(None),
                Step::Read(come) => come,
            };
            // Both end at the same time, and this one says why.
            if timeout_at(until, room.grow(come)).await.is_err() {
                return Err(codes::BUSY);
            }
        }
    };
    match timeout_at(until, reading).await {
        Ok(request) => Ok(request?.map(|request| (request, room))),
        Err(_) => Err(codes::TOO_SLOW),
    }
}

/// Answers a call that is one too many.
async fn refuse(mut send: SendStream, mut frames: Frames, request: &Bytes, calls: &Calls) {
    let Some(answer) = calls.server.handler.busy(&calls.peer, request) else {
        frames.stop(codes::BUSY);
        let _ = send.reset(codes::BUSY);
        return;
    };
    frames.take_end().await;
    let arrived = send.stopped();
    let (_cancel, cancelled) = Cancelled::pair();
    // Who asks too much and does not read the answer either has lost it.
    let _ = timeout(
        LINGER_TIME,
        Reply::new(send, cancelled, None, LINGER_TIME).answer(answer),
    )
    .await;
    let _ = timeout(LINGER_TIME, arrived).await;
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("the handler of a call panicked");
    }
}
