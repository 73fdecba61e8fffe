//! Changes of settings and definitions.

use std::sync::Arc;

use crate::command::{AgentPatch, Code, Cx, Decision, PlanPatch, Refusal};
use crate::decide::{each_of, steer, wrong_job, wrong_plan};
use crate::event::{JobChange, PauseReason, What};
use crate::phase::Phase;
use crate::plan::{Job, Plan};
use crate::status::JobStatus;
use crate::work::Action;

/// Changes settings of a plan; an empty change leads to nothing.
pub(super) fn plan(plan: &Plan, patch: &PlanPatch, cx: &Cx<'_>) -> Result<Vec<What>, Refusal> {
    not_archived(plan)?;
    let mut whats = Vec::new();
    if patch.env.is_some() || patch.max_parallel.is_some() || patch.budget.is_some() {
        whats.push(What::PlanUpdated {
            env: patch.env.clone(),
            max_parallel: patch.max_parallel,
            budget: patch.budget,
        });
    }
    match patch.resume_after_plan {
        Some(Some(after)) if plan.settings().resume_after_plan != Some(after) => {
            steer::may_chain(*plan.id(), after, cx)?;
            whats.push(What::PlanChained { after: Some(after) });
            if !plan.is_scaffolding() && plan.paused() != Some(&PauseReason::ResumeAfterPlan) {
                whats.push(What::PlanPaused {
                    reason: PauseReason::ResumeAfterPlan,
                });
            }
        }
        Some(None) if plan.settings().resume_after_plan.is_some() => {
            whats.push(What::PlanChained { after: None });
            // It stays paused, but for a person to resume and no longer for the other plan.
            if plan.paused() == Some(&PauseReason::ResumeAfterPlan) {
                let reason = PauseReason::User;
                whats.push(What::PlanPaused { reason });
            }
        }
        _ => {}
    }
    Ok(whats)
}

fn not_archived(plan: &Plan) -> Result<(), Refusal> {
    match plan.archived_at() {
        Some(_) => Err(wrong_plan("the plan is archived and cannot be changed")),
        None => Ok(()),
    }
}

/// Changes the definition of one job.
pub(super) fn job(plan: &Plan, asked: &str, change: JobChange) -> Result<Vec<What>, Refusal> {
    not_archived(plan)?;
    let job = plan.find(asked)?;
    may_edit(job)?;
    if matches!(job.status(), JobStatus::Canceled) {
        let words = format!(
            "job `{}` is canceled; recover the plan first",
            job.producer()
        );
        return Err(wrong_job(words));
    }
    if change.is_empty() {
        let words = "nothing to change: pass at least one of work, prechecks, postchecks, expectsNoChanges, env, budget and resetToStage";
        return Err(Refusal::new(Code::NothingToDo, words));
    }
    Ok(vec![What::JobUpdated {
        job: *job.id(),
        change: Box::new(with_reset(change)),
    }])
}

/// A change of what a phase does asks for that phase to be done again.
pub(super) fn with_reset(mut change: JobChange) -> JobChange {
    let touched = [
        (change.prechecks.is_some(), Phase::Prechecks),
        (change.work.is_some(), Phase::Work),
        (change.postchecks.is_some(), Phase::Postchecks),
    ];
    let touched = touched
        .into_iter()
        .filter(|(touched, _)| *touched)
        .map(|(_, phase)| phase);
    change.reset = change.reset.into_iter().chain(touched).min();
    change
}

fn may_edit(job: &Job) -> Result<(), Refusal> {
    if job.is_validation() {
        let words = "the validation job cannot be edited: its work is the plan's verifyRi; when it has failed, retry it with other work instead";
        return Err(Refusal::new(Code::ValidationJob, words));
    }
    let refused = match job.status() {
        JobStatus::Running | JobStatus::Scheduled | JobStatus::CompletedSplit => "it is running",
        JobStatus::Succeeded => "it has succeeded",
        _ => return Ok(()),
    };
    let words = format!(
        "job `{}` cannot be edited: {refused}; only pending, ready, failed and blocked jobs can be edited",
        job.producer()
    );
    Err(wrong_job(words))
}

/// Changes how agents work in many jobs.
pub(super) fn bulk(
    plan: &Plan,
    jobs: Option<Vec<String>>,
    patch: &AgentPatch,
    cx: &Cx<'_>,
) -> Result<Decision, Refusal> {
    not_archived(plan)?;
    if *patch == AgentPatch::default() {
        let words = "nothing to change: pass at least one of model, modelTier, effort, maxTurns, resumeSession and env";
        return Err(Refusal::new(Code::NothingToDo, words));
    }
    let asked = jobs.unwrap_or_else(|| {
        plan.jobs()
            .iter()
            .map(|job| job.producer().to_string())
            .collect()
    });
    let change = |job: &Job| changed_agent(job, patch).map(|what| vec![what]);
    Ok(each_of(plan, asked, cx, change))
}

fn changed_agent(job: &Job, patch: &AgentPatch) -> Result<What, Refusal> {
    may_edit(job)?;
    if job.status() == JobStatus::Canceled {
        return Err(wrong_job(format!("job `{}` is canceled", job.producer())));
    }
    let definition = Arc::clone(job.definition());
    let Some(mut work) = definition.work.clone() else {
        return Err(wrong_job(format!("job `{}` has no work", job.producer())));
    };
    let Action::Agent(agent) = &mut work.action else {
        return Err(wrong_job(format!(
            "job `{}` does not run an agent",
            job.producer()
        )));
    };
    if let Some(fields) = &patch.agent {
        fields.put_into(agent);
    }
    if let Some(env) = &patch.env {
        work.env = env.clone();
    }
    let change = JobChange {
        work: Some(work),
        ..JobChange::default()
    };
    Ok(What::JobUpdated {
        job: *job.id(),
        change: Box::new(change),
    })
}
