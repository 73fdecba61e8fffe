//! Why a command was not carried out.

use std::fmt;

use crate::definition::{DefinitionError, NotFound, Problem};
use crate::status::IllegalTransition;

/// Why a command was not carried out: a code that stays the same, and words that say what is
/// allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    code: Code,
    message: String,
}

impl Refusal {
    /// A refusal of a kind.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// What kind of refusal it is.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The words.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<NotFound> for Refusal {
    fn from(error: NotFound) -> Self {
        let code = match error {
            NotFound::Unknown { .. } => Code::UnknownJob,
            NotFound::Ambiguous { .. } => Code::AmbiguousJob,
        };
        Self::new(code, error.to_string())
    }
}

impl From<DefinitionError> for Refusal {
    fn from(error: DefinitionError) -> Self {
        let code = match error.problems().first() {
            None | Some(Problem::Empty) => Code::NoJobs,
            Some(Problem::TooManyJobs) => Code::TooManyJobs,
            Some(Problem::DuplicateProducerId { .. }) => Code::DuplicateProducerId,
            Some(Problem::DuplicateId { .. }) => Code::DuplicateJobId,
            Some(Problem::ReservedProducerId) => Code::ReservedProducerId,
            Some(Problem::UnknownDependency { .. }) => Code::UnknownDependency,
            Some(Problem::SelfDependency { .. }) => Code::SelfDependency,
            Some(Problem::TooManyDependencies { .. }) => Code::TooManyDependencies,
            Some(Problem::Cycle { .. }) => Code::DependencyCycle,
            Some(Problem::UnknownJob { .. }) => Code::UnknownJob,
        };
        Self::new(code, error.to_string())
    }
}

impl From<IllegalTransition> for Refusal {
    fn from(error: IllegalTransition) -> Self {
        Self::new(Code::WrongJobState, error.to_string())
    }
}

/// The kinds of refusal; their names never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// There is no such job.
    UnknownJob,
    /// Several jobs have that name.
    AmbiguousJob,
    /// There is no such plan.
    UnknownPlan,
    /// The plan is not in a state that allows it.
    WrongPlanState,
    /// The job is not in a state that allows it.
    WrongJobState,
    /// The plan has gone on since the caller looked.
    VersionConflict,
    /// The idempotency key is too long or empty.
    BadKey,
    /// Another plan was made under the idempotency key.
    KeyReused,
    /// Two jobs have one producer id.
    DuplicateProducerId,
    /// Two jobs have one id.
    DuplicateJobId,
    /// The producer id is that of the validating job.
    ReservedProducerId,
    /// A job depends on one that there is not.
    UnknownDependency,
    /// A job depends on itself.
    SelfDependency,
    /// A job would depend on more jobs than one may.
    TooManyDependencies,
    /// Jobs depend on each other in a circle.
    DependencyCycle,
    /// A new dependency has nothing that could be built on.
    DependencyGone,
    /// The validating job cannot be changed.
    ValidationJob,
    /// A plan needs at least one job.
    NoJobs,
    /// Too many jobs.
    TooManyJobs,
    /// Nothing to change was given.
    NothingToDo,
    /// Plans would wait for each other in a circle.
    ChainCycle,
    /// The worktree holds work of dependencies that would be lost.
    WorktreeNeeded,
    /// A budget is used up.
    BudgetExceeded,
    /// A job cannot be split like this.
    BadSplit,
    /// The report is of an attempt that is over.
    StaleAttempt,
    /// The report does not fit what the attempt is doing.
    UnexpectedReport,
}

impl Code {
    /// The name that goes over the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownJob => "job-unknown",
            Self::AmbiguousJob => "job-ambiguous",
            Self::UnknownPlan => "plan-unknown",
            Self::WrongPlanState => "wrong-plan-state",
            Self::WrongJobState => "wrong-job-state",
            Self::VersionConflict => "version-conflict",
            Self::BadKey => "bad-key",
            Self::KeyReused => "key-reused",
            Self::DuplicateProducerId => "duplicate-producer-id",
            Self::DuplicateJobId => "duplicate-job-id",
            Self::ReservedProducerId => "reserved-producer-id",
            Self::UnknownDependency => "unknown-dependency",
            Self::SelfDependency => "self-dependency",
            Self::TooManyDependencies => "too-many-dependencies",
            Self::DependencyCycle => "dependency-cycle",
            Self::DependencyGone => "dependency-gone",
            Self::ValidationJob => "validation-job",
            Self::NoJobs => "plan-empty",
            Self::TooManyJobs => "plan-too-large",
            Self::NothingToDo => "nothing-to-do",
            Self::ChainCycle => "chain-cycle",
            Self::WorktreeNeeded => "worktree-needed",
            Self::BudgetExceeded => "budget-exceeded",
            Self::BadSplit => "bad-split",
            Self::StaleAttempt => "stale-attempt",
            Self::UnexpectedReport => "unexpected-report",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
