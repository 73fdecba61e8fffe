//! When clients were last heard.

use std::{
    pin::pin,
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
            self.heard.notify_waiters();
        }
    }

    /// When a client has last said something.
    pub(crate) fn last(&self) -> Option<Instant> {
        let since = self.last.load(Ordering::SeqCst).checked_sub(1)?;
        Some(self.begin + Duration::from_millis(since))
    }

    /// Completes when a client says something after this was called. Any number may wait.
    pub(crate) async fn heard(&self) {
        let before = self.last.load(Ordering::SeqCst);
        let mut heard = pin!(self.heard.notified());
        // Enlisted before it is said that somebody waits, so that whoever sees it wakes this one.
        heard.as_mut().enable();
        self.is_awaited.store(true, Ordering::SeqCst);
        // What was said before that was noted without telling.
        if self.last.load(Ordering::SeqCst) == before {
            heard.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use futures_util::future::join;

    use super::*;

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn all_who_wait_hear_and_whoever_comes_later_waits() {
        let activity = Activity::default();
        let now = std::time::Instant::now();
        for turn in 1..3 {
            let mut both = pin!(join(activity.heard(), activity.heard()));
            assert_eq!(poll(both.as_mut()), Poll::Pending);
            activity.note(now + Duration::from_secs(turn));
            assert_eq!(poll(both.as_mut()), Poll::Ready(((), ())));
        }
        // One that gave up keeps nobody from hearing.
        assert_eq!(poll(pin!(activity.heard()).as_mut()), Poll::Pending);
        let mut last = pin!(activity.heard());
        assert_eq!(poll(last.as_mut()), Poll::Pending);
        activity.note(now + Duration::from_secs(9));
        assert_eq!(poll(last.as_mut()), Poll::Ready(()));
    }
}
