//! Plans whose database is damaged: how that is seen, and how it is made anew from what is left.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use orchestra_plan::{
    event::{Event, PauseReason, What},
    ids::PlanId,
    outcome::Policy,
    plan::{Job, Plan},
};

use super::{Folded, Options, PlansError, Unreadable, accept::pause, now, read::folded_on};
use crate::{
    holder::{Leadership, Place, short_directory},
    journal::{self, Fresh, FromFiles},
    runner::left_out,
};

/// Reason for the failure of a job that was under way in a plan that the database did not have.
const REASON: &str =
    "it was under way when its plan was rebuilt from files that the database did not have";

/// What the plans are after their database was made anew.
#[derive(Debug, Clone, Default)]
pub struct Mended {
    /// Where the damaged database lies now, for who wants to look at it; whoever does not may remove it.
    pub aside: Option<PathBuf>,
    /// How many plans there are.
    pub plans: usize,
    /// How many events they have.
    pub events: usize,
    /// How many of those come from the readable files.
    pub from_files: usize,
    /// Plans in which values of variables are missing, which the readable files leave out, and the names
    /// of those variables. Those that have not ended are paused.
    pub left_out: BTreeMap<PlanId, BTreeSet<String>>,
    /// Plans of readable files that the database did not have. Those that have not ended are paused.
    pub unknown: BTreeSet<PlanId>,
}

/// What was found of the plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspected {
    /// How many plans can be read.
    pub plans: usize,
    /// Those that cannot, by this program.
    pub unreadable: Vec<Unreadable>,
}

/// Reads all that is kept of the plans below a storage root. It takes no part and
/// changes nothing; where no plans are it makes nothing. Blocks while the disk works.
///
/// # Errors
/// When something of it is damaged, or cannot be read. What [`rebuild`] mends is
/// [`Fault::Damaged`](journal::Fault::Damaged) and [`Fault::DamagedEvent`](journal::Fault::DamagedEvent),
/// in [`PlansError::Storage`].
pub fn inspect(storage: &Path) -> Result<Inspected, PlansError> {
    let all = Folded::new(storage).all_kept()?;
    Ok(Inspected {
        plans: all.plans.len(),
        unreadable: all.unreadable,
    })
}

/// Makes the plans' database below a storage root anew, of what can be read of it and of the readable files
/// beside it. Nobody may run the plans meanwhile: it takes their lock for as long. A plan that has not ended
/// and lacks values of variables is paused, with words that say which. So is a plan that the damaged database does not
/// have: someone else may have written its files. Blocks while the disk works.
///
/// # Errors
/// [`PlansError::Refused`] with the code `in-use` where a process runs the plans; else when the files cannot
/// be moved or written.
pub fn rebuild(storage: &Path) -> Result<Mended, PlansError> {
    let _leadership = claimed(storage)?;
    let (mut missing, mut unknown) = (BTreeMap::new(), BTreeSet::new());
    let rebuilt = journal::rebuild(storage, |found| {
        let Some(mut plan) = folded(&found) else {
            // Nothing runs a plan that cannot be read. A newer program may be able to read it.
            return (!found.is_unknown).then(Vec::new);
        };
        let mut events = Vec::new();
        if found.is_unknown {
            events = pause(&mut plan, &Policy::default(), REASON)
                .inspect_err(|error| {
                    tracing::warn!(plan = %found.plan, %error, "cannot pause a plan; it is left out");
                })
                .ok()?;
            unknown.insert(*plan.id());
        }
        events.extend(paused(&plan, &mut missing));
        Some(events)
    })?;
    Ok(Mended {
        aside: rebuilt.aside,
        plans: rebuilt.plans,
        events: rebuilt.events,
        from_files: rebuilt.from_files,
        left_out: missing,
        unknown,
    })
}

/// Time that a released lock may stay held: a program that is being started inherits it until it executes.
const LETS_GO: Duration = Duration::from_millis(300);

/// Time within which a background runner that has nothing to do ends, beyond the time that it waits for callers.
const ENDING: Duration = Duration::from_secs(2);

/// Takes the lock of the process that runs the plans, and waits for a background runner that has nothing to do.
pub(super) fn claimed_when_idle(options: &Options) -> Result<Leadership, PlansError> {
    let end = Instant::now() + options.quiet + ENDING;
    let is_live = || {
        let plans = Folded::new(&options.storage).all();
        plans.is_ok_and(|plans| plans.iter().any(|plan| plan.is_live()))
    };
    loop {
        let claimed = claimed(&options.storage);
        let is_held = matches!(&claimed, Err(error) if error.code() == IN_USE);
        if !is_held || Instant::now() >= end || is_live() {
            return claimed;
        }
    }
}

/// Code of the refusal while a process runs the plans.
const IN_USE: &str = "in-use";

/// Takes the lock of the process that runs the plans.
pub(super) fn claimed(storage: &Path) -> Result<Leadership, PlansError> {
    let place = Place::new(storage, &short_directory());
    let end = Instant::now() + LETS_GO;
    loop {
        if let Some(leadership) = place.lead()? {
            return Ok(leadership);
        }
        if Instant::now() >= end {
            let holder = match place.leader() {
                Some(pid) => format!("process {pid}"),
                None => "a process".to_owned(),
            };
            return Err(PlansError::Refused {
                code: IN_USE.to_owned(),
                message: format!(
                    "{holder} runs the plans of this workspace: {}, and try again",
                    what_ends(storage)
                ),
            });
        }
        thread::sleep(LETS_GO / 20);
    }
}

/// What to do so that the process that runs the plans ends.
fn what_ends(storage: &Path) -> String {
    const NAMED: usize = 5;
    let plans = Folded::new(storage).all().unwrap_or_default();
    let jobs = plans.iter().flat_map(|plan| {
        let of_plan = move |job: &Job| format!("job {} of plan {}", job.producer(), plan.name());
        plan.active().map(of_plan)
    });
    let mut jobs: Vec<String> = jobs.take(NAMED + 1).collect();
    if jobs.is_empty() {
        return "end the program that serves the workspace (`orchestra up`, or an MCP client)"
            .to_owned();
    }
    if jobs.len() > NAMED {
        jobs.truncate(NAMED);
        jobs.push("…".to_owned());
    }
    format!(
        "wait until these jobs have ended, or cancel their plans: {}",
        jobs.join(", ")
    )
}

/// Folds the events of a plan.
fn folded(found: &FromFiles<'_>) -> Option<Plan> {
    let mut plan: Option<Arc<Plan>> = None;
    for kept in found.events {
        match folded_on(plan.take(), kept) {
            Ok(folded) => plan = Some(folded),
            Err(error) => {
                let plan = found.plan;
                tracing::warn!(%plan, %error, "cannot read a plan of the readable files");
                return None;
            }
        }
    }
    plan.map(Arc::unwrap_or_clone)
}

/// The event that pauses a plan in which values are missing, where it needs one.
fn paused(plan: &Plan, missing: &mut BTreeMap<PlanId, BTreeSet<String>>) -> Option<Fresh> {
    let names = left_out(plan);
    if names.is_empty() || plan.is_deleted() {
        return None;
    }
    let named: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = format!(
        "values of variables are missing since the plan was rebuilt from its files: set {} and resume it",
        named.join(", ")
    );
    missing.insert(*plan.id(), names);
    if plan.status().is_ended() || plan.is_scaffolding() {
        // Nothing of it runs by itself, and a job that lacks a value is refused.
        return None;
    }
    let what = What::PlanPaused {
        reason: PauseReason::Variables { error },
    };
    let event = Event::new(now(), what);
    Fresh::new(event.at.get(), &event).ok()
}
