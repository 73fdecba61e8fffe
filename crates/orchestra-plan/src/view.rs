//! What lists, status, graph and job tools show of a plan: plain structs, in the words of the wire.
//!
//! A view is a copy of what a plan is at one version; nothing is worked out anew by who shows it.

use std::borrow::Cow;
use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::budget::Usage;
use crate::event::{PauseReason, WorkSummary};
use crate::group::GroupStatus;
use crate::ids::{Branch, Commit, GroupPath, JobId, Millis, PlanId, ProducerId};
use crate::plan::{Job, Plan};
use crate::schedule::Waiting;
use crate::status::{Counts, JobStatus, PlanStatus};

mod attempt;
mod filter;
mod job;

pub use attempt::{
    AttemptView, FailureContext, HealView, LastAttempt, PhaseTiming, attempts, error_of,
    failure_context,
};
pub use filter::{JobFilter, ListFilter};
pub use job::{JobDetails, JobNode, JobState, JobView, Neighbour, job};

/// What a vertex of the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NodeType {
    /// A job that was asked for.
    Job,
    /// The job that validates the whole and merges it.
    SnapshotValidation,
}

impl NodeType {
    /// What a job is.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        if job.is_validation() {
            Self::SnapshotValidation
        } else {
            Self::Job
        }
    }
}

/// A plan and all its jobs, as its status shows them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    /// The plan.
    pub plan_id: PlanId,
    /// Its name.
    pub name: String,
    /// How it stands.
    pub status: PlanStatus,
    /// Ended jobs of all jobs, in percent.
    pub progress: u8,
    /// How many jobs stand where.
    pub counts: Counts,
    /// It grows with each change; give it back to have a command refused that comes too late.
    pub state_version: u64,
    /// Reason why no new job starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseReason>,
    /// The plan whose success it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_after_plan: Option<PlanId>,
    /// Its own limit of jobs at work; 0 sets none.
    pub max_parallel: u32,
    /// The branch that it starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<Branch>,
    /// The branch that its result is merged into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_branch: Option<Branch>,
    /// The agents that it may start: for what, on whose word, how often and up to which cost. Known to who runs
    /// it, as long as it has not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Its jobs.
    pub nodes: Vec<NodeView>,
    /// Its groups by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, GroupView>"))]
    pub groups: BTreeMap<String, GroupView>,
    /// When it was created.
    pub created_at: Millis,
    /// When its first job was scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When its last job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// When it was put away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Millis>,
    /// What its jobs changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_summary: Option<WorkSummary>,
    /// What its agents used.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
}

/// A job in the status of its plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Its id.
    pub id: JobId,
    /// The name that its plan knows it by.
    pub producer_id: ProducerId,
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: NodeType,
    /// Where it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupPath>,
    /// How it stands.
    pub status: JobStatus,
    /// What it waits for, in words; absent while it is at work and after its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many attempts it had.
    pub attempts: usize,
    /// When its first attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// The commit that its dependents build on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_commit: Option<Commit>,
    /// Of what is merged: whether it is in the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_to_target: Option<bool>,
    /// Where it works, as long as that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
}

/// How a group stands in the status of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GroupView {
    /// How it stands.
    pub status: GroupStatus,
    /// How many jobs it has, those of the groups in it included.
    pub nodes: u32,
    /// How many of them stand where.
    pub counts: Counts,
    /// When something of it first held a slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When the last of it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
}

/// A plan in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlanRow {
    /// The plan.
    pub id: PlanId,
    /// Its name.
    pub name: String,
    /// How it stands.
    pub status: PlanStatus,
    /// How many jobs it has.
    pub nodes: u32,
    /// How many jobs stand where.
    pub counts: Counts,
    /// Ended jobs of all jobs, in percent.
    pub progress: u8,
    /// When it was created.
    pub created_at: Millis,
    /// When its first job was scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When its last job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Nothing of it runs before the user accepts it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_trust: bool,
}

/// A vertex of the graph and its edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GraphNode {
    /// The name that its plan knows it by.
    pub producer_id: ProducerId,
    /// Its name.
    pub name: String,
    /// How it stands.
    pub status: JobStatus,
    /// Where it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupPath>,
    /// What it waits for.
    pub depends_on: Vec<ProducerId>,
    /// What waits for it.
    pub depended_on_by: Vec<ProducerId>,
}

/// A job in a list of jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobRow {
    /// Its id.
    pub id: JobId,
    /// The name that its plan knows it by.
    pub producer_id: ProducerId,
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: NodeType,
    /// How it stands.
    pub status: JobStatus,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many attempts it had.
    pub attempts: usize,
    /// The path of its group, which is what a group is known by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<GroupPath>,
    /// The last name of that path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_name: Option<String>,
    /// When its first attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
}

/// A plan and all its jobs. `waiting` tells what a job waits for; see
/// [`waiting`](crate::schedule::waiting).
#[must_use]
pub fn plan(plan: &Plan, waiting: &dyn Fn(&Job) -> Waiting) -> PlanView {
    let branches = plan.branches();
    let settings = plan.settings();
    PlanView {
        plan_id: *plan.id(),
        name: plan.name().to_owned(),
        status: plan.status(),
        progress: plan.counts().progress(),
        counts: *plan.counts(),
        state_version: plan.version(),
        paused: plan.paused().cloned(),
        resume_after_plan: settings.resume_after_plan,
        max_parallel: plan.max_parallel(),
        base_branch: branches
            .map(|all| all.base.clone())
            .or_else(|| settings.base_branch.clone()),
        target_branch: branches
            .map(|all| all.target.clone())
            .or_else(|| settings.target_branch.clone()),
        agents: Vec::new(),
        nodes: plan
            .jobs()
            .iter()
            .map(|job| node(plan, job, waiting))
            .collect(),
        groups: groups(plan),
        created_at: plan.created_at(),
        started_at: plan.started_at(),
        ended_at: plan.ended_at(),
        archived_at: plan.archived_at(),
        work_summary: work_summary(plan),
        usage: *plan.usage(),
    }
}

fn node(plan: &Plan, job: &Job, waiting: &dyn Fn(&Job) -> Waiting) -> NodeView {
    let waits = job.status().is_waiting() || job.status() == JobStatus::CompletedSplit;
    NodeView {
        id: *job.id(),
        producer_id: job.producer().clone(),
        name: job.name().to_owned(),
        kind: NodeType::of(job),
        group: job.group().cloned(),
        status: job.status(),
        waiting: waits.then(|| waiting(job).to_string()),
        error: error_of(job).map(Cow::into_owned),
        attempts: job.attempts().len(),
        started_at: job.started_at(),
        ended_at: job.ended_at(),
        completed_commit: job.completed_commit().cloned(),
        merged_to_target: merged(plan, job),
        worktree_path: job.worktree().map(str::to_owned),
    }
}

/// Of a job whose result is merged: whether it is in the target.
fn merged(plan: &Plan, job: &Job) -> Option<bool> {
    is_leaf(plan, job).then(|| {
        plan.validation()
            .is_some_and(|last| last.merged().is_some())
            && job.status() == JobStatus::Succeeded
    })
}

/// Whether nothing but the validating job depends on a job.
#[must_use]
pub fn is_leaf(plan: &Plan, job: &Job) -> bool {
    plan.dependents(job).all(Job::is_validation)
}

fn groups(plan: &Plan) -> BTreeMap<String, GroupView> {
    let view = |group: &crate::group::Group| GroupView {
        status: group.status(),
        nodes: group.counts.total(),
        counts: group.counts,
        started_at: group.started_at,
        ended_at: group.ended_at,
    };
    let all = plan.groups().all().iter();
    all.map(|group| (group.path.as_str().to_owned(), view(group)))
        .collect()
}

/// What all jobs of a plan changed together; nothing before the first of them has committed.
#[must_use]
pub fn work_summary(plan: &Plan) -> Option<WorkSummary> {
    plan.jobs()
        .iter()
        .filter_map(Job::summary)
        .fold(None, |sum: Option<WorkSummary>, more| {
            Some(sum.unwrap_or_default().plus(more))
        })
}

/// A plan in a list.
#[must_use]
pub fn row(plan: &Plan) -> PlanRow {
    PlanRow {
        id: *plan.id(),
        name: plan.name().to_owned(),
        status: plan.status(),
        nodes: plan.counts().total(),
        counts: *plan.counts(),
        progress: plan.counts().progress(),
        created_at: plan.created_at(),
        started_at: plan.started_at(),
        ended_at: plan.ended_at(),
        waits_for_trust: false,
    }
}

/// The graph of a plan.
#[must_use]
pub fn graph(plan: &Plan) -> Vec<GraphNode> {
    let names = |job: &Job| job.producer().clone();
    let node = |job: &Job| GraphNode {
        producer_id: names(job),
        name: job.name().to_owned(),
        status: job.status(),
        group: job.group().cloned(),
        depends_on: plan.dependencies(job).map(names).collect(),
        depended_on_by: plan.dependents(job).map(names).collect(),
    };
    plan.jobs().iter().map(node).collect()
}

/// The jobs of a plan that a filter shows.
#[must_use]
pub fn jobs(plan: &Plan, filter: &JobFilter) -> Vec<JobRow> {
    let row = |job: &Job| JobRow {
        id: *job.id(),
        producer_id: job.producer().clone(),
        name: job.name().to_owned(),
        kind: NodeType::of(job),
        status: job.status(),
        error: error_of(job).map(Cow::into_owned),
        attempts: job.attempts().len(),
        group_id: job.group().cloned(),
        group_name: job.group().map(|group| group.name().to_owned()),
        started_at: job.started_at(),
        ended_at: job.ended_at(),
    };
    plan.jobs()
        .iter()
        .filter(|job| filter.shows(job))
        .map(row)
        .collect()
}
