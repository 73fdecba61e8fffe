//! Orchestra as an axum router, to serve alone or to nest in somebody else's program.
//!
//! [`app`] has the routes of [`orchestra_mcp::http`] and, beside them:
//!
//! | route | does |
//! |---|---|
//! | `GET /api/mcp/tools`, `POST /api/mcp/tools/call` | the tools, and a call of one |
//! | `GET /api/mcp/resources`, `POST /api/mcp/resources/read` | the same of resources |
//! | `GET /api/mcp/prompts`, `POST /api/mcp/prompts/get` | the same of prompts |
//! | `GET /api/mcp/sse`, `POST /api/mcp/messages` | MCP of 2024-11-05 |
//! | `GET /api/mcp/servers` | how the servers of others are |
//! | `GET /metrics` | all figures, as OpenMetrics, which Prometheus reads |
//! | `GET /api/openapi.json` | describes all of these |
//! | `GET /.well-known/oauth-protected-resource` | where OAuth is asked for: who gives out tokens |
//! | `GET /health`, `GET /ready` | whether the program lives, and whether it can be asked |
//!
//! [`app_with_dashboard`] has the pages of a [`dashboard`] as well, with what they ask for.
//!
//! Nested below a path, all of them move there. What is well known stays at the root:
//! [`Access::metadata_routes`](orchestra_mcp::http::Access::metadata_routes) has it for that.
//!
//! Calls go through the hub as those of every other face do; this crate only translates. It does
//! not listen: that is left to whoever serves the router.
//! [`orchestra_mcp::http::serve`] names the user of each connection. Over another server, every caller
//! has to show a token.
//!
//! The keys of OAuth issuers are fetched by `reqwest`, built with its feature `rustls-no-provider`
//! and given TLS of our own. A program that makes clients of the same `reqwest` without TLS features
//! of its own must therefore install a provider for them
//! (`rustls::crypto::CryptoProvider::install_default`).

mod app;
mod asked;
pub mod dashboard;
mod figures;
mod health;
mod openapi;
mod refusal;
mod rest;
mod servers;

pub use app::{app, app_with_dashboard};
