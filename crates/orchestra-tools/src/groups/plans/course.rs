//! The course of a plan that a caller has set going and comes back for.
//!
//! In MCP the call becomes a task. It lasts until the plan has ended or waits for a person. To cancel the
//! task ends the waiting and nothing else: the plan goes on, and `cancel_copilot_plan` ends it.

use std::sync::Arc;

use orchestra_plan::event::PauseReason;
use orchestra_plan::plan::Plan;
use orchestra_plan::status::PlanStatus;

use crate::failure::Failure;
use crate::tool::PlanCx;

/// How many running jobs a message names.
const NAMED: usize = 5;

/// Whether nothing of a plan moves unless somebody does something.
pub(super) fn rests(plan: &Plan) -> bool {
    match plan.status() {
        PlanStatus::Scaffolding => true,
        PlanStatus::Paused | PlanStatus::PendingStart => {
            plan.paused() != Some(&PauseReason::ResumeAfterPlan)
        }
        status => status.is_ended() || plan.is_deleted(),
    }
}

/// Waits until a plan rests where the caller comes back for the answer, and tells how far it is. Any other
/// caller is answered at once, with the plan as it is.
pub(super) async fn followed(cx: &PlanCx, plan: Arc<Plan>) -> Result<Arc<Plan>, Failure> {
    let Some(later) = cx.cx.later.clone().filter(|_| !rests(&plan)) else {
        return Ok(plan);
    };
    later.begin();
    let mut told = Told::default();
    let mut now = plan;
    loop {
        told.tell(cx, &now);
        if rests(&now) {
            return Ok(now);
        }
        // Who cancels drops this, which is all that is to be done.
        let changed = cx.plans.changed(*now.id(), now.version()).await;
        now = changed.map_err(|fault| match fault.code.as_str() {
            "plan-unknown" => {
                let text = format!("plan `{}` was deleted while it was waited for", now.name());
                Failure::coded("plan-deleted", text)
            }
            _ => fault.into(),
        })?;
    }
}

/// How far the caller knows the plan to be.
#[derive(Default)]
struct Told {
    progress: Option<f64>,
}

impl Told {
    /// Tells how far the plan is: ended jobs count whole, those at work half. What is told never goes back,
    /// whatever is tried again.
    fn tell(&mut self, cx: &PlanCx, plan: &Plan) {
        let counts = plan.counts();
        let progress = f64::from(counts.terminal()) + f64::from(counts.active()) / 2.0;
        if self.progress.is_some_and(|told| progress <= told) {
            return;
        }
        self.progress = Some(progress);
        let total = f64::from(counts.total());
        cx.cx
            .progress
            .progress(progress, Some(total), Some(&message(plan)));
    }
}

fn message(plan: &Plan) -> String {
    let counts = plan.counts();
    let running: Vec<&str> = plan.active().take(NAMED).map(|job| job.name()).collect();
    let ended = format!("{} of {} jobs ended", counts.terminal(), counts.total());
    let more = (counts.active() as usize).saturating_sub(running.len());
    match (running.is_empty(), more) {
        (true, _) => format!("{}: {ended}", plan.status()),
        (false, 0) => format!("{ended}; running: {}", running.join(", ")),
        (false, more) => format!("{ended}; running: {} and {more} more", running.join(", ")),
    }
}
