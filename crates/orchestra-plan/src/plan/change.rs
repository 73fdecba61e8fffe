//! What an event changes, and what a plan remembers of it.

use crate::event::{Act, PauseReason};
use crate::ids::{AttemptNumber, JobId, Millis};
use crate::status::{IllegalTransition, JobStatus, PlanStatus, Transition};

/// A time in which nothing new started.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// When it began.
    pub paused_at: Millis,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Millis>,
    /// Why.
    pub reason: PauseReason,
}

/// A change of a plan's status, or of what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlanChange {
    /// The status before.
    pub from: PlanStatus,
    /// The status after.
    pub to: PlanStatus,
    /// When.
    pub at: Millis,
    /// By what.
    pub reason: String,
}

/// What an event has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "an event that does not fit is told of here alone"]
pub struct Changes {
    /// Jobs that changed their state, in order; one job may be here more than once.
    pub moves: Vec<Move>,
    /// Jobs whose definition changed, and with it what they count as.
    pub edited: Vec<JobId>,
    /// The graph itself has changed: all that was kept of it is to be read anew.
    pub relinked: bool,
    /// The status of the plan, where it changed.
    pub status: Option<(PlanStatus, PlanStatus)>,
    /// The plan has just ended: its last job did. This comes once, and once more after each retry.
    pub ended: bool,
    /// Jobs whose worktree nobody needs any longer.
    pub removable: Vec<JobId>,
    /// Why the event does not fit the plan; it has changed nothing but the version then.
    pub refused: Option<Misfit>,
}

/// Why an event does not fit a plan. What is decided always fits: an event that does not is of
/// another plan, or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The machine does not have that move.
    #[error(transparent)]
    Transition(#[from] IllegalTransition),
    /// It is of a job that there is not.
    #[error("the plan has no job with the id {0}")]
    NoJob(JobId),
    /// It adds a job whose id or producer id is taken.
    #[error("the plan already has a job with the id or the producer id of {0}")]
    Duplicate(JobId),
    /// It is of an attempt that is not under way, or begins one that is not next.
    #[error("attempt {attempt} of job {job} is neither running nor the next one")]
    Attempt {
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: AttemptNumber,
    },
    /// It begins or ends an act that is not next or under way.
    #[error("{act} of job {job} is neither running nor the next step")]
    Act {
        /// The job.
        job: JobId,
        /// The act.
        act: Act,
    },
    /// It ends an act without the commit that others build on.
    #[error("job {0} ended without a commit")]
    NoCommit(JobId),
    /// It tells of a move of the target that was not intended.
    #[error("job {0} did not announce an update of the target branch")]
    NoIntent(JobId),
    /// The plan was created before.
    #[error("the plan already exists")]
    Created,
}

/// A job that changed its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub job: JobId,
    /// The state before.
    pub from: JobStatus,
    /// The state after. A job that is not active any more has no process of its own: who still runs
    /// one for it ends it.
    pub to: JobStatus,
}

/// A log that no plan can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It has no events.
    #[error("the log of the plan is empty")]
    Empty,
    /// It starts with something else than the plan's creation.
    #[error("the log does not start with the creation of a plan")]
    NoStart,
    /// One of its events does not fit what those before it have made.
    #[error("event {number} of the log contradicts the events before it: {misfit}")]
    Misfit {
        /// Which, counted from 1.
        number: u64,
        /// Why.
        misfit: Misfit,
    },
}

/// A change of a job's state.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The state before.
    pub from: JobStatus,
    /// The state after.
    pub to: JobStatus,
    /// By which move.
    pub by: Transition,
    /// When.
    pub at: Millis,
    /// Why, where there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
