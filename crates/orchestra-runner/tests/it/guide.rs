//! What `docs/plans.md` says of plan files and profiles of agents is all that there is, and its examples
//! are taken.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use orchestra_plan::spec::PlanSpec;
use orchestra_runner::agents::{Profile, ProfileText};
use serde_json::Value;

fn guide() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    std::fs::read_to_string(root.unwrap().join("docs/plans.md")).unwrap()
}

/// What stands below a heading, up to the next one.
fn section(heading: &str) -> String {
    let guide = guide();
    let mut lines = guide.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "the guide has no {heading}");
    let lines = lines.take_while(|line| !line.starts_with("## ") && !line.starts_with("### "));
    lines.collect::<Vec<_>>().join("\n")
}

/// What the rows of the tables below a heading are about.
fn rows(heading: &str) -> BTreeSet<String> {
    let section = section(heading);
    let firsts = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let names: Vec<String> = firsts
        .map(|row| row.split('`').next().unwrap().to_owned())
        .collect();
    let all: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(all.len(), names.len(), "{heading} says something twice");
    all
}

/// The properties of a schema, whichever of its branches has them.
fn properties(schema: &Value) -> BTreeSet<String> {
    let own = schema["properties"].as_object().into_iter();
    let mut all: BTreeSet<String> = own.flat_map(|all| all.keys().cloned()).collect();
    let branches = schema["anyOf"].as_array().into_iter().flatten();
    all.extend(branches.flat_map(properties));
    all
}

/// All that a schema names, as paths with points between. What was written out is not written out again: the
/// parts of `tokens` are not those of `context`, too.
fn paths(root: &Value, schema: &Value, before: &str, seen: &mut Vec<String>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let own = schema["properties"].as_object().into_iter().flatten();
    let own: BTreeMap<&String, &Value> = own.collect();
    for (name, of) in own.into_iter().rev() {
        let path = format!("{before}{name}");
        let named = [of, &of["items"], &of["anyOf"][0], &of["allOf"][0]];
        let named = named.into_iter().find_map(|of| of["$ref"].as_str());
        if let Some(named) = named.filter(|named| !seen.iter().any(|other| other == named)) {
            seen.push(named.to_owned());
            let pointer = named.strip_prefix('#').unwrap();
            let inner = root.pointer(pointer).unwrap();
            all.extend(paths(root, inner, &format!("{path}."), seen));
        }
        all.insert(path);
    }
    all
}

fn schema_of<T: schemars::JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

#[test]
fn every_field_of_a_plan_file_has_its_row() {
    let plan = schema_of::<PlanSpec>();
    assert_eq!(rows("## The plan"), properties(&plan));
    assert_eq!(
        rows("### Budget"),
        properties(&plan["properties"]["budget"])
    );
    let job = schema_of::<orchestra_plan::spec::JobSpec>();
    assert_eq!(rows("## A job"), properties(&job));
    let work = schema_of::<orchestra_plan::work::WorkSpec>();
    assert_eq!(rows("## Work"), properties(&work));
    let failure = schema_of::<orchestra_plan::work::OnFailure>();
    assert_eq!(rows("### On failure"), properties(&failure));
}

#[test]
fn every_key_of_an_agent_has_its_row() {
    let schema = schema_of::<ProfileText>();
    let all = paths(&schema, &schema, "", &mut Vec::new());
    assert!(all.contains("output.events.tokens.cache_read"), "{all:?}");
    assert_eq!(rows("## `[agents.NAME]`"), all);
}

/// The blocks of code of this kind.
fn blocks(kind: &str) -> Vec<String> {
    let guide = guide();
    let fenced = guide.split("```").skip(1).step_by(2);
    let blocks = fenced.filter_map(|block| block.split_once('\n'));
    blocks
        .filter(|(first, _)| *first == kind)
        .map(|(_, text)| text.to_owned())
        .collect()
}

#[test]
fn the_examples_in_toml_are_taken() {
    let plans = blocks("toml");
    assert_eq!(plans.len(), 1);
    let plan: PlanSpec = toml::from_str(&plans[0]).unwrap();
    assert_eq!(plan.jobs.len(), 2);
    let agents = blocks("toml agents");
    let file: toml::Table = toml::from_str(&agents[0]).unwrap();
    let agents = file["agents"].as_table().unwrap();
    for (name, profile) in agents {
        let profile: Profile = profile.clone().try_into().unwrap();
        assert_eq!(profile.text().program, "my-agent", "{name}");
    }
    assert!(!agents.is_empty());
}
