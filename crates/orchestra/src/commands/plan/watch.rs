//! `orchestra plan watch`: a plan as it runs, until its end.
//!
//! Where stderr is a terminal, with a bar for each job; else, and with `--json`, as a line for each
//! change on stdout. What is shown is folded from the events of the plan, so nothing is missed,
//! whichever process runs it.

mod frame;
mod lines;
mod screen;

use std::{collections::BTreeSet, io::IsTerminal as _, sync::Arc, time::Duration};

use orchestra_plan::{
    event::Event,
    ids::PlanId,
    plan::{Changes, Plan},
    status::PlanStatus,
    view::error_of,
};

use super::{
    chain,
    desk::{Desk, exit_of, failure},
    hints, look,
};
use crate::{
    env::Variable,
    exit::{Exit, Failure},
    output::{self, Format},
};
use lines::Lines;
use screen::Screen;

/// How often what is shown is shown anew where nothing happens: times go on.
const TICK: Duration = Duration::from_millis(500);

/// How many events are taken at once.
const PAGE: u32 = 500;

/// On what a plan is shown.
enum Shown {
    Screen(Screen),
    Lines(Lines),
}

/// Shows a plan until its end, or until it rests.
pub(super) async fn run(desk: &Desk, id: PlanId, format: Format) -> Result<Exit, Failure> {
    match shown(desk, id, format).await {
        // That nobody reads on changes nothing of how the plan stands.
        Err(Failure::BrokenPipe) => {
            let plan = desk.plans().plan(id).await.map_err(failure)?;
            match chain::rests(desk, &plan).await? {
                true => Ok(exit_of(&plan)),
                false => left(desk, &plan, Format::Text).await,
            }
        }
        shown => shown,
    }
}

async fn shown(desk: &Desk, id: PlanId, format: Format) -> Result<Exit, Failure> {
    // Before the plan is read, so that what happens meanwhile is not missed.
    let mut after = desk.plans().last().await.map_err(failure)?;
    let plan = desk.plans().plan(id).await.map_err(failure)?;
    let mut plan = Arc::unwrap_or_clone(plan);
    if let (Some(awaited), Format::Text) = (chain::awaited(desk, &plan).await?, format) {
        output::complain(&format!(
            "it starts when {} has succeeded, which is {}",
            chain::named(&awaited),
            awaited.status()
        ));
    }
    let mut shown = Shown::new(&plan, format)?;
    loop {
        let is_over = chain::rests(desk, &plan).await?;
        let wait = shown.tick(&plan, is_over);
        if is_over {
            break;
        }
        tokio::select! {
            () = desk.signals().first() => return left(desk, &plan, format).await,
            changed = desk.plans().changes(after, wait) => { changed.map_err(failure)?; }
        }
        loop {
            let page = desk.plans().events(after, PAGE).await.map_err(failure)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for placed in page {
                if placed.plan != id || placed.number <= plan.version() {
                    continue;
                }
                let Some(event) = placed.event else {
                    // A newer program goes on with it; that is said.
                    let anew = desk.plans().plan(id).await.map_err(failure)?;
                    plan = Arc::unwrap_or_clone(anew);
                    continue;
                };
                let changes = plan.apply(&event);
                shown.changed(&plan, &event, &changes)?;
            }
        }
    }
    match format {
        Format::Json => ended(desk, &plan).await?,
        Format::Text => told(&plan, chain::awaited(desk, &plan).await?.as_deref())?,
    }
    Ok(exit_of(&plan))
}

/// Leaves a plan that has not ended, and says whether it goes on: only when somebody runs it on.
async fn left(desk: &Desk, plan: &Plan, format: Format) -> Result<Exit, Failure> {
    let id = plan.id();
    let handed = desk.hand_over().await;
    match (format, handed) {
        (Format::Json, handed) => {
            let line = serde_json::json!({
                "event": "left", "planId": id, "status": plan.status(), "goesOn": handed.is_ok(),
                "error": handed.err(),
            });
            match output::json(&line) {
                // Whoever has gone need not be told.
                Err(Failure::BrokenPipe) => {}
                said => said?,
            }
        }
        (Format::Text, Ok(())) => output::complain(&format!(
            "plan {id} continues in the background; `orchestra plan watch {id}` shows it again, \
             `orchestra plan cancel {id}` ends it"
        )),
        (Format::Text, Err(why)) => output::complain(&format!(
            "no program runs plan {id} now: {why}; `orchestra doctor --fix` continues it"
        )),
    }
    Ok(Exit::PlanOpen)
}

/// Prints the whole plan as it stands at last: it has ended, or rests until somebody does something.
async fn ended(desk: &Desk, plan: &Plan) -> Result<(), Failure> {
    let view = desk.view(plan).await?;
    let event = match plan.status().is_ended() {
        true => "ended",
        false => "rests",
    };
    output::json(&serde_json::json!({"event": event, "plan": view}))
}

/// Says how it ended.
fn told(plan: &Plan, awaited: Option<&Plan>) -> Result<(), Failure> {
    let (name, id) = (output::in_a_line(plan.name()), plan.id());
    let took = match look::took(plan) {
        took if took.is_empty() => took,
        took => format!(" after {took}"),
    };
    let target = plan.branches().map(|branches| branches.target.to_string());
    let target = target.unwrap_or_default();
    let mut text = match plan.status() {
        PlanStatus::Succeeded => format!("plan {name} succeeded{took}: merged into {target}\n"),
        PlanStatus::Failed => format!("plan {name} failed{took}\n"),
        PlanStatus::Paused | PlanStatus::PendingStart => match awaited {
            Some(awaited) => format!(
                "plan {name} waits for {}, which is {}: it starts when that plan has succeeded; \
                 `orchestra plan resume {id}` starts it without that\n",
                chain::named(awaited),
                awaited.status()
            ),
            None => format!(
                "plan {name} is {}; `orchestra plan resume {id}` continues it\n",
                look::standing(plan)
            ),
        },
        PlanStatus::Scaffolding => format!(
            "plan {name} is still being built; `orchestra plan finalize {id}` completes it\n"
        ),
        status => format!("plan {name} is {status}{took}\n"),
    };
    if let Some(used) = look::used(plan.usage()) {
        text.push_str(&format!("  used: {used}\n"));
    }
    let failed = plan
        .jobs()
        .iter()
        .filter(|job| job.status().name() == "failed");
    let mut unhealed = BTreeSet::new();
    for failed in failed {
        let error = error_of(failed).unwrap_or_default();
        let (error, reason) = hints::parts_of(&error);
        unhealed.extend(reason.map(str::to_owned));
        let job = failed.producer();
        // The log of the last attempt is that of the agent, where a heal failed in it.
        let attempt = failed.failed_heal().and(failed.failed_attempt());
        let attempt = attempt.map(|attempt| format!(" --attempt {}", attempt.number));
        let attempt = attempt.unwrap_or_default();
        let has_log = !failed.attempts().is_empty();
        let hint = match has_log {
            true => format!("; `orchestra plan logs {id} {job}{attempt}` shows its output"),
            false => String::new(),
        };
        text.push_str(&format!("  {job}: {}{hint}\n", output::in_a_line(error)));
    }
    for reason in unhealed {
        text.push_str(&format!("  not healed: {}\n", output::in_a_line(&reason)));
    }
    if plan.status() == PlanStatus::Failed {
        text.push_str(&hints::of_failed(plan));
    }
    output::lines(&text)
}

impl Shown {
    fn new(plan: &Plan, format: Format) -> Result<Self, Failure> {
        let is_dumb = Variable::Terminal.read().is_some_and(|kind| kind == "dumb");
        if format == Format::Text && std::io::stderr().is_terminal() && !is_dumb {
            return Ok(Self::Screen(Screen::new()));
        }
        Lines::new(plan, format).map(Self::Lines)
    }

    /// Shows what an event has changed.
    fn changed(&mut self, plan: &Plan, event: &Event, changes: &Changes) -> Result<(), Failure> {
        match self {
            // It shows how all stands at the next tick.
            Self::Screen(_) => Ok(()),
            Self::Lines(lines) => lines.changed(plan, event, changes),
        }
    }

    /// Shows how it stands now, if that was not done a moment ago or is the last time; when the next
    /// time is.
    fn tick(&mut self, plan: &Plan, is_last: bool) -> Duration {
        match self {
            Self::Screen(screen) => match screen.rests() {
                rest if rest.is_zero() || is_last => {
                    screen.show(plan);
                    TICK
                }
                rest => rest,
            },
            Self::Lines(_) => TICK,
        }
    }
}
