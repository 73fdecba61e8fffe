//! Tests of the memory crate through its public parts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use orchestra_memory::engine;

mod away;
mod context;
mod doors;
mod fixture;
mod generated;
mod hostile;
mod in_process;
mod large;
mod running;
mod search;
mod served;
