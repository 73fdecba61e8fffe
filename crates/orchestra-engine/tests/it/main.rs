//! Tests of models, vectors and the index through their public parts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use orchestra_memory::engine;

mod damage;
mod index;
mod joined;
mod models;
mod real;
mod remote;
#[path = "../../../orchestra-memory/tests/it/running.rs"]
mod running;
#[path = "../../../orchestra-memory/tests/it/in_process.rs"]
#[allow(dead_code, reason = "shared with the tests of orchestra-memory")]
mod served;
mod server;
mod tiny;
mod vectors;

/// A file that no `mod` line names would never be compiled.
#[test]
fn every_file_is_a_module() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else {
            continue;
        };
        let line = format!("mod {module};");
        let is_named = include_str!("main.rs").lines().any(|found| found == line);
        assert!(module == "main" || is_named, "{name}");
    }
}
