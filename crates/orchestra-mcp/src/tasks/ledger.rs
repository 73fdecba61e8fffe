//! The tasks there are, pure: moments and events in, states out. Bounded in number, bytes and time.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use orchestra_hub::{Answers, CancelSource};
use orchestra_wire::{ErrorCode, RpcError, shown};
use tokio::sync::Notify;

use super::{
    TaskId, TaskLimits,
    state::{Event, Impossible, State},
};
use crate::http::Identity;

/// A moment on the clock that only goes forward, and on the one that people read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    pub(super) wall: SystemTime,
}

/// All tasks.
#[derive(Debug)]
pub(super) struct Ledger {
    limits: TaskLimits,
    tasks: HashMap<TaskId, Entry>,
    /// What is kept for all tasks, in bytes.
    held: usize,
}

/// One task.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) message: Option<String>,
    pub(super) created: Moment,
    pub(super) changed: Moment,
    /// Nobody else finds it. One of [`Identity::Anyone`] is found by whoever knows its id.
    owner: Identity,
    cancel: CancelSource,
    /// What is kept for it, in bytes.
    held: usize,
    /// When its progress was told last.
    told: Option<Instant>,
    /// Rings for whoever runs it.
    bell: Arc<Notify>,
}

/// What a task begins with.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) owner: Identity,
    pub(crate) cancel: CancelSource,
    /// What is kept for its call, in bytes.
    pub(crate) bytes: usize,
}

/// What whoever runs a task is to do.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Make the call again.
    Again(Answers),
    /// Ask again when the bell rings, and then.
    Wait(Arc<Notify>, Instant),
    /// Nothing: the task is forgotten.
    Over,
}

impl Ledger {
    pub(super) fn new(limits: TaskLimits) -> Self {
        Self {
            limits,
            tasks: HashMap::new(),
            held: 0,
        }
    }

    pub(super) const fn limits(&self) -> &TaskLimits {
        &self.limits
    }

    /// Whether one more task can be kept whose call has so many bytes.
    pub(super) fn has_room(&mut self, bytes: usize, now: Instant) -> bool {
        if self.tasks.len() >= self.limits.count || self.held + bytes > self.limits.bytes {
            self.forget_expired(now);
        }
        self.tasks.len() < self.limits.count && self.held + bytes <= self.limits.bytes
    }

    /// Keeps a task that begins; false when there is no room for it.
    pub(super) fn create(&mut self, id: TaskId, created: Created, now: Moment) -> bool {
        if !self.has_room(created.bytes, now.instant) {
            return false;
        }
        self.held += created.bytes;
        let entry = Entry {
            state: State::Working { answers: None },
            message: None,
            created: now,
            changed: now,
            owner: created.owner,
            cancel: created.cancel,
            held: created.bytes,
            told: None,
            bell: Arc::default(),
        };
        self.tasks.insert(id, entry);
        true
    }

    pub(super) fn find(&self, id: TaskId) -> Option<&Entry> {
        self.tasks.get(&id)
    }

    /// A task that has not expired, for its owner.
    pub(super) fn find_for(&self, id: TaskId, owner: Identity, now: Instant) -> Option<&Entry> {
        let found = self.tasks.get(&id).filter(|task| task.owner == owner);
        found.filter(|task| !task.is_expired(&self.limits, now))
    }

    /// Takes an event; says whether the task is another one now.
    pub(super) fn happened(&mut self, id: TaskId, event: Event, now: Moment) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else {
            return false;
        };
        let others = self.held - task.held;
        let event = within(event, self.limits.bytes.saturating_sub(others), task);
        let message = event.message();
        let state = std::mem::replace(&mut task.state, State::Cancelled);
        let (state, changed) = match state.after(event) {
            Ok(after) => after,
            Err((state, Impossible)) => {
                tracing::error!(%id, "ignored a state change that the task's current state does not allow");
                (state, false)
            }
        };
        task.state = state;
        if changed {
            task.changed = now;
            task.message = message;
            task.bell.notify_one();
        }
        task.count();
        self.held = others + task.held;
        changed
    }

    /// Cancels a task, or its call, which says itself when it has ended. Says whether the task is
    /// another one now.
    pub(super) fn cancel(&mut self, id: TaskId, now: Moment) -> bool {
        let Some(task) = self.tasks.get(&id) else {
            return false;
        };
        task.cancel.cancel();
        match task.state {
            State::Waiting(_) => {
                self.happened(id, Event::Cancelled("cancelled by the client"), now)
            }
            _ => false,
        }
    }

    /// Fires every task's cancellation.
    pub(super) fn cancel_all(&mut self) {
        self.tasks.values().for_each(|task| task.cancel.cancel());
    }

    /// Notes how far a call is; says whether it is time to tell of it.
    pub(super) fn progress(
        &mut self,
        id: TaskId,
        message: &str,
        now: Moment,
        tell_every: Duration,
    ) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else {
            return false;
        };
        if !matches!(task.state, State::Working { .. }) {
            return false;
        }
        task.message = Some(shown(message).into_owned());
        task.changed = now;
        let soon = |told| now.instant.saturating_duration_since(told) < tell_every;
        if task.told.is_some_and(soon) {
            return false;
        }
        task.told = Some(now.instant);
        true
    }

    /// What whoever runs a task is to do now.
    pub(super) fn turn(&mut self, id: TaskId, now: Instant) -> Turn {
        let Some(task) = self.tasks.get_mut(&id) else {
            return Turn::Over;
        };
        if let State::Working { answers } = &mut task.state
            && let Some(answers) = answers.take()
        {
            return Turn::Again(answers);
        }
        if task.is_expired(&self.limits, now) {
            self.forget(id);
            return Turn::Over;
        }
        Turn::Wait(
            Arc::clone(&task.bell),
            task.changed.instant + self.limits.keep,
        )
    }

    fn forget_expired(&mut self, now: Instant) {
        let expired = |(id, task): (&TaskId, &Entry)| {
            let expired = task.is_expired(&self.limits, now);
            expired.then_some(*id)
        };
        let expired: Vec<TaskId> = self.tasks.iter().filter_map(expired).collect();
        expired.into_iter().for_each(|id| self.forget(id));
    }

    fn forget(&mut self, id: TaskId) {
        if let Some(task) = self.tasks.remove(&id) {
            self.held -= task.held;
            task.bell.notify_one();
        }
    }
}

impl Entry {
    /// Whether nothing happens to it any more.
    pub(super) const fn is_over(&self) -> bool {
        matches!(
            self.state,
            State::Completed(_) | State::Failed(_) | State::Cancelled
        )
    }

    /// How long after its creation it is kept at least, as it can be said now.
    pub(super) fn lasts(&self, limits: &TaskLimits, now: Instant) -> Duration {
        let from = match self.state {
            // A call that runs is not forgotten, so that this is put off for as long.
            State::Working { .. } => now.max(self.changed.instant),
            _ => self.changed.instant,
        };
        from.saturating_duration_since(self.created.instant) + limits.keep
    }

    fn is_expired(&self, limits: &TaskLimits, now: Instant) -> bool {
        let is_working = matches!(self.state, State::Working { .. });
        !is_working && now >= self.changed.instant + limits.keep
    }

    /// Counts anew what is kept for it: when it is over, its call is not.
    fn count(&mut self) {
        match &self.state {
            State::Working { .. } | State::Waiting(_) => {}
            State::Completed(bytes) | State::Failed(bytes) => self.held = bytes.len(),
            State::Cancelled => self.held = 0,
        }
    }
}

/// The same event, counted; or a failure when what it brings does not fit into `room`.
fn within(event: Event, room: usize, task: &mut Entry) -> Event {
    match event {
        Event::Completed(result) if result.len() > room => Event::Failed(no_room()),
        Event::Failed(error) if bytes_of(&error) > room => Event::Failed(no_room()),
        Event::Asked(waiting) => {
            task.held += waiting.bytes();
            if task.held > room {
                return Event::Failed(no_room());
            }
            Event::Asked(waiting)
        }
        Event::Given(mut responses) => {
            let State::Waiting(waiting) = &task.state else {
                return Event::Given(Vec::new());
            };
            responses.retain(|(key, _)| waiting.asks(key));
            let bytes = responses.iter().map(|(_, answer)| answer.as_bytes().len());
            task.held += bytes.sum::<usize>();
            if task.held > room {
                return Event::Failed(no_room());
            }
            Event::Given(responses)
        }
        event => event,
    }
}

fn bytes_of(error: &RpcError) -> usize {
    let data = error.data.as_ref().map_or(0, |data| data.as_bytes().len());
    error.message.len() + data
}

fn no_room() -> RpcError {
    let text = "result_too_large: more is kept for tasks than there is room for";
    RpcError::new(ErrorCode::INTERNAL_ERROR, text)
}

#[cfg(test)]
mod tests;
