//! The whole router over real sockets, as clients see it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dashboard;
mod embed;
mod health;
mod integrated;
mod old;
mod openapi;
mod rest;
mod servers;
mod site;
mod toys;

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
