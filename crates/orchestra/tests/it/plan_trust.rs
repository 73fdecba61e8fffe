//! Databases of plans that this user's programs did not create: nothing in them starts until the user accepts them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::{Running, Said, Session, Workspace, said, until, until_ready};

const STORAGE: &str = ".orchestrator/plans";

/// A plan whose job adds a line to a file, and ends when another file exists.
fn marks(name: &str, marker: &Path, gate: &Path) -> String {
    let (marker, gate) = (marker.display(), gate.display());
    format!(
        "name: {name}\ntargetBranch: {name}\njobs:\n- producerId: marks\n  task: Mark\n  autoHeal: false\n  \
         work: |\n    echo started >> '{marker}'\n    while ! test -e '{gate}'; do sleep 0.02; done\n    \
         echo here > {name}.txt\n"
    )
}

fn plan(workspace: &Workspace, words: &[&str]) -> Said {
    let words: Vec<&str> = ["plan"].iter().chain(words).copied().collect();
    workspace.run(words)
}

fn status(workspace: &Workspace, name: &str) -> Value {
    let shown = plan(workspace, &["show", name, "--json"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    serde_json::from_str::<Value>(&shown.out).unwrap()["status"].clone()
}

/// Copies the database of plans from one workspace into another, as a clone or an archive brings it along.
fn plant(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in ["plans.db", "plans.db-wal"] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

fn names_the_command(said: &Said) {
    let text = format!("{}{}", said.out, said.err);
    assert!(text.contains("orchestra plan trust"), "{said:?}");
}

/// A workspace with a plan that was running and one that was not started when its database was copied, and the files
/// to which their jobs add lines.
struct Planted {
    workspace: Workspace,
    running: PathBuf,
    waiting: PathBuf,
    /// The workspace of the program that created the database, and the home of its user.
    origin: Workspace,
}

fn planted() -> Planted {
    let origin = Workspace::git();
    let running = origin.home().join("running");
    let waiting = origin.home().join("waiting");
    let gate = origin.home().join("gate");
    origin.write("running.yaml", &marks("running", &running, &gate));
    origin.write("waiting.yaml", &marks("waiting", &waiting, &gate));
    let created = plan(&origin, &["create", "waiting.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let mut run = Running::start(origin.command(["plan", "run", "running.yaml", "--json"]));
    until(|| running.exists().then_some(()));
    run.kill();
    let workspace = Workspace::git();
    plant(&origin.join(STORAGE), &workspace.join(STORAGE));
    fs::write(gate, "").unwrap();
    Planted {
        workspace,
        running,
        waiting,
        origin,
    }
}

impl Planted {
    fn nothing_started(&self) {
        assert_eq!(fs::read_to_string(&self.running).unwrap(), "started\n");
        assert!(!self.waiting.exists());
    }
}

#[test]
fn planted_plans_start_only_after_they_are_accepted_and_continued() {
    let planted = planted();
    let workspace = &planted.workspace;
    for words in [
        &["plan", "list"][..],
        &["plan", "show", "running"],
        &["plan", "watch", "running"],
        &["plan", "resume", "waiting"],
        &["plan", "retry", "running"],
        &["doctor"],
        &["doctor", "--fix"],
    ] {
        names_the_command(&workspace.run(words.iter().copied()));
    }
    assert_eq!(status(workspace, "running"), "running");
    let mut session = Session::start(workspace.command(["stdio"]));
    let listed = session.ok("list_copilot_plans", &json!({}));
    assert_eq!(listed["count"], 2, "{listed}");
    let resume = json!({"planId": "waiting"});
    let refused = session.refused("resume_copilot_plan", &resume);
    assert!(refused.contains("orchestra plan trust"), "{refused}");
    let create = json!({"name": "Other", "jobs": [
        {"producerId": "one", "task": "One", "work": "true"},
    ]});
    let refused = session.refused("create_copilot_plan", &create);
    assert!(refused.contains("orchestra plan trust"), "{refused}");
    assert_eq!(session.process.end().code(), Some(0));
    until_ready(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    planted.nothing_started();

    let denied = plan(workspace, &["trust"]);
    assert_ne!(denied.code, Some(0), "{denied:?}");
    assert!(denied.err.contains("running"), "{denied:?}");
    let accepted = plan(workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(accepted.out.contains("running"), "{accepted:?}");
    let stopped = status(workspace, "running");
    assert!(
        ["failed", "paused"].iter().any(|status| stopped == *status),
        "{stopped}"
    );
    let waits = status(workspace, "waiting");
    assert!(
        ["pending-start", "paused"]
            .iter()
            .any(|status| waits == *status),
        "{waits}"
    );
    let again = plan(workspace, &["trust"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    planted.nothing_started();

    let resumed = plan(workspace, &["resume", "waiting"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let watched = plan(workspace, &["watch", "waiting"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(fs::read_to_string(&planted.waiting).unwrap(), "started\n");
    assert_eq!(fs::read_to_string(&planted.running).unwrap(), "started\n");
}

#[test]
fn ended_plans_are_shown_before_they_are_accepted() {
    let origin = Workspace::git();
    let marker = origin.home().join("marker");
    origin.write("ended.yaml", &marks("ended", &marker, &origin.home()));
    let ran = plan(&origin, &["run", "ended.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let workspace = Workspace::git();
    plant(&origin.join(STORAGE), &workspace.join(STORAGE));
    let denied = plan(&workspace, &["trust"]);
    assert_ne!(denied.code, Some(0), "{denied:?}");
    assert!(
        denied.err.contains("ended (") && denied.err.contains("): succeeded, "),
        "{denied:?}"
    );
}

#[test]
fn plans_of_a_program_without_ids_are_accepted_once() {
    let planted = planted();
    let workspace = &planted.workspace;
    // As an earlier version leaves it.
    let storage = workspace.join(STORAGE);
    fs::remove_dir_all(&storage).unwrap();
    fs::create_dir_all(&storage).unwrap();
    drop(
        orchestra_runner::journal::Journal::open(
            &storage,
            orchestra_runner::journal::Options::default(),
        )
        .unwrap(),
    );
    workspace.write(
        "other.yaml",
        "name: Other\njobs:\n- {producerId: one, task: One, work: 'true'}\n",
    );
    let refused = plan(workspace, &["create", "other.yaml"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    names_the_command(&refused);
    let accepted = plan(workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let created = plan(workspace, &["create", "other.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
}

#[test]
fn copy_of_a_workspace_is_accepted_by_itself() {
    let planted = planted();
    let (origin, workspace) = (&planted.origin, &planted.workspace);
    // The same user, who created the original.
    let run = |words: &[&str]| {
        let mut command = workspace.command(words);
        command.env("HOME", origin.home());
        said(command, "")
    };
    let refused = run(&["plan", "resume", "waiting"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(
        refused.err.contains("are a copy of those in"),
        "{refused:?}"
    );
    let accepted = run(&["plan", "trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    for words in [["plan", "resume", "waiting"], ["plan", "watch", "waiting"]] {
        let done = run(&words);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    // The original is trusted as before.
    let looked = plan(origin, &["list"]);
    assert!(!looked.err.contains("plan trust"), "{looked:?}");
}

#[test]
fn moved_workspace_continues_without_a_question() {
    let workspace = Workspace::git();
    let (marker, gate) = (workspace.home().join("marker"), workspace.home());
    workspace.write("moved.yaml", &marks("moved", &marker, &gate));
    let created = plan(&workspace, &["create", "moved.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let commands: Vec<Command> = ["resume", "watch"]
        .iter()
        .map(|word| workspace.command(["plan", word, "moved"]))
        .collect();
    let moved = workspace.home().join("moved to here");
    fs::rename(workspace.path(), &moved).unwrap();
    for mut command in commands {
        command.current_dir(&moved);
        let done = said(command, "");
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    assert_eq!(fs::read_to_string(&marker).unwrap(), "started\n");
}

#[test]
fn damaged_list_of_databases_trusts_none_and_is_named() {
    let workspace = Workspace::git();
    let gate = workspace.home();
    workspace.write("one.yaml", &marks("one", &gate.join("marker"), &gate));
    let created = plan(&workspace, &["create", "one.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let list = workspace.home().join(".local/state/orchestra/plans.json");
    fs::write(&list, "{").unwrap();
    let refused = plan(&workspace, &["resume", "one"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("plans.json"), "{refused:?}");
    names_the_command(&refused);
    fs::remove_file(&list).unwrap();
    let accepted = plan(&workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    for word in ["resume", "watch"] {
        let done = plan(&workspace, &[word, "one"]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}
