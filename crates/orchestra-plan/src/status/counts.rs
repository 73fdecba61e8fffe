//! How many jobs stand where.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::JobStatus;

/// How many jobs stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Counts {
    /// Waiting for a dependency.
    pub pending: u32,
    /// Waiting for a slot.
    pub ready: u32,
    /// About to start.
    pub scheduled: u32,
    /// At work.
    pub running: u32,
    /// Split into further jobs.
    pub completed_split: u32,
    /// Done.
    pub succeeded: u32,
    /// Failed.
    pub failed: u32,
    /// Behind something that failed.
    pub blocked: u32,
    /// Canceled.
    pub canceled: u32,
}

impl Counts {
    /// How many jobs are in a state.
    #[must_use]
    pub const fn of(&self, status: JobStatus) -> u32 {
        match status {
            JobStatus::Pending => self.pending,
            JobStatus::Ready => self.ready,
            JobStatus::Scheduled => self.scheduled,
            JobStatus::Running => self.running,
            JobStatus::CompletedSplit => self.completed_split,
            JobStatus::Succeeded => self.succeeded,
            JobStatus::Failed => self.failed,
            JobStatus::Blocked => self.blocked,
            JobStatus::Canceled => self.canceled,
        }
    }

    const fn slot(&mut self, status: JobStatus) -> &mut u32 {
        match status {
            JobStatus::Pending => &mut self.pending,
            JobStatus::Ready => &mut self.ready,
            JobStatus::Scheduled => &mut self.scheduled,
            JobStatus::Running => &mut self.running,
            JobStatus::CompletedSplit => &mut self.completed_split,
            JobStatus::Succeeded => &mut self.succeeded,
            JobStatus::Failed => &mut self.failed,
            JobStatus::Blocked => &mut self.blocked,
            JobStatus::Canceled => &mut self.canceled,
        }
    }

    /// Counts one job more in a state.
    pub const fn add(&mut self, status: JobStatus) {
        let slot = self.slot(status);
        *slot = slot.saturating_add(1);
    }

    /// Counts one job less in a state.
    pub const fn remove(&mut self, status: JobStatus) {
        let slot = self.slot(status);
        *slot = slot.saturating_sub(1);
    }

    /// Moves one job from one state to another.
    pub const fn shift(&mut self, from: JobStatus, to: JobStatus) {
        self.remove(from);
        self.add(to);
    }

    /// How many jobs there are.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.pending + self.ready + self.active() + self.terminal()
    }

    /// How many have ended.
    #[must_use]
    pub const fn terminal(&self) -> u32 {
        self.succeeded + self.failed + self.blocked + self.canceled
    }

    /// How many hold a slot.
    #[must_use]
    pub const fn active(&self) -> u32 {
        self.scheduled + self.running + self.completed_split
    }

    /// Ended jobs of all jobs, in whole percent; 100 only when all have ended.
    #[must_use]
    pub fn progress(&self) -> u8 {
        self.percent(self.terminal())
    }

    /// Succeeded jobs of all jobs, in whole percent; 100 only when all have succeeded.
    #[must_use]
    pub fn share_succeeded(&self) -> u8 {
        self.percent(self.succeeded)
    }

    fn percent(&self, jobs: u32) -> u8 {
        let total = u64::from(self.total()).max(1);
        u8::try_from(u64::from(jobs) * 100 / total).unwrap_or(100)
    }
}
