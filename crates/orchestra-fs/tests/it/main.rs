//! Tests of the crate through its interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;
mod linked;
mod links;
mod locks;
mod named;
