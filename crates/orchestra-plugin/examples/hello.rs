//! The smallest plugin: one tool, which may fail.

use orchestra_plugin::kit::{Plugin, ToolError, tool};

/// Greets somebody by name.
#[tool(title = "Greet", read_only)]
async fn greet(
    /// Whom to greet.
    name: String,
    /// How often; once when it is left out.
    times: Option<u8>,
) -> Result<String, ToolError> {
    if name.is_empty() {
        return Err(ToolError::new("nobody", "say whom to greet"));
    }
    Ok(format!("Hello, {name}!\n").repeat(times.unwrap_or(1).into()))
}

fn main() -> std::process::ExitCode {
    Plugin::new("tools.hello", env!("CARGO_PKG_VERSION"))
        .tool(greet::tool())
        .run()
}
