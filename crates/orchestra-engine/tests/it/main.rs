//! Tests of models, vectors and the index through their public parts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use orchestra_memory::engine;

mod damage;
mod index;
mod joined;
mod models;
#[path = "../../../orchestra-store/tests/it/mount.rs"]
mod mount;
mod real;
mod remote;
#[path = "../../../orchestra-memory/tests/it/running.rs"]
mod running;
#[path = "../../../orchestra-memory/tests/it/in_process.rs"]
#[allow(dead_code, reason = "shared with the tests of orchestra-memory")]
mod served;
mod server;
#[path = "../../../orchestra-runner/tests/it/skip.rs"]
mod skip;
mod tiny;
mod vectors;
