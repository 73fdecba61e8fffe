//! What the runner promises, through git, processes and files as they are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agents;
mod bench;
mod git;
mod guide;
mod handing;
mod holder;
mod journal;
mod plans;
mod skip;
mod small_disk;
mod supervise;
