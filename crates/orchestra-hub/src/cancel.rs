//! Cancellation of one call: a source that the face keeps, and signals that travel with the call.

use std::{
    future::pending,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

/// Fires the signals of one call.
#[derive(Debug, Clone, Default)]
pub struct CancelSource(Arc<State>);

/// Tells a call that its caller has cancelled.
#[derive(Debug, Clone, Default)]
pub struct CancelSignal(Option<Arc<State>>);

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    waiters: Notify,
}

impl CancelSource {
    /// A source that has not fired.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A signal that fires with this source.
    #[must_use]
    pub fn signal(&self) -> CancelSignal {
        CancelSignal(Some(Arc::clone(&self.0)))
    }

    /// Fires all signals. They stay fired.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        self.0.waiters.notify_waiters();
    }
}

impl CancelSignal {
    /// Whether the caller has cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|state| state.cancelled.load(Ordering::Acquire))
    }

    /// Waits until the caller cancels; for ever if that cannot happen.
    pub async fn cancelled(&mut self) {
        let Some(state) = &self.0 else {
            return pending().await;
        };
        let mut waiter = pin!(state.waiters.notified());
        // Enlisted before the flag is read, so that no firing falls between the two.
        waiter.as_mut().enable();
        if !state.cancelled.load(Ordering::Acquire) {
            waiter.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_fires_with_its_source_and_stays_fired() {
        let source = CancelSource::new();
        let mut signal = source.signal();
        let mut waiting = source.signal();
        let task = tokio::spawn(async move { waiting.cancelled().await });
        assert!(!signal.is_cancelled());
        source.cancel();
        task.await.unwrap();
        assert!(signal.is_cancelled());
        signal.cancelled().await;
        assert!(!CancelSignal::default().is_cancelled());
    }
}
