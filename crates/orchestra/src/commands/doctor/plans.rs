//! What `orchestra doctor` says of the plans, and how it mends them.

use std::{path::Path, time::Duration};

use orchestra_plan::plan::Plan;
use orchestra_runner::{
    holder::{Place, short_directory},
    journal::Fault,
    plans::{
        Mended, Options, Plans, PlansError, Unreadable, damaged_files, inspect, mend_files,
        rebuild_trusted,
    },
};
use tokio::time::Instant;

use crate::{config::Config, exit::Failure, output, serving, stopping::Ending};

/// Time for which readable files may be missing while a process runs the plans, and time between two looks at them.
const WRITING: Duration = Duration::from_secs(7);
const LOOK: Duration = Duration::from_millis(100);

/// Codes of faults of a git directory with which no plan starts, and that only a call of git finds.
const STOPS_GIT: [&str; 2] = ["git-waits-for-pipe", "repository-elsewhere"];

/// How many files are named.
const NAMED: usize = 5;

/// The workspace whose plans are examined, and the end of the command at a signal.
struct At<'a> {
    config: &'a Config,
    ending: &'a Ending,
}

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    /// All of it.
    pub(super) findings: Vec<String>,
    /// What of it is still there after mending.
    pub(super) remaining: Vec<String>,
}

impl Found {
    /// What was found elsewhere, too.
    pub(super) fn add(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.remaining.extend(other.remaining);
    }

    /// Found, and not mended.
    pub(super) fn still(&mut self, finding: String) {
        self.findings.push(finding.clone());
        self.remaining.push(finding);
    }
}

/// Examines the plans of a workspace, and mends what is wrong if asked. Where there are none, nothing is
/// wrong with them, and nothing is made.
///
/// # Errors
/// When the system gives no threads.
pub(super) fn examine(config: &Config, ending: &Ending, mends: bool) -> Result<Found, Failure> {
    let storage = &config.plans.storage.value;
    let mut found = Found::default();
    let at = &At { config, ending };
    misnamed(at, &mut found)?;
    if let Some(unused) = config.plans.unused_place(config) {
        found.still(unused);
    }
    // Where they are and whose they are, before they are looked at.
    if let Err(error) = reading(at, async |plans| plans.check_storage().await)? {
        found.still(format!("plans: {}", error.whole()));
        return Ok(found);
    }
    match reading(at, async |plans| plans.check_former().await)? {
        Ok(()) => former(at, &mut found)?,
        Err(error) => found.still(format!("plans: {}", error.whole())),
    }
    if matches!(storage.try_exists(), Ok(false)) {
        return Ok(found);
    }
    let runtime = serving::runtime()?;
    let inspected = match inspect(storage) {
        Err(error) if is_damage(&error) && mends => {
            match rebuild_trusted(&options(config), runtime.handle()) {
                Ok(mended) => {
                    found.findings.extend(told(&mended));
                    inspect(storage)
                }
                Err(error) => Err(error),
            }
        }
        inspected => inspected,
    };
    match inspected {
        Ok(inspected) => {
            report(&inspected.unreadable, &mut found);
            if inspected.plans > 0 {
                files(storage, mends, &mut found);
                match untrusted(at)? {
                    Some(doubt) => found.still(format!("plans: {doubt}")),
                    None => attended(config, mends, &mut found)?,
                }
            }
            // They may be of plans that were deleted.
            kept(at, &mut found)?;
        }
        Err(error) if is_damage(&error) => found.still(format!(
            "plans: {}; `orchestra doctor --fix` rebuilds their database from its readable parts and \
             from the readable files beside it",
            error.whole()
        )),
        Err(error) => found.still(format!("plans: {}", error.whole())),
    }
    Ok(found)
}

/// Reports plans that this program cannot read.
fn report(unreadable: &[Unreadable], found: &mut Found) {
    for unreadable in unreadable {
        found.still(format!(
            "{}; until then nothing of it runs, and nothing of it is touched",
            output::in_a_line(&unreadable.what)
        ));
    }
}

/// Reports plans in the working tree, where earlier versions kept them, that cannot be read.
fn former(at: &At<'_>, found: &mut Found) -> Result<(), Failure> {
    match reading(at, async |plans| plans.former_unreadable().await)? {
        Ok(unreadable) => report(&unreadable, found),
        Err(error) => found.still(format!("plans in the working tree: {}", error.whole())),
    }
    Ok(())
}

/// Whether there are the agents that the configuration names.
fn misnamed(at: &At<'_>, found: &mut Found) -> Result<(), Failure> {
    let misnamed = reading(at, async |plans| plans.misnamed_agents().await)?;
    for finding in misnamed {
        found.still(finding);
    }
    Ok(())
}

/// Which worktrees stay after their plans.
fn kept(at: &At<'_>, found: &mut Found) -> Result<(), Failure> {
    let kept = reading(at, async |plans| plans.kept_worktrees().await)?;
    match kept {
        Ok(kept) => kept.iter().for_each(|kept| found.still(kept.to_string())),
        Err(error) if STOPS_GIT.contains(&error.code()) => {
            found.still(format!("plans: {}", error.whole()));
        }
        // Another finding reports a repository that git cannot read.
        Err(_) => {}
    }
    Ok(())
}

/// Reason that plans which have not ended may not run; `None` where they may, or there are none.
fn untrusted(at: &At<'_>) -> Result<Option<String>, Failure> {
    let doubt = reading(at, async |plans| {
        let open = plans.list().await.ok()?;
        let is_open = open.iter().any(|plan| !plan.status().is_ended());
        match is_open {
            true => plans.check_trust().await.err(),
            false => None,
        }
    })?;
    Ok(doubt.map(|error| error.whole()))
}

/// Asks the plans something that nobody need run them for.
fn reading<T>(at: &At<'_>, asks: impl AsyncFnOnce(&Plans) -> T) -> Result<T, Failure> {
    let plans = Plans::new(options(at.config));
    at.ending.run(asks(&plans))
}

fn options(config: &Config) -> Options {
    serving::plan_options(config, &config.workspace, "orchestra doctor")
}

/// Whether the readable files say what the database says. Who runs the plans writes them some moments later.
fn files(storage: &Path, mends: bool, found: &mut Found) {
    let end = std::time::Instant::now() + WRITING;
    let damaged = loop {
        let is_over = std::time::Instant::now() >= end;
        let place = Place::new(storage, &short_directory());
        let is_run = matches!(place.is_led(), Ok(true));
        let looked = match mends && !is_run {
            true => mend_files(storage).map(|damaged| (damaged, true)),
            false => damaged_files(storage).map(|damaged| (damaged, false)),
        };
        match looked {
            Ok((damaged, mended)) if damaged.is_empty() || mended || is_over || !is_run => {
                break (damaged, mended);
            }
            // Somebody has taken it up meanwhile.
            Err(PlansError::Refused { .. }) | Ok(_) if !is_over => {}
            Ok(looked) => break looked,
            Err(error) => return found.still(format!("plans: {}", error.whole())),
        }
        std::thread::sleep(LOOK);
    };
    let (damaged, mended) = damaged;
    if damaged.is_empty() {
        return;
    }
    let named: Vec<String> = damaged
        .iter()
        .take(NAMED)
        .map(|path| path.display().to_string())
        .collect();
    let more = if damaged.len() > NAMED { ", …" } else { "" };
    let finding = format!(
        "readable files of plans are missing or damaged: {}{more}",
        named.join(", ")
    );
    match mended {
        true => found
            .findings
            .push(format!("{finding}; it was written again")),
        false => found.still(format!(
            "{finding}; `orchestra doctor --fix` writes it again when no process runs the plans"
        )),
    }
}

/// Whether somebody runs the plans that are under way. Where nobody does, mending has a program in the
/// background run them on.
fn attended(config: &Config, mends: bool, found: &mut Found) -> Result<(), Failure> {
    let place = Place::new(&config.plans.storage.value, &short_directory());
    match place.is_led() {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(error) => {
            found.still(format!("plans: {error}"));
            return Ok(());
        }
    }
    let runtime = serving::runtime()?;
    let looked = runtime.block_on(async {
        let plans = Plans::new(options(config));
        let live = plans.list().await?;
        let live: Vec<String> = live
            .iter()
            .filter(|plan| plan.is_live())
            .map(|plan| named(plan))
            .collect();
        if mends && !live.is_empty() {
            plans.attend().await?;
        }
        serving::leave_plans(&plans, Instant::now() + serving::LEAVING).await;
        Ok::<_, PlansError>(live)
    });
    // Nothing that still computes is waited for.
    runtime.shutdown_background();
    match looked {
        Ok(live) if live.is_empty() => {}
        Ok(live) => {
            let finding = format!("no process runs these plans: {}", live.join(", "));
            match mends {
                true => found.findings.push(format!(
                    "{finding}; a program in the background runs them now"
                )),
                false => found.still(format!(
                    "{finding}; `orchestra doctor --fix` starts a program in the background that runs them; \
                     so does any program that serves the workspace"
                )),
            }
        }
        Err(error) => found.still(format!("plans: {}", error.whole())),
    }
    Ok(())
}

const fn is_damage(error: &PlansError) -> bool {
    matches!(
        error,
        PlansError::Storage(Fault::Damaged | Fault::DamagedEvent { .. })
    )
}

fn named(plan: &Plan) -> String {
    format!("plan {} ({})", output::in_a_line(plan.name()), plan.id())
}

/// What became of a damaged database, and what is to be done then.
fn told(mended: &Mended) -> Vec<String> {
    let Mended {
        aside,
        plans,
        events,
        from_files,
        left_out,
        unknown,
    } = mended;
    let mut told = format!(
        "the database of the plans was damaged: it was rebuilt with {plans} plans and {events} events, {from_files} of them from the readable files"
    );
    if let Some(aside) = aside {
        told.push_str(&format!(
            "; the damaged one is preserved as {}",
            aside.display()
        ));
    }
    let missing = left_out.iter().map(|(plan, names)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let names = names.join(", ");
        format!("plan {plan} lacks values of {names}, which no file holds: set them and resume it")
    });
    let unknown = unknown.iter().map(|plan| {
        format!(
            "plan {plan} is of readable files, and the damaged database did not have it: it does not run before you resume \
             it; look at it with `orchestra plan show {plan}`"
        )
    });
    std::iter::once(told)
        .chain(missing)
        .chain(unknown)
        .collect()
}
