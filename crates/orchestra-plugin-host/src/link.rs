//! Connections to plugins and to orchestrators elsewhere, as the client of servers of others wants
//! them.
//!
//! [`PluginConnector`] starts a plugin and reaches it, [`OrchestratorConnector`] reaches an
//! orchestrator; both open a [`PluginLink`]. What is said on it is translated by
//! [`translate`](crate::translate), but to an orchestrator of ours, which takes MCP as it is.
//! [`Links`] has the plugins that are connected, for what others want to
//! say to them. Watching, starting again, repeating and bounding are left to `orchestra_mcp::client`.

mod line;
mod links;
mod orchestrator;
mod own;
mod plugin;
mod process;
mod remote;
mod told;
mod unreached;

pub use links::Links;
pub use orchestrator::{BRIDGE, CallerSession, OrchestratorConnector, OrchestratorSpec};
pub use plugin::{LEEWAY, PluginConnector, PluginSpec};
pub use remote::PluginLink;

pub(crate) use plugin::random_id;
