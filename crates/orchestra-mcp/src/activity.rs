//! When clients were last heard.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// When a server last heard something from any client. Noting it costs one store.
#[derive(Debug)]
pub(crate) struct Activity {
    begin: Instant,
    /// In milliseconds since the beginning, and one more; 0 is never.
    last: AtomicU64,
    /// Whether somebody waits to hear something.
    is_awaited: AtomicBool,
    heard: Notify,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
            last: AtomicU64::new(0),
            is_awaited: AtomicBool::new(false),
            heard: Notify::new(),
        }
    }
}

impl Activity {
    /// Notes that a client has said something.
    pub(crate) fn note(&self, now: std::time::Instant) {
        let since = now.saturating_duration_since(self.begin.into_std());
        let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX - 1);
        self.last.store(since + 1, Ordering::SeqCst);
        if self.is_awaited.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst) {
            self.heard.notify_one();
        }
    }

    /// When a client has last said something.
    pub(crate) fn last(&self) -> Option<Instant> {
        let since = self.last.load(Ordering::SeqCst).checked_sub(1)?;
        Some(self.begin + Duration::from_millis(since))
    }

    /// Completes when a client says something after this was called. For one that waits.
    pub(crate) async fn heard(&self) {
        let before = self.last.load(Ordering::SeqCst);
        self.is_awaited.store(true, Ordering::SeqCst);
        // What was said between the two may have been noted without telling.
        if self.last.load(Ordering::SeqCst) == before {
            self.heard.notified().await;
        }
    }
}
