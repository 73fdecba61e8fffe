//! Bound on log lines that a peer can cause as often as it likes.

use std::time::{Duration, Instant};

/// Minimum time between two lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// Events of one kind, of which the first is logged at once and the rest at most once per [`INTERVAL`], with
/// their number.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    logged: Option<Instant>,
    /// Events since the last line.
    unlogged: u64,
}

impl Repeated {
    /// Counts an event. Returns the number of events that a line now reports, or `None` if none is due.
    pub(super) fn count(&mut self, now: Instant) -> Option<u64> {
        self.unlogged += 1;
        let is_due = self
            .logged
            .is_none_or(|logged| now.saturating_duration_since(logged) >= INTERVAL);
        if is_due {
            self.logged = Some(now);
        }
        is_due.then(|| self.rest()).flatten()
    }

    /// Takes the number of events that no line has reported, if there are any.
    pub(super) fn rest(&mut self) -> Option<u64> {
        let unlogged = std::mem::take(&mut self.unlogged);
        (unlogged > 0).then_some(unlogged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_event_is_logged_and_the_rest_once_per_interval_with_their_number() {
        let mut events = Repeated::default();
        let start = Instant::now();
        assert_eq!(events.count(start), Some(1));
        for second in 0..59 {
            assert_eq!(events.count(start + Duration::from_secs(second)), None);
        }
        assert_eq!(events.count(start + INTERVAL), Some(60));
        assert_eq!(events.count(start + INTERVAL), None);
        assert_eq!(events.rest(), Some(1));
        assert_eq!(events.rest(), None);
    }
}
