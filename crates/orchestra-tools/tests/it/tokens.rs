//! What a model is charged for the tools: name, description and input schema, in o200k tokens.

use orchestra_hub::{Provider, ToolDescriptor, Toolset};
use orchestra_wire::RawJson;
use serde_json::{Value, json};

use crate::bench::Bench;

fn cost(tool: &ToolDescriptor, schema: &RawJson) -> usize {
    let schema: Value = schema.parse().unwrap();
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
    let shown = |tool: &ToolDescriptor| Toolset::Lean.shows(tool);
    assert_eq!(catalog.tools.iter().filter(|tool| shown(tool)).count(), 20);
    let mut costs: Vec<(usize, &str)> = catalog
        .tools
        .iter()
        .map(|tool| (cost(tool, &tool.input_schema), tool.name.as_str()))
        .collect();
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let all: usize = costs.iter().map(|(cost, _)| cost).sum();
    assert!(all <= 8_000, "{all} tokens of {}: {costs:?}", costs.len());
    let mut costs: Vec<(usize, &str)> = catalog
        .tools
        .iter()
        .filter(|tool| shown(tool))
        .map(|tool| {
            let schema = tool.lean_schema.as_ref().unwrap_or(&tool.input_schema);
            (cost(tool, schema), tool.name.as_str())
        })
        .collect();
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let lean: usize = costs.iter().map(|(cost, _)| cost).sum();
    println!("all: {all} tokens, lean: {lean}, largest first: {costs:?}");
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
