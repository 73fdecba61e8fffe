//! Children as their users see them: real processes that end, crash, refuse to end and are killed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod changed;
mod ending;
mod limits;
mod mounts;
mod program;
#[path = "../../../orchestra-runner/tests/it/skip.rs"]
mod skip;
mod starting;
mod targets;
