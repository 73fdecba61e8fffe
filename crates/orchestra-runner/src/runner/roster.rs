//! The agents that a plan may start, reported before it runs: names, purposes, who named them, how often
//! and up to which cost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use orchestra_plan::{
    plan::Plan,
    spec::{Budget, JobSpec, PlanSettings},
    work::{ProfileName, WorkSpec},
};

use serde::Serialize;

use super::{
    act::{INSTRUCTIONS, has_instructions},
    foresee::{self, Piece},
    host::Host,
    permits::{Permits, heal_limits, offer},
};
use crate::{
    agents::{Denied, Offer, Purpose},
    plans::Options,
};

/// Maximum number of pieces of work in a line.
const NAMED: usize = 5;

/// The agents that a plan may start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    /// A line for each agent and purpose; empty where none may start.
    pub lines: Vec<String>,
    /// Reasons why a healer that is named does not heal, a line each.
    pub warnings: Vec<String>,
    /// Agents that the plan asks for and that may not run before a person agrees.
    pub offers: Vec<Offer>,
}

/// The agent that may start for a purpose where a plan names none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standby {
    /// The purpose.
    pub what: &'static str,
    /// The agent, if one may start.
    pub agent: Option<String>,
    /// On whose word, or why none may.
    pub why: String,
}

/// Lists for each purpose the agent that may start where a plan names none.
pub(crate) async fn standby(host: &Host) -> Vec<Standby> {
    let permits = host.permits().await;
    let mut all = Vec::new();
    for (what, purpose) in [
        ("work without agent", Purpose::Work),
        ("healing", Purpose::Healing),
        ("worktree instructions", Purpose::Preparation),
    ] {
        let permit = permits.of(purpose, None);
        let (agent, why) = match permit {
            Ok(permit) => (Some(permit.name.to_string()), permit.reason()),
            Err(denied) => (None, denied.to_string()),
        };
        all.push(Standby { what, agent, why });
    }
    all
}

/// Facts of a plan that decide it.
pub(crate) struct Outline {
    pieces: Vec<Piece>,
    jobs: Vec<Job>,
    budget: Budget,
}

/// A job or the validation, as far as it decides which agent prepares its worktree and heals it.
struct Job {
    place: String,
    /// The agent that it names for its work.
    agent: Option<ProfileName>,
    heals: bool,
}

impl Outline {
    /// The outline of a plan that is to be made.
    pub(crate) fn of_new(settings: &PlanSettings, jobs: &[JobSpec]) -> Self {
        let work = jobs
            .iter()
            .map(|job| (job.producer_id.as_str(), Some(&job.work), job.auto_heal));
        Self::of(settings, work, foresee::of_new(settings, jobs))
    }

    /// The outline of a plan.
    pub(crate) fn of_plan(plan: &Plan) -> Self {
        let mut pieces = foresee::of_settings(plan.settings());
        pieces.extend(foresee::of_jobs(plan, None));
        let work = plan
            .definitions()
            .map(|job| (job.producer_id.as_str(), job.work.as_ref(), job.auto_heal));
        Self::of(plan.settings(), work, pieces)
    }

    fn of<'a>(
        settings: &PlanSettings,
        jobs: impl Iterator<Item = (&'a str, Option<&'a WorkSpec>, bool)>,
        pieces: Vec<Piece>,
    ) -> Self {
        let jobs = jobs.map(|(job, work, heals)| Job {
            place: format!("job `{job}`"),
            agent: work
                .and_then(WorkSpec::agent)
                .and_then(|work| work.agent.clone()),
            heals,
        });
        let validation = settings.verify_ri.iter().map(|_| Job {
            place: "the validation".to_owned(),
            agent: None,
            heals: true,
        });
        Self {
            pieces,
            jobs: jobs.chain(validation).collect(),
            budget: settings.budget,
        }
    }
}

/// Lists the agents that a plan may start. Nothing is started for it.
pub(crate) async fn roster(host: &Host, outline: Outline) -> Roster {
    let listed = host.blocking(move |options| {
        let permits = Permits::read(Arc::clone(&options));
        listed(&options, &permits, &outline)
    });
    listed.await.unwrap_or_else(|error| Roster {
        warnings: vec![format!("cannot list the agents of the plan: {error}")],
        ..Roster::default()
    })
}

fn listed(options: &Options, permits: &Permits, outline: &Outline) -> Roster {
    let mut roster = Roster::default();
    let mut asked = BTreeSet::new();
    work(options, permits, outline, &mut roster, &mut asked);
    if outline.jobs.iter().any(|job| job.heals) {
        match switched_off(options) {
            Some(key) => roster.warnings.extend(unused_healer(options, permits, key)),
            None => healing(options, permits, outline, &mut roster, &mut asked),
        }
    }
    if has_instructions(&options.workspace) {
        preparation(options, permits, outline, &mut roster, &mut asked);
    }
    roster
}

/// Lists the agents that may work in places of a plan, each with the reason why it may and with its places. Those that
/// may not are offered.
fn permitted<'p>(
    options: &Options,
    permits: &Permits,
    purpose: Purpose,
    places: impl Iterator<Item = (&'p str, Option<&'p ProfileName>)>,
    roster: &mut Roster,
    asked: &mut BTreeSet<ProfileName>,
) -> Vec<(String, String)> {
    let mut by_agent: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (place, agent) in places {
        match permits.of(purpose, agent) {
            Ok(permit) => {
                let agent = format!("{} ({})", permit.name, permit.reason());
                by_agent.entry(agent).or_default().push(place);
            }
            Err(denied) => ask(options, &denied, roster, asked),
        }
    }
    let by_agent = by_agent.into_iter();
    by_agent
        .map(|(agent, places)| (agent, shown(places.into_iter())))
        .collect()
}

fn preparation(
    options: &Options,
    permits: &Permits,
    outline: &Outline,
    roster: &mut Roster,
    asked: &mut BTreeSet<ProfileName>,
) {
    let jobs = outline.jobs.iter();
    let places = jobs.map(|job| (job.place.as_str(), job.agent.as_ref()));
    for (agent, places) in permitted(
        options,
        permits,
        Purpose::Preparation,
        places,
        roster,
        asked,
    ) {
        roster.lines.push(format!(
            "{agent} prepares the worktree of {places} by {INSTRUCTIONS}: once per attempt, without a limit of its own"
        ));
    }
}

fn work(
    options: &Options,
    permits: &Permits,
    outline: &Outline,
    roster: &mut Roster,
    asked: &mut BTreeSet<ProfileName>,
) {
    let places = outline
        .pieces
        .iter()
        .filter_map(|Piece { place, work }| Some((place.as_str(), work.agent()?.agent.as_ref())));
    let limit = match outline.budget.cost {
        Some(_) => "within `budget.cost` of the plan",
        None => "without a limit of cost unless `budget.cost` of the job sets one",
    };
    for (agent, places) in permitted(options, permits, Purpose::Work, places, roster, asked) {
        roster
            .lines
            .push(format!("{agent} does {places}: once per attempt, {limit}"));
    }
}

fn healing(
    options: &Options,
    permits: &Permits,
    outline: &Outline,
    roster: &mut Roster,
    asked: &mut BTreeSet<ProfileName>,
) {
    let limits = heal_limits(options);
    match permits.of(Purpose::Healing, None) {
        Ok(permit) => roster.lines.push(format!(
            "{} heals what fails ({}): {limits}",
            permit.name,
            permit.reason()
        )),
        Err(denied) => {
            if denied.agent().is_some() {
                roster.warnings.push(format!("healing waits: {denied}"));
            }
            ask(options, &denied, roster, asked);
            let mut own: BTreeMap<&ProfileName, Vec<&str>> = BTreeMap::new();
            for job in outline.jobs.iter().filter(|job| job.heals) {
                if let Some(name) = &job.agent {
                    own.entry(name).or_default().push(&job.place);
                }
            }
            for (name, jobs) in own {
                let Ok(permit) = permits.of(Purpose::Healing, Some(name)) else {
                    continue;
                };
                let jobs = shown(jobs.into_iter());
                roster.lines.push(format!(
                    "{} heals {jobs} ({}): {limits}",
                    permit.name,
                    permit.reason()
                ));
            }
        }
    }
}

/// The setting that switches healing off, if one does.
fn switched_off(options: &Options) -> Option<&'static str> {
    let policy = &options.policy;
    let limits = [
        ("plans.heal_attempts", policy.heals_max == 0),
        ("plans.plan_heal_attempts", policy.plan_heals_max == 0),
    ];
    let (key, _) = limits.into_iter().find(|(_, is_off)| *is_off)?;
    Some(key)
}

/// A warning that the configured healer, if there is one, is not used, because the setting `key` is 0.
fn unused_healer(options: &Options, permits: &Permits, key: &str) -> Option<String> {
    let named = options.named.healer.first()?;
    // A healer that waits for an agreement counts as well.
    let name = match permits.of(Purpose::Healing, None) {
        Ok(permit) => permit.name,
        Err(_) => named.name.clone(),
    };
    Some(format!(
        "healing is off, although plans.healer names `{name}`: {key} is 0"
    ))
}

/// Offers an agent that a person may agree to. Where nothing names one for work, it is the first that is
/// installed; healing that nothing asks for is off and offers none.
fn ask(options: &Options, denied: &Denied, roster: &mut Roster, asked: &mut BTreeSet<ProfileName>) {
    let agents = &options.agents;
    let is_choice = matches!(
        denied,
        Denied::Unnamed {
            purpose: Purpose::Work,
            ..
        }
    );
    let name = match is_choice {
        true => agents.first_installed(),
        false => denied.agent(),
    };
    if let Some(name) = name.filter(|name| !asked.contains(*name)) {
        let mut offer = offer(options, name.as_str());
        if let Some(offer) = offer.as_mut().filter(|_| is_choice) {
            offer.others = agents.installed();
            offer.others.retain(|other| other != name.as_str());
        }
        roster.offers.extend(offer);
        asked.insert(name.clone());
    }
}

fn shown<'a>(places: impl Iterator<Item = &'a str>) -> String {
    let places: Vec<&str> = places.collect();
    let named = places[..places.len().min(NAMED)].join("; ");
    match places.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{named} and {more} more"),
        _ => named,
    }
}
