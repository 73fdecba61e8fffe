//! How a plan stands, derived from its jobs.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::Counts;

/// Where a plan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PlanStatus {
    /// Jobs are still being added; it cannot run.
    Scaffolding,
    /// It may run and nothing has started.
    Pending,
    /// It is paused and nothing has ever started.
    PendingStart,
    /// Jobs run or could run.
    Running,
    /// It is paused and some jobs are still at work.
    Pausing,
    /// It is paused and nothing is at work.
    Paused,
    /// Every job succeeded.
    Succeeded,
    /// Some job failed and nothing is left to do.
    Failed,
    /// It was canceled.
    Canceled,
    /// It was put away after its end.
    Archived,
}

impl PlanStatus {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Scaffolding,
        Self::Pending,
        Self::PendingStart,
        Self::Running,
        Self::Pausing,
        Self::Paused,
        Self::Succeeded,
        Self::Failed,
        Self::Canceled,
        Self::Archived,
    ];

    /// The name that goes over the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scaffolding => "scaffolding",
            Self::Pending => "pending",
            Self::PendingStart => "pending-start",
            Self::Running => "running",
            Self::Pausing => "pausing",
            Self::Paused => "paused",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Archived => "archived",
        }
    }

    /// Whether nothing more happens unless a person asks for it.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::Failed | Self::Canceled | Self::Archived
        )
    }
}

impl fmt::Display for PlanStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the status of a plan is derived from.
#[derive(Clone, Copy, Debug)]
pub struct PlanFacts<'a> {
    /// It was put away.
    pub archived: bool,
    /// Its jobs are still being added.
    pub scaffolding: bool,
    /// Nothing new may start.
    pub paused: bool,
    /// Some job was ever scheduled.
    pub started: bool,
    /// A person canceled it.
    pub canceled: bool,
    /// Where its jobs stand.
    pub counts: &'a Counts,
}

impl PlanFacts<'_> {
    /// Derives the status: put away, under construction, paused, at work, waiting, canceled,
    /// failed, succeeded, in this order.
    #[must_use]
    pub const fn status(&self) -> PlanStatus {
        let counts = self.counts;
        let all_ended = counts.terminal() == counts.total();
        if self.archived {
            PlanStatus::Archived
        } else if self.scaffolding {
            if self.canceled {
                PlanStatus::Canceled
            } else {
                PlanStatus::Scaffolding
            }
        } else if self.paused && !all_ended {
            if counts.active() > 0 {
                PlanStatus::Pausing
            } else if self.started {
                PlanStatus::Paused
            } else {
                PlanStatus::PendingStart
            }
        } else if counts.active() > 0 {
            PlanStatus::Running
        } else if !all_ended {
            if self.started {
                PlanStatus::Running
            } else {
                PlanStatus::Pending
            }
        } else if self.canceled || counts.canceled > 0 {
            PlanStatus::Canceled
        } else if counts.failed > 0 || counts.blocked > 0 {
            PlanStatus::Failed
        } else {
            PlanStatus::Succeeded
        }
    }
}
