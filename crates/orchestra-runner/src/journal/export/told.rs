//! What is to be written into the readable files, as others tell it to the thread that writes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::journal::PlanKey;

/// What is to be written, as others tell it.
#[derive(Debug, Default)]
pub(in crate::journal) struct Told {
    state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// With how many events each.
    pub(super) live: BTreeMap<PlanKey, u64>,
    pub(super) dead: BTreeSet<PlanKey>,
    /// How many times something was told, and how many of these are in the files.
    pub(super) told: u64,
    pub(super) done: u64,
    pub(super) is_urgent: bool,
    /// Do what is told, then end.
    pub(super) closes: bool,
    /// End.
    pub(super) stops: bool,
}

impl Told {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, tell: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        tell(&mut state);
        state.told += 1;
        drop(state);
        self.changed.notify_all();
    }

    pub(in crate::journal) fn changed(&self, plan: &PlanKey, number: u64) {
        self.tell(|state| {
            state.live.insert(plan.clone(), number);
        });
    }

    pub(in crate::journal) fn deleted(&self, plan: &PlanKey) {
        self.tell(|state| {
            state.live.remove(plan);
            state.dead.insert(plan.clone());
        });
    }

    /// Waits for something to do, and for a breath longer for more of it; `None` at the end.
    pub(super) fn next(
        &self,
        breath: Duration,
    ) -> Option<(BTreeMap<PlanKey, u64>, BTreeSet<PlanKey>, u64)> {
        let mut state = self.lock();
        let mut since = None;
        loop {
            if state.stops {
                return None;
            }
            let is_idle = state.live.is_empty() && state.dead.is_empty();
            if is_idle && state.closes {
                return None;
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if !is_idle && (state.is_urgent || state.closes || waited >= breath) {
                state.is_urgent = false;
                let work = (
                    std::mem::take(&mut state.live),
                    std::mem::take(&mut state.dead),
                );
                return Some((work.0, work.1, state.told));
            }
            state = if is_idle {
                since = None;
                let waiting = self.changed.wait(state);
                waiting.unwrap_or_else(PoisonError::into_inner)
            } else {
                let waiting = self.changed.wait_timeout(state, breath - waited);
                waiting.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    pub(super) fn done(&self, told: u64) {
        self.lock().done = told;
        self.changed.notify_all();
    }
}
