//! JSON-RPC 2.0 and MCP messages, without I/O.

mod raw;

pub use raw::{RawJson, RawJsonError};
