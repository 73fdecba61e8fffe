//! What a model is charged for the tools: name, description and input schema, in o200k tokens.

use orchestra_hub::{Provider, ToolDescriptor};
use serde_json::{Value, json};

use crate::bench::Bench;

/// The twenty tools of a working day.
const LEAN: [&str; 20] = [
    "list_projects",
    "create_project",
    "get_project_status",
    "create_epic",
    "create_story",
    "create_task",
    "list_tasks",
    "get_task",
    "update_task",
    "get_next_task",
    "claim_task",
    "set_current_task",
    "advance_task",
    "reject_task",
    "search",
    "get_workflow_status",
    "save_memory",
    "search_memory",
    "get_context",
    "report_bug",
];

fn cost(tool: &ToolDescriptor) -> usize {
    let schema: Value = tool.input_schema.parse().unwrap();
    let charged =
        json!({"name": tool.name, "description": tool.description, "input_schema": schema});
    tiktoken_rs::o200k_base_singleton()
        .encode_ordinary(&charged.to_string())
        .len()
}

#[tokio::test]
async fn the_tools_fit_their_budget() {
    let bench = Bench::new();
    let catalog = bench.builtin.catalog().borrow().clone();
    let mut costs: Vec<(usize, &str)> = catalog
        .tools
        .iter()
        .map(|tool| (cost(tool), tool.name.as_str()))
        .collect();
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let all: usize = costs.iter().map(|(cost, _)| cost).sum();
    let lean: usize = costs
        .iter()
        .filter(|(_, name)| LEAN.contains(name))
        .map(|(cost, _)| cost)
        .sum();
    println!(
        "{} tools: {all} tokens; lean: {lean}; largest first: {costs:?}",
        costs.len()
    );
    assert!(
        LEAN.iter()
            .all(|name| costs.iter().any(|(_, known)| known == name))
    );
    assert!(all <= 8_000, "{all} tokens: {costs:?}");
    assert!(lean <= 1_800, "{lean} tokens of the lean set: {costs:?}");
}

#[tokio::test]
async fn descriptions_are_short() {
    let bench = Bench::new();
    for tool in &bench.builtin.catalog().borrow().tools {
        let words = tool
            .description
            .as_ref()
            .unwrap()
            .split_whitespace()
            .count();
        assert!((1..25).contains(&words), "{}: {words} words", tool.name);
        assert!(tool.title.is_some(), "{}", tool.name);
    }
}
