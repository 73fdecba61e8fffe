//! What a plugin is written with.
//!
//! A plugin is a program whose `main` says what it offers and hands itself over:
//!
//! ```no_run
//! use orchestra_plugin::kit::{Cx, Plugin, tool};
//!
//! /// Greets somebody.
//! #[tool(read_only)]
//! async fn greet(
//!     /// Whom to greet.
//!     name: String,
//!     cx: Cx,
//! ) -> String {
//!     format!("Hello, {name}, from {}!", cx.plugin())
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     Plugin::new("tools.hello", env!("CARGO_PKG_VERSION"))
//!         .description("Greets people")
//!         .tool(greet::tool())
//!         .run()
//! }
//! ```
//!
//! **Tools and prompts** are made from functions, by [`tool`](macro@tool) and
//! [`prompt`](macro@prompt), or from closures with [`Tool::new`] and [`Prompt::new`], where a tool
//! needs something of its own or is only known at run time; their arguments are a struct that derives
//! `Deserialize` of `serde` 1 and `JsonSchema` of `schemars` 1. What calls share is given to
//! [`Plugin::state`] and found in [`Cx::state`]. Tools may come and go while the plugin runs: see
//! [`Cx::tools`].
//!
//! **Others** are asked through [`Cx::orchestrator`]: for their tools, for documents and for events. A
//! plugin may ask for what it says that it needs, and for nothing else:
//!
//! ```no_run
//! use orchestra_plugin::kit::{Cx, Expected, Plugin, ToolError, tool};
//! use serde_json::json;
//!
//! /// Keeps what a model makes of a text.
//! #[tool]
//! async fn digest(text: String, cx: Cx) -> Result<String, ToolError> {
//!     let model = cx.orchestrator().provider("openai");
//!     let digest = model.call_tool("summarize", json!({"text": text})).await?;
//!     let notes = cx.orchestrator().storage("memory");
//!     notes
//!         .write("notes/digest.md", digest.text, &Default::default(), Expected::Any)
//!         .await?;
//!     Ok("kept".to_owned())
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     Plugin::new("tools.digest", env!("CARGO_PKG_VERSION"))
//!         .needs_ai("openai")
//!         .needs_storage("memory")
//!         .tool(digest::tool())
//!         .on_event("notes.changed", |event, _cx| async move {
//!             tracing::info!(%event.payload, "a note was changed");
//!         })
//!         .run()
//! }
//! ```
//!
//! **What the kit does.** It reads the flags that every plugin has, makes or loads the certificates,
//! listens, says `READY ADDRESS` on stderr, registers with the orchestrator in the background, and
//! answers it; nobody else may call. It ends with code 0 when it is asked to, on SIGTERM and SIGINT,
//! and when whoever started it is gone: the parent process, or the other end of stdin where that is
//! a pipe. It ends with code 1 when it cannot start, or when the orchestrator stays away, and with 2
//! for flags that it does not know.
//!
//! **Where a log belongs.** Older orchestrators read stderr up to the line `READY` and never again,
//! so a plugin that goes on writing there stands still after 64 KiB. After that line the kit says
//! next to nothing: the first panics, cut short. Everything that is written to stderr goes to a file
//! instead when one is named, by the flag `--log-file` or by [`Plugin::log_file`]. The kit's own
//! reports are events of `tracing`, for the subscriber that the plugin installs, if any; stdout is
//! nobody's, and nothing is read from stdin.
//!
//! **When a call is given up,** the handler is told by [`Cx::cancel`], and dropped at its next
//! `.await` half a second later, or after what [`Plugin::cancel_grace`] says. Work that has no
//! `.await` goes on to its end: it asks [`Cx::is_cancelled`] now and then. A panic ends its call with an error and nothing else, unless the plugin
//! is built with `panic = "abort"`.

mod answer;
mod arguments;
mod chunks;
mod cx;
mod events;
mod flags;
mod health;
mod into;
mod life;
mod log;
mod manifest;
mod orchestrator;
mod parent;
mod plugin;
mod prompt;
mod resource;
mod serve;
mod storage;
mod tool;
mod toolbox;
mod uplink;

pub use crate::envelope::REVISION;
pub use answer::{Answer, Content, ToolError};
pub use chunks::Chunks;
pub use cx::{Cancel, Cx};
pub use events::{Event, Filters, Subscription};
pub use health::Health;
pub use into::{IntoAnswer, IntoMessages, Json};
pub use manifest::FEATURES;
pub use orchestra_plugin_macros::{prompt, tool};
pub use orchestrator::{Called, Documents, Orchestrator, OrchestratorError};
pub use plugin::Plugin;
pub use prompt::{Messages, Prompt};
pub use resource::Resource;
pub use storage::{Document, Entry, Expected, Storage, StorageError};
pub use tool::{NoArguments, Tool};
pub use toolbox::Tools;

/// What code that the attributes have made refers to, so that a plugin need not.
#[doc(hidden)]
pub mod made {
    pub use schemars;
    pub use serde;
}
