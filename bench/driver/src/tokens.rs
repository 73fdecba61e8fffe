//! What a model is charged for the tools: name, description and input schema, in o200k tokens.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tiktoken_rs::{CoreBPE, o200k_base};

use crate::{
    Bench,
    bars::Want,
    seed,
    server::{self, Server},
    table::Table,
};

/// Toolsets and what they may cost.
const TOOLSETS: &[(&str, f64)] = &[("all", 8000.0), ("lean", 1800.0), ("search", 500.0)];

/// How many tokens a text is.
pub(crate) struct Counter(CoreBPE);

impl Counter {
    /// Reads the vocabulary.
    ///
    /// # Errors
    /// When it is damaged.
    pub(crate) fn new() -> Result<Self> {
        o200k_base().map(Self).context("reading the vocabulary")
    }

    /// Counts.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.0.encode_ordinary(text).len()
    }
}

/// Counts each toolset.
///
/// # Errors
/// When the program cannot be run.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let counter = Counter::new()?;
    let workspace = seed::directory()?;
    let mut table = Table::new(&["toolset", "tools", "tokens", "the largest"]);
    for &(toolset, limit) in TOOLSETS {
        let mut command = server::orchestra(workspace.path(), &["--tools", toolset])?;
        let mut server = Server::open(&mut command)?;
        let list = server.request("tools/list", &json!({}))?;
        server.close()?;
        let tools = list["tools"].as_array().context("no list of tools")?;
        let mut costs: Vec<(usize, &Value)> = Vec::new();
        for tool in tools {
            let charged = json!({
                "name": tool["name"],
                "description": tool["description"],
                "input_schema": tool["inputSchema"],
            });
            costs.push((counter.count(&charged.to_string()), &tool["name"]));
        }
        let total: usize = costs.iter().map(|(cost, _)| cost).sum();
        costs.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        let largest = costs
            .iter()
            .take(4)
            .map(|(cost, name)| format!("{name} {cost}"));
        table.row(&[
            toolset.to_owned(),
            tools.len().to_string(),
            total.to_string(),
            largest.collect::<Vec<_>>().join(", "),
        ]);
        let what = format!("tokens of the tools, {toolset}");
        bench.bars.hold(what, Want::AtMost(limit), "", total as f64);
    }
    table.print();
    Ok(())
}
