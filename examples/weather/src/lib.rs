//! A weather server over MCP: the sample of a server that you write yourself.
//!
//! It offers two tools, `get-alerts` and `get-forecast`, over what the US National Weather Service
//! publishes. A server like this has three parts: what asks its source (`upstream.rs`), one file a
//! tool (`alerts.rs`, `forecast.rs`), and a provider that says what there is and calls it
//! (`tools.rs`). All of MCP, its revisions and transports, is `orchestra-mcp`'s; `main.rs` chooses
//! between them.

mod alerts;
mod area;
mod cache;
mod forecast;
mod tools;
mod upstream;

pub use tools::server;
pub use upstream::{DEFAULT_BASE, DEFAULT_PATIENCE, Upstream, UpstreamError};
