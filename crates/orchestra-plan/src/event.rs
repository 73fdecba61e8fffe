//! What has happened to a plan: the entries of its log.
//!
//! A log is only ever added to, and a plan is what its log says
//! ([`Plan::replay`](crate::plan::Plan::replay)). Every decision that depends on configuration is
//! written down with its result, so that a log means the same tomorrow under another configuration.
//! What follows from an event by the rules of the state machine alone (a dependent becomes ready,
//! what is downstream is blocked, the plan ends) is not an event: the fold works it out.
//!
//! On disk an event is `{"v":1,"at":…,"what":{"type":…}}`. A reader that meets a later version, a
//! type that it does not know or an unknown field refuses the log instead of guessing. The types that
//! people's input is read by are the types of the log too, so their limits only ever widen; the logs
//! in `tests/logs` are read, and folded to the same plan, for ever.

use serde::{Deserialize, Serialize};

use crate::budget::{Exceeded, Usage};
use crate::definition::JobDefinition;
use crate::ids::{AttemptNumber, Commit, JobId, Millis, PlanId, ProducerId};
use crate::pressure::Filled;
use crate::spec::{Budget, MaxParallel};
use crate::value::Env;

mod attempt;
mod parts;

pub(crate) use attempt::truncate;
pub use attempt::{
    Act, AttemptEnd, Failure, FailureKind, MergeIntent, Next, Process, Trigger, WorkSummary,
};
pub use parts::{Branches, Check, Created, JobChange, PauseReason, Rewired};

/// The version of the events in this file; a log of a later version is refused.
pub const VERSION: u32 = 1;

/// The version that an event was written in: read before anything else of it, and refused where it
/// is later than [`VERSION`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version;

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(VERSION)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let version = u32::deserialize(deserializer)?;
        match version {
            1..=VERSION => Ok(Self),
            _ => Err(serde::de::Error::custom(format_args!(
                "the event is of version {version}, and this program reads up to {VERSION}: use a \
                 newer one"
            ))),
        }
    }
}

/// One entry of a plan's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Event {
    /// The version of its form.
    pub v: Version,
    /// When it was decided.
    pub at: Millis,
    /// Who asked for it; absent where it follows from the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The idempotency key of the command that it came from, on the first event of that command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What happened.
    pub what: What,
}

impl Event {
    /// An event that nobody asked for by a command.
    #[must_use]
    pub const fn new(at: Millis, what: What) -> Self {
        Self {
            v: Version,
            at,
            by: None,
            key: None,
            what,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum What {
    /// The plan came to be; always the first event of a log.
    PlanCreated(Box<Created>),
    /// Jobs were added while the plan was under construction.
    JobsAdded {
        /// In the order of their definition.
        jobs: Vec<JobDefinition>,
    },
    /// The plan is complete and may run.
    PlanFinalized {
        /// The job that validates the snapshot and merges it.
        validation: Box<JobDefinition>,
        /// Why it does not run yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        paused: Option<PauseReason>,
    },
    /// Settings of the plan were changed; an absent field was not.
    PlanUpdated {
        /// The environment, whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        env: Option<Env>,
        /// The plan's own limit; 0 sets none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_parallel: Option<MaxParallel>,
        /// What it may use up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<Budget>,
    },
    /// The plan waits for another one, or no longer.
    PlanChained {
        /// The other plan; absent where the link was dropped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<PlanId>,
    },
    /// Nothing new starts.
    PlanPaused {
        /// Why.
        reason: PauseReason,
    },
    /// Jobs may start again.
    PlanResumed {},
    /// All that had not ended was canceled.
    PlanCanceled {
        /// In words.
        reason: String,
    },
    /// A canceled or failed plan was brought back, paused.
    PlanRecovered {},
    /// Its worktrees and branches were put away.
    PlanArchived {},
    /// It is to be removed with all its data.
    PlanDeleted {},
    /// Target and snapshot are prepared.
    BranchesReady {
        /// Where everything is.
        branches: Box<Branches>,
    },
    /// A budget of the plan or of a job is used up.
    BudgetExceeded {
        /// The job, where the budget is a job's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<JobId>,
        /// Which limit.
        exceeded: Exceeded,
    },
    /// A reshape added a job.
    JobAdded {
        /// The job.
        job: Box<JobDefinition>,
    },
    /// A reshape removed a job; its dependents inherited its dependencies.
    JobRemoved {
        /// Which.
        job: JobId,
    },
    /// A reshape replaced what jobs depend on.
    DependenciesChanged {
        /// Which, and what they depend on now.
        jobs: Vec<Rewired>,
    },
    /// The definition of a job was changed.
    JobUpdated {
        /// Which.
        job: JobId,
        /// What.
        change: Box<JobChange>,
    },
    /// It holds a slot.
    JobScheduled {
        /// Which.
        job: JobId,
    },
    /// It gave its slot back before it began.
    JobReturned {
        /// Which.
        job: JobId,
        /// Why.
        reason: String,
    },
    /// A person asked for a failed job again.
    JobRetried {
        /// Which.
        job: JobId,
        /// What the next attempt does.
        next: Next,
    },
    /// A person declared a job failed.
    JobForceFailed {
        /// Which.
        job: JobId,
        /// Why.
        reason: String,
    },
    /// An attempt is under way.
    AttemptBegan {
        /// Of this job.
        job: JobId,
        /// Its number.
        attempt: AttemptNumber,
        /// Why there is an attempt.
        trigger: Trigger,
        /// What it does, in order.
        acts: Vec<Act>,
    },
    /// A worktree is there, new or found again.
    WorktreeReady {
        /// Of this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
        /// Where.
        path: String,
        /// The commit that the job starts from.
        base: Commit,
        /// Whether it was made for this attempt.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fresh: bool,
        /// Whether the repository says itself how a worktree is made ready.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        sets_up: bool,
    },
    /// An act is about to be done.
    ActBegan {
        /// Of this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
        /// Which.
        act: Act,
    },
    /// A process does the act.
    ProcessStarted {
        /// Of this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
        /// Which process.
        process: Process,
    },
    /// An agent named its session.
    SessionKnown {
        /// Of this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
        /// The session.
        session: String,
    },
    /// The context of an agent has filled up further: told when what that means changes.
    ContextFilled {
        /// Of this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
        /// How far.
        filled: Filled,
    },
    /// What an agent has used since it was last told; the act goes on.
    UsageAdded {
        /// Of this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
        /// How much more.
        usage: Usage,
    },
    /// An act went well.
    ActSucceeded {
        /// Of this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
        /// Which.
        act: Act,
        /// The commit that the worktree stands at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<Commit>,
        /// What was changed, where the act counts that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<WorkSummary>,
        /// What it used since that was last told.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
        /// When its process ended, where that was before it was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_at: Option<Millis>,
    },
    /// An agent left parts of its work to jobs of their own; those are added by the events that
    /// follow.
    JobSplit {
        /// The job.
        job: JobId,
        /// In this attempt, which is not checked any more: what brings the parts together is.
        attempt: AttemptNumber,
        /// The parts.
        parts: Vec<ProducerId>,
    },
    /// The target is about to be moved.
    MergeIntended {
        /// By this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
        /// From where to where.
        intent: MergeIntent,
    },
    /// The target was not moved.
    MergeVoided {
        /// By this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
    },
    /// The target was moved as intended.
    Merged {
        /// By this job.
        job: JobId,
        /// In this attempt.
        attempt: AttemptNumber,
        /// Where it stands now.
        commit: Commit,
    },
    /// An attempt ended.
    AttemptEnded {
        /// Of this job.
        job: JobId,
        /// Which.
        attempt: AttemptNumber,
        /// How, and what follows.
        end: Box<AttemptEnd>,
        /// What its last act used since that was last told.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
        /// When its process ended, where that was before it was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_at: Option<Millis>,
    },
    /// The worktree of a job is gone.
    WorktreeRemoved {
        /// Which.
        job: JobId,
    },
}

#[cfg(test)]
mod tests;
