//! A registered provider: its place in the hub, and what it is still to be told.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Instant,
};

use tokio::sync::{Semaphore, watch};

use crate::{Catalog, LogLevel, Provider, ProviderId};

/// A registered provider.
pub(crate) struct Slot {
    pub(crate) id: ProviderId,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) catalog: watch::Receiver<Arc<Catalog>>,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) makes_remarks: bool,
    /// Is asked for each list anew.
    pub(crate) lists_anew: bool,
    /// Stands before its URIs where they are another's as well.
    pub(crate) uri_prefix: Option<String>,
    /// Name of the server that the provider speaks for.
    pub(crate) server: Option<String>,
    /// What the provider is still to be told, in order.
    pub(crate) changes: Mutex<VecDeque<Change>>,
    /// Held by whoever tells it.
    pub(crate) turn: Mutex<()>,
    /// When a list waited for it for the first time.
    pub(crate) awaited: OnceLock<Instant>,
    /// When a request for a URI waited for it for the first time.
    pub(crate) sought: OnceLock<tokio::time::Instant>,
}

/// A first subscriber came, or the last one left; or somebody wants to hear of more or less.
pub(crate) enum Change {
    Watch(Arc<str>),
    Unwatch(Arc<str>),
    Level(Option<LogLevel>),
}

impl Slot {
    /// Enters a change; [`run_changes`](Self::run_changes) has to follow, outside of all locks.
    pub(crate) fn change(&self, change: Change) {
        self.waiting().push_back(change);
    }

    /// Tells the provider of the changes, one after the other. Returns when those are told that
    /// were entered before, by whomever.
    pub(crate) fn run_changes(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // Not held while the provider is told.
            let change = self.waiting().pop_front();
            match change {
                Some(Change::Watch(uri)) => self.guarded(|provider| provider.watch(&uri)),
                Some(Change::Unwatch(uri)) => self.guarded(|provider| provider.unwatch(&uri)),
                Some(Change::Level(level)) => {
                    self.guarded(|provider| provider.set_log_level(level))
                }
                None => return,
            };
        }
    }

    /// Runs a provider's code that must not take others with it; `None` when it panicked.
    pub(crate) fn guarded<T>(&self, code: impl FnOnce(&dyn Provider) -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(|| code(&*self.provider)));
        if result.is_err() {
            tracing::error!(provider = %self.id, "provider panicked outside a call");
        }
        result.ok()
    }

    /// Returns whether the provider is a server that is starting: it may have tools that its catalog does not name.
    pub(crate) fn lacks_tools(&self) -> bool {
        self.server.is_some() && !self.lists_anew && !self.is_ready()
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
