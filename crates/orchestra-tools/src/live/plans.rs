//! Plans and their jobs, and what changes of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use orchestra_plan::{
    event::PauseReason,
    ids::{Branch, JobId, Millis, PlanId},
    plan::{Job, Plan},
    schedule::Waiting,
    view::{GraphNode, GroupView, NodeView, PlanRow, PlanView, graph, plan as view, row},
};
use orchestra_runner::plans::{Plans, PlansError, Roster};
use serde::Serialize;

use super::{LiveError, Tell, json};
use crate::joined::Joined;

/// The least time between two tellings: what changes meanwhile is told together.
const BREATH: Duration = Duration::from_millis(40);
/// How long one wait for a change takes before it is renewed.
const WAIT: Duration = Duration::from_secs(30);
/// How long is waited where plans cannot be followed.
const PAUSE: Duration = Duration::from_secs(1);
/// How many events are looked at at once.
const EVENTS: u32 = 1_000;

/// A plan as the list shows it.
type Row = Joined<PlanRow, More>;

/// What the list of the dashboard shows besides.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct More {
    state_version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_branch: Option<Branch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_branch: Option<Branch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<PauseReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_at: Option<Millis>,
    usage: orchestra_plan::budget::Usage,
}

#[derive(Serialize)]
struct Listed {
    plans: Vec<Row>,
    /// Which cannot be read, and what to do.
    unreadable: Vec<String>,
}

#[derive(Serialize)]
struct One {
    plan: Joined<PlanView, Offers>,
    graph: Vec<GraphNode>,
}

/// The agents that a plan asks for and that may not start before the user agrees.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Offers {
    offers: Vec<Offered>,
    /// Reasons why a healer that is named does not heal.
    warnings: Vec<String>,
}

/// One of them, as it is shown.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Offered {
    agent: String,
    shows: Vec<String>,
    /// Tells what was shown from anything else.
    fingerprint: String,
}

#[derive(Serialize)]
struct Told {
    plan: Row,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Jobs<'a> {
    plan_id: PlanId,
    state_version: u64,
    nodes: Vec<&'a NodeView>,
    groups: &'a BTreeMap<String, GroupView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Gone {
    plan_id: PlanId,
}

pub(super) async fn list(plans: &Plans) -> Result<String, LiveError> {
    let mut all = plans.list().await?;
    orchestra_sort::sort_by_key(&mut all, |plan| {
        (Reverse(plan.created_at().get()), *plan.id())
    });
    let unreadable = plans.unreadable().await?;
    let untrusted = plans.waiting_for_trust().await?;
    let rows = all
        .iter()
        .map(|plan| row_of(plan, untrusted.contains(plan.id())));
    Ok(json(&Listed {
        plans: rows.collect(),
        unreadable: unreadable.into_iter().map(|plan| plan.what).collect(),
    }))
}

pub(super) async fn one(plans: &Plans, asked: &str) -> Result<String, LiveError> {
    let plan = plans.find(asked).await?;
    let roster = match plan.status().is_ended() {
        true => Roster::default(),
        false => plans.roster_of(&plan).await,
    };
    let offers = roster.offers.into_iter().map(|offer| Offered {
        fingerprint: offer.digest().to_owned(),
        agent: offer.name.to_string(),
        shows: offer.lines,
    });
    let offers = Offers {
        offers: offers.collect(),
        warnings: roster.warnings,
    };
    Ok(json(&One {
        graph: graph(&plan),
        plan: Joined(plans.view(&plan).await?, offers),
    }))
}

async fn viewed(plans: &Plans, plan: &Plan) -> Result<PlanView, PlansError> {
    let waiting: HashMap<JobId, Waiting> = plans.waiting(plan).await?.into_iter().collect();
    let of = |job: &Job| waiting.get(job.id()).cloned().unwrap_or(Waiting::Turn);
    Ok(view(plan, &of))
}

fn row_of(plan: &Plan, waits_for_trust: bool) -> Row {
    let view = view(plan, &|_| Waiting::Turn);
    let more = More {
        state_version: view.state_version,
        base_branch: view.base_branch,
        target_branch: view.target_branch,
        paused: view.paused,
        archived_at: view.archived_at,
        usage: view.usage,
    };
    let row = PlanRow {
        waits_for_trust,
        ..row(plan)
    };
    Joined(row, more)
}

/// Tells what changes of plans from about this call on: where it begins is read first.
pub(super) async fn follow(plans: Plans, tell: Tell) {
    let mut told = HashMap::new();
    let mut last = plans.last().await.unwrap_or_default();
    loop {
        match changes(&plans, &mut last, &mut told, &tell).await {
            Ok(()) => tokio::time::sleep(BREATH).await,
            Err(_) => {
                // Whoever asks for plans is told what is wrong.
                tokio::time::sleep(PAUSE).await;
                let now = plans.last().await.unwrap_or_default();
                if now != last {
                    last = now;
                    told.clear();
                    tell("anew", "{}".to_owned());
                }
            }
        }
    }
}

/// Tells the next changes, if there are any within a while.
async fn changes(
    plans: &Plans,
    last: &mut u64,
    told: &mut HashMap<PlanId, PlanView>,
    tell: &Tell,
) -> Result<(), PlansError> {
    let end = plans.changes(*last, WAIT).await?;
    let mut changed = HashSet::new();
    while *last < end {
        let events = plans.events(*last, EVENTS).await?;
        let Some(newest) = events.last() else {
            *last = end;
            break;
        };
        *last = newest.seq;
        changed.extend(events.iter().map(|event| event.plan));
    }
    for id in changed {
        match plans.plan(id).await {
            Ok(plan) => {
                let now = viewed(plans, &plan).await?;
                let plan = Told {
                    // Plans that wait do not change.
                    plan: row_of(&plan, false),
                };
                tell("plan", json(&plan));
                tell("jobs", json(&jobs(&now, told.get(&id))));
                if now.status.is_ended() {
                    told.remove(&id);
                } else {
                    told.insert(id, now);
                }
            }
            Err(PlansError::UnknownPlan { .. }) => {
                told.remove(&id);
                tell("plan-gone", json(&Gone { plan_id: id }));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The jobs that are other than they were told to be.
fn jobs<'a>(now: &'a PlanView, before: Option<&PlanView>) -> Jobs<'a> {
    let known: HashMap<&JobId, &NodeView> = before
        .into_iter()
        .flat_map(|before| before.nodes.iter().map(|node| (&node.id, node)))
        .collect();
    let is_new = |node: &&NodeView| known.get(&node.id).is_none_or(|known| known != node);
    Jobs {
        plan_id: now.plan_id,
        state_version: now.state_version,
        nodes: now.nodes.iter().filter(is_new).collect(),
        groups: &now.groups,
    }
}
