//! Open connections: how many in all, how many of one peer, and which one makes room for another.
//!
//! A connection is idle while it answers no request. Where all places are taken, the connection that
//! has been idle for longest is closed for the newest. Where none is idle, some more are
//! accepted for the routes that report whether the program works.
//!
//! Callers that are not the user who runs this program, and have shown no token, are guests. All guests together have
//! a part of the places, and of this part only one half can answer requests: a caller with a token always finds an
//! idle guest that makes room, and takes a place outside of the part once its token was accepted.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use orchestra_process::PeerUser;
use tokio::sync::Notify;

use super::Peer;

/// Connections beyond the limit, for the routes that report whether the program works.
pub(super) const RESERVED: usize = 32;

/// Reserved connections of one peer that is limited: a peer with too many connections can still be
/// monitored, and leaves the reserve to all others.
const RESERVED_OF_ONE: usize = 4;

/// Part of the connections that guests have, as a divisor.
const GUESTS: usize = 4;

/// Part of the connections on which requests of guests are answered, as a divisor.
const GUEST_REQUESTS: usize = 2 * GUESTS;

/// Bit of [`Connection::running`] that marks the connection as closed for another.
const CLOSED: u32 = 1 << 31;

/// All connections.
#[derive(Debug, Clone)]
pub(super) struct Connections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: usize,
    of_one: usize,
    most_guests: usize,
    most_guest_requests: usize,
    /// Requests of guests that are being answered.
    guest_requests: AtomicUsize,
    /// Number of times a connection became idle.
    clock: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    by_id: HashMap<u64, Arc<Connection>>,
    /// Ordinary connections of each peer that is limited; a peer without one is absent.
    of_peer: HashMap<PeerKey, usize>,
    reserved: usize,
    /// Ordinary connections of guests.
    guests: usize,
}

/// Peers that are counted as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PeerKey {
    /// Another machine.
    Address(IpAddr),
    /// Another user of this machine.
    User(u32),
}

/// One connection.
#[derive(Debug)]
struct Connection {
    peer: Option<PeerKey>,
    is_reserved: bool,
    /// Whether its peer had too many connections.
    is_beyond_share: bool,
    /// Whether it is an ordinary connection of a guest. Changes only while [`Open`] is locked.
    is_guest: AtomicBool,
    /// Whether the request that is being answered counts as one of a guest.
    has_guest_request: AtomicBool,
    /// Requests that are being answered, or [`CLOSED`].
    running: AtomicU32,
    /// Reading of the clock when it became idle.
    idle_since: AtomicU64,
    closed: Notify,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    connections: Connections,
    id: u64,
    connection: Arc<Connection>,
}

/// A request that is being answered. The connection is not idle until this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    connections: Connections,
    connection: Arc<Connection>,
}

/// Extension of requests: their connection, until the caller has shown a token.
#[derive(Debug, Clone)]
pub(in crate::http) struct Guest {
    connections: Connections,
    id: u64,
    connection: Arc<Connection>,
}

impl PeerKey {
    /// The peer, where it is limited. The user who runs this program may have all connections, and
    /// so may a user of this machine whom the system does not name, after it has shown a token.
    fn of(peer: Peer) -> Option<Self> {
        let address = peer.address.ip().to_canonical();
        match peer.user {
            PeerUser::Other(user) => Some(Self::User(user)),
            PeerUser::Same | PeerUser::Unknown if address.is_loopback() => None,
            PeerUser::Same | PeerUser::Unknown => Some(Self::Address(address)),
        }
    }
}

impl Connections {
    pub(super) fn new(most: usize, of_one: usize) -> Self {
        Self(Arc::new(Inner {
            most: most.max(1),
            of_one: of_one.max(1),
            most_guests: (most / GUESTS).max(1),
            most_guest_requests: (most / GUEST_REQUESTS).max(1),
            guest_requests: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
            open: Mutex::default(),
        }))
    }

    /// Makes a place for a connection of `peer`, which is reserved when the peer has too many, or all
    /// places are taken and no connection is idle; `None` when the reserve is taken as well.
    pub(super) fn open(&self, peer: Peer) -> Option<Place> {
        let is_guest = peer.user != PeerUser::Same;
        let peer = PeerKey::of(peer);
        let mut open = self.lock();
        let count = peer.and_then(|peer| open.of_peer.get(&peer));
        let has_share = count.is_none_or(|count| *count < self.0.of_one);
        let has_share = has_share && (!is_guest || open.has_guest_place(self.0.most_guests));
        let is_full = open.by_id.len() - open.reserved >= self.0.most;
        let is_reserved = !has_share || is_full && !open.make_room();
        if is_reserved && !open.has_reserve(peer) {
            return None;
        }
        let connection = Arc::new(Connection {
            peer,
            is_reserved,
            is_beyond_share: !has_share,
            is_guest: AtomicBool::new(is_guest && !is_reserved),
            has_guest_request: AtomicBool::new(false),
            running: AtomicU32::new(0),
            idle_since: AtomicU64::new(self.tick()),
            closed: Notify::new(),
        });
        open.last += 1;
        let id = open.last;
        open.by_id.insert(id, Arc::clone(&connection));
        open.reserved += usize::from(is_reserved);
        open.guests += usize::from(is_guest && !is_reserved);
        if let Some(peer) = peer.filter(|_| !is_reserved) {
            *open.of_peer.entry(peer).or_default() += 1;
        }
        drop(open);
        Some(Place {
            connections: self.clone(),
            id,
            connection,
        })
    }

    /// Ends the count of a request as one of a guest.
    fn release_share(&self, connection: &Connection) {
        if connection.has_guest_request.swap(false, Ordering::AcqRel) {
            self.0.guest_requests.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn tick(&self) -> u64 {
        self.0.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connections of which the one that has been idle for longest is closed.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Ordinary,
    Guest,
    Reserved,
    ReservedOf(PeerKey),
}

impl Kind {
    fn has(self, connection: &Connection) -> bool {
        match self {
            Self::Ordinary => !connection.is_reserved,
            Self::Guest => connection.is_guest.load(Ordering::Relaxed),
            Self::Reserved => connection.is_reserved,
            Self::ReservedOf(peer) => connection.is_reserved && connection.peer == Some(peer),
        }
    }
}

impl Open {
    /// Returns whether the part of guests has a place, for which the idle connection of a guest may be closed.
    fn has_guest_place(&mut self, most: usize) -> bool {
        self.guests < most || self.close_longest_idle(Kind::Guest)
    }

    /// Closes an idle connection, one of a guest if there is any; false when none is idle.
    fn make_room(&mut self) -> bool {
        self.close_longest_idle(Kind::Guest) || self.close_longest_idle(Kind::Ordinary)
    }

    /// Counts a connection no longer as one of a guest.
    fn prove(&mut self, id: u64) {
        if let Some(connection) = self.by_id.get(&id)
            && connection.is_guest.swap(false, Ordering::Relaxed)
        {
            self.guests -= 1;
        }
    }

    /// Returns whether the reserve has a place for a peer, for which an idle connection may be closed.
    fn has_reserve(&mut self, peer: Option<PeerKey>) -> bool {
        if let Some(peer) = peer {
            let own = Kind::ReservedOf(peer);
            let held = self.by_id.values();
            let held = held.filter(|connection| own.has(connection)).count();
            if held >= RESERVED_OF_ONE {
                return self.close_longest_idle(own);
            }
        }
        self.reserved < RESERVED || self.close_longest_idle(Kind::Reserved)
    }

    /// Closes the connection that has been idle for longest, of one kind; false when none is idle.
    fn close_longest_idle(&mut self, kind: Kind) -> bool {
        loop {
            let idle = self.by_id.iter().filter(|(_, connection)| {
                kind.has(connection) && connection.running.load(Ordering::Acquire) == 0
            });
            let longest =
                idle.min_by_key(|(_, connection)| connection.idle_since.load(Ordering::Relaxed));
            let Some((&id, connection)) = longest else {
                return false;
            };
            // A request may have come meanwhile.
            if connection.close() {
                self.remove(id);
                return true;
            }
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(connection) = self.by_id.remove(&id) else {
            return;
        };
        self.reserved -= usize::from(connection.is_reserved);
        self.guests -= usize::from(connection.is_guest.load(Ordering::Relaxed));
        if let Some(peer) = connection.peer.filter(|_| !connection.is_reserved)
            && let Some(count) = self.of_peer.get_mut(&peer)
        {
            *count -= 1;
            if *count == 0 {
                self.of_peer.remove(&peer);
            }
        }
    }
}

impl Connection {
    /// Closes the connection if it is idle.
    fn close(&self) -> bool {
        let closed = self
            .running
            .compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        if closed.is_ok() {
            self.closed.notify_one();
        }
        closed.is_ok()
    }
}

impl Place {
    /// Completes when the connection is to make room for another.
    pub(super) async fn closed(&self) {
        self.connection.closed.notified().await;
    }

    /// Returns whether the connection is only for the routes that report whether the program works.
    pub(super) fn is_reserved(&self) -> bool {
        self.connection.is_reserved
    }

    /// Returns whether the peer of the connection had too many when it was accepted.
    pub(super) fn is_beyond_share(&self) -> bool {
        self.connection.is_beyond_share
    }

    /// Returns whether it is an ordinary connection on which no caller has shown a token.
    pub(super) fn is_guest(&self) -> bool {
        self.connection.is_guest.load(Ordering::Relaxed)
    }

    /// The extension of the requests on the connection.
    pub(super) fn guest(&self) -> Guest {
        Guest {
            connections: self.connections.clone(),
            id: self.id,
            connection: Arc::clone(&self.connection),
        }
    }

    /// Begins to answer a request; `None` when the connection is closed for another.
    pub(super) fn begin(&self) -> Option<Running> {
        let running = &self.connection.running;
        let begun = running.fetch_update(Ordering::AcqRel, Ordering::Acquire, |running| {
            (running & CLOSED == 0).then_some(running + 1)
        });
        begun.ok().map(|_| Running {
            connections: self.connections.clone(),
            connection: Arc::clone(&self.connection),
        })
    }
}

impl Guest {
    /// Counts the request that is being answered as one of a guest; false when guests have too many.
    pub(in crate::http) fn take_share(&self) -> bool {
        if self.connection.has_guest_request.load(Ordering::Acquire) {
            return true;
        }
        let inner = &self.connections.0;
        let taken =
            inner
                .guest_requests
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                    (taken < inner.most_guest_requests).then_some(taken + 1)
                });
        if taken.is_ok() {
            // The requests of a connection are answered one after the other.
            let has_request = &self.connection.has_guest_request;
            has_request.store(true, Ordering::Release);
        }
        taken.is_ok()
    }

    /// Counts the connection, and the request that is being answered, no longer as those of a guest.
    pub(in crate::http) fn prove(&self) {
        self.connections.release_share(&self.connection);
        if self.connection.is_guest.load(Ordering::Relaxed) {
            self.connections.lock().prove(self.id);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().remove(self.id);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.connections.release_share(&self.connection);
        let now = self.connections.tick();
        self.connection.idle_since.store(now, Ordering::Relaxed);
        self.connection.running.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use futures_util::FutureExt as _;

    use super::*;

    fn peer(address: &str, user: PeerUser) -> Peer {
        Peer {
            address: SocketAddr::new(address.parse().unwrap(), 1),
            user,
        }
    }

    fn own() -> Peer {
        peer("127.0.0.1", PeerUser::Same)
    }

    fn is_closed(place: &Place) -> bool {
        place.closed().now_or_never().is_some()
    }

    #[test]
    fn one_peer_cannot_take_the_places_of_all() {
        let connections = Connections::new(16, 2);
        let take = |address: &str, user| connections.open(peer(address, user));
        let far = |address: &str| take(address, PeerUser::Unknown);
        let first = far("10.0.0.1");
        let mapped = far("::ffff:10.0.0.1");
        assert!(first.is_some() && mapped.is_some());
        let beyond = far("10.0.0.1").unwrap();
        assert!(beyond.is_reserved(), "for the health of the program");
        let other = [far("10.0.0.2"), far("127.0.0.1")];
        let local: Vec<_> = (0..2)
            .map(|_| take("127.0.0.1", PeerUser::Other(7)))
            .collect();
        assert!(other.iter().chain(&local).all(Option::is_some));
        let by_other_address = take("::1", PeerUser::Other(7)).unwrap();
        assert!(by_other_address.is_reserved());
        let mine: Vec<_> = (0..3).map(|_| take("127.0.0.1", PeerUser::Same)).collect();
        assert!(mine.iter().all(Option::is_some), "the own user may");
        drop(first);
        let again = far("10.0.0.1").unwrap();
        assert!(!again.is_reserved());
        drop((mapped, other, local, mine, beyond, by_other_address, again));
        let open = connections.lock();
        assert!(open.of_peer.is_empty() && open.by_id.is_empty());
    }

    #[test]
    fn peer_beyond_its_share_takes_a_part_of_the_reserve() {
        let connections = Connections::new(64, 1);
        let take = |user| connections.open(peer("127.0.0.1", PeerUser::Other(user)));
        let share = take(7).unwrap();
        let _running = share.begin().unwrap();
        let reserve: Vec<_> = (0..RESERVED_OF_ONE).map(|_| take(7).unwrap()).collect();
        assert!(!share.is_reserved() && reserve.iter().all(Place::is_reserved));
        let next = take(7).unwrap();
        assert!(is_closed(&reserve[0]) && !is_closed(&share));
        let _busy: Vec<_> = reserve.iter().filter_map(Place::begin).collect();
        let _next = next.begin().unwrap();
        assert!(take(7).is_none(), "its part is busy");
        let other = [take(8).unwrap(), take(8).unwrap()];
        assert!(!other[0].is_reserved() && other[1].is_reserved());
    }

    #[test]
    fn guests_have_a_part_of_the_places_however_many_they_are() {
        let connections = Connections::new(16, 16);
        let take = |user| {
            let guest = peer("127.0.0.1", PeerUser::Other(user));
            connections.open(guest).unwrap()
        };
        let mut guests: Vec<_> = (0..5).map(take).collect();
        assert!(guests.iter().all(|guest| !guest.is_reserved()));
        // The last one took the place of the first one, which was idle.
        assert!(is_closed(&guests.remove(0)) && !guests.iter().any(is_closed));
        let requests: Vec<_> = guests.iter().map(|guest| guest.begin().unwrap()).collect();
        let shares: Vec<_> = guests
            .iter()
            .map(|guest| guest.guest().take_share())
            .collect();
        assert_eq!(shares, [true, true, false, false]);
        assert!(take(9).is_reserved(), "no guest is idle");
        let mine: Vec<_> = (0..12).map(|_| connections.open(own()).unwrap()).collect();
        assert!(
            !mine
                .iter()
                .any(|place| place.is_reserved() || is_closed(place))
        );
        drop(mine);
        // With a token, neither the connection nor its request is one of a guest.
        guests[0].guest().prove();
        assert!(!guests[0].is_guest() && !take(9).is_reserved());
        assert!(guests[2].guest().take_share() && !guests[3].guest().take_share());
        drop(requests);
        let left = connections.0.guest_requests.load(Ordering::Relaxed);
        assert_eq!((left, connections.lock().guests), (0, 3));
        drop(guests);
        assert_eq!(connections.lock().guests, 0);
    }

    #[test]
    fn idle_guest_makes_room_before_the_user_who_runs_the_program() {
        let connections = Connections::new(4, 4);
        let mine: Vec<_> = (0..3).map(|_| connections.open(own()).unwrap()).collect();
        let guest = connections.open(peer("::1", PeerUser::Other(7))).unwrap();
        let next = connections.open(own()).unwrap();
        assert!(is_closed(&guest) && !next.is_reserved() && !mine.iter().any(is_closed));
    }

    #[test]
    fn longest_idle_connection_makes_room() {
        let connections = Connections::new(2, 2);
        let [first, second] = [(), ()].map(|()| connections.open(own()).unwrap());
        // The first has answered a request since.
        drop(first.begin().unwrap());
        let third = connections.open(own()).unwrap();
        assert!(is_closed(&second) && !is_closed(&first) && !third.is_reserved());
        assert!(second.begin().is_none(), "it answers nothing any more");
        let running = first.begin().unwrap();
        let fourth = connections.open(own()).unwrap();
        assert!(is_closed(&third) && !is_closed(&first));
        drop(running);
        drop((second, third));
        assert_eq!(connections.lock().by_id.len(), 2);
        drop((first, fourth));
    }

    #[test]
    fn busy_connections_leave_the_reserve_alone() {
        let connections = Connections::new(2, 2);
        let usual = [(), ()].map(|()| connections.open(own()).unwrap());
        let _running = usual.each_ref().map(|place| place.begin().unwrap());
        let reserve: Vec<_> = (0..RESERVED)
            .map(|_| connections.open(own()).unwrap())
            .collect();
        assert!(reserve.iter().all(Place::is_reserved));
        let next = connections.open(own()).unwrap();
        assert!(next.is_reserved() && is_closed(&reserve[0]) && !is_closed(&reserve[1]));
        let busy = reserve.iter().filter_map(Place::begin).count();
        assert_eq!(busy, RESERVED - 1);
        let _all: Vec<_> = reserve.iter().filter_map(Place::begin).collect();
        let _next = next.begin();
        assert!(connections.open(own()).is_none());
        assert!(!usual.iter().any(is_closed));
    }
}
