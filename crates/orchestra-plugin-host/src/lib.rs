//! The orchestrator's side of plugins.
//!
//! [`translate`] puts MCP into the messages of the plugin protocol and back; [`link`] reaches a
//! plugin, or an orchestrator elsewhere, as a server of others is reached; [`face`] serves the hub
//! to those who come over QUIC, [`events`] carries what they tell each other, [`reached`] keeps orchestrators from going in circles, and
//! [`storage`] is
//! where their documents are kept.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod carried;
pub mod events;
pub mod face;
pub mod link;
pub mod reached;
pub mod storage;
pub mod translate;
