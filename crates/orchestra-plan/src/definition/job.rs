//! A job of a definition.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{Branch, GroupPath, JobId, ProducerId},
    spec::{Budget, JobSpec, Name, Task},
    value::Env,
    work::{AdmissionClass, Instructions, WorkSpec},
};

/// A job of a definition: what was said of it, its id, and defaults in place of what was not said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobDefinition {
    /// Its id, unique over all plans.
    pub id: JobId,
    /// Its name in the plan.
    pub producer_id: ProducerId,
    /// What it is called where it is shown.
    pub name: Name,
    /// What it is for; the message of its commit.
    pub task: Task,
    /// What it does; only Snapshot Validation may do nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkSpec>,
    /// The producer ids of the jobs whose results it starts from.
    #[serde(default)]
    pub dependencies: Vec<ProducerId>,
    /// The check before the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prechecks: Option<WorkSpec>,
    /// The check after the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postchecks: Option<WorkSpec>,
    /// What agents that work or heal here are told besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Instructions>,
    /// Where it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupPath>,
    /// Whether an agent is sent to heal what fails.
    pub auto_heal: bool,
    /// Whether it is right that it changes nothing.
    pub expects_no_changes: bool,
    /// The branch that it starts from, where it depends on nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<Branch>,
    /// Variables of this job.
    #[serde(default, skip_serializing_if = "Env::is_empty")]
    pub env: Env,
    /// What the job may use up.
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// The job that it is a part of, or brings the parts of together, since that one was split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_of: Option<ProducerId>,
}

/// What a plan's last job is made of: its id, and what checks the combined result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotValidation {
    /// The id of the job.
    pub id: JobId,
    /// The check, if there is one.
    pub verify: Option<WorkSpec>,
}

impl JobDefinition {
    /// The job that a caller described.
    #[must_use]
    pub fn of(id: JobId, spec: JobSpec) -> Self {
        let name = match spec.name {
            Some(name) => name,
            None => Name::parse(spec.producer_id.as_str()).expect("every producer id is a name"),
        };
        Self {
            id,
            name,
            producer_id: spec.producer_id,
            task: spec.task,
            work: Some(spec.work),
            dependencies: spec.dependencies.into_vec(),
            prechecks: spec.prechecks,
            postchecks: spec.postchecks,
            instructions: spec.instructions,
            group: spec.group,
            auto_heal: spec.auto_heal,
            expects_no_changes: spec.expects_no_changes,
            base_branch: spec.base_branch,
            env: spec.env,
            budget: spec.budget,
            split_of: None,
        }
    }

    /// Whether this is the job that checks the whole and merges it.
    #[must_use]
    pub fn is_snapshot_validation(&self) -> bool {
        self.producer_id.is_snapshot_validation()
    }

    /// What this counts as when it is decided how much may run at once; `None` when it does nothing
    /// but merge.
    #[must_use]
    pub fn class(&self) -> Option<AdmissionClass> {
        self.work.as_ref().map(WorkSpec::class)
    }

    /// The last job of a plan: behind `leaves`, and in a group of its own where there are groups.
    pub(super) fn last(
        validation: SnapshotValidation,
        leaves: Vec<ProducerId>,
        in_group: bool,
    ) -> Self {
        let name = "Snapshot Validation";
        let task = "Check the combined result and merge it into the target branch";
        let group = in_group.then(|| GroupPath::parse(name).expect("it is a group's name"));
        Self {
            id: validation.id,
            producer_id: ProducerId::snapshot_validation(),
            name: Name::parse(name).expect("it is a name"),
            task: Task::parse(task).expect("it is a task"),
            work: validation.verify,
            dependencies: leaves,
            prechecks: None,
            postchecks: None,
            instructions: None,
            group,
            auto_heal: true,
            expects_no_changes: true,
            base_branch: None,
            env: Env::default(),
            budget: Budget::default(),
            split_of: None,
        }
    }
}
