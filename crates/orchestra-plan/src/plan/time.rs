//! How long plans take, and how long they may.

use crate::ids::Millis;
use crate::plan::{Job, Plan};

impl Plan {
    /// How long it has been at work until `now`. Time in which it had ended, or was paused and
    /// nothing ran, does not count.
    #[must_use]
    pub fn wall_ms(&self, now: Millis) -> u64 {
        let more = self
            .at_work_since
            .map_or(0, |since| now.get().saturating_sub(since.get()));
        self.spent_ms.saturating_add(more)
    }

    /// The first time at which a budget of wall time is used up, if nothing changes.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        let since = self.at_work_since.filter(|_| !self.active.is_empty());
        let own = since
            .zip(self.settings.budget.wall_ms)
            .map(|(since, wall)| {
                let left = wall.get().saturating_sub(self.spent_ms);
                since.after(std::time::Duration::from_millis(left))
            });
        let jobs = self.active().filter_map(Job::deadline).min();
        own.into_iter().chain(jobs).min()
    }
}

impl Job {
    /// The wall time of all its attempts until `now`.
    #[must_use]
    pub fn wall_ms(&self, now: Millis) -> u64 {
        self.spent_ms
            .saturating_add(self.running().map_or(0, |attempt| attempt.wall_ms(now)))
    }

    /// When its budget of wall time is used up, if its attempt goes on.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        let wall = self.definition.budget.wall_ms?;
        let left = wall.get().saturating_sub(self.spent_ms);
        Some(
            self.running()?
                .started_at
                .after(std::time::Duration::from_millis(left)),
        )
    }
}
