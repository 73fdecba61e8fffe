//! What `orchestra doctor` says of the plans, and how it mends them.

use orchestra_plan::plan::Plan;
use orchestra_runner::{
    holder::{Place, short_directory},
    journal::Fault,
    plans::{Mended, Plans, PlansError, inspect, rebuild},
};
use tokio::time::Instant;

use crate::{config::Config, exit::Failure, output, serving};

/// What was found of the plans.
#[derive(Default)]
pub(super) struct Found {
    /// All of it.
    pub(super) findings: Vec<String>,
    /// What of it is still there after mending.
    pub(super) remaining: Vec<String>,
}

impl Found {
    fn still(&mut self, finding: String) {
        self.findings.push(finding.clone());
        self.remaining.push(finding);
    }
}

/// Examines the plans of a workspace, and mends what is wrong if asked. Where there are none, nothing is
/// wrong with them, and nothing is made.
///
/// # Errors
/// When the system gives no threads.
pub(super) fn examine(config: &Config, mends: bool) -> Result<Found, Failure> {
    let storage = &config.plans.storage.value;
    let mut found = Found::default();
    if !storage.exists() {
        return Ok(found);
    }
    let inspected = match inspect(storage) {
        Err(error) if is_damage(&error) && mends => match rebuild(storage) {
            Ok(mended) => {
                found.findings.extend(told(&mended));
                inspect(storage)
            }
            Err(error) => Err(error),
        },
        inspected => inspected,
    };
    match inspected {
        Ok(0) => {}
        Ok(_) => attended(config, mends, &mut found)?,
        Err(error) if is_damage(&error) => found.still(format!(
            "plans: {}; `orchestra doctor --fix` makes their database anew from what can be read and \
             from the readable files beside it",
            words(&error)
        )),
        Err(error) => found.still(format!("plans: {}", words(&error))),
    }
    Ok(found)
}

/// Whether somebody runs the plans that are under way. Where nobody does, mending has a program in the
/// background run them on.
fn attended(config: &Config, mends: bool, found: &mut Found) -> Result<(), Failure> {
    let place = Place::new(&config.plans.storage.value, &short_directory());
    match place.claim() {
        // Somebody has it. What is claimed here is given back at once.
        Ok(None) => return Ok(()),
        Ok(Some(claim)) => drop(claim),
        Err(error) => {
            found.still(format!("plans: {error}"));
            return Ok(());
        }
    }
    let runtime = serving::runtime()?;
    let looked = runtime.block_on(async {
        let plans = Plans::new(serving::plan_options(
            config,
            &config.workspace,
            "orchestra doctor",
        ));
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
            let finding = format!("nobody runs what is under way: {}", live.join(", "));
            match mends {
                true => found.findings.push(format!(
                    "{finding}; now a program in the background does"
                )),
                false => found.still(format!(
                    "{finding}; `orchestra doctor --fix` has a program in the background do it, and so \
                     does any program that serves the workspace"
                )),
            }
        }
        Err(error) => found.still(format!("plans: {}", words(&error))),
    }
    Ok(())
}

const fn is_damage(error: &PlansError) -> bool {
    matches!(
        error,
        PlansError::Storage(Fault::Damaged | Fault::DamagedEvent { .. })
    )
}

fn words(error: &PlansError) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        words.push_str(&format!(": {error}"));
        cause = error.source();
    }
    words
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
    } = mended;
    let mut told = format!(
        "the database of the plans was damaged: it was made anew with {plans} plans and {events} events, \
         {from_files} of them from the readable files"
    );
    if let Some(aside) = aside {
        told.push_str(&format!("; the damaged one is kept as {}", aside.display()));
    }
    let missing = left_out.iter().map(|(plan, names)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let names = names.join(", ");
        format!("plan {plan} lacks values of {names}, which no file holds: set them and resume it")
    });
    std::iter::once(told).chain(missing).collect()
}
