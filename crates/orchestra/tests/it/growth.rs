//! What a change costs does not depend on how much there is. Figures are for the benches; these
//! tests only tell a flat cost from one that grows with the board.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Session, Workspace};

/// How long `calls` of a tool take, each made after the one before was answered.
fn time(
    session: &mut Session,
    tool: &str,
    calls: usize,
    arguments: impl Fn(usize) -> Value,
) -> Duration {
    let started = Instant::now();
    for call in 0..calls {
        session.ok(tool, &arguments(call));
    }
    started.elapsed()
}

/// Twenty rounds of a hundred calls. In the earlier program, whose files were rewritten whole, the
/// last round took more than twenty times the first.
fn is_flat(session: &mut Session, tool: &str, arguments: impl Fn(usize) -> Value) {
    let rounds: Vec<Duration> = (0..20)
        .map(|round| time(session, tool, 100, |call| arguments(round * 100 + call)))
        .collect();
    // The best of several, as machines have other things to do.
    let best = |rounds: &[Duration]| rounds.iter().min().copied().unwrap();
    let (first, last) = (best(&rounds[..5]), best(&rounds[15..]));
    assert!(last < first * 4, "{tool}: {rounds:?}");
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
