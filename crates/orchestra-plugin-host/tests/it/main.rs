//! Tests of the orchestrator's side of plugins, through sockets and child processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod circles;
mod events;
mod face;
mod face_bounds;
mod face_rig;
mod faults;
mod garbage;
mod gated;
mod kill;
mod links;
#[path = "../../../orchestra-hub/tests/it/log.rs"]
mod log;
mod orchestrator;
mod permitted;
mod plugin;
mod review;
mod rig;
mod through;
mod translate;
