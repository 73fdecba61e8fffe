//! So many calls a second, with a burst after a pause.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A bucket that fills at a rate.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    most: f64,
    state: Mutex<(f64, Instant)>,
}

impl Rate {
    /// `None` for a rate that is none.
    pub(crate) fn new(per_second: f64, burst: Option<u32>) -> Option<Self> {
        if !per_second.is_finite() || per_second <= 0.0 {
            return None;
        }
        let most = burst.map_or(per_second.ceil(), f64::from).max(1.0);
        let state = Mutex::new((most, Instant::now()));
        Some(Self {
            per_second,
            most,
            state,
        })
    }

    /// Takes one, or says how long there is none.
    pub(crate) fn take(&self) -> Result<(), Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, filled) = &mut *state;
        let now = Instant::now();
        let earned = now.duration_since(*filled).as_secs_f64() * self.per_second;
        *tokens = (*tokens + earned).min(self.most);
        *filled = now;
        if *tokens >= 1.0 {
            *tokens -= 1.0;
            return Ok(());
        }
        let missing = (1.0 - *tokens) / self.per_second;
        // At least a moment, so that whoever waits gets on.
        Err(Duration::from_secs_f64(missing.clamp(0.001, 86_400.0)))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} times a second, and {} times at once after a pause",
            self.per_second, self.most
        )
    }
}
