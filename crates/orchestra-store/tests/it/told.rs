//! Sessions that nobody saved are summed up from what hooks told of them.

use orchestra_board::{SessionId, Slug};
use orchestra_store::{Action, NewHookEvent, PageRequest, SessionRecord};
use serde_json::{Value, json};

use crate::fixture::Workspace;
use crate::memory::{save, session};
use crate::words::{hook, label, slug};

fn tell(board: &Workspace, event: &str, tool: Option<&str>, data: Value) {
    board.act(Action::HookEvent(NewHookEvent {
        session_id: Some(label("s-1")),
        tool_name: tool.map(label),
        data: Some(data),
        ..hook(event)
    }));
    board.clock.pass(10);
}

/// What a session of a coding agent tells, up to its end.
fn work(board: &Workspace) {
    let file = |path: &str| json!({"cwd": "/w", "tool_input": {"file_path": path, "content": "the SECRET is 42"}});
    tell(board, "SessionStart", None, json!({"cwd": "/w"}));
    tell(
        board,
        "UserPromptSubmit",
        None,
        json!({"cwd": "/w", "prompt": "use token abc"}),
    );
    for path in [
        "/w/src/a.rs",
        "/w/src/b.rs",
        "/w/src/a.rs",
        "/home/me/.ssh/id",
    ] {
        tell(board, "PreToolUse", Some("Edit"), file(path));
        tell(board, "PostToolUse", Some("Edit"), file(path));
    }
    let command = json!({"cwd": "/w", "tool_input": {"command": "deploy --password SECRET"}});
    tell(board, "PreToolUse", Some("Bash"), command);
}

fn summed_up(board: &Workspace, project: &str) -> Option<SessionRecord> {
    let (project, id) = (
        Slug::parse(project).expect("a slug"),
        SessionId::parse("s-1").expect("an id"),
    );
    board.read(|reader| reader.session(&project, &id))
}

#[test]
fn what_hooks_told_becomes_a_summary_without_what_was_said() {
    let board = Workspace::with_a_story();
    let began = board.store.now();
    work(&board);
    assert_eq!(summed_up(&board, "my-app"), None, "it has not ended");
    tell(&board, "Stop", None, json!({}));
    let first = summed_up(&board, "my-app").expect("summed up");
    assert_eq!(
        first.summary.as_str(),
        "Made of hook events: 5 tool calls (Edit 4, Bash 1), 1 prompts; files: src/a.rs, src/b.rs; files elsewhere"
    );
    assert!(first.from_hooks);
    assert_eq!(first.started_at, began);
    assert_eq!(first.ended_at.unix_seconds() - began.unix_seconds(), 110);
    // It goes on, and ends again.
    tell(&board, "PostToolUse", Some("Read"), json!({}));
    tell(&board, "SessionEnd", None, json!({"reason": "exit"}));
    let second = summed_up(&board, "my-app").expect("summed up");
    assert!(
        second.summary.as_str().contains("Read 1"),
        "{}",
        second.summary
    );
    assert_eq!(second.started_at, first.started_at);
    assert!(second.ended_at > first.ended_at);
    let page = board.read(|reader| reader.sessions(&slug(), &PageRequest::default()));
    assert_eq!(page.total, 1);
}

#[test]
fn a_summary_that_somebody_saved_is_left_alone() {
    let board = Workspace::with_a_story();
    work(&board);
    tell(&board, "Stop", None, json!({}));
    let before = summed_up(&board, "my-app").expect("summed up");
    let saved = save(&board, session("s-1", "we made a better parser", &[]));
    assert_eq!(
        (saved.started_at, saved.from_hooks),
        (before.started_at, false)
    );
    tell(&board, "SessionEnd", None, json!({}));
    assert_eq!(summed_up(&board, "my-app"), Some(saved));
}

#[test]
fn of_several_projects_the_one_that_changed_is_meant() {
    let board = Workspace::with_a_story();
    board.make_project("Other");
    board.clock.pass(3_600);
    work(&board);
    tell(&board, "Stop", None, json!({}));
    assert_eq!(summed_up(&board, "my-app"), None, "nobody knows which");
    board.remember("something of my app");
    tell(&board, "Stop", None, json!({}));
    assert!(summed_up(&board, "my-app").is_some() && summed_up(&board, "other").is_none());
}

#[test]
fn what_tells_nothing_makes_no_session() {
    let board = Workspace::with_a_story();
    tell(&board, "SessionStart", None, json!({}));
    tell(&board, "Stop", None, json!({}));
    board.act(Action::HookEvent(hook("SessionEnd")));
    board.act(Action::HookEvent(NewHookEvent {
        session_id: Some(label("no id/at all")),
        tool_name: Some(label("Read")),
        ..hook("Stop")
    }));
    let page = board.read(|reader| reader.sessions(&slug(), &PageRequest::default()));
    assert_eq!(page.total, 0);
}
