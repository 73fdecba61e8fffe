//! One job: what it is, how it stands, and what is around it.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::budget::Usage;
use crate::event::WorkSummary;
use crate::ids::{Commit, GroupPath, JobId, Millis, PlanId, ProducerId};
use crate::phase::Phase;
use crate::plan::{Change, Job, PhaseStatus, Plan};
use crate::status::JobStatus;
use crate::view::{HealView, NodeType, is_leaf};
use crate::work::WorkSpec;

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    /// What it is.
    pub node: JobNode,
    /// How it stands.
    pub state: JobState,
    /// Its plan.
    pub plan_id: PlanId,
    /// The path of its group, which is what a group is known by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<GroupPath>,
    /// The last name of that path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_name: Option<String>,
}

/// A job beside another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Neighbour {
    /// Its id.
    pub id: JobId,
    /// The name that its plan knows it by.
    pub producer_id: ProducerId,
    /// Its name.
    pub name: String,
}

impl Neighbour {
    fn of(job: &Job) -> Self {
        Self {
            id: *job.id(),
            producer_id: job.producer().clone(),
            name: job.name().to_owned(),
        }
    }
}

/// What a job is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobNode {
    /// Its id.
    pub id: JobId,
    /// The name that its plan knows it by.
    pub producer_id: ProducerId,
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: NodeType,
    /// What it waits for.
    pub dependencies: Vec<Neighbour>,
    /// What waits for it.
    pub dependents: Vec<Neighbour>,
    /// What it is for.
    pub task: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkSpec>,
    /// The check before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prechecks: Option<WorkSpec>,
    /// The check after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postchecks: Option<WorkSpec>,
    /// What else there is to say of it.
    pub details: JobDetails,
}

/// The rest of a job's definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobDetails {
    /// What agents are told besides the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Whether a failure is healed.
    pub auto_heal: bool,
    /// Whether it is right that it changes nothing.
    pub expects_no_changes: bool,
    /// The names of its variables; their values may be secret.
    pub env: Vec<String>,
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobState {
    /// How it stands.
    pub status: JobStatus,
    /// How often it was changed.
    pub version: u64,
    /// How many attempts it had.
    pub attempts: usize,
    /// When it was last given a slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Millis>,
    /// When its first attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What kind of failure it was: crashed, timeout, execution-error, user-canceled, forced or
    /// budget-exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<&'static str>,
    /// The heal that failed, where an agent was to repair what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healing: Option<HealView>,
    /// Why a person declared it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_fail_message: Option<String>,
    /// The commit that it started from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<Commit>,
    /// The commit that its dependents build on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_commit: Option<Commit>,
    /// Where it works, as long as that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    /// Whether its worktree is gone.
    pub worktree_cleaned_up: bool,
    /// Of what is merged: whether it is in the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_to_target: Option<bool>,
    /// Whether nothing but the validating job depends on it.
    pub is_leaf: bool,
    /// How each phase of the latest attempt stands.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, PhaseStatus>"))]
    pub step_statuses: BTreeMap<&'static str, PhaseStatus>,
    /// How often each phase was healed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, u32>"))]
    pub auto_heal_attempted: BTreeMap<&'static str, u32>,
    /// The last session of its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copilot_session_id: Option<String>,
    /// The process at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How its state has changed, oldest first.
    pub state_history: Vec<Change>,
    /// What it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_summary: Option<WorkSummary>,
    /// What its agents used.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
}

/// One job of a plan.
#[must_use]
pub fn job(plan: &Plan, job: &Job) -> JobView {
    JobView {
        node: node(plan, job),
        state: state(plan, job),
        plan_id: *plan.id(),
        group_id: job.group().cloned(),
        group_name: job.group().map(|group| group.name().to_owned()),
    }
}

fn node(plan: &Plan, job: &Job) -> JobNode {
    let own = job.definition();
    JobNode {
        id: *job.id(),
        producer_id: job.producer().clone(),
        name: job.name().to_owned(),
        kind: NodeType::of(job),
        dependencies: plan.dependencies(job).map(Neighbour::of).collect(),
        dependents: plan.dependents(job).map(Neighbour::of).collect(),
        task: own.task.as_str().to_owned(),
        work: own.work.as_ref().map(shown),
        prechecks: own.prechecks.as_ref().map(shown),
        postchecks: own.postchecks.as_ref().map(shown),
        details: JobDetails {
            instructions: own
                .instructions
                .as_ref()
                .map(|text| text.as_str().to_owned()),
            auto_heal: own.auto_heal,
            expects_no_changes: own.expects_no_changes,
            env: own.env.iter().map(|(name, _)| name.to_owned()).collect(),
        },
    }
}

/// What is done, without the values of its variables: they may be secret. A value that only names
/// another variable is shown.
fn shown(spec: &WorkSpec) -> WorkSpec {
    let mut spec = spec.clone();
    spec.env = spec.env.masked();
    spec
}

fn state(plan: &Plan, job: &Job) -> JobState {
    let heals = Phase::ALL
        .into_iter()
        .map(|phase| (phase.as_str(), job.heals(phase)));
    let process = job.running().and_then(|attempt| attempt.process.as_ref());
    JobState {
        status: job.status(),
        version: job.version(),
        attempts: job.attempts().len(),
        scheduled_at: job.scheduled_at(),
        started_at: job.started_at(),
        ended_at: job.ended_at(),
        error: job.error().map(str::to_owned),
        failure_reason: job.failure().map(|failure| failure.kind.reason()),
        healing: HealView::of(job),
        force_fail_message: job.forced().map(str::to_owned),
        base_commit: job.base_commit().cloned(),
        completed_commit: job.completed_commit().cloned(),
        worktree_path: job.worktree().map(str::to_owned),
        worktree_cleaned_up: job.worktree_removed,
        merged_to_target: super::merged(plan, job),
        is_leaf: is_leaf(plan, job),
        step_statuses: steps(&|phase| job.phase(phase)),
        auto_heal_attempted: heals.filter(|(_, times)| *times > 0).collect(),
        copilot_session_id: job.session().map(str::to_owned),
        pid: process.map(|process| process.pid),
        state_history: job.history().cloned().collect(),
        work_summary: job.summary().copied(),
        usage: *job.usage(),
    }
}

pub(super) fn steps(of: &dyn Fn(Phase) -> PhaseStatus) -> BTreeMap<&'static str, PhaseStatus> {
    let shown = Phase::ALL
        .into_iter()
        .filter(|phase| *phase != Phase::Cleanup);
    shown.map(|phase| (phase.as_str(), of(phase))).collect()
}
