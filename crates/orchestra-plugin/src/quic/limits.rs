//! How much of us one peer, and all peers, may occupy.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::wire::WRITE_TIME;
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
    /// Connections of one peer.
    pub connections: usize,
    /// Calls of one peer that are being handled; for more, [`Handler::busy`](super::Handler::busy)
    /// answers.
    pub calls: usize,
    /// Names that several programs share, which may have more connections and calls.
    pub shared: Vec<Shared>,
    /// Bytes of large requests of one peer, from their header until they are handled.
    pub peer_bytes: usize,
    /// The same of all peers.
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
    /// Their connections.
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
    pub(super) connections: Arc<Semaphore>,
    pub(super) calls: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    all_bytes: Arc<Semaphore>,
}

/// Room that a request occupies.
#[derive(Debug)]
pub(super) struct Room {
    _held: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl PeerLimits {
    /// Waits for room for a request. Room is only counted, nothing is allocated.
    ///
    /// Whoever has room has it for the whole request, so requests that wait for each other's room
    /// cannot come to be.
    pub(super) async fn room(&self, bytes: usize) -> Room {
        if bytes <= FREE_BYTES {
            return Room { _held: None };
        }
        // A frame's length fits, and the semaphores are never closed.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let own = self.bytes.clone().acquire_many_owned(bytes).await;
        let all = self.all_bytes.clone().acquire_many_owned(bytes).await;
        Room {
            _held: own.ok().zip(all.ok()),
        }
    }
}

/// What each peer occupies, by its name.
#[derive(Debug)]
pub(super) struct Peers {
    limits: Limits,
    all_bytes: Arc<Semaphore>,
    known: Mutex<HashMap<CertName, Weak<PeerLimits>>>,
}

impl Peers {
    pub(super) fn new(limits: Limits) -> Self {
        let all_bytes = Arc::new(Semaphore::new(limits.all_bytes));
        Self {
            limits,
            all_bytes,
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
            connections: Arc::new(Semaphore::new(connections)),
            calls: Arc::new(Semaphore::new(calls)),
            bytes: Arc::new(Semaphore::new(self.limits.peer_bytes)),
            all_bytes: self.all_bytes.clone(),
        });
        known.insert(name.clone(), Arc::downgrade(&peer));
        peer
    }
}
