//! Tests of the crate through its interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod git;
mod known;
mod leadership;
mod make;
mod refusal;
mod support;
