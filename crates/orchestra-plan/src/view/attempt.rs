//! The attempts of a job, and why the last one failed.

use std::borrow::Cow;
use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::budget::Usage;
use crate::command::{Code, Refusal};
use crate::event::{Failure, Trigger};
use crate::ids::{AttemptNumber, Commit, GroupPath, JobId, Millis, PlanId, ProducerId};
use crate::phase::Phase;
use crate::plan::{Attempt, AttemptStatus, Job, PhaseStatus, Plan};
use crate::pressure::Filled;
use crate::status::JobStatus;

/// One execution of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AttemptView {
    /// Its number, from 1.
    pub attempt_number: AttemptNumber,
    /// How it stands.
    pub status: AttemptStatus,
    /// Why there is one.
    pub trigger_type: Trigger,
    /// When it began.
    pub started_at: Millis,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// The phase that failed, itself or while it was healed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_phase: Option<Phase>,
    /// Description of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the process returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// All that is known of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The agent's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copilot_session_id: Option<String>,
    /// How each phase stands.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, PhaseStatus>"))]
    pub step_statuses: BTreeMap<&'static str, PhaseStatus>,
    /// When each act was done.
    pub phase_timing: Vec<PhaseTiming>,
    /// Where it worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    /// The commit that it started from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<Commit>,
    /// The commit that it reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_commit: Option<Commit>,
    /// What its agents used.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// How full the context of its agent was, where that was looked at and it was rather full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_pressure_snapshot: Option<Filled>,
}

/// When an act was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PhaseTiming {
    /// The phase.
    pub phase: Phase,
    /// Whether it was healed, instead of being done itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub heal: bool,
    /// When it began.
    pub started_at: Millis,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
}

impl AttemptView {
    /// What is shown of an attempt.
    #[must_use]
    pub fn of(attempt: &Attempt) -> Self {
        let failure = attempt.failure.as_ref().map(|(_, failure)| failure);
        let timing = attempt.spans.iter().map(|span| PhaseTiming {
            phase: span.act.phase,
            heal: span.act.heal,
            started_at: span.started_at,
            ended_at: span.ended_at,
        });
        Self {
            attempt_number: attempt.number,
            status: attempt.status,
            trigger_type: attempt.trigger,
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            failed_phase: attempt.failure.as_ref().map(|(act, _)| act.phase),
            error: failure.map(|failure| failure.message.clone()),
            exit_code: failure.and_then(|failure| failure.exit_code),
            failure: failure.cloned(),
            copilot_session_id: attempt.session.clone(),
            step_statuses: super::job::steps(&|phase| attempt.phase(phase)),
            phase_timing: timing.collect(),
            worktree_path: attempt.worktree.clone(),
            base_commit: attempt.base.clone(),
            completed_commit: attempt.commit.clone(),
            usage: attempt.usage,
            context_pressure_snapshot: attempt.filled,
        }
    }
}

/// All attempts of a job, oldest first.
#[must_use]
pub fn attempts(job: &Job) -> Vec<AttemptView> {
    job.attempts().iter().map(AttemptView::of).collect()
}

/// Why a job failed; who shows it adds the lines of its log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FailureContext {
    /// The job.
    pub node_id: JobId,
    /// The name that its plan knows it by.
    pub producer_id: ProducerId,
    /// Its name.
    pub name: String,
    /// Its plan.
    pub plan_id: PlanId,
    /// The path of its group, which is what a group is known by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<GroupPath>,
    /// The last name of that path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_name: Option<String>,
    /// The phase that failed; absent where the job failed without having begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_phase: Option<Phase>,
    /// Description of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many attempts it had.
    pub attempts: usize,
    /// Where it worked, as long as that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    /// The last session of its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copilot_session_id: Option<String>,
    /// Exit code of the process that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The attempt that failed, in short. Where a heal failed after it, this is what the heal was to repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<LastAttempt>,
    /// The heal that failed, where an agent was to repair what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healing: Option<HealView>,
}

/// A heal that failed. The failure of the job is what it was to repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HealView {
    /// Its attempt: what its log is found by.
    pub attempt_number: AttemptNumber,
    /// The phase that it was to repair.
    pub phase: Phase,
    /// Description of the failure.
    pub error: String,
    /// Exit code of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

impl HealView {
    /// The heal with which a job failed, if there was one.
    #[must_use]
    pub fn of(job: &Job) -> Option<Self> {
        let (attempt, act, failure) = job.failed_heal()?;
        (job.status() == JobStatus::Failed).then(|| Self {
            attempt_number: attempt.number,
            phase: act.phase,
            error: failure.message.clone(),
            exit_code: failure.exit_code,
        })
    }
}

/// Description of what went wrong with a job. Its first line names the heal that failed as well, if there was one.
#[must_use]
pub fn error_of(job: &Job) -> Option<Cow<'_, str>> {
    let error = job.error()?;
    let Some(heal) = HealView::of(job) else {
        return Some(Cow::Borrowed(error));
    };
    let (first, rest) = error.split_at(error.find('\n').unwrap_or(error.len()));
    let failed = heal.error.lines().next().unwrap_or_default();
    Some(Cow::Owned(format!(
        "{first}; healing failed: {failed}{rest}"
    )))
}

/// The attempt that a job failed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LastAttempt {
    /// Its number: what its log is found by.
    pub attempt_number: AttemptNumber,
    /// The phase that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// When it began.
    pub start_time: Millis,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Millis>,
    /// Description of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the process returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Why a job failed.
///
/// # Errors
/// When the job has not failed.
pub fn failure_context(plan: &Plan, job: &Job) -> Result<FailureContext, Refusal> {
    if job.status() != JobStatus::Failed {
        let words = format!(
            "job `{}` is {}; only a failed job has failure details",
            job.producer(),
            job.status()
        );
        return Err(Refusal::new(Code::WrongJobState, words));
    }
    let last = job.failed_attempt();
    let failed = last.and_then(|attempt| attempt.failure.as_ref());
    Ok(FailureContext {
        node_id: *job.id(),
        producer_id: job.producer().clone(),
        name: job.name().to_owned(),
        plan_id: *plan.id(),
        group_id: job.group().cloned(),
        group_name: job.group().map(|group| group.name().to_owned()),
        failed_phase: failed.map(|(act, _)| act.phase),
        error: job.error().map(str::to_owned),
        attempts: job.attempts().len(),
        worktree_path: job.worktree().map(str::to_owned),
        copilot_session_id: job.session().map(str::to_owned),
        exit_code: job.failure().and_then(|failure| failure.exit_code),
        healing: HealView::of(job),
        last_attempt: last.map(|attempt| LastAttempt {
            attempt_number: attempt.number,
            phase: failed.map(|(act, _)| act.phase),
            start_time: attempt.started_at,
            end_time: attempt.ended_at,
            error: failed.map(|(_, failure)| failure.message.clone()),
            exit_code: failed.and_then(|(_, failure)| failure.exit_code),
        }),
    })
}
