//! What a change costs does not depend on how much there is: counted in bytes that the program
//! hands to the system for writing, which no other load on the machine changes. How long things
//! take is for the benches.
#![cfg(target_os = "linux")]

use std::fs;

use serde_json::{Value, json};

use crate::support::{Session, Workspace};

/// The bytes a session's program has written so far, to whatever.
fn written(session: &Session) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/io", session.process.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.unwrap().parse().unwrap()
}

/// Twenty rounds of a hundred calls. In the earlier program, whose files were rewritten whole, the
/// last round wrote more than twenty times what the first did.
fn is_flat(session: &mut Session, tool: &str, arguments: impl Fn(usize) -> Value) {
    let mut rounds = Vec::new();
    for round in 0..20 {
        let before = written(session);
        for call in 0..100 {
            session.ok(tool, &arguments(round * 100 + call));
        }
        rounds.push(written(session) - before);
    }
    assert!(rounds[19] < rounds[0] * 3, "{tool}: {rounds:?}");
}

#[test]
fn w42_a_change_of_an_issue_costs_the_same_on_a_large_board() {
    let workspace = Workspace::git();
    let mut session = Session::start(workspace.command(["stdio"]));
    session.ok("create_project", &json!({"name": "My App"}));
    session.ok("create_epic", &json!({"project": "my-app", "title": "E"}));
    let story = json!({"project": "my-app", "epic_id": "MA-1", "title": "S", "user_story": "U"});
    session.ok("create_story", &story);
    let task = |call: usize| json!({"project": "my-app", "story_id": "MA-2", "title": format!("Task {call}"), "type": "task"});
    is_flat(&mut session, "create_task", task);
    let listed = session.ok("list_tasks", &json!({"project": "my-app"}));
    assert_eq!(listed["total"], 2_000);
}

#[test]
fn w43_remembering_and_recording_cost_the_same_however_much_is_kept() {
    let workspace = Workspace::git();
    let mut session = Session::start(workspace.command(["stdio"]));
    session.ok("create_project", &json!({"name": "My App"}));
    let memory = |call: usize| json!({"project": "my-app", "content": format!("Fact {call}: {}", "word ".repeat(100)), "summary": "fact"});
    is_flat(&mut session, "save_memory", memory);
    let usage = |call: usize| json!({"input_tokens": call, "output_tokens": 1, "cost": 0.1});
    is_flat(&mut session, "record_usage", usage);
    let event = |call: usize| json!({"event_type": "Stop", "session_id": format!("s-{call}")});
    is_flat(&mut session, "receive_hook_event", event);
}
