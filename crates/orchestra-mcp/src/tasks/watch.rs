//! Who wants to hear of changes of tasks. A watcher is told which tasks changed and looks itself,
//! so that one who is slow misses states in between and nothing else.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::Notify;

use super::TaskId;

/// The tasks that one connection watches and that changed.
#[derive(Debug, Default)]
pub(crate) struct TaskWatch {
    changed: Mutex<BTreeSet<TaskId>>,
    bell: Notify,
}

/// All watchers.
#[derive(Debug, Default)]
pub(super) struct Watchers(HashMap<TaskId, Vec<Weak<TaskWatch>>>);

impl TaskWatch {
    /// Waits until a task has changed.
    pub(crate) async fn rung(&self) {
        while self.with(|changed| changed.is_empty()) {
            self.bell.notified().await;
        }
    }

    /// Takes a task that has changed, if there is one.
    pub(crate) fn take(&self) -> Option<TaskId> {
        self.with(BTreeSet::pop_first)
    }

    fn tell(&self, id: TaskId) {
        self.with(|changed| changed.insert(id));
        self.bell.notify_one();
    }

    fn with<T>(&self, use_changed: impl FnOnce(&mut BTreeSet<TaskId>) -> T) -> T {
        use_changed(&mut self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Watchers {
    pub(super) fn watch(&mut self, id: TaskId, watch: &Arc<TaskWatch>) {
        let watchers = self.0.entry(id).or_default();
        let is = |other: &Weak<TaskWatch>| Weak::ptr_eq(other, &Arc::downgrade(watch));
        watchers.retain(|other| other.strong_count() > 0 && !is(other));
        watchers.push(Arc::downgrade(watch));
        watch.tell(id);
    }

    pub(super) fn unwatch(&mut self, id: TaskId, watch: &Arc<TaskWatch>) {
        let Some(watchers) = self.0.get_mut(&id) else {
            return;
        };
        let is = |other: &Weak<TaskWatch>| Weak::ptr_eq(other, &Arc::downgrade(watch));
        watchers.retain(|other| other.strong_count() > 0 && !is(other));
        if watchers.is_empty() {
            self.0.remove(&id);
        }
    }

    pub(super) fn tell(&self, id: TaskId) {
        let watchers = self.0.get(&id).into_iter().flatten();
        watchers
            .filter_map(Weak::upgrade)
            .for_each(|watch| watch.tell(id));
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        self.0.remove(&id);
    }
}
