//! What is said of a plan that was made before under the key that is given now: that it was, and what of
//! it is not as it is asked for now.

use std::collections::BTreeSet;

use orchestra_plan::{definition::JobDefinition, event::Created, plan::Plan, spec::PlanSpec};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    desk::{Desk, failure},
    run::definition,
};
use crate::{
    exit::Failure,
    output::{self, printable},
};

/// How many differences are named.
const NAMED: usize = 5;

/// Sees that the plan of a key was made of what is asked for now, whatever it has become since.
///
/// # Errors
/// When it was made of something else: that is not there, and nobody is to believe that it is.
pub(super) async fn made(desk: &Desk, asked: &PlanSpec, plan: &Plan) -> Result<(), Failure> {
    let of = desk.plans().made_of(*plan.id()).await.map_err(failure)?;
    let differing = of.map_or_else(Vec::new, |of| differing(asked, &of));
    if differing.is_empty() {
        return Ok(());
    }
    let mut named = differing[..differing.len().min(NAMED)].join(", ");
    if differing.len() > NAMED {
        named.push_str(", …");
    }
    Err(Failure::refused(
        printable(&format!(
            "plan {} ({id}) was already created with this key, from a plan file with other values: {named}. \
             Nothing was created or run now; to create another plan, give it its own key; `orchestra plan show \
             {id}` shows the existing plan",
            output::in_a_line(plan.name()),
            id = plan.id(),
        ))
        .into_owned(),
    ))
}

/// What is asked for otherwise than the plan was made, by its names in a plan file.
fn differing(asked: &PlanSpec, made: &Created) -> Vec<String> {
    let (now, then) = (members(&asked.settings), members(&made.settings));
    let mut found: Vec<String> = names(&now, &then)
        .into_iter()
        .filter(|name| match name.as_str() {
            // How it is begun is no part of what it is.
            "startPaused" | "idempotencyKey" => false,
            // It is settled when the plan is made, where nobody says it.
            "baseBranch" => now.contains_key(name),
            // It is dropped where the other has ended already.
            "resumeAfterPlan" => then.contains_key(name),
            _ => true,
        })
        .collect();
    let Ok(definition) = definition(asked) else {
        found.push("jobs".to_owned());
        return found;
    };
    let mut before: Vec<&JobDefinition> = made.jobs.iter().collect();
    before.retain(|job| !job.is_snapshot_validation());
    for job in definition.jobs() {
        if job.is_snapshot_validation() {
            continue;
        }
        let name = &job.producer_id;
        let place = before.iter().position(|other| other.producer_id == *name);
        let Some(place) = place else {
            found.push(format!("job `{name}` is new"));
            continue;
        };
        let mut fields = names(&members(&**job), &members(before.remove(place)));
        fields.remove("id");
        if !fields.is_empty() {
            let fields: Vec<String> = fields.into_iter().collect();
            found.push(format!("{} of job `{name}`", fields.join(" and ")));
        }
    }
    let missing = before
        .iter()
        .map(|job| format!("job `{}` is missing", job.producer_id));
    found.extend(missing);
    found
}

fn members(of: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// The names of members that are not the same in both.
fn names(one: &Map<String, Value>, other: &Map<String, Value>) -> BTreeSet<String> {
    let all = one.keys().chain(other.keys());
    all.filter(|name| one.get(*name) != other.get(*name))
        .cloned()
        .collect()
}
