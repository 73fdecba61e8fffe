//! What people change in plans and jobs.

use crate::ids::{PlanId, ProducerId};
use crate::spec::{Budget, JobSpec, MaxParallel};
use crate::value::Env;
use crate::work::{AgentWork, WorkSpec};

/// What is changed in a plan; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanPatch {
    /// The environment, whole.
    pub env: Option<Env>,
    /// The plan's own limit; 0 sets none.
    pub max_parallel: Option<MaxParallel>,
    /// The plan to wait for, which pauses this one; or none any more.
    pub resume_after_plan: Option<Option<PlanId>>,
    /// What it may use up.
    pub budget: Option<Budget>,
}

/// How agents are to work from now on; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentPatch {
    /// The environment of the work, whole.
    pub env: Option<Env>,
    /// Fields of the agent's work: those that are set here replace its own. The brief is not looked
    /// at.
    pub agent: Option<Box<AgentFields>>,
}

/// The fields of an agent's work that can be changed in many jobs at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFields {
    /// The model; it replaces a tier too.
    pub model: Option<crate::work::ModelName>,
    /// The kind of model; it replaces a model too.
    pub model_tier: Option<crate::work::ModelTier>,
    /// How long it thinks.
    pub effort: Option<crate::work::Effort>,
    /// How often it may answer.
    pub max_turns: Option<crate::work::MaxTurns>,
    /// Whether a retry takes up the session before.
    pub resume_session: Option<bool>,
}

impl AgentFields {
    /// Puts what is set into an agent's work.
    pub fn put_into(&self, work: &mut AgentWork) {
        if self.model.is_some() || self.model_tier.is_some() {
            work.model.clone_from(&self.model);
            work.model_tier = self.model_tier;
        }
        work.effort = self.effort.or(work.effort);
        work.max_turns = self.max_turns.or(work.max_turns);
        work.resume_session = self.resume_session.or(work.resume_session);
    }

    /// The names of the fields that are set.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let set = [
            (self.model.is_some(), "model"),
            (self.model_tier.is_some(), "modelTier"),
            (self.effort.is_some(), "effort"),
            (self.max_turns.is_some(), "maxTurns"),
            (self.resume_session.is_some(), "resumeSession"),
        ];
        set.into_iter()
            .filter(|(set, _)| *set)
            .map(|(_, name)| name)
            .collect()
    }
}

/// How a failed job is asked for again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retry {
    /// New work: everything is done again.
    pub work: Option<WorkSpec>,
    /// A new check before, or none: everything is done again.
    pub prechecks: Option<Option<WorkSpec>>,
    /// A new check after, or none.
    pub postchecks: Option<Option<WorkSpec>>,
    /// Whether it is right from now on that its work changes nothing; it stays as it is where it is absent.
    pub expects_no_changes: Option<bool>,
    /// Make the worktree anew; refused when work of dependencies would be lost with it.
    pub clear_worktree: bool,
}

/// A change of the graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Add a job.
    Add(Box<JobSpec>),
    /// Remove a job; its dependents depend on what it depended on.
    Remove {
        /// Which.
        job: String,
    },
    /// Replace what a job depends on.
    UpdateDependencies {
        /// Which.
        job: String,
        /// What it depends on.
        dependencies: Vec<ProducerId>,
    },
    /// Put a new job before one: it takes over that one's dependencies besides its own, and that
    /// one depends on it alone.
    AddBefore {
        /// The job that is there.
        existing: String,
        /// The new one.
        job: Box<JobSpec>,
    },
    /// Put a new job after one: dependents of that one that have not started depend on the new one.
    AddAfter {
        /// The job that is there.
        existing: String,
        /// The new one.
        job: Box<JobSpec>,
    },
}

impl Operation {
    /// Its name on the wire.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Add(_) => "add_job",
            Self::Remove { .. } => "remove_job",
            Self::UpdateDependencies { .. } => "update_deps",
            Self::AddBefore { .. } => "add_before",
            Self::AddAfter { .. } => "add_after",
        }
    }
}
