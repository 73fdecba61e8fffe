//! What events are made of besides attempts.

use serde::{Deserialize, Serialize};

use crate::definition::JobDefinition;
use crate::ids::{Branch, Commit, JobId, PlanId, ProducerId};
use crate::mark::Mark;
use crate::phase::Phase;
use crate::spec::{Budget, PlanSettings};
use crate::value::Env;
use crate::work::WorkSpec;

/// Everything that a plan starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Created {
    /// The plan.
    pub plan: PlanId,
    /// What holds for the plan as a whole.
    pub settings: PlanSettings,
    /// Its jobs in the order of their definition, the validating one last; while under construction
    /// there may be none.
    pub jobs: Vec<JobDefinition>,
    /// Whether jobs are still to be added.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scaffolding: bool,
    /// Why it does not run yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseReason>,
    /// The plan that this is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PlanId>,
    /// What was asked for, where it was asked for under a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    /// Whether the settings asked for a sandbox when the plan was created. Its jobs run in one, whatever the settings
    /// are later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sandboxed: bool,
}

/// A job and all that it depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rewired {
    /// The job.
    pub job: JobId,
    /// All that it depends on now.
    pub dependencies: Vec<ProducerId>,
}

/// What is changed in the definition of a job; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobChange {
    /// The work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkSpec>,
    /// The check before, or that there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prechecks: Option<Check>,
    /// The check after, or that there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postchecks: Option<Check>,
    /// The environment, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Env>,
    /// Whether it is right that its work changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects_no_changes: Option<bool>,
    /// What it may use up, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The phase from which everything is done again, its heals counted anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<Phase>,
}

impl JobChange {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A check that is set or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "to",
    content = "spec",
    rename_all = "camelCase",
    deny_unknown_fields
)]
pub enum Check {
    /// There is none any more.
    Removed,
    /// It is this.
    Set(Box<WorkSpec>),
}

impl Check {
    /// What the check is from now on.
    #[must_use]
    pub fn spec(&self) -> Option<&WorkSpec> {
        match self {
            Self::Removed => None,
            Self::Set(spec) => Some(spec),
        }
    }
}

/// Reason for the pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum PauseReason {
    /// A person paused it.
    User,
    /// It was created so.
    StartPaused,
    /// It waits for another plan.
    ResumeAfterPlan,
    /// It was brought back after it had ended.
    Recovered,
    /// Its branches could not be prepared.
    Branches {
        /// What went wrong and what to do.
        error: String,
    },
    /// Values of its variables are missing: it was read back from files that leave them out.
    Variables {
        /// Which, and what to do.
        error: String,
    },
}

/// The branches that a plan works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Branches {
    /// The branch that it started from.
    pub base: Branch,
    /// The commit that it started from.
    pub base_commit: Commit,
    /// The branch that its result is merged into.
    pub target: Branch,
    /// Whether the target was made for this plan.
    pub target_made: bool,
    /// The branch that collects the combined result.
    pub snapshot: Branch,
}
