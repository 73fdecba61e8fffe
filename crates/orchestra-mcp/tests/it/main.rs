//! The protocol as clients see it: real child processes, streams in memory, single messages.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod bad_input;
mod batches;
mod bounds;
mod calls;
mod child;
mod child_servers;
mod client;
mod client_http;
mod ending;
mod eras;
mod faulty;
mod hostile;
mod http;
mod input;
mod lifecycle;
mod lines;
mod listing;
mod memory;
mod notices;
mod oauth;
mod sessions;
mod skills;
mod statuses;
mod tap;
mod tasks;
mod tls;
mod verbatim;

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
