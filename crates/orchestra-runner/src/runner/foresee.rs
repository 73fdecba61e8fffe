//! What can be known of work before it is kept: an agent that there is not, or what it cannot be asked for,
//! is found when the plan is made or changed, not hours later when the job begins.
//!
//! What is not installed is a warning: a plan may be made before its agent is.

use std::{collections::BTreeMap, sync::Arc};

use orchestra_plan::{
    command::{AgentPatch, Command, Operation, Retry},
    definition::JobDefinition,
    event::{Check, JobChange},
    plan::Plan,
    spec::{JobSpec, PlanSettings},
    work::{Action, WorkSpec},
};

use crate::{
    agents::{AgentError, Asked, Chosen, Purpose, check_folders},
    cause::chain,
    runner::host::Host,
};

/// How many jobs a warning names.
const NAMED: usize = 5;

/// A piece of work, and what it is called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(super) place: String,
    pub(super) work: WorkSpec,
}

/// Work that asks for what cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {}", chain(source))]
pub(crate) struct Impossible {
    place: String,
    source: AgentError,
}

impl Impossible {
    /// The word for the kind of fault.
    pub(crate) const fn code(&self) -> &'static str {
        self.source.code()
    }
}

/// Looks at pieces of work, and gives what should be known of them. With `lenient`, what cannot be had is
/// told as well instead of being refused. An agent that may not run is not asked what it can do.
pub(crate) async fn foresee(
    host: &Host,
    pieces: Vec<Piece>,
    lenient: bool,
) -> Result<Vec<String>, Impossible> {
    let permits = host.permits().await;
    let mut chosen: BTreeMap<Option<String>, Option<Chosen>> = BTreeMap::new();
    let mut denied: BTreeMap<Option<String>, String> = BTreeMap::new();
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Piece { place, work } in pieces {
        let Some(agent) = work.agent() else { continue };
        let name = agent.agent.as_ref().map(|name| name.as_str().to_owned());
        if !chosen.contains_key(&name) {
            let found = match permits.of(Purpose::Work, agent.agent.as_ref()) {
                Ok(permit) => {
                    let settings = host.known_settings();
                    let chosen = settings.agents.choose(permit.name.as_str()).await;
                    chosen.map(Some)
                }
                Err(why) => {
                    denied.insert(name.clone(), why.to_string());
                    Ok(None)
                }
            };
            let found = match found {
                Ok(found) => found,
                Err(error @ (AgentError::NotInstalled { .. } | AgentError::Probe { .. })) => {
                    told.entry(chain(&error)).or_default();
                    None
                }
                Err(source) if !lenient => return Err(Impossible { place, source }),
                Err(source) => {
                    told.entry(chain(&source)).or_default();
                    None
                }
            };
            chosen.insert(name.clone(), found);
        }
        if let Some(why) = denied.get(&name) {
            told.entry(why.clone()).or_default().push(place.clone());
        }
        let checked = match chosen.get(&name).and_then(Option::as_ref) {
            Some(Chosen {
                name,
                profile,
                able,
                ..
            }) => Asked::of(name, profile, able, agent, "").map(drop),
            None => check_folders(agent),
        };
        match checked {
            Ok(()) => {}
            Err(source) if !lenient => return Err(Impossible { place, source }),
            Err(source) => told.entry(chain(&source)).or_default().push(place),
        }
    }
    let words = told.into_iter().map(|(what, places)| match places.len() {
        0 => what,
        many => {
            let named = places[..many.min(NAMED)].join(", ");
            let more = if many > NAMED { ", …" } else { "" };
            format!("{named}{more}: {what}")
        }
    });
    Ok(words.collect())
}

/// The work of a plan that is to be made.
pub(crate) fn of_new(settings: &PlanSettings, jobs: &[JobSpec]) -> Vec<Piece> {
    let mut pieces = of_settings(settings);
    pieces.extend(jobs.iter().flat_map(of_spec));
    pieces
}

/// The work that a command brings; `plan` is what it is asked of.
pub(crate) fn of_command(plan: &Plan, command: &Command) -> Vec<Piece> {
    match command {
        Command::AddJobs(jobs) => jobs.iter().flat_map(of_spec).collect(),
        Command::Finalize { .. } => {
            let mut pieces = of_settings(plan.settings());
            pieces.extend(of_jobs(plan, None));
            pieces
        }
        Command::UpdateJob { job, change } => of_change(job, change),
        Command::BulkUpdate { jobs, patch } => patched(plan, jobs.as_deref(), patch),
        Command::Reshape(operations) => operations.iter().flat_map(of_operation).collect(),
        Command::RetryPlan { retry, .. } => of_retry("the retry", retry),
        Command::RetryJob { job, retry } => of_retry(&of_name(job), retry),
        _ => Vec::new(),
    }
}

/// Whether a command may bring work.
pub(crate) const fn brings_work(command: &Command) -> bool {
    matches!(
        command,
        Command::AddJobs(_)
            | Command::Finalize { .. }
            | Command::UpdateJob { .. }
            | Command::BulkUpdate { .. }
            | Command::Reshape(_)
            | Command::RetryPlan { .. }
            | Command::RetryJob { .. }
    )
}

fn of_name(job: &str) -> String {
    format!("job `{}`", job.chars().take(100).collect::<String>())
}

fn piece(place: &str, part: &str, work: &WorkSpec) -> Piece {
    Piece {
        place: format!("{place}, {part}"),
        work: work.clone(),
    }
}

pub(super) fn of_settings(settings: &PlanSettings) -> Vec<Piece> {
    let init = settings.worktree_init.iter();
    let init = init.map(|work| piece("the plan", "worktreeInit", work));
    let verify = settings.verify_ri.iter();
    init.chain(verify.map(|work| piece("the plan", "verifyRi", work)))
        .collect()
}

fn of_spec(job: &JobSpec) -> Vec<Piece> {
    let place = of_name(job.producer_id.as_str());
    let work = std::iter::once(("work", &job.work));
    let checks = [
        ("prechecks", &job.prechecks),
        ("postchecks", &job.postchecks),
    ];
    let checks = checks
        .into_iter()
        .filter_map(|(part, check)| Some((part, check.as_ref()?)));
    work.chain(checks)
        .map(|(part, work)| piece(&place, part, work))
        .collect()
}

pub(super) fn of_jobs(plan: &Plan, asked: Option<&[String]>) -> Vec<Piece> {
    let named = |job: &&Arc<JobDefinition>| {
        let (id, producer) = (job.id.to_string(), job.producer_id.as_str());
        asked.is_none_or(|asked| asked.iter().any(|name| *name == id || name == producer))
    };
    let jobs = plan.definitions().filter(named);
    jobs.flat_map(|job| {
        let place = of_name(job.producer_id.as_str());
        let work = job.work.iter().map(|work| ("work", work));
        let before = job.prechecks.iter().map(|work| ("prechecks", work));
        let after = job.postchecks.iter().map(|work| ("postchecks", work));
        let all = work.chain(before).chain(after);
        all.map(|(part, work)| piece(&place, part, work))
            .collect::<Vec<_>>()
    })
    .collect()
}

fn of_change(job: &str, change: &JobChange) -> Vec<Piece> {
    let place = of_name(job);
    let work = change.work.iter().map(|work| piece(&place, "work", work));
    let check = |part: &'static str, check: &Option<Check>| {
        let spec = check.as_ref().and_then(|check| check.spec());
        spec.map(|work| piece(&place, part, work))
    };
    let before = check("prechecks", &change.prechecks);
    let after = check("postchecks", &change.postchecks);
    work.chain(before).chain(after).collect()
}

/// The work of agents as it will be.
fn patched(plan: &Plan, jobs: Option<&[String]>, patch: &AgentPatch) -> Vec<Piece> {
    let Some(fields) = &patch.agent else {
        return Vec::new();
    };
    let mut pieces = of_jobs(plan, jobs);
    pieces.retain(|piece| piece.work.agent().is_some());
    for piece in &mut pieces {
        if let Action::Agent(work) = &mut piece.work.action {
            fields.put_into(work);
        }
    }
    pieces
}

fn of_operation(operation: &Operation) -> Vec<Piece> {
    match operation {
        Operation::Add(job)
        | Operation::AddBefore { job, .. }
        | Operation::AddAfter { job, .. } => of_spec(job),
        Operation::Remove { .. } | Operation::UpdateDependencies { .. } => Vec::new(),
    }
}

fn of_retry(place: &str, retry: &Retry) -> Vec<Piece> {
    let work = retry.work.iter().map(|work| piece(place, "newWork", work));
    let before = retry.prechecks.iter().flatten();
    let before = before.map(|work| piece(place, "newPrechecks", work));
    let after = retry.postchecks.iter().flatten();
    let after = after.map(|work| piece(place, "newPostchecks", work));
    work.chain(before).chain(after).collect()
}
