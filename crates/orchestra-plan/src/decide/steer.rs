//! Pausing, resuming, canceling, chaining, and putting plans away.

use crate::command::{Code, Cx, Refusal};
use crate::decide::wrong_plan;
use crate::event::{Branches, PauseReason, What};
use crate::ids::PlanId;
use crate::plan::Plan;
use crate::spec::PlanSettings;
use crate::status::PlanStatus;

/// How many links a chain of waiting plans may have.
const CHAIN_MAX: usize = 1000;

/// Completes the sentence "it has already …" for a plan that has ended.
const fn ended(status: PlanStatus) -> &'static str {
    match status {
        PlanStatus::Succeeded => "succeeded",
        PlanStatus::Failed => "failed",
        PlanStatus::Canceled => "been canceled",
        _ => "been archived",
    }
}

pub(super) fn pause(plan: &Plan) -> Result<Vec<What>, Refusal> {
    let status = plan.status();
    if status == PlanStatus::Scaffolding {
        return Err(wrong_plan(
            "cannot pause the plan: it is not finalized, so none of its jobs runs",
        ));
    }
    if status.is_ended() {
        return Err(wrong_plan(format!(
            "cannot pause the plan: it has already {}",
            ended(status)
        )));
    }
    // Asked for twice, it is paused as before; but a person's pause outlasts the end of another
    // plan.
    match plan.paused() {
        Some(PauseReason::User) => Ok(Vec::new()),
        _ => Ok(vec![What::PlanPaused {
            reason: PauseReason::User,
        }]),
    }
}

pub(super) fn resume(plan: &Plan) -> Result<Vec<What>, Refusal> {
    let status = plan.status();
    if status == PlanStatus::Scaffolding {
        return Err(wrong_plan("the plan is scaffolding; finalize it first"));
    }
    match status {
        PlanStatus::Canceled => Err(wrong_plan("the plan is canceled; recover it first")),
        PlanStatus::Archived => Err(wrong_plan("the plan is archived; clone it to run it again")),
        _ => {
            let mut whats = Vec::new();
            // Who resumes a plan by hand does not want it to wait for another any longer.
            if plan.settings().resume_after_plan.is_some() && plan.paused().is_some() {
                whats.push(What::PlanChained { after: None });
            }
            whats.extend(plan.paused().map(|_| What::PlanResumed {}));
            Ok(whats)
        }
    }
}

pub(super) fn cancel(plan: &Plan, reason: Option<String>) -> Result<Vec<What>, Refusal> {
    match plan.status() {
        PlanStatus::Canceled => Ok(Vec::new()),
        status if status.is_ended() => Err(wrong_plan(format!(
            "cannot cancel the plan: it has already {}",
            ended(status)
        ))),
        _ => Ok(vec![canceled(reason)]),
    }
}

fn canceled(reason: Option<String>) -> What {
    let mut reason = reason.unwrap_or_else(|| "canceled".to_owned());
    crate::event::truncate(&mut reason, 1000);
    What::PlanCanceled { reason }
}

pub(super) fn delete(plan: &Plan) -> Vec<What> {
    let mut whats = Vec::new();
    if !plan.status().is_ended() {
        whats.push(canceled(Some("deleted".to_owned())));
    }
    whats.push(What::PlanDeleted {});
    whats
}

pub(super) fn archive(plan: &Plan, force: bool) -> Result<Vec<What>, Refusal> {
    match plan.status() {
        PlanStatus::Archived => Ok(Vec::new()),
        PlanStatus::Succeeded | PlanStatus::Failed | PlanStatus::Canceled => {
            Ok(vec![What::PlanArchived {}])
        }
        _ if force => Ok(vec![
            canceled(Some("archived".to_owned())),
            What::PlanArchived {},
        ]),
        status => Err(wrong_plan(format!(
            "the plan is {status}; only a plan that succeeded, failed or was canceled can be archived; pass force to cancel it first"
        ))),
    }
}

pub(super) fn recover(plan: &Plan) -> Result<Vec<What>, Refusal> {
    match plan.status() {
        // A plan that was canceled before it was complete has no graph to go back to.
        PlanStatus::Canceled | PlanStatus::Failed if !plan.is_scaffolding() => {
            Ok(vec![What::PlanRecovered {}])
        }
        status => Err(wrong_plan(format!(
            "the plan is {status}; only a plan that failed or was canceled can be recovered"
        ))),
    }
}

pub(super) fn branches(plan: &Plan, branches: Branches) -> Result<Vec<What>, Refusal> {
    if plan.branches().is_some() {
        return Err(wrong_plan("the branches of the plan are already prepared"));
    }
    if plan.status().is_ended() {
        return Err(wrong_plan("the plan does not wait for its branches"));
    }
    // What was decided stays: jobs that succeeded stand on that base.
    let branches = plan.decided_branches().cloned().unwrap_or(branches);
    Ok(vec![What::BranchesReady {
        branches: Box::new(branches),
    }])
}

pub(super) fn branches_failed(plan: &Plan, mut error: String) -> Result<Vec<What>, Refusal> {
    if plan.branches().is_some() || plan.status().is_ended() {
        return Err(wrong_plan("the plan does not wait for its branches"));
    }
    crate::event::truncate(&mut error, crate::event::Failure::MESSAGE_MAX);
    Ok(vec![What::PlanPaused {
        reason: PauseReason::Branches { error },
    }])
}

/// Another plan has ended: the one that waited for it resumes, goes on waiting, or waits for a
/// person.
pub(super) fn other_ended(plan: &Plan, other: PlanId, status: Option<PlanStatus>) -> Vec<What> {
    if plan.settings().resume_after_plan != Some(other) {
        return Vec::new();
    }
    let dropped = What::PlanChained { after: None };
    match status {
        Some(PlanStatus::Succeeded) => {
            let resumed = plan.paused() == Some(&PauseReason::ResumeAfterPlan);
            std::iter::once(dropped)
                .chain(resumed.then_some(What::PlanResumed {}))
                .collect()
        }
        None | Some(PlanStatus::Canceled | PlanStatus::Archived) => {
            let waiting = plan.paused() == Some(&PauseReason::ResumeAfterPlan);
            let paused = What::PlanPaused {
                reason: PauseReason::User,
            };
            std::iter::once(dropped)
                .chain(waiting.then_some(paused))
                .collect()
        }
        Some(_) => Vec::new(),
    }
}

/// Why a plan that is to be made does not run at once. A plan to wait for that has succeeded
/// already holds nothing up; one that was canceled never will, and a person decides.
pub(super) fn waits(
    plan: PlanId,
    settings: &mut PlanSettings,
    cx: &Cx<'_>,
) -> Result<Option<PauseReason>, Refusal> {
    let asked = settings.start_paused.then_some(PauseReason::StartPaused);
    let Some(after) = settings.resume_after_plan else {
        return Ok(asked);
    };
    may_wait(plan, after, cx)?;
    Ok(match (cx.others)(&after).map(|other| other.status) {
        Some(PlanStatus::Succeeded) => {
            settings.resume_after_plan = None;
            None
        }
        Some(PlanStatus::Canceled | PlanStatus::Archived) => {
            settings.resume_after_plan = None;
            Some(PauseReason::StartPaused)
        }
        _ => Some(PauseReason::ResumeAfterPlan),
    })
}

/// Whether a plan that is there may begin to wait for another: that one is still to succeed.
pub(super) fn may_chain(plan: PlanId, after: PlanId, cx: &Cx<'_>) -> Result<(), Refusal> {
    may_wait(plan, after, cx)?;
    match (cx.others)(&after).map(|other| other.status) {
        Some(status @ (PlanStatus::Succeeded | PlanStatus::Canceled | PlanStatus::Archived)) => {
            let words = format!("cannot wait for plan {after}: it is {status}");
            Err(wrong_plan(words))
        }
        _ => Ok(()),
    }
}

/// Whether a plan may wait for another: that one exists and does not wait for this one itself.
fn may_wait(plan: PlanId, after: PlanId, cx: &Cx<'_>) -> Result<(), Refusal> {
    let mut next = Some(after);
    for _ in 0..CHAIN_MAX {
        let Some(at) = next else { return Ok(()) };
        if at == plan {
            let words = format!("plan {plan} would wait for itself: {after} waits for it");
            return Err(Refusal::new(Code::ChainCycle, words));
        }
        match (cx.others)(&at) {
            Some(other) => next = other.after,
            None if at == after => {
                let words = format!(
                    "cannot wait for plan {after}: there is no such plan; list_copilot_plans shows all plans"
                );
                return Err(Refusal::new(Code::UnknownPlan, words));
            }
            None => return Ok(()),
        }
    }
    let words = format!("a chain of waiting plans may have at most {CHAIN_MAX} plans");
    Err(Refusal::new(Code::ChainCycle, words))
}
