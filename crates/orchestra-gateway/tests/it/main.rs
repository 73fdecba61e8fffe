//! Tests of the gateway through what it offers to programs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod approval;
mod away;
mod bad_http;
mod bad_stdio;
mod discovery;
mod eras;
mod forms;
mod gateway;
mod kill;
#[path = "../../../orchestra-hub/tests/it/log.rs"]
mod log;
mod offers;
mod played;
mod plugins;
mod ports;
mod relist;
mod reload;
mod rig;
mod rules;
mod runtimes;
#[expect(dead_code, reason = "the tests of orchestra-mcp use the rest")]
#[path = "../../../orchestra-mcp/tests/it/client_http/scripted.rs"]
mod scripted;
mod shapes;
mod starting;
mod support;
mod tuned;
mod twins;

/// A file that no `mod` line names would never be compiled.
#[test]
fn every_file_is_a_module() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let here = include_str!("main.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(
            name == "main" || here.contains(&format!("mod {name};")),
            "{name}"
        );
    }
}
