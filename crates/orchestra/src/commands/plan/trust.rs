//! `orchestra plan trust`: acceptance of plans that the user's programs did not create.

use std::sync::Arc;

use orchestra_plan::plan::Plan;
use serde::Serialize;

use super::{
    agents::{can_ask, confirmed},
    desk::{Desk, failure},
};
use crate::{
    exit::{Exit, Failure},
    output::{self, Format},
};

/// The answer to the command.
#[derive(Serialize)]
struct Answered {
    /// True if the plans may run.
    trusted: bool,
    /// Plans that were paused, and those whose jobs were under way.
    stopped: Vec<String>,
}

/// Shows the plans, asks, and accepts them.
pub(super) async fn run(desk: &Desk, yes: bool, format: Format) -> Result<Exit, Failure> {
    let plans = desk.plans();
    let checks = [
        plans.check_trust().await,
        plans.check_former().await,
        plans.check_earlier().await,
    ];
    let doubt = checks.into_iter().find_map(Result::err);
    let Some(doubt) = doubt else {
        return print(format, true, Vec::new());
    };
    let plans = desk.plans().list().await.map_err(failure)?;
    let is_ended = |plan: &&Arc<Plan>| plan.status().is_ended();
    let (ended, open): (Vec<_>, Vec<_>) = plans.iter().partition(is_ended);
    let mut text = format!("{doubt}\n");
    // A retry starts jobs of ended plans as well.
    for plan in open.into_iter().chain(ended) {
        let jobs = match plan.jobs().len() {
            1 => "1 job".to_owned(),
            jobs => format!("{jobs} jobs"),
        };
        text.push_str(&format!(
            "  {} ({}): {}, {jobs}\n",
            output::in_a_line(plan.name()),
            plan.id(),
            plan.status()
        ));
    }
    if !yes {
        if !can_ask(format) {
            output::complain(&output::printable(text.trim_end()));
            return Err(Failure::denied(
                "the plans are not accepted: there is nobody to ask; --yes accepts what is shown",
            ));
        }
        text.push_str("Accept these plans, paused? [y/N]");
        if !confirmed(desk, &text).await? {
            return print(format, false, Vec::new()).map(|_| Exit::Denied);
        }
    }
    let stopped = desk.plans().accept().await.map_err(failure)?;
    let stopped = stopped.iter().map(|plan| {
        let name = output::in_a_line(plan.name());
        format!("{name} ({}): {}", plan.id(), plan.status())
    });
    print(format, true, stopped.collect())
}

fn print(format: Format, trusted: bool, stopped: Vec<String>) -> Result<Exit, Failure> {
    let answered = Answered { trusted, stopped };
    format.print(&answered, |answered| {
        if !answered.trusted {
            return "the plans are not accepted\n".to_owned();
        }
        let mut text = "the plans of this workspace may run\n".to_owned();
        for plan in &answered.stopped {
            text.push_str(&format!("  {plan}\n"));
        }
        text
    })?;
    Ok(Exit::Ok)
}
