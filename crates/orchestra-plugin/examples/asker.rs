//! A plugin that asks others: an AI provider for a tool, a storage for documents, and the
//! orchestrator for events.

use std::process::ExitCode;

use orchestra_plugin::kit::{Cx, Expected, Plugin, ToolError, tool};
use serde_json::json;

/// Calls a tool of an AI provider.
#[tool]
async fn ask(provider: String, tool: String, cx: Cx) -> Result<String, ToolError> {
    let orchestrator = cx.orchestrator().provider(&provider);
    Ok(orchestrator.call_tool(&tool, json!({})).await?.text)
}

/// Writes a document, reads it, lists it and deletes it.
#[tool]
async fn pass_through(storage: String, cx: Cx) -> Result<String, ToolError> {
    let documents = cx.orchestrator().storage(&storage);
    let version = documents
        .write("a.md", "text", &Default::default(), Expected::Absent)
        .await?;
    let read = documents.read("a.md").await?;
    let listed = documents.list("", "*").await?;
    let was_there = documents.delete("a.md").await?;
    Ok(format!(
        "{}: {version} {:?} {} {was_there}",
        documents.kind(),
        read.map(|document| document.content),
        listed.len()
    ))
}

/// Says what it hears first.
#[tool]
async fn listen(topic: String, cx: Cx) -> Result<String, ToolError> {
    let orchestrator = cx.orchestrator();
    let mut events = orchestrator.subscribe(&topic, Default::default()).await?;
    Ok(events.next().await.payload.to_string())
}

fn main() -> ExitCode {
    Plugin::new("tools.sample", env!("CARGO_PKG_VERSION"))
        .needs_ai("openai")
        .needs_storage("memory")
        .needs_event("news.*")
        .needs_event("news.*")
        .on_event("weather", |_event, _cx| async {})
        .tool(ask::tool())
        .tool(pass_through::tool())
        .tool(listen::tool())
        .run()
}
