//! Event streams that are open at once: how many in all, of one user, and of one session.
//!
//! An event stream holds its connection for as long as its client likes. Without a limit, streams
//! would take the connections of all other requests.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::HeaderMap;

use super::{Identity, access::login_of, headers::SESSION};

/// Limits of event streams that are open at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Streams in all.
    pub all: usize,
    /// Streams of one user: the user who runs the program, the holder of a token, or a user of an
    /// issuer.
    pub of_user: usize,
    /// Streams of one session of MCP, and of one browser that has logged in.
    pub of_session: usize,
}

impl StreamLimits {
    /// Limits that leave places for other requests where so many connections are served at once.
    #[must_use]
    pub const fn of(connections: usize) -> Self {
        let of_user = connections / 2;
        Self {
            all: connections / 4 * 3,
            of_user,
            of_session: if of_user < 64 { of_user } else { 64 },
        }
    }
}

/// Too many event streams are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyStreams {
    /// In all.
    #[error("busy: too many event streams are open; try again later")]
    InAll,
    /// Of one user.
    #[error("busy: you have too many event streams open; close some of them")]
    OfUser,
    /// Of one session.
    #[error("busy: this session has too many event streams open; close some of them")]
    OfSession,
}

/// The streams that are open.
#[derive(Debug, Clone)]
pub(super) struct Shares(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: StreamLimits,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    /// Streams of each user and session; one without any is absent.
    of: HashMap<Key, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    User(Identity),
    Session(Identity, u64),
}

/// The share of one stream, until it is dropped.
#[derive(Debug)]
pub struct StreamShare {
    shares: Shares,
    keys: [Option<Key>; 2],
}

impl Shares {
    pub(super) fn new(limits: StreamLimits) -> Self {
        Self(Arc::new(Inner {
            limits,
            open: Mutex::default(),
        }))
    }

    /// Takes the share of a stream that a request of `caller` with these headers opens.
    ///
    /// # Errors
    /// When too many are open.
    pub(super) fn take(
        &self,
        caller: Identity,
        headers: &HeaderMap,
    ) -> Result<StreamShare, TooManyStreams> {
        let user = caller.user();
        let session = session(headers).map(|session| Key::Session(user, session));
        let (user, limits) = (Key::User(user), self.0.limits);
        let mut open = self.lock();
        let has = |key: &Key| open.of.get(key).copied().unwrap_or_default();
        if has(&user) >= limits.of_user {
            return Err(TooManyStreams::OfUser);
        }
        if session.is_some_and(|session| has(&session) >= limits.of_session) {
            return Err(TooManyStreams::OfSession);
        }
        if open.all >= limits.all {
            return Err(TooManyStreams::InAll);
        }
        open.all += 1;
        let keys = [Some(user), session];
        for key in keys.into_iter().flatten() {
            *open.of.entry(key).or_default() += 1;
        }
        drop(open);
        Ok(StreamShare {
            shares: self.clone(),
            keys,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session that a request names: of MCP, or the login of a browser. Its value was not
/// verified, and limits the caller alone.
fn session(headers: &HeaderMap) -> Option<u64> {
    let mcp = headers.get(SESSION).map(|value| value.as_bytes());
    let named = mcp.or_else(|| login_of(headers).map(str::as_bytes))?;
    let mut hasher = DefaultHasher::new();
    named.hash(&mut hasher);
    Some(hasher.finish())
}

impl Drop for StreamShare {
    fn drop(&mut self) {
        let mut open = self.shares.lock();
        open.all -= 1;
        for key in self.keys.into_iter().flatten() {
            if let Some(count) = open.of.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    open.of.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(session: Option<&'static str>) -> HeaderMap {
        let session = session.map(|id| (SESSION, id.parse().unwrap()));
        session.into_iter().collect()
    }

    #[test]
    fn streams_are_limited_in_all_and_by_user_and_session() {
        let shares = Shares::new(StreamLimits {
            all: 4,
            of_user: 3,
            of_session: 2,
        });
        let (user, other) = (Identity::Token(0), Identity::Token(1));
        let take = |caller, session| shares.take(caller, &headers(session));
        let first = take(user, Some("a")).unwrap();
        let second = take(user, Some("a")).unwrap();
        assert_eq!(
            take(user, Some("a")).unwrap_err(),
            TooManyStreams::OfSession
        );
        let third = take(user, None).unwrap();
        assert_eq!(take(user, Some("b")).unwrap_err(), TooManyStreams::OfUser);
        let fourth = take(other, Some("a")).unwrap();
        assert_eq!(take(other, None).unwrap_err(), TooManyStreams::InAll);
        drop(first);
        let again = take(user, Some("a")).unwrap();
        drop((second, third, fourth, again));
        let open = shares.lock();
        assert!(open.all == 0 && open.of.is_empty());
    }

    #[test]
    fn limits_leave_connections_for_other_requests() {
        for connections in [1, 16, 100, 2_048] {
            let limits = StreamLimits::of(connections);
            assert!(limits.all < connections, "{limits:?}");
            assert!(limits.of_session <= limits.of_user && limits.of_user <= limits.all.max(1));
        }
    }
}
