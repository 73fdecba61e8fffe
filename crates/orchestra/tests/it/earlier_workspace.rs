//! A workspace of an earlier version: everything in it is there, its running plan starts only on command, and the
//! earlier version refuses it once its plans have moved.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::support::{Said, Session, Workspace, said, until_ready};

/// The workspace, whose `make.sh` describes its contents.
const ARCHIVE: &[u8] = include_bytes!("../earlier/workspace.tar.gz");

/// Directory in which the workspace was created.
const CREATED_IN: &str = "/tmp/orchestra-earlier/work";

/// Database of plans, where the earlier version has it.
const OLD_DATABASE: &str = ".orchestrator/plans/plans.db";

/// The directory of private state in a repository, and the database of plans in it.
const NEW_PLACE: &str = ".git/.orchestra";
const NEW_DATABASE: &str = ".git/.orchestra/_/plans/plans.db";

/// Schema of the earlier version's database.
const SCHEMA: i64 = 1;

/// Unpacks the workspace. Its jobs would end at once if they were started.
pub(crate) fn earlier() -> Workspace {
    let workspace = Workspace::new();
    let root = workspace.path();
    tar::Archive::new(GzDecoder::new(ARCHIVE))
        .unpack(&root)
        .unwrap();
    // git records where worktrees are. The database of plans has the earlier path.
    let mut files = Vec::new();
    for (directory, names) in [
        (".git/worktrees", &["gitdir", "orchestra.json"][..]),
        (".worktrees", &[".git"]),
    ] {
        for entry in fs::read_dir(root.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            files.extend(names.iter().map(|name| path.join(name)));
        }
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.replace(CREATED_IN, &root.display().to_string());
        fs::write(file, text).unwrap();
    }
    fs::write(workspace.home().join("gate"), "").unwrap();
    workspace
}

fn plan(workspace: &Workspace, words: &[&str]) -> Said {
    let words: Vec<&str> = ["plan"].iter().chain(words).copied().collect();
    workspace.run(words)
}

/// Names and states of the plans, sorted.
fn plans(workspace: &Workspace) -> Vec<(String, String)> {
    let listed = plan(workspace, &["list", "--status", "all", "--json"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let items = listed["items"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut plans: Vec<_> = items
        .map(|plan| (text(&plan["name"]), text(&plan["status"])))
        .collect();
    plans.sort();
    plans
}

fn status(workspace: &Workspace, name: &str) -> String {
    let plans = plans(workspace);
    assert_eq!(plans.len(), 3, "{plans:?}");
    let found = plans.into_iter().find(|plan| plan.0 == name);
    found.unwrap().1
}

/// How often a job has started since the workspace was unpacked.
fn starts(workspace: &Workspace) -> usize {
    let text = fs::read_to_string(workspace.home().join("started"));
    text.map_or(0, |text| text.lines().count())
}

fn schema(database: &Path) -> i64 {
    let connection =
        Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

/// Asserts that a directory, and all that is in it, is its owner's alone.
fn assert_private(path: &Path) {
    let metadata = fs::symlink_metadata(path).unwrap();
    assert!(!metadata.is_symlink(), "{}", path.display());
    let mode = metadata.permissions().mode();
    assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            // `current` of a job leads to its last attempt.
            if !path.is_symlink() {
                assert_private(&path);
            }
        }
    }
}

/// Asserts that the board and the memory have everything that the earlier version put there, once.
fn assert_complete(workspace: &Workspace) {
    let call = |tool: &str, arguments: Value| workspace.call(tool, &arguments);
    let shop = json!({"project": "shop"});
    let column = |found: &Value, key: &str| -> Vec<String> {
        let items = found["items"].as_array().unwrap().iter();
        let texts = items.map(|item| item[key].as_str().unwrap().to_owned());
        let mut texts: Vec<_> = texts.collect();
        texts.sort();
        texts
    };
    let projects = call("list_projects", json!({}));
    assert_eq!(column(&projects, "slug"), ["help-desk", "shop"]);
    let prd = call("read_prd", shop.clone());
    assert_eq!(prd["content"], "# Shop\n\nBuyers pay by card.");
    let epics = call("list_epics", shop.clone());
    assert_eq!(column(&epics, "title"), ["Pay by card"]);
    let stories = call("list_stories", shop.clone());
    assert_eq!(column(&stories, "title"), ["Card form"]);
    let tasks = call("list_tasks", shop.clone());
    let tasks = tasks["items"].as_array().unwrap();
    let tasks: Vec<_> = tasks
        .iter()
        .map(|task| {
            (
                task["id"].as_str().unwrap(),
                task["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        tasks,
        [
            ("BUG-1", "todo"),
            ("S-3", "todo"),
            ("S-4", "ready-for-testing"),
            ("S-5", "in-progress"),
            ("S-6", "backlog"),
            ("S-7", "cancelled"),
        ]
    );
    let waits = call("get_task", json!({"project": "shop", "task_id": "S-6"}));
    assert_eq!(waits["depends_on"], json!(["S-5"]));
    for (issue, events, last) in [
        ("S-4", 6, ("claimed", "")),
        (
            "S-5",
            5,
            ("commented", "The bank answers within two seconds."),
        ),
    ] {
        let history = call("get_history", json!({"project": "shop", "issue_id": issue}));
        let items = history["items"].as_array().unwrap();
        assert_eq!(items.len(), events, "{history}");
        let found = items.last().unwrap();
        let text = found["text"].as_str().unwrap_or_default();
        assert_eq!((found["event"].as_str().unwrap(), text), last, "{history}");
    }
    let requests = call("list_requests", shop.clone());
    assert_eq!(column(&requests, "description"), ["Pay by invoice"]);
    let saved = call("list_plans", shop.clone());
    assert_eq!(column(&saved, "title"), ["Release"]);
    let sessions = call("list_sessions", shop.clone());
    assert_eq!(column(&sessions, "summary"), ["Wrote the card form."]);
    let memories = call("list_memory", shop);
    assert_eq!(column(&memories, "summary"), ["Currency"]);
    let query = json!({"project": "shop", "query": "euro cents"});
    let memories = call("search_memory", query);
    assert_eq!(
        memories["items"][0]["content"],
        "All prices are in euro cents."
    );
}

#[test]
fn board_and_memory_of_an_earlier_version_are_complete_and_there_once() {
    let workspace = earlier();
    assert_complete(&workspace);
    // A second opening adds nothing.
    let examined = workspace.run(["doctor", "--fix"]);
    assert!(!examined.err.contains("damaged"), "{examined:?}");
    assert_complete(&workspace);
    let mut session = Session::start(workspace.command(["stdio"]));
    let projects = session.ok("list_projects", &json!({}));
    assert_eq!(projects["total"], 2, "{projects}");
    assert_eq!(session.process.end().code(), Some(0));
    assert_complete(&workspace);
}

#[test]
fn running_plan_of_an_earlier_version_starts_only_on_command() {
    let workspace = earlier();
    for words in [
        &["plan", "list"][..],
        &["plan", "show", "Running"],
        &["plan", "jobs", "Running"],
        &["plan", "graph", "Running"],
        &["plan", "watch", "Running"],
        &["top", "--once"],
        &["doctor"],
        &["doctor", "--fix"],
        &["tool", "call", "list_copilot_plans"],
    ] {
        workspace.run(words.iter().copied());
        assert_eq!(starts(&workspace), 0, "{words:?}");
    }
    let mut session = Session::start(workspace.command(["stdio"]));
    let listed = session.ok("list_copilot_plans", &json!({}));
    assert_eq!(listed["count"], 3, "{listed}");
    assert_eq!(session.process.end().code(), Some(0));
    until_ready(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    // Nobody could be asked.
    let examined = workspace.run(["doctor"]);
    assert_eq!(examined.code, Some(4), "{examined:?}");
    let text = format!("{}{}", examined.out, examined.err);
    assert!(text.contains("orchestra plan trust"), "{examined:?}");
    assert_eq!(starts(&workspace), 0);
    assert_eq!(status(&workspace, "Done"), "succeeded");
    assert_eq!(status(&workspace, "Waiting"), "pending-start");

    let accepted = plan(&workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let stopped = status(&workspace, "Running");
    assert!(["paused", "failed"].contains(&&*stopped), "{stopped}");
    assert_eq!(starts(&workspace), 0);
    for words in [["resume", "Waiting"], ["watch", "Waiting"]] {
        let done = plan(&workspace, &words);
        assert_eq!(done.code, Some(0), "{words:?}: {done:?}");
    }
    assert_eq!(starts(&workspace), 1);
    let word = if stopped == "paused" {
        "resume"
    } else {
        "retry"
    };
    for words in [[word, "Running"], ["watch", "Running"]] {
        let done = plan(&workspace, &words);
        assert_eq!(done.code, Some(0), "{words:?}: {done:?}");
    }
    for name in ["Done", "Running", "Waiting"] {
        assert_eq!(status(&workspace, name), "succeeded", "{name}");
    }
    assert_complete(&workspace);
}

#[test]
fn plans_of_an_earlier_version_move_once_and_leave_a_database_that_it_refuses() {
    let workspace = earlier();
    let accepted = plan(&workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let (old, new) = (workspace.join(OLD_DATABASE), workspace.join(NEW_DATABASE));
    assert!(new.is_file(), "{accepted:?}");
    assert_private(&workspace.join(NEW_PLACE));
    assert!(schema(&old) > SCHEMA, "{}", schema(&old));
    let remaining = fs::read(&old).unwrap();
    for _ in 0..2 {
        assert_eq!(status(&workspace, "Done"), "succeeded");
        let again = plan(&workspace, &["trust"]);
        assert_eq!(again.code, Some(0), "{again:?}");
        let examined = workspace.run(["doctor"]);
        let text = format!("{}{}", examined.out, examined.err);
        assert!(!text.contains("plan trust"), "{examined:?}");
    }
    assert_eq!(
        fs::read(&old).unwrap(),
        remaining,
        "the old place is not written again"
    );
    // Logs of the plan that has ended moved as well.
    let logs = plan(&workspace, &["logs", "Done", "writes"]);
    assert_eq!(logs.code, Some(0), "{logs:?}");
    assert!(logs.out.contains("work"), "{logs:?}");
    refused_by_the_earlier_version(&workspace);
    assert_eq!(status(&workspace, "Waiting"), "pending-start");
    assert_eq!(starts(&workspace), 0);
}

/// Starts the earlier version in the workspace, where its program is known.
#[expect(clippy::print_stderr, reason = "a skipped part of a test is reported")]
fn refused_by_the_earlier_version(workspace: &Workspace) {
    let Some(program) = std::env::var_os("ORCHESTRA_EARLIER") else {
        eprintln!("not checked without ORCHESTRA_EARLIER: refusal by the earlier version");
        return;
    };
    // It is started in the workspace.
    let program = Path::new(&program).canonicalize();
    let program: PathBuf = program.expect("ORCHESTRA_EARLIER is the path of a program");
    workspace.write(
        "more.yaml",
        "name: More\njobs:\n- {producerId: one, task: One, work: 'true'}\n",
    );
    for (words, database) in [
        (&["plan", "list"][..], "plans' database"),
        (&["plan", "run", "more.yaml"], "plans' database"),
        (&["plan", "resume", "Waiting"], "plans' database"),
        // The board has moved as well.
        (&["tool", "call", "list_projects"], "board's database"),
        (&["tool", "call", "list_copilot_plans"], "database"),
    ] {
        let refused = said(workspace.command_as(&program, words), "");
        assert_ne!(refused.code, Some(0), "{words:?}: {refused:?}");
        let text = format!("{}{}", refused.out, refused.err);
        for part in [database, "update the program"] {
            assert!(text.contains(part), "{words:?}: {refused:?}");
        }
    }
}
