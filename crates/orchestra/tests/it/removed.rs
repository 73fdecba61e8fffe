//! What git ignores is removed under running programs, and what a command did is in the files when
//! it ends, whichever program writes them.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, thread::yield_now, time::Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, Session, Workspace, get, until};

const CHUNKS: &str = ".projects/my-app/.memory/chunks.toon";

fn up(workspace: &Workspace) -> (Running, Value) {
    let process = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    let ready = process.json();
    (process, ready)
}

fn endpoint(workspace: &Workspace) -> Option<Value> {
    let text = fs::read_to_string(workspace.run_directory().join("endpoint.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// Removes a directory that somebody may write into meanwhile.
fn remove(directory: &Path) {
    until(|| {
        let _ = fs::remove_dir_all(directory);
        (!directory.exists()).then_some(())
    });
}

#[test]
fn up_serves_on_when_its_run_directory_is_removed() {
    let workspace = Workspace::board();
    let (process, ready) = up(&workspace);
    let run = workspace.run_directory();
    for _ in 0..2 {
        remove(&run);
        let told = until(|| endpoint(&workspace));
        assert_eq!(
            (&told["http"], &told["pid"]),
            (&ready["http"], &ready["pid"])
        );
        let mode = fs::metadata(&run).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    let address = ready["http"].as_str().unwrap();
    let address = address.strip_prefix("http://").unwrap();
    assert_eq!(get(address, "/health").status, 200);
    // The lock is held again: the next one finds the first.
    let (_second, again) = up(&workspace);
    assert_eq!(again["already_running"], true, "{again}");
    process.signal(Signal::TERM);
    assert!(process.end().success());
    assert_eq!(endpoint(&workspace), None);
}

#[test]
fn a_session_goes_on_to_be_audited_when_the_run_directory_is_removed() {
    let workspace = Workspace::board();
    let mut session = Session::start(workspace.command(["stdio"]));
    session.ok("list_projects", &json!({}));
    remove(&workspace.run_directory());
    session.ok("list_projects", &json!({}));
    let file = workspace.run_directory().join("audit.jsonl");
    let line = until(|| {
        fs::read_to_string(&file)
            .ok()
            .filter(|text| !text.is_empty())
    });
    assert!(line.contains("list_projects"), "{line}");
    assert!(session.process.end().success());
    let said = workspace.run(["audit", "verify"]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// A session of an agent keeps the files meanwhile.
#[test]
fn what_a_command_did_is_in_the_files_when_it_ends() {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": "My App"}));
    let mut session = Session::start(workspace.command(["stdio"]));
    session.ok("list_projects", &json!({}));
    for number in 0..10 {
        let text = format!("fact number{number}");
        let said = workspace.run(["memory", "save", &text]);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
        assert!(workspace.read(CHUNKS).contains(&text), "{text}");
    }
    workspace.call(
        "save_memory",
        &json!({"project": "my-app", "content": "fact by tool", "summary": ""}),
    );
    assert!(workspace.read(CHUNKS).contains("fact by tool"));
    // And what was edited is read by the next.
    for number in 0..10 {
        let (old, new) = (format!("number{number}"), format!("edited{number}"));
        workspace.write(CHUNKS, &workspace.read(CHUNKS).replace(&old, &new));
        let listed = workspace.run(["memory", "list"]).out;
        assert!(listed.contains(&new), "{listed}");
    }
    assert!(session.process.end().success());
}

#[test]
fn an_export_that_is_interrupted_leaves_nothing() {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": "My App"}));
    let lines: String = (0..5_000)
        .map(|number| {
            let memory =
                json!({"type": "memory", "project": "my-app", "content": format!("fact {number} {}", "x".repeat(400))});
            format!("{memory}\n")
        })
        .collect();
    workspace.write("in.jsonl", &lines);
    let said = workspace.run(["memory", "import", "in.jsonl"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let left = || {
        let names = fs::read_dir(workspace.join("out")).unwrap();
        names
            .flatten()
            .map(|entry| entry.file_name())
            .collect::<Vec<_>>()
    };
    fs::create_dir(workspace.join("out")).unwrap();
    let command = workspace.command(["memory", "export", "out/all.jsonl"]);
    let process = Running::start(command);
    let end = Instant::now() + PATIENCE;
    while left().is_empty() {
        assert!(Instant::now() < end, "nothing is exported");
        yield_now();
    }
    process.signal(Signal::INT);
    assert_eq!(process.end().code(), Some(1));
    assert_eq!(left(), Vec::<std::ffi::OsString>::new());
}
