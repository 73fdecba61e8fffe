//! Other processes: this test program started again, to be one test that does what it is told.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};

use orchestra_board::{Command, IssuePatch, Kind};
use orchestra_store::{Action, Options, Reindex, Store};

use crate::board::PATIENCE;
use crate::documents::add_one;
use crate::words::{body, chunk, comment, create, rename, slug, target, title, update};

/// Names what a child is to do; read by this test program alone.
const TASK: &str = "ORCHESTRA_TEST_CHILD";

/// Starts a child: `mixed:N` makes N changes, on tasks of its own and on MA-3, which all children
/// share; `documents:N` adds one N times to the number that a document is; `load` changes things until it is killed. It prints each change after it was acknowledged.
pub(crate) fn start(workspace: &Path, task: &str, seed: u64) -> Child {
    Process::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child::work", "--nocapture", "--test-threads=1"])
        .env(TASK, format!("{task}|{seed}|{}", workspace.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child")
}

/// What a child printed, without what the test program around it prints.
pub(crate) fn lines(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    // A line that was cut by a kill was not said.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .filter_map(|line| line.split_once("@@").map(|(_, said)| said.to_owned()))
        .collect()
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@@{text}")
        .and_then(|()| out.flush())
        .expect("somebody listens");
}

/// Does nothing unless this process is a child.
#[test]
fn work() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let mut parts = task.splitn(3, '|');
    let (task, seed, workspace) = (
        parts.next().unwrap(),
        parts.next().unwrap(),
        parts.next().unwrap(),
    );
    // With the readable files, as every program has them.
    let store = Store::open(Path::new(workspace), Options::default()).expect("opens");
    let seed = seed.parse().unwrap();
    match task.split_once(':') {
        Some(("mixed", count)) => change_in_turn(&store, seed, count.parse().unwrap()),
        Some(("documents", count)) => {
            for _ in 0..count.parse().unwrap() {
                say(&add_one(&store).to_string());
            }
        }
        _ => change_until_killed(&store, seed),
    }
    store.close(PATIENCE);
}

/// Makes a task, renames it, says something about the shared one, and labels that, in turn.
fn change_in_turn(store: &Store, seed: u64, count: u64) {
    let run = |command| {
        let receipt = store.submit_blocking(None, Action::Board(command));
        receipt.expect("allowed").issues[0].issue.id.to_string()
    };
    let mut own = String::new();
    for number in 0..count {
        let text = format!("{seed}-{number}");
        match number % 4 {
            0 => {
                own = run(create(Kind::Task, Some("MA-2"), &text));
                say(&format!("{own} made {text}"));
            }
            1 => {
                run(rename(&own, &text));
                say(&format!("{own} renamed {text}"));
            }
            2 => {
                run(comment("MA-3", &text));
                say(&format!("MA-3 comment {text}"));
            }
            _ => {
                run(rename("MA-3", &text));
                say(&format!("MA-3 title {text}"));
            }
        }
    }
}

/// Each round makes a task with a title and, in one command, changes two fields of it to the same
/// number: a half-done command would show.
fn change_until_killed(store: &Store, seed: u64) {
    let mut number = seed * 1_000_000;
    loop {
        number += 1;
        let made = store.submit_blocking(
            None,
            Action::Board(create(Kind::Task, Some("MA-2"), &format!("n {number}"))),
        );
        let id = made.expect("allowed").issues[0].issue.id.to_string();
        say(&format!("{id} made {number}"));
        let patch = IssuePatch {
            title: Some(title(&format!("t {number}"))),
            description: Some(body(&format!("t {number}"))),
            state: Some(orchestra_board::State::Todo),
            ..IssuePatch::default()
        };
        store
            .submit_blocking(None, Action::Board(update(&id, patch)))
            .expect("allowed");
        say(&format!("{id} changed {number}"));
        if number.is_multiple_of(3) {
            let delete = Command::DeleteIssue {
                target: target(&id),
                expected: Kind::Task,
            };
            store
                .submit_blocking(None, Action::Board(delete))
                .expect("allowed");
            say(&format!("{id} deleted {number}"));
        }
        if number.is_multiple_of(5) {
            store
                .submit_blocking(None, Action::SaveMemory(chunk(&format!("memory {number}"))))
                .expect("allowed");
            say(&format!("{} remembered {number}", slug()));
        }
        // Each of them goes on where another was killed.
        if number.is_multiple_of(4) {
            store
                .submit_blocking(None, Action::ReindexMemory(Reindex::Begin))
                .expect("allowed");
        }
    }
}
