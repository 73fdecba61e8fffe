//! hello: a plugin of Orchestra with one tool and one prompt.

use orchestra_plugin::kit::{Messages, Plugin, prompt, tool};

/// Greets somebody.
#[tool(name = "hello_greet", read_only)]
async fn greet(
    /// Whom to greet.
    name: String,
) -> String {
    format!("Hello, {name}!")
}

/// Asks for a greeting.
#[prompt(name = "hello_greeting")]
async fn greeting(
    /// Whom to greet.
    name: String,
) -> Messages {
    Messages::new("A greeting").user(format!("Greet {name} warmly."))
}

fn main() -> std::process::ExitCode {
    Plugin::new("tools.hello", env!("CARGO_PKG_VERSION"))
        .description("Greets people")
        .tool(greet::tool())
        .prompt(greeting::prompt())
        .run()
}
