//! When clients were last heard.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// Set in the count while somebody waits to hear something.
const AWAITED: u64 = 1;

/// What one thing that was said adds to the count.
const ONE: u64 = 2;

/// When a server last heard something from any client. Noting it costs one store and one addition.
#[derive(Debug)]
pub(crate) struct Activity {
    begin: Instant,
    /// In milliseconds since the beginning, and one more; 0 is never.
    last: AtomicU64,
    /// How many things were said, and whether somebody waits for the next. In one number, so that
    /// either who waits sees what was said, or who says it sees that somebody waits.
    count: AtomicU64,
    heard: Notify,
}

/// What had been said at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SoFar(u64);

impl Default for Activity {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
            last: AtomicU64::new(0),
            count: AtomicU64::new(0),
            heard: Notify::new(),
        }
    }
}

impl Activity {
    /// Notes that a client has said something.
    pub(crate) fn note(&self, now: std::time::Instant) {
        let since = now.saturating_duration_since(self.begin.into_std());
        let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX - 1);
        self.last.store(since + 1, Ordering::Relaxed);
        // Whoever sees this count sees that time.
        if self.count.fetch_add(ONE, Ordering::AcqRel) & AWAITED != 0 {
            self.count.fetch_and(!AWAITED, Ordering::AcqRel);
            self.heard.notify_waiters();
        }
    }

    /// What was said until now. [`last`](Self::last) is to be asked after it.
    pub(crate) fn so_far(&self) -> SoFar {
        SoFar(self.count.load(Ordering::Acquire) & !AWAITED)
    }

    /// When a client has last said something.
    pub(crate) fn last(&self) -> Option<Instant> {
        let since = self.last.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.begin + Duration::from_millis(since))
    }

    /// Completes when a client has sent something.
    pub(crate) async fn heard(&self) {
        self.heard_since(SoFar(0)).await;
    }

    /// Completes when a client has said something since `seen`. Any number may wait.
    pub(crate) async fn heard_since(&self, seen: SoFar) {
        loop {
            let mut heard = pin!(self.heard.notified());
            // Enlisted before it is said that somebody waits, so that whoever sees it wakes this
            // one.
            heard.as_mut().enable();
            let count = self.count.fetch_or(AWAITED, Ordering::AcqRel);
            if SoFar(count & !AWAITED) != seen {
                return;
            }
            // What wakes it may have been said before, to others who waited.
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
        for _ in 1..3 {
            let seen = activity.so_far();
            let mut both = pin!(join(activity.heard_since(seen), activity.heard_since(seen)));
            assert_eq!(poll(both.as_mut()), Poll::Pending);
            // What is said at the same time as before is heard as well.
            activity.note(now);
            assert_eq!(poll(both.as_mut()), Poll::Ready(((), ())));
        }
        let seen = activity.so_far();
        // One that gave up keeps nobody from hearing.
        assert_eq!(
            poll(pin!(activity.heard_since(seen)).as_mut()),
            Poll::Pending
        );
        let mut last = pin!(activity.heard_since(seen));
        assert_eq!(poll(last.as_mut()), Poll::Pending);
        activity.note(now);
        assert_eq!(poll(last.as_mut()), Poll::Ready(()));
    }

    #[test]
    fn what_is_said_before_somebody_waits_for_it_is_heard() {
        let activity = Activity::default();
        let now = std::time::Instant::now();
        activity.note(now);
        let seen = activity.so_far();
        let mut heard = pin!(activity.heard_since(seen));
        activity.note(now);
        assert_eq!(poll(heard.as_mut()), Poll::Ready(()));
        let mut next = pin!(activity.heard_since(activity.so_far()));
        assert_eq!(poll(next.as_mut()), Poll::Pending);
    }
}
