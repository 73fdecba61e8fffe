//! The run directory of a workspace: where it is, and that a directory of the working tree is not taken for it.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Running, Session, Workspace, run_directory, said};

/// The run directory of earlier versions.
const OLD: &str = ".projects/.run";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn git(directory: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=n@example.org"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
}

/// Serves a workspace, which is another directory than that of the test where one is named.
fn up(workspace: &Workspace, directory: &Path) -> (Running, Value) {
    let mut command = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
    command
        .current_dir(directory)
        .env_remove("ORCHESTRATOR_WORKSPACE")
        .arg("--workspace")
        .arg(directory);
    let process = Running::start(command);
    let ready = process.json();
    (process, ready)
}

fn end(process: Running) {
    process.signal(Signal::TERM);
    assert!(process.end().success());
}

/// A repository with a board that git tracks and one commit.
fn committed() -> Workspace {
    let workspace = Workspace::board().with_board_in_checkout();
    workspace.call("create_project", &json!({"name": "My App"}));
    git(&workspace.path(), &["add", "--all"]);
    git(
        &workspace.path(),
        &["commit", "--quiet", "--message", "board"],
    );
    workspace
}

#[test]
fn run_directory_is_in_the_git_directory_of_the_checkout() {
    let workspace = committed();
    let main = workspace.path();
    let linked = workspace.home().canonicalize().unwrap().join("linked");
    git(
        &main,
        &["worktree", "add", "--quiet", linked.to_str().unwrap()],
    );
    let places = [
        (&main, main.join(".git/.orchestra/_/run")),
        (&linked, main.join(".git/worktrees/linked/.orchestra/_/run")),
    ];
    let served: Vec<Running> = places
        .iter()
        .map(|(directory, run)| {
            let (process, ready) = up(&workspace, directory);
            assert_eq!(ready["already_running"], false, "{ready}");
            assert_eq!(run_directory(directory, &workspace.home()), *run);
            assert_eq!(mode(run), 0o700);
            for name in ["endpoint.json", "up.lock"] {
                assert_eq!(mode(&run.join(name)), 0o600, "{name}");
            }
            assert!(!directory.join(OLD).exists());
            process
        })
        .collect();
    for (directory, _) in &places {
        assert_eq!(up(&workspace, directory).1["already_running"], true);
    }
    served.into_iter().for_each(end);
}

#[test]
fn run_directory_without_git_is_in_the_state_directory_of_the_user() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.join(".projects")).unwrap();
    let (process, _) = up(&workspace, &workspace.path());
    let state = workspace.home().join(".local/state/orchestra/workspaces");
    let run = workspace.run_directory();
    assert!(run.starts_with(state), "{run:?}");
    assert_eq!(mode(&run), 0o700);
    assert!(run.join("endpoint.json").exists());
    assert!(!workspace.join(OLD).exists());
    end(process);
}

#[test]
fn commands_create_no_run_directory_in_the_working_tree() {
    let workspace = Workspace::board();
    assert_eq!(workspace.run(["init"]).code, Some(0));
    workspace.call("create_project", &json!({"name": "My App"}));
    let mut session = Session::start(workspace.command(["stdio"]));
    session.ok("list_projects", &json!({}));
    assert!(session.process.end().success());
    for command in [
        &["memory", "save", "a fact"][..],
        &["audit", "verify"],
        &["mcp", "list"],
        &["doctor", "--fix"],
    ] {
        let said = workspace.run(command);
        assert!(!workspace.join(OLD).exists(), "{command:?}: {said:?}");
    }
    assert!(workspace.run_directory().join("audit.jsonl").exists());
}

#[test]
fn commands_without_a_board_create_no_private_state() {
    let workspace = Workspace::git();
    for command in [
        &["tool", "list"][..],
        &["tool", "show", "create_issue"],
        &["tool", "call", "create_issue"],
        &["tool", "call", "list_copilot_plans"],
    ] {
        let said = workspace.run(command);
        assert_eq!(entries(&workspace.home()).len(), 0, "{command:?}: {said:?}");
        assert!(
            !workspace.join(".git/.orchestra").exists(),
            "{command:?}: {said:?}"
        );
    }
}

/// An archive can contain a git directory, and another user can hold a lock in it where other users can open it.
#[test]
fn endpoint_file_in_a_run_directory_of_an_archive_is_refused() {
    let workspace = Workspace::board();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let planted = json!({
        "version": env!("CARGO_PKG_VERSION"), "pid": 1, "address": address, "asks_token": true, "tokens": "own",
        "http": format!("http://{address}"), "mcp": format!("http://{address}/mcp"),
    });
    let run = workspace.run_directory();
    fs::create_dir_all(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(run.join("endpoint.json"), planted.to_string()).unwrap();
    let lock = fs::File::create(run.join("up.lock")).unwrap();
    lock.lock().unwrap();
    for (command, is_refused) in [
        (&["up", "--json", "--http", "127.0.0.1:0"][..], true),
        (&["token"], true),
        (&["mcp", "list"], false),
    ] {
        let said = workspace.run(command);
        assert_eq!(said.code != Some(0), is_refused, "{command:?}: {said:?}");
        assert!(
            said.err.contains("other users can access"),
            "{command:?}: {said:?}"
        );
        assert!(
            !said.out.contains(&address.to_string()),
            "{command:?}: {said:?}"
        );
    }
    assert!(listener.accept().is_err());
}

/// A repository can contain an endpoint file, and another process can hold the lock beside it.
#[test]
fn endpoint_file_in_the_working_tree_is_ignored() {
    let workspace = Workspace::board();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let planted = json!({
        "version": env!("CARGO_PKG_VERSION"), "pid": 1, "address": address, "asks_token": true,
        "http": format!("http://{address}"), "mcp": format!("http://{address}/mcp"),
    });
    for name in ["endpoint.json", "engine.json"] {
        workspace.write(&format!("{OLD}/{name}"), &planted.to_string());
    }
    let locks = ["up.lock", "engine.lock", "init.lock"].map(|name| {
        let lock = fs::File::create(workspace.join(OLD).join(name)).unwrap();
        lock.lock().unwrap();
        lock
    });
    fs::set_permissions(workspace.join(OLD), fs::Permissions::from_mode(0o700)).unwrap();
    let before = entries(&workspace.join(OLD));
    assert_eq!(workspace.run(["init"]).code, Some(0));
    let said = workspace.run(["mcp", "list"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = workspace.run(["token", "--engine"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    let (process, ready) = up(&workspace, &workspace.path());
    assert_eq!(ready["already_running"], false, "{ready}");
    end(process);
    assert!(listener.accept().is_err(), "the planted address was used");
    assert_eq!(entries(&workspace.join(OLD)), before);
    let text = workspace.read(&format!("{OLD}/endpoint.json"));
    assert_eq!(text, planted.to_string());
    drop(locks);
}

#[test]
fn link_in_the_place_of_the_old_run_directory_is_not_followed() {
    let workspace = Workspace::board();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), workspace.join(OLD)).unwrap();
    assert_eq!(workspace.run(["init"]).code, Some(0));
    workspace.call("list_projects", &json!({}));
    let mut session = Session::start(workspace.command(["stdio"]));
    session.ok("list_projects", &json!({}));
    assert!(session.process.end().success());
    let (process, _) = up(&workspace, &workspace.path());
    end(process);
    assert!(workspace.join(OLD).is_symlink());
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("is no longer used"), "{said:?}");
    let said = workspace.run(["doctor", "--fix"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!workspace.join(OLD).is_symlink());
    assert_eq!(entries(outside.path()), Vec::<PathBuf>::new());
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn old_run_directory_is_reported_and_moved_out_of_the_working_tree() {
    let workspace = committed();
    workspace.write(&format!("{OLD}/audit.jsonl"), "records of earlier calls");
    workspace.write(&format!("{OLD}/damaged-store-1/board.db"), "a database");
    workspace.write(&format!("{OLD}/up.lock"), "");
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains(OLD), "{said:?}");
    assert!(said.out.contains("orchestra doctor --fix"), "{said:?}");
    let lock = fs::File::open(workspace.join(OLD).join("up.lock")).unwrap();
    lock.lock().unwrap();
    let said = workspace.run(["doctor", "--fix"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("which holds"), "{said:?}");
    assert!(workspace.join(OLD).exists());
    drop(lock);
    let said = workspace.run(["doctor", "--fix"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!workspace.join(OLD).exists());
    let moved = workspace.run_directory().join("earlier-run-1");
    let text = fs::read_to_string(moved.join("audit.jsonl")).unwrap();
    assert_eq!(text, "records of earlier calls");
    assert!(moved.join("damaged-store-1/board.db").exists());
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
}

/// Without a directory for it nothing is stored elsewhere instead.
#[test]
fn workspace_without_git_and_home_has_no_run_directory() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.join(".projects")).unwrap();
    let mut command = workspace.command(["up", "--http", "127.0.0.1:0"]);
    command.env_remove("HOME");
    let said = said(command, "");
    assert_ne!(said.code, Some(0), "{said:?}");
    for name in ["HOME", "XDG_STATE_HOME"] {
        assert!(said.err.contains(name), "{said:?}");
    }
    assert!(!workspace.join(OLD).exists());
}

/// Systems limit the paths of sockets to about a hundred bytes.
#[test]
#[cfg(target_os = "linux")]
fn socket_of_a_runner_in_a_deep_workspace_has_a_short_path() {
    let workspace = Workspace::new();
    let deep = workspace.join("d".repeat(100)).join("e".repeat(100));
    fs::create_dir_all(&deep).unwrap();
    git(&deep, &["init", "--quiet"]);
    let go = workspace.home().join("go");
    let plan = crate::plans::waits_for("waits", &go);
    fs::write(deep.join("plan.yaml"), plan).unwrap();
    let mut command = workspace.command(["plan", "run", "plan.yaml", "--json"]);
    command
        .current_dir(&deep)
        .env_remove("ORCHESTRATOR_WORKSPACE");
    let run = Running::start(command);
    while run.json()["phase"] != "work" {}
    let told = crate::local_users::found(&deep, "runner.json").unwrap();
    let told: Value = serde_json::from_str(&fs::read_to_string(told).unwrap()).unwrap();
    let socket = told["socket"].as_str().unwrap();
    assert!(socket.len() < 100, "{socket}");
    std::os::unix::net::UnixStream::connect(socket).unwrap();
    fs::write(&go, "").unwrap();
    assert!(run.end().success());
}
