//! The states of jobs and plans, and every move between them.
//!
//! [`JobStatus::after`] is the only place that says which move is legal. What a person asks for
//! outside the usual course (a retry, a recovery, a forced failure) is a named move of the same
//! machine, so that it has the same effects on dependents, groups and the plan as any other. The
//! status of a plan is never kept: [`PlanFacts::status`] derives it.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod counts;
mod plan;

pub use counts::Counts;
pub use plan::{PlanFacts, PlanStatus};

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// A dependency has not succeeded yet.
    Pending,
    /// It could start; a slot is all that is missing.
    Ready,
    /// It holds a slot and is about to start.
    Scheduled,
    /// An attempt is under way.
    Running,
    /// Its agent handed the rest of its work to new jobs.
    CompletedSplit,
    /// Done.
    Succeeded,
    /// Its last attempt failed and no other follows by itself.
    Failed,
    /// Something upstream failed, so it cannot start.
    Blocked,
    /// The plan was canceled before it ended.
    Canceled,
}

impl JobStatus {
    /// All of them, in the order in which counts are shown.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Ready,
        Self::Scheduled,
        Self::Running,
        Self::CompletedSplit,
        Self::Succeeded,
        Self::Failed,
        Self::Blocked,
        Self::Canceled,
    ];

    /// The name that goes over the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::CompletedSplit => "completed_split",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Canceled => "canceled",
        }
    }

    /// Whether the job has ended, until a person asks for it again.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::Failed | Self::Blocked | Self::Canceled
        )
    }

    /// Whether the job holds a slot: from being scheduled to its end.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Scheduled | Self::Running | Self::CompletedSplit)
    }

    /// Whether nothing of it has begun, so that its definition may be changed by a reshape.
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Pending | Self::Ready)
    }

    /// Whether it ended without what its dependents wait for.
    #[must_use]
    pub const fn is_dead(self) -> bool {
        matches!(self, Self::Failed | Self::Blocked | Self::Canceled)
    }

    /// The state after a move.
    ///
    /// # Errors
    /// When the move is not legal from here; nothing has changed then.
    pub const fn after(self, transition: Transition) -> Result<Self, IllegalTransition> {
        use Transition as T;
        let next = match (self, transition) {
            (Self::Pending, T::Unlock) | (Self::Running, T::Heal) => Self::Ready,
            (Self::Scheduled | Self::Running, T::Recover) => Self::Ready,
            (Self::Ready, T::Await) | (Self::Blocked, T::Release) | (Self::Failed, T::Retry) => {
                Self::Pending
            }
            (Self::Failed | Self::Blocked | Self::Canceled, T::Revive) => Self::Pending,
            (Self::Ready, T::Schedule) => Self::Scheduled,
            (Self::Scheduled, T::Start) => Self::Running,
            (Self::Running, T::Split) => Self::CompletedSplit,
            (Self::Running | Self::CompletedSplit, T::Succeed) => Self::Succeeded,
            (Self::Scheduled | Self::Running | Self::CompletedSplit, T::Fail) => Self::Failed,
            (Self::Ready | Self::Scheduled | Self::Running | Self::CompletedSplit, T::Exhaust) => {
                Self::Failed
            }
            (
                Self::Pending
                | Self::Ready
                | Self::Scheduled
                | Self::Running
                | Self::CompletedSplit,
                T::ForceFail,
            ) => Self::Failed,
            (Self::Pending | Self::Ready, T::Block) => Self::Blocked,
            (
                Self::Pending
                | Self::Ready
                | Self::Scheduled
                | Self::Running
                | Self::CompletedSplit,
                T::Cancel,
            ) => Self::Canceled,
            _ => {
                return Err(IllegalTransition {
                    from: self,
                    transition,
                });
            }
        };
        Ok(next)
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A move of a job from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Transition {
    /// Its last dependency has succeeded.
    Unlock,
    /// A reshape gave it a dependency that has not succeeded yet.
    Await,
    /// It was given a slot.
    Schedule,
    /// Its attempt began.
    Start,
    /// Its last phase went well.
    Succeed,
    /// Its agent handed on the rest of its work.
    Split,
    /// A phase failed and nothing follows by itself.
    Fail,
    /// A phase failed, and by the plan's own rules another attempt follows.
    Heal,
    /// Who ran it is gone, or it never came to start: it waits for a slot again.
    Recover,
    /// A person asks for it again.
    Retry,
    /// What had blocked it was retried.
    Release,
    /// The plan was canceled or failed, and a person brings it back.
    Revive,
    /// Something upstream failed.
    Block,
    /// The plan was canceled.
    Cancel,
    /// A person declares it failed.
    ForceFail,
    /// A budget is used up.
    Exhaust,
}

impl Transition {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Unlock,
        Self::Await,
        Self::Schedule,
        Self::Start,
        Self::Succeed,
        Self::Split,
        Self::Fail,
        Self::Heal,
        Self::Recover,
        Self::Retry,
        Self::Release,
        Self::Revive,
        Self::Block,
        Self::Cancel,
        Self::ForceFail,
        Self::Exhaust,
    ];

    /// The name that histories show.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unlock => "unlock",
            Self::Await => "await",
            Self::Schedule => "schedule",
            Self::Start => "start",
            Self::Succeed => "succeed",
            Self::Split => "split",
            Self::Fail => "fail",
            Self::Heal => "heal",
            Self::Recover => "recover",
            Self::Retry => "retry",
            Self::Release => "release",
            Self::Revive => "revive",
            Self::Block => "block",
            Self::Cancel => "cancel",
            Self::ForceFail => "force-fail",
            Self::Exhaust => "exhaust",
        }
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A move that the machine does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {transition} a job that is {from}")]
pub struct IllegalTransition {
    /// The state it was in.
    pub from: JobStatus,
    /// The move that was tried.
    pub transition: Transition,
}

#[cfg(test)]
mod tests;
