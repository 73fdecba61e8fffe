//! Jobs as their runner sees them, through real processes that end, hang, flood, fork and are killed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod board;
mod ending;
mod killing;
mod left;
mod limits;
mod logging;
mod rig;
mod starting;
