//! A plan that waits for another to succeed: for which, and whether that one can.

use std::sync::Arc;

use orchestra_plan::{event::PauseReason, plan::Plan, status::PlanStatus};
use orchestra_runner::plans::PlansError;

use super::desk::{Desk, failure};
use crate::{exit::Failure, output};

/// The plan that another waits for, as long as that is what it waits for.
pub(super) async fn awaited(desk: &Desk, plan: &Plan) -> Result<Option<Arc<Plan>>, Failure> {
    let after = plan.settings().resume_after_plan;
    match after.filter(|_| plan.paused() == Some(&PauseReason::ResumeAfterPlan)) {
        Some(after) => match desk.plans().plan(after).await {
            // That it is gone is about to be told.
            Err(PlansError::UnknownPlan { .. }) => Ok(None),
            found => found.map(Some).map_err(failure),
        },
        None => Ok(None),
    }
}

/// The plans that wait for one.
pub(super) async fn waiting(desk: &Desk, on: &Plan) -> Result<Vec<Arc<Plan>>, Failure> {
    let mut plans = desk.plans().list().await.map_err(failure)?;
    plans.retain(|plan| plan.settings().resume_after_plan == Some(*on.id()));
    Ok(plans)
}

/// A plan in a sentence, so that it can be told from others.
pub(super) fn named(plan: &Plan) -> String {
    format!("plan {} ({})", output::in_a_line(plan.name()), plan.id())
}

/// Whether nothing more happens to a plan by itself. Who waits for another rests when that one does.
pub(super) async fn rests(desk: &Desk, plan: &Plan) -> Result<bool, Failure> {
    let mut next = awaited(desk, plan).await?;
    let Some(mut last) = next.clone() else {
        return Ok(own(plan));
    };
    // None waits for itself.
    while let Some(other) = next {
        next = awaited(desk, &other).await?;
        last = other;
    }
    // That it has succeeded is about to be told.
    Ok(own(&last) && last.status() != PlanStatus::Succeeded)
}

fn own(plan: &Plan) -> bool {
    let is_paused = plan.paused().is_some() && plan.counts().active() == 0;
    plan.status().is_ended() || is_paused || plan.is_scaffolding() || plan.is_deleted()
}
