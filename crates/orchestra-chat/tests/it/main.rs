//! Tests of conversations through what the crate offers to programs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backends;
mod certain;
mod corpus;
mod fake;
mod faults;
mod holding;
mod parts;
mod quoted;
mod sessions;
mod support;
mod thought;
mod turns;
