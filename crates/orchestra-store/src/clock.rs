//! Where the store takes the time from, so that tests can set it.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use orchestra_board::Timestamp;

/// A source of the time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Now, in whole seconds.
    fn now(&self) -> Timestamp;
}

/// The operating system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_unix_seconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
    }
}
