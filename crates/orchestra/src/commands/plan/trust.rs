//! `orchestra plan trust`: acceptance of plans that the user's programs did not create.

use std::sync::Arc;

use orchestra_plan::plan::Plan;
use orchestra_runner::plans::{Doubt, DoubtedPlace};
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
#[derive(Default, Serialize)]
struct Answered {
    /// True if the plans may run.
    trusted: bool,
    /// Plans that were paused, and those whose jobs were under way.
    stopped: Vec<String>,
    /// Plans that were in the working tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<Moved>,
}

/// Plans that were moved out of the working tree.
#[derive(Serialize)]
struct Moved {
    plans: usize,
    /// Their directory now.
    to: String,
}

impl Answered {
    fn accepted() -> Self {
        Self {
            trusted: true,
            ..Self::default()
        }
    }
}

/// Shows the plans, asks, and accepts them.
pub(super) async fn run(desk: &Desk, yes: bool, format: Format) -> Result<Exit, Failure> {
    let doubts = desk.plans().doubts().await.map_err(failure)?;
    if doubts.is_empty() {
        return print(format, &Answered::accepted());
    }
    let mut text = String::new();
    for doubt in &doubts {
        text.push_str(&format!("{}\n", doubt.reason));
        let is_ended = |plan: &&Arc<Plan>| plan.status().is_ended();
        let (ended, open): (Vec<_>, Vec<_>) = doubt.plans.iter().partition(is_ended);
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
    }
    if !yes {
        if !can_ask(format) {
            output::complain(&output::printable(text.trim_end()));
            return Err(Failure::denied(
                "the plans are not accepted: no terminal to ask on; --yes accepts what is shown",
            ));
        }
        text.push_str("Accept these plans, paused? [y/N]");
        if !confirmed(desk, &text).await? {
            return print(format, &Answered::default()).map(|_| Exit::Denied);
        }
    }
    let stopped = desk.plans().accept().await.map_err(failure)?;
    let stopped = stopped.iter().map(|plan| {
        let name = output::in_a_line(plan.name());
        format!("{name} ({}): {}", plan.id(), plan.status())
    });
    let is_moved = |doubt: &&Doubt| doubt.place == DoubtedPlace::WorkingTree;
    let moved = doubts.iter().filter(is_moved);
    let moved: usize = moved.map(|doubt| doubt.plans.len()).sum();
    let to = desk.plans().options().storage.display().to_string();
    print(
        format,
        &Answered {
            stopped: stopped.collect(),
            moved: (moved > 0).then_some(Moved { plans: moved, to }),
            ..Answered::accepted()
        },
    )
}

fn print(format: Format, answered: &Answered) -> Result<Exit, Failure> {
    format.print(answered, |answered| {
        if !answered.trusted {
            return "the plans are not accepted\n".to_owned();
        }
        let mut text = "the plans of this workspace are accepted".to_owned();
        if let Some(moved) = &answered.moved {
            let plans = match moved.plans {
                1 => "1 plan was".to_owned(),
                plans => format!("{plans} plans were"),
            };
            let to = output::in_a_line(&moved.to);
            text.push_str(&format!("; {plans} moved from the working tree to {to}"));
        }
        text.push('\n');
        if !answered.stopped.is_empty() {
            text.push_str(
                "these plans had not ended, and continue only by `orchestra plan resume` or `retry`:\n",
            );
        }
        for plan in &answered.stopped {
            text.push_str(&format!("  {plan}\n"));
        }
        text
    })?;
    Ok(Exit::Ok)
}
