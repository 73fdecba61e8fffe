//! Whether anybody is there: over HTTP a connection does not end when its server does.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};

use super::Session;
use crate::client::{ClientError, TransportType};

/// How long a server has to answer when an exchange broke.
const ASK: Duration = Duration::from_secs(1);

/// Exchanges that break so soon after each other broke for one reason.
const TOGETHER: Duration = Duration::from_millis(500);

/// A connection that was open for so long was a good one, whether anybody has called or not.
const GOOD: Duration = Duration::from_secs(5);

/// Whether nobody is there, as calls have found.
pub(super) struct Presence {
    away: watch::Sender<Option<ClientError>>,
    /// When it was asked the last time and was there.
    asked: Mutex<Option<Instant>>,
    since: Instant,
}

impl Presence {
    pub(super) fn new() -> Self {
        Self {
            away: watch::Sender::new(None),
            asked: Mutex::new(None),
            since: Instant::now(),
        }
    }

    pub(super) fn is_away(&self) -> bool {
        self.away.borrow().is_some()
    }

    /// Waits until nobody is there; why.
    pub(super) async fn lost(&self) -> ClientError {
        let mut away = self.away.subscribe();
        match away.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or(ClientError::Closed),
            Err(_) => ClientError::Closed,
        }
    }
}

impl Session {
    /// Whether its server is reached over HTTP.
    pub(in crate::client) fn is_remote(&self) -> bool {
        self.transport == TransportType::Http
    }

    /// Whether it was good for something, so that its end is the beginning of an outage.
    pub(in crate::client) fn was_good(&self) -> bool {
        self.has_answered() || self.presence.since.elapsed() >= GOOD
    }

    /// The server answers again.
    pub(in crate::client) fn is_back(&self) {
        self.presence.away.send_replace(None);
    }

    /// Looks into an exchange that failed: whether it failed because nobody is there, or for the
    /// same reason as others at that moment, so that it says nothing of how the server treats calls.
    pub(in crate::client) async fn is_excused(self: &Arc<Self>, error: &ClientError) -> bool {
        if !self.is_remote() {
            return false;
        }
        if matches!(error, ClientError::Unreachable { .. }) {
            return self.lose(error);
        }
        if !error.may_be_away() {
            return false;
        }
        let mut asked = self.presence.asked.lock().await;
        if self.is_over() {
            return true;
        }
        if asked.is_some_and(|at| at.elapsed() < TOGETHER) {
            // Many connections break at once when one server ends.
            return matches!(error, ClientError::Http(failure) if failure.status == 0);
        }
        match self.check_health_within(ASK).await {
            Err(error) if error.may_be_away() => self.lose(&error),
            // It has forgotten the session, and the next call begins another.
            Err(error) if error.is_session_gone() => true,
            _ => {
                *asked = Some(Instant::now());
                false
            }
        }
    }

    fn lose(&self, reason: &ClientError) -> bool {
        self.presence.away.send_if_modified(|away| {
            let is_first = away.is_none();
            away.get_or_insert_with(|| reason.clone());
            is_first
        });
        true
    }
}
