//! Places for connections: so many at once, and so many of one peer.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All places.
#[derive(Debug, Clone)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    of_one: usize,
    /// How many connections each peer has; none is here that has none.
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    peer: IpAddr,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(all: usize, of_one: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            of_one: of_one.max(1),
            peers: Arc::default(),
        }
    }

    /// Waits until there is room for one more connection.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.all).acquire_owned().await;
        permit.expect("the places are never closed")
    }

    /// A place for a connection of `peer`; `None` when it has too many. This machine may have all.
    pub(super) fn take(&self, peer: IpAddr, permit: OwnedSemaphorePermit) -> Option<Place> {
        let peer = peer.to_canonical();
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = peers.entry(peer).or_default();
        if *taken >= self.of_one && !peer.is_loopback() {
            return None;
        }
        *taken += 1;
        Some(Place {
            peers: Arc::clone(&self.peers),
            peer,
            _permit: permit,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = peers.get_mut(&self.peer) {
            *taken -= 1;
            if *taken == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_peer_cannot_take_the_places_of_all() {
        let places = Places::new(8, 2);
        let take = async |peer: &str| places.take(peer.parse().unwrap(), places.room().await);
        let first = take("10.0.0.1").await;
        let mapped = take("::ffff:10.0.0.1").await;
        assert!(first.is_some() && mapped.is_some());
        assert!(take("10.0.0.1").await.is_none());
        let (other, local) = (take("10.0.0.2").await, take("127.0.0.1").await);
        assert!(other.is_some() && local.is_some());
        let more = (take("127.0.0.1").await, take("127.0.0.1").await);
        assert!(more.0.is_some() && more.1.is_some(), "this machine may");
        drop(first);
        assert!(take("10.0.0.1").await.is_some());
        drop((mapped, other, local, more));
        assert!(places.peers.lock().unwrap().is_empty());
        assert_eq!(places.all.available_permits(), 8);
    }
}
