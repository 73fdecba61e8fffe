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
mod plugin;
mod review;
mod rig;
mod through;
mod translate;

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
