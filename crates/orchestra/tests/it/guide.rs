//! The examples of `docs/plans.md` are taken by the program, and it says every key of `[plans]`.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use crate::support::{Workspace, said};

fn guide() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join("docs/plans.md")).unwrap()
}

/// The blocks of code, each with what its fence says of it.
fn blocks() -> Vec<(String, String)> {
    let guide = guide();
    let fenced = guide.split("```").skip(1).step_by(2);
    fenced
        .map(|block| block.split_once('\n').unwrap())
        .map(|(kind, text)| (kind.to_owned(), text.to_owned()))
        .collect()
}

#[test]
fn every_plan_of_the_guide_is_taken() {
    let workspace = Workspace::new();
    let mut taken = 0;
    for (kind, text) in blocks() {
        if kind != "yaml" && kind != "toml" {
            continue;
        }
        taken += 1;
        let file = workspace.path().join(format!("{taken}.{kind}"));
        fs::write(&file, text).unwrap();
        let words = ["plan", "validate", file.to_str().unwrap()];
        let said = said(workspace.command(words), "");
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    assert!(taken >= 5, "{taken}");
}

#[test]
fn every_command_of_plans_has_a_row() {
    let help = Workspace::new().run(["plan", "--help"]);
    let (_, commands) = help.out.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    let guide = guide();
    let rows = guide
        .lines()
        .filter_map(|line| line.strip_prefix("| `orchestra plan "));
    let rows: Vec<&str> = rows
        .map(|row| row.split([' ', '`']).next().unwrap())
        .collect();
    assert_eq!(rows, names);
}

#[test]
fn every_key_of_plans_has_its_row_and_the_example_is_taken() {
    let workspace = Workspace::new();
    let blocks = blocks();
    let example = blocks.iter().find(|(kind, _)| kind == "toml orchestra");
    fs::write(workspace.path().join("orchestra.toml"), &example.unwrap().1).unwrap();
    let said = said(workspace.command(["config", "show", "--json"]), "");
    assert_eq!(said.code, Some(0), "{said:?}");
    let entries: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    let keys = entries.iter().filter_map(|entry| entry["key"].as_str());
    let keys: BTreeSet<&str> = keys.filter(|key| key.starts_with("plans.")).collect();
    let guide = guide();
    let rows = guide
        .lines()
        .filter_map(|line| line.strip_prefix("| `plans."));
    let rows: Vec<String> = rows
        .map(|row| format!("plans.{}", row.split('`').next().unwrap()))
        .collect();
    let rows: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    assert_eq!(rows, keys);
}
