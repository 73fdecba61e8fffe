//! Whether anybody is there: over HTTP a connection does not end when its server does.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OnceCell, watch},
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
    /// The last look, which may go on.
    look: Mutex<Arc<Look>>,
    since: Instant,
}

/// One question whether anybody is there, for all whose exchanges break meanwhile or soon after.
#[derive(Default)]
struct Look {
    /// When it came to what. Whoever comes while it goes on waits for it, and asks instead of
    /// whoever began when that one goes away.
    found: OnceCell<(Instant, Found)>,
}

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    There,
    Away,
    /// It has forgotten the session, and the next call begins another.
    Gone,
}

impl Presence {
    pub(super) fn new() -> Self {
        Self {
            away: watch::Sender::new(None),
            look: Mutex::default(),
            since: Instant::now(),
        }
    }

    pub(super) fn is_away(&self) -> bool {
        self.away.borrow().is_some()
    }

    /// The look that an exchange which broke now belongs to.
    fn look(&self) -> Arc<Look> {
        let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        let found = look.found.get();
        if found.is_some_and(|(at, _)| at.elapsed() >= TOGETHER) {
            *look = Arc::default();
        }
        Arc::clone(&look)
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
        // What was found before says nothing of what breaks from now on.
        let look = &self.presence.look;
        *look.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        self.presence.away.send_replace(None);
    }

    /// Looks into an exchange that failed: whether it failed because nobody is there, or for the
    /// same reason as others at that moment, so that it says nothing of how the server treats calls.
    pub(in crate::client) async fn is_excused(self: &Arc<Self>, error: &ClientError) -> bool {
        if !self.is_remote() {
            // A process that is not there any more is started again, which has its own pace.
            let is_gone = matches!(error, ClientError::Unreachable { .. });
            if is_gone && !self.is_over() {
                self.recycle();
            }
            return is_gone;
        }
        if matches!(error, ClientError::Unreachable { .. }) {
            return self.lose(error);
        }
        if !error.may_be_away() {
            return false;
        }
        if self.is_over() {
            return true;
        }
        let look = self.presence.look();
        let mut has_asked = false;
        let asks = &mut has_asked;
        let ask = move || async move {
            *asks = true;
            let found = self.ask_for_all().await;
            (Instant::now(), found)
        };
        // single-flight: one asks, and the others wait for what it found.
        let (_, found) = *look.found.get_or_init(ask).await;
        // Many connections break at once when one server ends; one of them counts.
        let is_broken = matches!(error, ClientError::Http(failure) if failure.status == 0);
        found != Found::There || (is_broken && !has_asked)
    }

    async fn ask_for_all(self: &Arc<Self>) -> Found {
        match self.check_health_within(ASK).await {
            Err(error) if error.may_be_away() => {
                self.lose(&error);
                Found::Away
            }
            Err(error) if error.is_session_gone() => Found::Gone,
            _ => Found::There,
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
