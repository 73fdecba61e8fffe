//! A plugin with one tool, made with the kit as any author would.
//!
//! Its id is `tools.echo`, or what `BENCH_PLUGIN` says, so that many of them can stand side by side.

use std::process::ExitCode;

use orchestra_plugin::kit::{Answer, Plugin, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say.
    text: String,
}

fn main() -> ExitCode {
    let id = std::env::var("BENCH_PLUGIN").unwrap_or_else(|_| "tools.echo".to_owned());
    let echo = |args: Echo, _cx| async move { Ok(Answer::text(args.text)) };
    Plugin::new(&id, env!("CARGO_PKG_VERSION"))
        .tool(Tool::new("echo", "Says what it is told", echo).read_only())
        .run()
}
