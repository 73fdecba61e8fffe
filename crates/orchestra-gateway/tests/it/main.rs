//! Tests of the gateway through what it offers to programs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod approval;
mod approval_files;
mod away;
mod bad_http;
mod bad_stdio;
mod costly_schemas;
mod discovery;
mod eras;
mod exchanged;
mod forms;
mod gateway;
mod kill;
#[path = "../../../orchestra-hub/tests/it/log.rs"]
mod log;
mod offers;
mod played;
mod plugins;
mod ports;
mod relay;
mod relist;
mod reload;
mod rig;
mod rules;
mod runtimes;
#[expect(dead_code, reason = "the tests of orchestra-mcp use the rest")]
#[path = "../../../orchestra-mcp/tests/it/client_http/scripted.rs"]
mod scripted;
mod shapes;
#[path = "../../../orchestra-runner/tests/it/skip.rs"]
mod skip;
mod starting;
mod support;
mod tuned;
mod twins;
