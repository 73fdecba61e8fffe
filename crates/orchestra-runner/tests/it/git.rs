//! Git as plans use it, with the program itself and real repositories.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bystander;
mod choosing;
mod committing;
mod converted;
mod faults;
mod integrating;
pub(crate) mod kit;
mod linking;
mod merging;
mod opening;
mod overlooked;
mod removing;
mod serial;
mod sparse;
mod worktrees;

#[test]
fn no_file_of_this_directory_is_forgotten() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/git");
    let listed = include_str!("git.rs");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            listed.contains(&format!("mod {name};")),
            "{name} is no module"
        );
    }
}
