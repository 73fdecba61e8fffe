//! Validation by JSON Schemas that other programs wrote, in bounded time.
//!
//! The code of the validator is generic, so that it is compiled with the crate that uses it. Only this crate uses it:
//! the profiles in `Cargo.toml` optimize this crate for size, and the hub for speed.

mod check;
mod cost;

pub use check::{CompiledSchema, SchemaError, SchemaViolation};
pub use cost::SchemaCostError;
