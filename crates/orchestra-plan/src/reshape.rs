//! Changes of the graph while a plan is under construction or runs.
//!
//! Operations are carried out one after the other on a copy of the plan, so that each sees what
//! those before it made; one that fails is told and does not stop the rest. Only jobs that have not
//! begun can be changed, and the validating job follows the graph by itself: it always depends on
//! all leaves.

use crate::command::{Code, Cx, Decision, Item, Operation, Refusal};
use crate::decide::{checked, decided, draft_of, wrong_job, wrong_plan};
use crate::definition::{Draft, JobDefinition};
use crate::event::{Event, Rewired, What};
use crate::ids::{JobId, ProducerId};
use crate::plan::{Job, Plan, bridge};
use crate::spec::JobSpec;
use crate::status::{JobStatus, PlanStatus};

/// Carries out operations on the graph of a plan.
///
/// # Errors
/// When the plan as a whole cannot be reshaped. What is wrong with single operations is in the
/// items.
pub fn reshape(
    plan: &Plan,
    operations: Vec<Operation>,
    cx: &mut Cx<'_>,
) -> Result<Decision, Refusal> {
    may_reshape(plan)?;
    let mut copy = plan.clone();
    let mut whats = Vec::new();
    let mut items = Vec::with_capacity(operations.len());
    for operation in operations {
        let asked = operation.name().to_owned();
        let item = match one(&copy, operation, cx) {
            Ok((job, more)) => {
                for what in more {
                    let event = Event::new(cx.now, what);
                    let changes = copy.apply(&event);
                    debug_assert_eq!(changes.refused, None, "what is decided fits");
                    whats.push(event.what);
                }
                Item {
                    asked,
                    job: Some(job),
                    refused: None,
                }
            }
            Err(refused) => Item {
                asked,
                job: None,
                refused: Some(refused),
            },
        };
        items.push(item);
    }
    Ok(Decision {
        items,
        ..decided(whats, cx)
    })
}

fn may_reshape(plan: &Plan) -> Result<(), Refusal> {
    let status = plan.status();
    if status.is_ended() {
        let words = format!(
            "the plan is {status}: only one that is scaffolding, pending, running or paused can be \
             reshaped; retry or recover it first, or clone it"
        );
        return Err(wrong_plan(words));
    }
    let begun = plan
        .validation()
        .is_some_and(|job| !job.status().is_waiting() && job.status() != JobStatus::Blocked);
    if begun {
        let words = "cannot add jobs: the plan is already being validated and merged";
        return Err(wrong_plan(words));
    }
    Ok(())
}

fn one(plan: &Plan, operation: Operation, cx: &mut Cx<'_>) -> Result<(JobId, Vec<What>), Refusal> {
    match operation {
        Operation::Add(spec) => add(plan, *spec, cx),
        Operation::Remove { job } => remove(plan, plan.find(&job)?, cx),
        Operation::UpdateDependencies { job, dependencies } => {
            let job = plan.find(&job)?;
            changeable(job)?;
            rewire(plan, job, dependencies, cx)
        }
        Operation::AddBefore { existing, job } => add_before(plan, plan.find(&existing)?, *job, cx),
        Operation::AddAfter { existing, job } => add_after(plan, plan.find(&existing)?, *job, cx),
    }
}

fn changeable(job: &Job) -> Result<(), Refusal> {
    if job.is_validation() {
        let words = "the validation job cannot be changed: it always follows all other jobs";
        return Err(Refusal::new(Code::ValidationJob, words));
    }
    if !job.status().is_waiting() {
        let words = format!(
            "job `{}` is {}; only pending and ready jobs can be changed",
            job.producer(),
            job.status()
        );
        return Err(wrong_job(words));
    }
    // Between two attempts a job is ready too, but it has begun.
    if !job.attempts().is_empty() {
        let words = format!(
            "job `{}` cannot be changed: its next attempt is about to start",
            job.producer()
        );
        return Err(wrong_job(words));
    }
    Ok(())
}

/// Whether a job can be waited for: it has not started, or what it made is there to be built on.
fn can_be_awaited(plan: &Plan, job: &JobDefinition) -> Result<(), Refusal> {
    for name in &job.dependencies {
        let Some(other) = plan.job_of(name) else {
            continue;
        };
        if other.is_validation() {
            let words = "no job can depend on the validation job: it always runs last";
            return Err(Refusal::new(Code::ValidationJob, words));
        }
        if !other.can_be_built_on() {
            let words = format!(
                "job `{name}` is {}, and its results no longer exist",
                other.status()
            );
            return Err(Refusal::new(Code::DependencyGone, words));
        }
    }
    Ok(())
}

/// The graph must hold together after the change; a plan under construction may be empty.
fn verify(plan: &Plan, draft: &Draft, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    if plan.status() == PlanStatus::Scaffolding && draft.jobs().is_empty() {
        return Ok(());
    }
    checked(plan, draft, cx).map(|_| ())
}

fn defined(draft: &Draft, id: JobId) -> Result<Box<JobDefinition>, Refusal> {
    let found = draft
        .by_id(id)
        .map(|job| Box::new(JobDefinition::clone(job)));
    found.ok_or_else(|| {
        Refusal::new(
            Code::UnknownJob,
            format!("the plan has no job with the id {id}"),
        )
    })
}

fn add(plan: &Plan, spec: JobSpec, cx: &mut Cx<'_>) -> Result<(JobId, Vec<What>), Refusal> {
    let id = (cx.ids)();
    let mut draft = draft_of(plan)?;
    draft.add(id, spec)?;
    let job = defined(&draft, id)?;
    can_be_awaited(plan, &job)?;
    verify(plan, &draft, cx)?;
    Ok((id, vec![What::JobAdded { job }]))
}

fn remove(plan: &Plan, job: &Job, cx: &mut Cx<'_>) -> Result<(JobId, Vec<What>), Refusal> {
    changeable(job)?;
    let begun = |other: &&Job| {
        !other.is_validation() && (other.status().is_active() || !other.attempts().is_empty())
    };
    if let Some(other) = plan.dependents(job).find(begun) {
        let words = format!(
            "job `{}`, which depends on it, has started",
            other.producer()
        );
        return Err(wrong_job(words));
    }
    let mut draft = draft_of(plan)?;
    let gone = draft.remove(*job.id())?;
    for other in plan.dependents(job).filter(|other| !other.is_validation()) {
        draft.change(*other.id(), |other| bridge(&mut other.dependencies, &gone))?;
    }
    verify(plan, &draft, cx)?;
    Ok((*job.id(), vec![What::JobRemoved { job: *job.id() }]))
}

fn rewire(
    plan: &Plan,
    job: &Job,
    dependencies: Vec<ProducerId>,
    cx: &mut Cx<'_>,
) -> Result<(JobId, Vec<What>), Refusal> {
    let mut draft = draft_of(plan)?;
    draft.set_dependencies(*job.id(), dependencies.clone())?;
    can_be_awaited(plan, &*defined(&draft, *job.id())?)?;
    verify(plan, &draft, cx)?;
    let jobs = vec![Rewired {
        job: *job.id(),
        dependencies,
    }];
    Ok((*job.id(), vec![What::DependenciesChanged { jobs }]))
}

fn add_before(
    plan: &Plan,
    existing: &Job,
    spec: JobSpec,
    cx: &mut Cx<'_>,
) -> Result<(JobId, Vec<What>), Refusal> {
    changeable(existing)?;
    let (id, name) = ((cx.ids)(), spec.producer_id.clone());
    let mut draft = draft_of(plan)?;
    draft.add(id, spec)?;
    let inherited = &existing.definition().dependencies;
    draft.change(id, |job| {
        for other in inherited {
            if !job.dependencies.contains(other) {
                job.dependencies.push(other.clone());
            }
        }
    })?;
    draft.set_dependencies(*existing.id(), vec![name.clone()])?;
    let job = defined(&draft, id)?;
    can_be_awaited(plan, &job)?;
    verify(plan, &draft, cx)?;
    let jobs = vec![Rewired {
        job: *existing.id(),
        dependencies: vec![name],
    }];
    Ok((
        id,
        vec![What::JobAdded { job }, What::DependenciesChanged { jobs }],
    ))
}

fn add_after(
    plan: &Plan,
    existing: &Job,
    spec: JobSpec,
    cx: &mut Cx<'_>,
) -> Result<(JobId, Vec<What>), Refusal> {
    if existing.is_validation() {
        let words = "no job can follow the validation job";
        return Err(Refusal::new(Code::ValidationJob, words));
    }
    let (id, name) = ((cx.ids)(), spec.producer_id.clone());
    let mut draft = draft_of(plan)?;
    draft.add(id, spec)?;
    draft.change(id, |job| {
        if !job.dependencies.contains(existing.producer()) {
            job.dependencies.insert(0, existing.producer().clone());
        }
    })?;
    let mut jobs = Vec::new();
    let unbegun = |other: &&Job| {
        let begun = other.status().is_active() || !other.attempts().is_empty();
        !other.is_validation() && !begun
    };
    for other in plan.dependents(existing).filter(unbegun) {
        let mut dependencies = other.definition().dependencies.clone();
        dependencies.retain(|dependency| *dependency != name);
        for dependency in &mut dependencies {
            if dependency == existing.producer() {
                dependency.clone_from(&name);
            }
        }
        draft.set_dependencies(*other.id(), dependencies.clone())?;
        jobs.push(Rewired {
            job: *other.id(),
            dependencies,
        });
    }
    let job = defined(&draft, id)?;
    can_be_awaited(plan, &job)?;
    verify(plan, &draft, cx)?;
    let mut whats = vec![What::JobAdded { job }];
    if !jobs.is_empty() {
        whats.push(What::DependenciesChanged { jobs });
    }
    Ok((id, whats))
}
