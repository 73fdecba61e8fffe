//! Single jobs: slots and attempts, retries, forced failures.

use crate::budget::exceeded;
use crate::command::{Code, Cx, Decision, Refusal, Retry};
use crate::decide::{change, each_of, wrong_job, wrong_plan};
use crate::event::{Check, JobChange, What};
use crate::ids::JobId;
use crate::outcome;
use crate::plan::{Job, Plan};
use crate::status::{JobStatus, PlanStatus, Transition};

fn known(plan: &Plan, job: JobId) -> Result<&Job, Refusal> {
    let unknown = || {
        Refusal::new(
            Code::UnknownJob,
            format!("the plan has no job with the id {job}"),
        )
    };
    plan.job(&job).ok_or_else(unknown)
}

pub(super) fn schedule(plan: &Plan, job: JobId) -> Result<Vec<What>, Refusal> {
    let found = known(plan, job)?;
    found.status().after(Transition::Schedule)?;
    settled(found)?;
    if !plan.is_open() {
        return Err(wrong_plan(format!(
            "cannot start a job: the plan is {}",
            plan.status()
        )));
    }
    Ok(vec![What::JobScheduled { job }])
}

/// Whether it is known what became of the target that the job was about to move.
fn settled(job: &Job) -> Result<(), Refusal> {
    if job.intent().is_none() {
        return Ok(());
    }
    let words = format!(
        "cannot start job `{}` yet: whether its last attempt updated the target branch is not known",
        job.producer()
    );
    Err(wrong_job(words))
}

pub(super) fn give_back(plan: &Plan, job: JobId, mut reason: String) -> Result<Vec<What>, Refusal> {
    let found = known(plan, job)?;
    if found.status() != JobStatus::Scheduled {
        let words = format!(
            "job `{}` is {}, not scheduled",
            found.producer(),
            found.status()
        );
        return Err(wrong_job(words));
    }
    crate::event::truncate(&mut reason, 1000);
    Ok(vec![What::JobReturned { job, reason }])
}

pub(super) fn begin(plan: &Plan, job: JobId) -> Result<Vec<What>, Refusal> {
    let found = known(plan, job)?;
    found.status().after(Transition::Start)?;
    settled(found)?;
    if !plan.may_start(&job) {
        return Err(wrong_plan(format!(
            "cannot start a job: the plan is {}",
            plan.status()
        )));
    }
    Ok(vec![What::AttemptBegan {
        job,
        attempt: found.next_number(),
        trigger: found.upcoming().trigger,
        acts: outcome::acts(plan, found),
    }])
}

pub(super) fn worktree_removed(plan: &Plan, job: JobId) -> Result<Vec<What>, Refusal> {
    let found = known(plan, job)?;
    if found.status().is_active() {
        return Err(wrong_job(format!(
            "job `{}` is running in its worktree",
            found.producer()
        )));
    }
    Ok(found
        .worktree()
        .map(|_| What::WorktreeRemoved { job })
        .into_iter()
        .collect())
}

pub(super) fn force_fail(
    plan: &Plan,
    asked: &str,
    reason: Option<String>,
) -> Result<Vec<What>, Refusal> {
    let job = plan.find(asked)?;
    if job.status().after(Transition::ForceFail).is_err() {
        let words = format!(
            "job `{}` is {}; only a job that has not ended can be forced to fail",
            job.producer(),
            job.status()
        );
        return Err(wrong_job(words));
    }
    if plan.is_scaffolding() {
        return Err(wrong_plan(
            "the plan is scaffolding; remove the job instead",
        ));
    }
    let mut reason = reason.map_or_else(
        || "forced to fail".to_owned(),
        |reason| format!("forced to fail: {reason}"),
    );
    crate::event::truncate(&mut reason, 1100);
    Ok(vec![What::JobForceFailed {
        job: *job.id(),
        reason,
    }])
}

/// Asks again for one failed job.
pub(super) fn retry(
    plan: &Plan,
    job: &Job,
    retry: &Retry,
    cx: &Cx<'_>,
) -> Result<Vec<What>, Refusal> {
    if plan.archived_at().is_some() {
        return Err(wrong_plan("the plan is archived; clone it to run it again"));
    }
    if plan.status() == PlanStatus::Canceled {
        let words = "the plan is canceled; recover it, which also retries its failed jobs";
        return Err(wrong_plan(words));
    }
    if job.status() != JobStatus::Failed {
        let words = match (job.status(), job.blocked_by().and_then(|id| plan.job(id))) {
            (JobStatus::Blocked, Some(origin)) => format!(
                "job `{}` is blocked by job `{}`; retry the blocking job instead",
                job.producer(),
                origin.producer()
            ),
            (JobStatus::Canceled, _) => {
                format!(
                    "job `{}` is canceled; recover the plan instead",
                    job.producer()
                )
            }
            (status, _) => {
                format!(
                    "job `{}` is {status}; only a failed job can be retried (`update_copilot_plan_job` changes a job that has not started)",
                    job.producer()
                )
            }
        };
        return Err(wrong_job(words));
    }
    within_budget(plan, job, cx)?;
    // Its work is what the plan's verifyRi says, and can be said otherwise.
    if job.is_validation()
        && (retry.prechecks.is_some()
            || retry.postchecks.is_some()
            || retry.expects_no_changes.is_some())
    {
        let words = "the validation job has no checks: its work is the plan's verifyRi; to change it, pass other work with the retry";
        return Err(Refusal::new(Code::ValidationJob, words));
    }
    let built = plan
        .dependencies(job)
        .any(|other| other.completed_commit().is_some());
    if retry.clear_worktree && built && !job.is_validation() {
        let words = format!(
            "cannot clear the worktree of job `{}`: it contains commits of its dependencies",
            job.producer()
        );
        return Err(Refusal::new(Code::WorktreeNeeded, words));
    }
    // What was brought together stays so when it is verified otherwise.
    let whole = !job.is_validation() && (retry.work.is_some() || retry.prechecks.is_some());
    let edit = JobChange {
        work: retry.work.clone(),
        prechecks: retry.prechecks.as_ref().map(check),
        postchecks: retry.postchecks.as_ref().map(check),
        expects_no_changes: retry.expects_no_changes,
        ..JobChange::default()
    };
    let next = outcome::retry(job, whole, retry.clear_worktree);
    let mut whats = Vec::new();
    if !edit.is_empty() {
        let change = Box::new(change::with_reset(edit));
        whats.push(What::JobUpdated {
            job: *job.id(),
            change,
        });
    }
    whats.push(What::JobRetried {
        job: *job.id(),
        next,
    });
    Ok(whats)
}

fn check(spec: &Option<crate::work::WorkSpec>) -> Check {
    spec.clone()
        .map_or(Check::Removed, |spec| Check::Set(Box::new(spec)))
}

fn within_budget(plan: &Plan, job: &Job, cx: &Cx<'_>) -> Result<(), Refusal> {
    let (own, all) = (&job.definition().budget, &plan.settings().budget);
    let plan_ms = plan.wall_ms(cx.now);
    let used = exceeded(own, job.usage(), job.wall_ms(cx.now))
        .map(|used| ("job", used))
        .or_else(|| exceeded(all, plan.usage(), plan_ms).map(|used| ("plan", used)));
    match used {
        Some((whose, used)) => {
            let field = used.measure.field();
            let words = format!(
                "the budget of the {whose} is used up ({used}); raise `{field}` of the {whose} first"
            );
            Err(Refusal::new(Code::BudgetExceeded, words))
        }
        None => Ok(()),
    }
}

/// Asks again for several failed jobs, or all.
pub(super) fn retry_all(
    plan: &Plan,
    jobs: Option<Vec<String>>,
    how: &Retry,
    cx: &Cx<'_>,
) -> Result<Decision, Refusal> {
    let all = || {
        let failed = plan
            .jobs()
            .iter()
            .filter(|job| job.status() == JobStatus::Failed);
        failed.map(|job| job.id().to_string()).collect::<Vec<_>>()
    };
    let asked = jobs.unwrap_or_else(all);
    if asked.is_empty() {
        return Err(wrong_job(match plan.counts().canceled {
            0 => "cannot retry: the plan has no failed job",
            _ => {
                "cannot retry: the plan has no failed job; recover the plan to restore its canceled jobs"
            }
        }));
    }
    Ok(each_of(plan, asked, cx, |job| retry(plan, job, how, cx)))
}
