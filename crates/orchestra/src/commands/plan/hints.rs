//! Next steps after a plan has failed, as commands to type.

use orchestra_plan::{
    budget::{Exceeded, Measure, exceeded},
    event::FailureKind,
    phase::Phase,
    plan::{Job, Plan},
    spec::Budget,
    status::JobStatus,
};
use serde_json::Value;

use super::look;

/// Maximum number of named jobs whose own budgets are used up.
const NAMED: usize = 3;

/// Separator between a failure and the reason why no agent heals it.
const NOT_HEALED: &str = "; not healed: ";

/// Returns the first line of an error, and apart from it the reason why no agent heals the job. Many jobs may share
/// that reason.
pub(super) fn parts_of(error: &str) -> (&str, Option<&str>) {
    let line = error.lines().next().unwrap_or_default();
    match line.split_once(NOT_HEALED) {
        Some((failure, reason)) => (failure, Some(reason)),
        None => (line, None),
    }
}

/// The lines about a failed plan.
pub(super) fn of_failed(plan: &Plan) -> String {
    let id = plan.id();
    let failed = || {
        let jobs = plan.jobs().iter();
        jobs.filter(|job| job.status() == JobStatus::Failed)
    };
    let budgets = budgets(plan, failed());
    if !budgets.is_empty() {
        return format!("{budgets}  then retry the failed jobs: `orchestra plan retry {id}`\n");
    }
    match failed().find(|job| job.is_validation()) {
        Some(job) if is_of_the_check(job) => format!(
            "  fix it in its worktree{} and check it again: `orchestra plan retry {id}`\n  \
             or check something else instead of verifyRi: `orchestra plan retry {id} {job} --work '…'`\n",
            in_place(job),
            job = job.producer(),
        ),
        Some(_) => format!("  retry it: `orchestra plan retry {id}`\n"),
        None => format!(
            "  retry the failed jobs: `orchestra plan retry {id}`\n  \
             or replace the work of one: `orchestra plan retry {id} JOB --work '…'`\n"
        ),
    }
}

/// Returns whether verifyRi failed.
fn is_of_the_check(job: &Job) -> bool {
    let failed = job.attempt().and_then(|attempt| attempt.failure.as_ref());
    failed.is_some_and(|(act, _)| act.phase == Phase::Work)
}

fn in_place(job: &Job) -> String {
    let place = job.worktree().map(|path| format!(" {path}"));
    place.unwrap_or_default()
}

/// The commands that raise budgets that are used up.
fn budgets<'a>(plan: &Plan, failed: impl Iterator<Item = &'a Job>) -> String {
    let (id, now) = (plan.id(), look::now());
    let mut over = failed.filter(|job| {
        let kind = job.failure().map(|failure| failure.kind);
        kind == Some(FailureKind::BudgetExceeded)
    });
    let all = &plan.settings().budget;
    if let Some(used) = exceeded(all, plan.usage(), plan.wall_ms(now)) {
        return match over.next() {
            Some(_) => format!(
                "  `orchestra tool call update_copilot_plan planId={id} 'budget={}'` raises it\n",
                raised(all, used)
            ),
            None => String::new(),
        };
    }
    let of_job = |job: &Job| {
        let own = &job.definition().budget;
        let used = exceeded(own, job.usage(), job.wall_ms(now))?;
        Some(format!(
            "  `orchestra tool call update_copilot_plan_job planId={id} jobId={} 'budget={}'` raises it\n",
            job.producer(),
            raised(own, used)
        ))
    };
    over.filter_map(of_job).take(NAMED).collect()
}

/// The budget with twice as much of what is used up.
fn raised(budget: &Budget, used: Exceeded) -> Value {
    let mut fields = serde_json::to_value(budget).unwrap_or_default();
    let twice = used.used.max(used.limit).saturating_mul(2);
    let (field, twice) = match used.measure {
        Measure::Tokens => ("tokens", Value::from(twice)),
        Measure::Wall => ("wallMs", Value::from(twice)),
        // In whole units, which are exact.
        Measure::Cost => ("cost", Value::from(twice.div_ceil(1_000_000))),
    };
    fields[field] = twice;
    fields
}
