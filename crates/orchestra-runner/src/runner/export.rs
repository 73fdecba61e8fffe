//! What the readable files beside the database show of plans, without secrets.

use std::collections::BTreeSet;

use orchestra_plan::{ids::PlanId, plan::Plan, schedule::Waiting, view};
use orchestra_secret::{MASK, Masker};
use serde_json::{Value, json};

use crate::{
    journal::{PlanKey, Readable},
    plans::Folded,
};

/// What stands in the place of a value that may be secret.
pub(crate) const HIDDEN: &str = "…";

/// Shows plans as their logs tell them.
pub(crate) struct Shown {
    folded: Folded,
}

impl Shown {
    pub(crate) const fn new(folded: Folded) -> Self {
        Self { folded }
    }
}

impl Readable for Shown {
    fn plan(&self, plan: &PlanKey) -> Option<Value> {
        let id = PlanId::parse(plan.as_str()).ok()?;
        let plan = self.folded.one(id).ok()??;
        let definitions: Vec<Value> = plan
            .jobs()
            .iter()
            .filter_map(|job| serde_json::to_value(&**job.definition()).ok())
            .collect();
        let state = view::plan(&plan, &|job| match job.status().is_terminal() {
            true => Waiting::Ended {
                status: job.status(),
            },
            // What a job waits for depends on all that runs; the file says how it stands.
            false => Waiting::Turn,
        });
        let mut shown = json!({
            "id": id,
            "settings": plan.settings(),
            "jobs": definitions,
            "branches": plan.branches(),
            "createdAt": plan.created_at(),
            "startedAt": plan.started_at(),
            "endedAt": plan.ended_at(),
            "state": state,
        });
        mask(&mut shown);
        Some(shown)
    }

    fn event(&self, mut event: Value) -> Value {
        mask(&mut event);
        event
    }
}

/// Hides the values of environments, and masks secrets in everything else.
fn mask(value: &mut Value) {
    hide(value);
    Masker::default().json(value);
}

/// Hides the values of environments, but for those that only name a variable.
fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::Object(variables) if name == "env" => {
                        for value in variables.values_mut() {
                            if !value.as_str().is_some_and(is_reference) {
                                *value = HIDDEN.into();
                            }
                        }
                    }
                    other => hide(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

/// Names of variables, and jobs, whose values or commands were masked in the files that a plan was read from.
pub(crate) fn left_out(plan: &Plan) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let jobs = plan.jobs().iter();
    let definitions = jobs.filter_map(|job| serde_json::to_value(&**job.definition()).ok());
    for value in serde_json::to_value(plan.settings())
        .into_iter()
        .chain(definitions)
    {
        add_hidden(&value, &mut names);
        if contains_mask(&value) {
            let job = value["producerId"].as_str().unwrap_or("the plan");
            names.insert(format!("the commands of {job}"));
        }
    }
    names
}

/// Returns whether a text of a definition was masked.
fn contains_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASK),
        Value::Array(items) => items.iter().any(contains_mask),
        Value::Object(members) => members.values().any(contains_mask),
        _ => false,
    }
}

fn add_hidden(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::Object(variables) if name == "env" => {
                        let hidden = variables.iter().filter(|(_, value)| *value == HIDDEN);
                        names.extend(hidden.map(|(name, _)| name.clone()));
                    }
                    other => add_hidden(other, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_hidden(item, names)),
        _ => {}
    }
}

/// Whether a value is nothing but the name of a variable of whoever runs the plans.
fn is_reference(value: &str) -> bool {
    let name = value
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .or_else(|| {
            value
                .strip_prefix('%')
                .and_then(|rest| rest.strip_suffix('%'))
        })
        .or_else(|| value.strip_prefix('$'));
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    name.is_some_and(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_environments_are_hidden_unless_they_only_name_a_variable() {
        let mut value = json!({
            "settings": {"env": {"KEY": "sk-1", "PATH": "$PATH", "X": "${HOME}", "Y": "$A secret"}},
            "jobs": [{"env": {"KEY": "%KEY%"}, "work": {"type": "shell", "env": {"Z": "1"}}}],
        });
        hide(&mut value);
        let expected = json!({
            "settings": {"env": {"KEY": "…", "PATH": "$PATH", "X": "${HOME}", "Y": "…"}},
            "jobs": [{"env": {"KEY": "%KEY%"}, "work": {"type": "shell", "env": {"Z": "…"}}}],
        });
        assert_eq!(value, expected);
    }
}
