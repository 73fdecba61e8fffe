//! Plans under construction: jobs are added, and the plan is completed.

use std::collections::HashMap;

use crate::command::{Cx, Decision, Item, Refusal};
use crate::decide::{checked, decided, draft_of, wrong_plan};
use crate::definition::{Draft, JobDefinition};
use crate::event::{PauseReason, What};
use crate::ids::ProducerId;
use crate::plan::Plan;
use crate::spec::JobSpec;
use crate::status::PlanStatus;

/// Adds jobs, each after those that it depends on; ends at the first that cannot be added.
pub(super) fn add(plan: &Plan, jobs: Vec<JobSpec>, cx: &mut Cx<'_>) -> Result<Decision, Refusal> {
    if plan.status() != PlanStatus::Scaffolding {
        let words = format!(
            "cannot add jobs: the plan is {}, not scaffolding; use reshape_copilot_plan instead",
            plan.status()
        );
        return Err(wrong_plan(words));
    }
    let mut draft = draft_of(plan)?;
    let mut added = Vec::new();
    let mut items = Vec::new();
    for job in in_order(jobs) {
        let (id, producer) = ((cx.ids)(), job.producer_id.clone());
        let refused = add_one(&mut draft, id, job).err();
        let end = refused.is_some();
        items.push(Item {
            asked: producer.as_str().to_owned(),
            job: (!end).then_some(id),
            refused,
        });
        if end {
            break;
        }
        added.extend(draft.by_id(id).map(|job| JobDefinition::clone(job)));
    }
    let whats = if added.is_empty() {
        Vec::new()
    } else {
        vec![What::JobsAdded { jobs: added }]
    };
    Ok(Decision {
        items,
        ..decided(whats, cx)
    })
}

fn add_one(draft: &mut Draft, id: crate::ids::JobId, job: JobSpec) -> Result<(), Refusal> {
    let unknown = job
        .dependencies
        .iter()
        .find(|name| **name != job.producer_id && draft.by_producer(name).is_none());
    if let Some(name) = unknown {
        let known: Vec<&str> = draft
            .jobs()
            .iter()
            .take(20)
            .map(|job| job.producer_id.as_str())
            .collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        let words = format!(
            "job `{}` depends on `{name}`, which is not a job of this plan; its jobs: {known}",
            job.producer_id
        );
        return Err(Refusal::new(crate::command::Code::UnknownDependency, words));
    }
    Ok(draft.add(id, job)?)
}

/// The jobs as they were given, except that each comes after those of the same list that it depends
/// on. Where they wait for each other in a circle, one of them comes too early and is refused.
fn in_order(jobs: Vec<JobSpec>) -> Vec<JobSpec> {
    let places: HashMap<ProducerId, usize> = jobs
        .iter()
        .enumerate()
        .map(|(place, job)| (job.producer_id.clone(), place))
        .collect();
    let mut met = vec![false; jobs.len()];
    let mut order = Vec::with_capacity(jobs.len());
    for start in 0..jobs.len() {
        let mut path = vec![start];
        while let Some(place) = path.last().copied() {
            met[place] = true;
            let named = jobs[place].dependencies.iter();
            let open = named
                .filter_map(|name| places.get(name).copied())
                .find(|other| !met[*other]);
            if let Some(other) = open {
                path.push(other);
            } else {
                path.pop();
                order.push(place);
            }
        }
    }
    let mut jobs: Vec<Option<JobSpec>> = jobs.into_iter().map(Some).collect();
    let take = |place: usize| jobs.get_mut(place).and_then(Option::take);
    order.into_iter().filter_map(take).collect()
}

/// Completes a plan: its graph is checked, and the validating job added.
pub(super) fn finalize(
    plan: &Plan,
    start_paused: bool,
    cx: &mut Cx<'_>,
) -> Result<Vec<What>, Refusal> {
    if plan.status() != PlanStatus::Scaffolding {
        let words = format!(
            "cannot finalize the plan: it is {}, not scaffolding",
            plan.status()
        );
        return Err(wrong_plan(words));
    }
    let definition = checked(plan, &draft_of(plan)?, cx)?;
    let validation = definition.job(definition.snapshot_validation());
    let chained = plan.settings().resume_after_plan.is_some();
    let paused = match (chained, start_paused) {
        (true, _) => Some(PauseReason::ResumeAfterPlan),
        (false, true) => Some(PauseReason::StartPaused),
        (false, false) => None,
    };
    let validation = Box::new(JobDefinition::clone(validation));
    Ok(vec![What::PlanFinalized { validation, paused }])
}
