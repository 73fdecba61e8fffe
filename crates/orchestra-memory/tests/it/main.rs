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
