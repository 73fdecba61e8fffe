//! How much of us one peer, and all peers, may occupy.
//!
//! What a peer says that it will send is held against the peer itself, and what has come of it against
//! all: whoever announces much and sends nothing stands in nobody's way but its own.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use quinn::Connection;
use tokio::{
    select,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{codes, transport::HANDSHAKE_TIME, wire::WRITE_TIME};
use crate::ids::CertName;

/// Requests up to this size need no reservation: the number of streams bounds them.
const FREE_BYTES: usize = 16 * 1024;

/// What peers may do at once. Those of a peer hold for all its connections together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Handshakes in progress; more are refused.
    pub handshakes: usize,
    /// From this many handshakes in progress on, a peer must first show that its address is its own.
    pub unproven_handshakes: usize,
    /// Connections of one peer. One more takes the place of the oldest, which may be that of a process
    /// that was killed and has not said so.
    pub connections: usize,
    /// Calls of one peer that are being handled; for more, [`Handler::busy`](super::Handler::busy)
    /// answers.
    pub calls: usize,
    /// Names that several programs share, which may have more connections and calls.
    pub shared: Vec<Shared>,
    /// Bytes of large requests of one peer, or of one connection of those who share a name, as their
    /// headers announce them, until they are handled.
    pub peer_bytes: usize,
    /// Bytes of large requests of all peers that have come, until they are handled. Above it there is
    /// room for one more request.
    pub all_bytes: usize,
    /// How long the header of a request may take.
    pub header_time: Duration,
    /// How long a whole request may take.
    pub request_time: Duration,
    /// How long it may take until the caller has taken a frame of the answer, however slowly it reads.
    pub reply_time: Duration,
}

/// What those may do at once, together, that share a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The name.
    pub name: CertName,
    /// Their connections; more are refused.
    pub connections: usize,
    /// Their calls that are being handled.
    pub calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 64,
            unproven_handshakes: 16,
            connections: 8,
            calls: 256,
            shared: Vec::new(),
            peer_bytes: 64 * 1024 * 1024,
            all_bytes: 256 * 1024 * 1024,
            header_time: Duration::from_secs(10),
            request_time: Duration::from_secs(30),
            reply_time: WRITE_TIME,
        }
    }
}

/// What one peer occupies.
#[derive(Debug)]
pub(super) struct PeerLimits {
    pub(super) calls: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    /// The connections that have places, the oldest first.
    open: Mutex<VecDeque<Connection>>,
    /// For all connections together, unless others share the name.
    bytes: Option<Arc<Semaphore>>,
    peer_bytes: usize,
    all: All,
}

/// The place of a connection, for as long as it is served, and what its requests may occupy.
#[derive(Debug)]
pub(super) struct Place {
    peer: Arc<PeerLimits>,
    connection: usize,
    bytes: Arc<Semaphore>,
    _permit: OwnedSemaphorePermit,
}

/// What the requests of all peers occupy.
#[derive(Debug, Clone)]
struct All {
    bytes: Arc<Semaphore>,
    /// The room of one whole request beyond that. Requests grow as they come, and may come to wait for
    /// each other's room; who has this room comes to its end, and gives back what it has.
    last: Arc<Semaphore>,
}

/// Room that a request occupies. It is only counted, nothing is allocated.
#[derive(Debug)]
pub(super) struct Room {
    all: All,
    /// What the request may still bring before it counts.
    free: usize,
    /// What it has announced.
    _announced: Option<OwnedSemaphorePermit>,
    come: Option<OwnedSemaphorePermit>,
    last: Option<OwnedSemaphorePermit>,
}

impl PeerLimits {
    /// A place for a connection; `None` when there is none.
    pub(super) async fn place(self: &Arc<Self>, connection: &Connection) -> Option<Place> {
        let free = self.connections.clone();
        let permit = match free.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) if self.bytes.is_none() => return None,
            Err(_) => {
                let oldest = self.open().pop_front();
                if let Some(oldest) = oldest {
                    let why = "a newer connection with this name replaced this one";
                    oldest.close(codes::TOO_MANY, why.as_bytes());
                }
                let freed = timeout(HANDSHAKE_TIME, free.acquire_owned()).await;
                freed.ok()?.ok()?
            }
        };
        self.open().push_back(connection.clone());
        let bytes = self.bytes.clone();
        Some(Place {
            peer: self.clone(),
            connection: connection.stable_id(),
            bytes: bytes.unwrap_or_else(|| Arc::new(Semaphore::new(self.peer_bytes))),
            _permit: permit,
        })
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<Connection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.peer.open();
        open.retain(|other| other.stable_id() != self.connection);
    }
}

impl Place {
    /// Waits for room for a request of the peer. Whoever has it has it for the whole request.
    pub(super) async fn room(&self, bytes: usize) -> Room {
        let announced = match bytes {
            0..=FREE_BYTES => None,
            _ => {
                // A frame's length fits, and the semaphore is never closed.
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.bytes.clone().acquire_many_owned(bytes).await.ok()
            }
        };
        Room {
            all: self.peer.all.clone(),
            free: FREE_BYTES,
            _announced: announced,
            come: None,
            last: None,
        }
    }
}

impl Room {
    /// Waits for room for so much of the request that has come.
    pub(super) async fn grow(&mut self, bytes: usize) {
        let counted = bytes.saturating_sub(self.free);
        self.free = self.free.saturating_sub(bytes);
        if counted == 0 || self.last.is_some() {
            return;
        }
        let counted = u32::try_from(counted).unwrap_or(u32::MAX);
        // They are never closed.
        select! {
            biased;
            Ok(more) = self.all.bytes.clone().acquire_many_owned(counted) => match &mut self.come {
                Some(come) => come.merge(more),
                None => self.come = Some(more),
            },
            Ok(last) = self.all.last.clone().acquire_owned() => self.last = Some(last),
            else => {}
        }
    }
}

/// What each peer occupies, by its name.
#[derive(Debug)]
pub(super) struct Peers {
    limits: Limits,
    all: All,
    known: Mutex<HashMap<CertName, Weak<PeerLimits>>>,
}

impl Peers {
    pub(super) fn new(limits: Limits) -> Self {
        let all = All {
            bytes: Arc::new(Semaphore::new(limits.all_bytes)),
            last: Arc::new(Semaphore::new(1)),
        };
        Self {
            limits,
            all,
            known: Mutex::default(),
        }
    }

    pub(super) fn of(&self, name: &CertName) -> Arc<PeerLimits> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(name).and_then(Weak::upgrade) {
            return peer;
        }
        known.retain(|_, peer| peer.strong_count() > 0);
        let shared = self
            .limits
            .shared
            .iter()
            .find(|shared| shared.name == *name);
        let (connections, calls) = match shared {
            Some(shared) => (shared.connections, shared.calls),
            None => (self.limits.connections, self.limits.calls),
        };
        let peer = Arc::new(PeerLimits {
            calls: Arc::new(Semaphore::new(calls)),
            connections: Arc::new(Semaphore::new(connections)),
            open: Mutex::default(),
            bytes: match shared {
                Some(_) => None,
                None => Some(Arc::new(Semaphore::new(self.limits.peer_bytes))),
            },
            peer_bytes: self.limits.peer_bytes,
            all: self.all.clone(),
        });
        known.insert(name.clone(), Arc::downgrade(&peer));
        peer
    }
}
