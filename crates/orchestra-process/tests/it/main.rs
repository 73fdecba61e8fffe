//! Children as their users see them: real processes that end, crash, refuse to end and are killed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ending;
mod limits;
mod mounts;
mod program;
mod starting;

#[test]
fn no_file_of_this_directory_is_forgotten() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = include_str!("main.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            name == "main" || main.contains(&format!("mod {name};")),
            "{name} is no module"
        );
    }
}
