//! A plugin whose tools are annotated functions: everything that they may take and return. For the
//! tests, it goes by the same name as the sample.

use std::{
    num::ParseIntError,
    process::ExitCode,
    sync::atomic::{AtomicU32, Ordering},
};

use orchestra_plugin::kit::{
    Answer, Chunks, Cx, Json, Messages, NoArguments, Plugin, Tool, ToolError, prompt, tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What calls share.
#[derive(Default)]
struct Counter(AtomicU32);

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// One of them.
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

/// Greets somebody,
/// in one line.
#[tool(title = "Greet", read_only, idempotent)]
async fn greet(
    /// Whom to greet.
    name: String,
    cx: Cx,
    #[serde(default = "once")] times: u8,
    punctuation: Option<char>,
) -> String {
    let end = punctuation.unwrap_or('.');
    let plugin = cx.plugin();
    vec![format!("Hello, {name}, from {plugin}{end}"); times.into()].join(" ")
}

fn once() -> u8 {
    1
}

/// Adds two integers.
#[tool(output = Sum, destructive = false, open_world = false)]
async fn add(#[arguments] Add { a, b }: Add) -> Result<Json<Sum>, ToolError> {
    let sum = a.checked_add(b);
    let sum = sum.ok_or_else(|| ToolError::new("overflow", "the sum is too large"))?;
    Ok(Json(Sum { sum }))
}

/// Counts its calls.
#[tool(name = "count-calls")]
async fn count(cx: Cx) -> Result<String, ToolError> {
    let before = cx.state::<Counter>()?.0.fetch_add(1, Ordering::Relaxed);
    Ok((before + 1).to_string())
}

/// Looks for a state that is not there.
#[tool]
async fn lost(cx: Cx) -> Result<(), ToolError> {
    cx.state::<String>().map(drop)
}

/// Reads a number, whose errors are those of the library.
#[tool]
async fn number(r#type: String) -> Result<String, ParseIntError> {
    Ok(r#type.parse::<i64>()?.to_string())
}

/// Says nothing.
#[tool]
async fn nothing() {}

/// Counts in chunks.
#[tool]
async fn drip(to: u32, mut chunks: Chunks) -> Result<(), ToolError> {
    for number in 1..=to {
        chunks.send_text(format!("{number} ")).await?;
    }
    Ok(())
}

/// Adds a tool that says something.
#[tool]
async fn learn(name: String, says: String, cx: Cx) -> Result<(), ToolError> {
    let description = format!("Says {says}");
    let tool = Tool::new(&name, &description, move |NoArguments {}, _| {
        let says = says.clone();
        async move { Ok(Answer::text(says)) }
    });
    cx.tools().add(tool)
}

/// Removes a tool.
#[tool]
async fn forget(name: String, cx: Cx) -> Json<bool> {
    Json(cx.tools().remove(&name))
}

/// Asks for a poem.
#[prompt(title = "Poem")]
async fn poem(
    /// What it is about.
    about: String,
    tone: Option<String>,
) -> Result<Messages, ToolError> {
    let tone = tone.unwrap_or_else(|| "merry".to_owned());
    Ok(Messages::new("A poem").user(format!("Write a {tone} poem about {about}.")))
}

fn main() -> ExitCode {
    Plugin::new("tools.sample", env!("CARGO_PKG_VERSION"))
        .state(Counter::default())
        .tool(greet::tool())
        .tool(add::tool())
        .tool(count::tool())
        .tool(lost::tool())
        .tool(number::tool())
        .tool(nothing::tool())
        .tool(drip::tool())
        .tool(learn::tool())
        .tool(forget::tool())
        .prompt(poem::prompt())
        .run()
}
