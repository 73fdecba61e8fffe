//! Tests of plans through what the crate offers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod edits;
mod fair;
mod golden;
mod heals;
mod kept;
mod large;
mod laws;
mod make;
mod random;
mod tree;
mod user;
mod world;

/// A file that no `mod` line names would never be compiled.
#[test]
fn every_file_is_a_module() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let here = include_str!("main.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(
            name == "main" || here.contains(&format!("mod {name};")),
            "{name} is no module"
        );
    }
}
