//! How much each caller may ask: a bucket for each, of which only the time is kept at which it is
//! full again (the generic cell rate algorithm).

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use orchestra_process::PeerUser;

use super::peer::Peer;

/// Callers that are kept apart; those beyond share one bucket, so that whoever has many addresses
/// fills neither the memory nor the buckets of others.
const CALLERS: usize = 16_384;

/// How often callers whose buckets are full again are looked for, at most.
const SWEEP: Duration = Duration::from_secs(1);

/// Failed attempts to log in that are allowed at once after a pause, and the time after which another
/// one is. A person who mistypes notices nothing; a token of 96 bits cannot be guessed.
const FAILURES: u32 = 32;
const FAILURE: Duration = Duration::from_secs(2);

/// How many requests are let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many a second, in the long run.
    pub per_second: NonZeroU32,
    /// How many at once, after a pause.
    pub burst: NonZeroU32,
}

/// Who is counted as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The holder of a token.
    Holder(usize),
    /// A user of an issuer, by whichever program.
    User([u8; 16]),
    /// The user who runs this program, by whichever address of this machine.
    Own,
    /// Another user of this machine.
    Local(u32),
    /// Whoever calls from an address; of IPv6, from a network of the size that one place is given.
    Peer(IpAddr),
    /// Whoever calls from an address that is not known.
    Unknown,
    /// Whoever came when too many others were there.
    Beyond,
}

impl Key {
    pub(super) fn of_peer(peer: Peer) -> Self {
        match (peer.user, peer.address) {
            (PeerUser::Other(user), _) => Self::Local(user),
            (PeerUser::Same, _) => Self::Own,
            (_, None) => Self::Unknown,
            // Every program of this machine has all of its addresses.
            (_, Some(address)) if address.is_loopback() => Self::Peer(Ipv4Addr::LOCALHOST.into()),
            (_, Some(IpAddr::V6(address))) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self::Peer(Ipv6Addr::from_bits(network).into())
            }
            (_, Some(address)) => Self::Peer(address),
        }
    }
}

/// The buckets of all callers.
pub(super) struct Buckets {
    began: Instant,
    state: Mutex<State>,
}

struct State {
    /// What one request costs.
    cost: Duration,
    /// What a full bucket holds.
    depth: Duration,
    /// When each bucket is full again, since the beginning.
    full_at: HashMap<Key, Duration>,
    swept: Duration,
}

impl Buckets {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            began: Instant::now(),
            state: Mutex::new(State::new(rate)),
        }
    }

    /// Buckets of failed attempts to log in.
    pub(super) fn of_failures() -> Self {
        Self {
            began: Instant::now(),
            state: Mutex::new(State::of(FAILURE, FAILURE.saturating_mul(FAILURES))),
        }
    }

    /// The time after which a caller's bucket is not empty any more; `None` when it is not.
    pub(super) fn wait(&self, key: Key) -> Option<Duration> {
        let now = self.began.elapsed();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.next(key, now).err()
    }

    /// Takes one request from a caller's bucket; if it is empty, says after which time it is not.
    pub(super) fn charge(&self, key: Key) -> Result<(), Duration> {
        let now = self.began.elapsed();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.charge(key, now)
    }
}

impl State {
    fn new(rate: Rate) -> Self {
        let cost = Duration::from_secs(1) / rate.per_second.get();
        Self::of(cost, cost.saturating_mul(rate.burst.get()))
    }

    fn of(cost: Duration, depth: Duration) -> Self {
        Self {
            cost,
            depth,
            full_at: HashMap::new(),
            swept: Duration::ZERO,
        }
    }

    fn charge(&mut self, key: Key, now: Duration) -> Result<(), Duration> {
        let (key, then) = self.next(key, now)?;
        self.full_at.insert(key, then);
        Ok(())
    }

    /// The bucket of a caller, and when it is full again after one more request; if it is empty, the
    /// time after which it is not.
    fn next(&mut self, key: Key, now: Duration) -> Result<(Key, Duration), Duration> {
        let key = self.kept(key, now);
        let full_at = self.full_at.get(&key).copied().unwrap_or(now);
        let then = full_at.max(now).saturating_add(self.cost);
        match then.checked_sub(now.saturating_add(self.depth)) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok((key, then)),
        }
    }

    /// The key itself if there is room for it.
    fn kept(&mut self, key: Key, now: Duration) -> Key {
        if self.full_at.len() < CALLERS || self.full_at.contains_key(&key) {
            return key;
        }
        if now.saturating_sub(self.swept) >= SWEEP {
            self.swept = now;
            // A bucket that is full is as good as none.
            self.full_at.retain(|_, full_at| *full_at > now);
        }
        if self.full_at.len() < CALLERS {
            key
        } else {
            Key::Beyond
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn state(per_second: u32, burst: u32) -> State {
        State::new(Rate {
            per_second: NonZeroU32::new(per_second).unwrap(),
            burst: NonZeroU32::new(burst).unwrap(),
        })
    }

    #[test]
    fn a_burst_is_let_in_and_then_so_many_a_second() {
        let mut state = state(2, 3);
        let (key, other) = (Key::Holder(0), Key::Holder(1));
        for _ in 0..3 {
            assert_eq!(state.charge(key, SECOND), Ok(()));
        }
        assert_eq!(state.charge(key, SECOND), Err(SECOND / 2));
        assert_eq!(state.charge(other, SECOND), Ok(()), "each has its own");
        assert_eq!(state.charge(key, SECOND * 3 / 2), Ok(()));
        assert!(state.charge(key, SECOND * 3 / 2).is_err());
        for _ in 0..3 {
            assert_eq!(state.charge(key, SECOND * 60), Ok(()));
        }
        assert!(
            state.charge(key, SECOND * 60).is_err(),
            "no more is saved up"
        );
    }

    #[test]
    fn callers_beyond_the_bound_share_a_bucket_until_others_are_full_again() {
        let mut state = state(1, 1);
        let key = |place: usize| Key::Holder(place);
        for place in 0..CALLERS {
            assert_eq!(state.charge(key(place), Duration::ZERO), Ok(()));
        }
        assert_eq!(state.charge(key(CALLERS), Duration::ZERO), Ok(()));
        assert!(state.charge(key(CALLERS + 1), Duration::ZERO).is_err());
        assert_eq!(state.full_at.len(), CALLERS + 1);
        assert_eq!(state.charge(key(CALLERS + 1), SECOND * 2), Ok(()));
        assert_eq!(state.charge(key(CALLERS + 2), SECOND * 2), Ok(()));
        assert_eq!(state.full_at.len(), 2, "the others were forgotten");
    }

    #[test]
    fn a_network_of_ipv6_is_one_caller() {
        let peer = |text: &str| {
            Key::of_peer(Peer {
                address: Some(text.parse().unwrap()),
                user: PeerUser::Unknown,
                is_tls: false,
            })
        };
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
    }

    #[test]
    fn program_of_this_machine_is_one_caller_by_whichever_loopback_address() {
        let of = |address: &str, user| {
            Key::of_peer(Peer {
                address: Some(address.parse().unwrap()),
                user,
                is_tls: false,
            })
        };
        for user in [PeerUser::Same, PeerUser::Other(7), PeerUser::Unknown] {
            let first = of("127.0.0.1", user);
            assert_eq!(first, of("127.9.9.9", user));
            assert_eq!(first, of("::1", user));
            assert_ne!(first, of("127.0.0.1", PeerUser::Other(8)));
        }
    }
}
