//! What a command leads to: events to be kept, or a refusal.
//!
//! [`decide`] looks at the plan and changes nothing. Its events are made durable, all or none, and
//! applied one after the other; only then is anything done about them. All that is written into the
//! events was checked here, so the fold needs no second opinion.

use std::collections::HashSet;

use crate::command::{Code, Command, Cx, Decision, Item, NewPlan, Refusal, Request};
use crate::definition::{
    Definition, DefinitionError, Draft, JobDefinition, Problem, SnapshotValidation,
};
use crate::event::{Created, Event, Version, What};
use crate::ids::ProducerId;
use crate::plan::{Job, Plan};
use crate::reshape;
use crate::spec::{Dependencies, JobSpec, Name};

mod build;
mod change;
mod job;
mod report;
mod steer;

/// The longest idempotency key, in bytes.
pub const KEY_MAX: usize = 200;
/// The longest name of who asked that is kept, in bytes.
pub const BY_MAX: usize = 200;

/// What a command leads to.
///
/// # Errors
/// When the plan or the job is not in a state that allows it, or the request does not fit the plan
/// as it is now. Nothing is to be done then.
pub fn decide(plan: &Plan, request: Request, cx: &mut Cx<'_>) -> Result<Decision, Refusal> {
    let Request {
        command,
        expected_version,
        key,
        by,
    } = request;
    if let Some(key) = &key {
        if key.is_empty() || key.len() > KEY_MAX {
            let words = format!("an idempotency key must have 1 to {KEY_MAX} bytes");
            return Err(Refusal::new(Code::BadKey, words));
        }
        if plan.seen(key).is_some() {
            return Ok(Decision {
                repeated: true,
                ..Decision::default()
            });
        }
    }
    if let Some(expected) = expected_version.filter(|expected| *expected != plan.version()) {
        let words = format!(
            "the plan is at version {}, not {expected}; read it again before you change it",
            plan.version()
        );
        return Err(Refusal::new(Code::VersionConflict, words));
    }
    if plan.is_deleted() && !matches!(command, Command::WorktreeRemoved { .. }) {
        return Err(wrong_plan("the plan is deleted"));
    }
    let mut decision = route(plan, command, cx)?;
    if let Some(first) = decision.events.first_mut() {
        first.key = key;
        first.by = by.map(bounded_name);
    }
    Ok(decision)
}

/// Who asked, as it is kept.
fn bounded_name(mut name: String) -> String {
    crate::event::truncate(&mut name, BY_MAX);
    name
}

fn route(plan: &Plan, command: Command, cx: &mut Cx<'_>) -> Result<Decision, Refusal> {
    let whats = match command {
        Command::AddJobs(jobs) => return build::add(plan, jobs, cx),
        Command::Finalize { start_paused } => build::finalize(plan, start_paused, cx)?,
        Command::Update(patch) => change::plan(plan, &patch, cx)?,
        Command::UpdateJob { job, change } => change::job(plan, &job, change)?,
        Command::BulkUpdate { jobs, patch } => return change::bulk(plan, jobs, &patch, cx),
        Command::Reshape(operations) => return reshape::reshape(plan, operations, cx),
        Command::Pause => steer::pause(plan)?,
        Command::Resume => steer::resume(plan)?,
        Command::Cancel { reason } => steer::cancel(plan, reason)?,
        Command::Delete => steer::delete(plan),
        Command::Archive { force } => steer::archive(plan, force)?,
        Command::Recover => steer::recover(plan)?,
        Command::RetryPlan { jobs, retry } => return job::retry_all(plan, jobs, &retry, cx),
        Command::RetryJob { job, retry } => job::retry(plan, plan.find(&job)?, &retry, cx)?,
        Command::ForceFail { job, reason } => job::force_fail(plan, &job, reason)?,
        Command::OtherEnded {
            plan: other,
            status,
        } => steer::other_ended(plan, other, status),
        Command::BranchesReady(branches) => steer::branches(plan, branches)?,
        Command::BranchesFailed { error } => steer::branches_failed(plan, error)?,
        Command::Schedule { job } => job::schedule(plan, job)?,
        Command::Return { job, reason } => job::give_back(plan, job, reason)?,
        Command::Begin { job } => job::begin(plan, job)?,
        Command::Report {
            job,
            attempt,
            report,
        } => report::report(plan, job, attempt, report, cx)?,
        Command::WorktreeRemoved { job } => job::worktree_removed(plan, job)?,
        Command::Clock => report::clock(plan, cx.now),
    };
    Ok(decided(whats, cx))
}

/// What makes a plan: its first event.
///
/// # Errors
/// When its jobs are not a graph: see [`DefinitionError`]; or
/// it would wait for a plan that there is not.
pub fn create(new: NewPlan, by: Option<String>, cx: &mut Cx<'_>) -> Result<Event, Refusal> {
    let NewPlan {
        id,
        mut settings,
        jobs,
        scaffolding,
        source,
        mark,
        sandboxed,
    } = new;
    let waits = steer::waits(id, &mut settings, cx)?;
    let draft = drafted(jobs, cx)?;
    let jobs = if scaffolding {
        owned(draft.jobs())
    } else {
        let verify = settings.verify_ri.clone();
        owned(
            draft
                .finish(SnapshotValidation {
                    id: (cx.ids)(),
                    verify,
                })?
                .jobs(),
        )
    };
    let paused = if scaffolding { None } else { waits };
    let key = settings
        .idempotency_key
        .as_ref()
        .map(|key| key.as_str().to_owned());
    let created = Created {
        plan: id,
        settings,
        jobs,
        scaffolding,
        paused,
        source,
        mark,
        sandboxed,
    };
    Ok(Event {
        v: Version,
        at: cx.now,
        by: by.map(bounded_name),
        key,
        what: What::PlanCreated(Box::new(created)),
    })
}

/// A new plan under construction with the jobs of another, none of them begun. Jobs that others were
/// split into are left out: the copy has the jobs that they are parts of, whole. The settings in effect decide whether the
/// copy has a sandbox.
///
/// # Errors
/// When no name is given and that of the other is too long to be added to, or one of its jobs cannot
/// be written down again.
pub fn cloned(
    plan: &Plan,
    id: crate::ids::PlanId,
    name: Option<Name>,
    target: Option<crate::ids::Branch>,
) -> Result<NewPlan, Refusal> {
    let name = match name {
        Some(name) => name,
        None => Name::parse(&format!("{} (clone)", plan.name())).map_err(|_| {
            let words =
                "the plan's name is too long to append ` (clone)`; pass a name for the clone";
            Refusal::new(Code::NothingToDo, words)
        })?,
    };
    let settings = crate::spec::PlanSettings {
        name,
        target_branch: target,
        resume_after_plan: None,
        idempotency_key: None,
        ..plan.settings().clone()
    };
    let whole = plan
        .definitions()
        .filter(|job| job.split_of.is_none())
        .map(|job| spec_of(plan, job));
    let jobs = whole.collect::<Result<_, Refusal>>()?;
    Ok(NewPlan {
        id,
        settings,
        jobs,
        scaffolding: true,
        source: Some(*plan.id()),
        mark: None,
        sandboxed: false,
    })
}

/// Whether a plan that was made under the key of a new one is what is asked for again.
///
/// # Errors
/// When it was made of something else.
pub fn repeats(before: &Plan, new: &NewPlan) -> Result<(), Refusal> {
    match (before.mark, new.mark) {
        (Some(before), Some(new)) if before != new => {}
        _ => return Ok(()),
    }
    let key = new.settings.idempotency_key.as_ref();
    let words = format!(
        "the idempotency key `{}` belongs to plan `{}` ({}), whose definition differs; use another key",
        key.map_or("", |key| key.as_str()),
        before.name(),
        before.id()
    );
    Err(Refusal::new(Code::KeyReused, words))
}

fn spec_of(plan: &Plan, job: &JobDefinition) -> Result<JobSpec, Refusal> {
    let Some(work) = job.work.clone() else {
        let words = format!("cannot copy job `{}`: it has no work", job.producer_id);
        return Err(wrong_job(words));
    };
    let mut dependencies: Vec<ProducerId> = Vec::with_capacity(job.dependencies.len());
    for name in &job.dependencies {
        let name = before_split(plan, name);
        if !dependencies.contains(name) {
            dependencies.push(name.clone());
        }
    }
    let dependencies = Dependencies::new(dependencies).ok_or_else(|| {
        DefinitionError::from(Problem::TooManyDependencies {
            job: job.producer_id.clone(),
        })
    })?;
    Ok(JobSpec {
        name: Some(job.name.clone()),
        dependencies,
        prechecks: job.prechecks.clone(),
        postchecks: job.postchecks.clone(),
        instructions: job.instructions.clone(),
        group: job.group.clone(),
        auto_heal: job.auto_heal,
        expects_no_changes: job.expects_no_changes,
        base_branch: job.base_branch.clone(),
        env: job.env.clone(),
        budget: job.budget,
        ..JobSpec::of(job.producer_id.clone(), job.task.clone(), work)
    })
}

/// The job that another is a part of, if it is one.
fn before_split<'a>(plan: &'a Plan, mut name: &'a ProducerId) -> &'a ProducerId {
    for _ in 0..=crate::pressure::DEPTH_MAX {
        let job = plan.job_of(name);
        match job.and_then(|job| job.definition().split_of.as_ref()) {
            Some(whole) => name = whole,
            None => break,
        }
    }
    name
}

fn drafted(jobs: Vec<JobSpec>, cx: &mut Cx<'_>) -> Result<Draft, Refusal> {
    let mut draft = Draft::new();
    let jobs: Vec<_> = jobs.into_iter().map(|job| ((cx.ids)(), job)).collect();
    draft.add_all(jobs)?;
    Ok(draft)
}

/// The jobs of a plan as a draft, without the validating one.
pub(crate) fn draft_of(plan: &Plan) -> Result<Draft, Refusal> {
    let mut draft = Draft::new();
    for job in plan.definitions() {
        draft.push(job.clone())?;
    }
    Ok(draft)
}

/// The graph that a draft of a plan's jobs makes, if it makes one.
pub(crate) fn checked(plan: &Plan, draft: &Draft, cx: &mut Cx<'_>) -> Result<Definition, Refusal> {
    let id = plan
        .validation()
        .map_or_else(|| (cx.ids)(), |job| *job.id());
    let verify = plan.settings().verify_ri.clone();
    Ok(draft.finish(SnapshotValidation { id, verify })?)
}

fn owned(jobs: &[std::sync::Arc<JobDefinition>]) -> Vec<JobDefinition> {
    jobs.iter().map(|job| JobDefinition::clone(job)).collect()
}

pub(crate) fn decided(whats: Vec<What>, cx: &Cx<'_>) -> Decision {
    let events = whats
        .into_iter()
        .map(|what| Event::new(cx.now, what))
        .collect();
    Decision {
        events,
        ..Decision::default()
    }
}

/// Decides about several jobs, each by itself: what is refused for one does not stop the rest. A job that is named
/// more than once counts once.
fn each_of(
    plan: &Plan,
    asked: Vec<String>,
    cx: &Cx<'_>,
    decide: impl Fn(&Job) -> Result<Vec<What>, Refusal>,
) -> Decision {
    let mut whats = Vec::new();
    let mut items = Vec::with_capacity(asked.len());
    let mut seen = HashSet::new();
    for asked in asked {
        let found = plan.find(&asked).map_err(Refusal::from);
        let job = found.as_ref().ok().map(|job| *job.id());
        if job.is_some_and(|id| !seen.insert(id)) {
            continue;
        }
        let refused = match found.and_then(&decide) {
            Ok(more) => {
                whats.extend(more);
                None
            }
            Err(refused) => Some(refused),
        };
        items.push(Item {
            asked,
            job,
            refused,
        });
    }
    Decision {
        items,
        ..decided(whats, cx)
    }
}

pub(crate) fn wrong_plan(words: impl Into<String>) -> Refusal {
    Refusal::new(Code::WrongPlanState, words)
}

pub(crate) fn wrong_job(words: impl Into<String>) -> Refusal {
    Refusal::new(Code::WrongJobState, words)
}
