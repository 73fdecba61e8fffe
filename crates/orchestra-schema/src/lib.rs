//! Validation by JSON Schemas that other programs wrote, in bounded time.
//!
//! The code of the validator is generic, so that it is compiled with the crate that uses it. Only this crate uses it,
//! so that the profile `dist` can optimize the hub for speed without this code.

mod check;
mod cost;

pub use check::{CompiledSchema, SchemaError, SchemaViolation};
pub use cost::SchemaCostError;
