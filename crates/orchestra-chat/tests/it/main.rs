//! Tests of conversations through what the crate offers to programs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backends;
mod certain;
mod corpus;
mod fake;
mod faults;
mod holding;
mod parts;
mod quoted;
mod sessions;
mod support;
mod turns;

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
