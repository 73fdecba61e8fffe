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

/// The time that a session's program has computed so far, on all of its threads.
fn computed(session: &Session) -> u64 {
    let threads = fs::read_dir(format!("/proc/{}/task", session.process.id())).unwrap();
    let of_thread = |path: std::path::PathBuf| -> u64 {
        // A thread that has just ended is gone.
        let text = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ')
            .next()
            .and_then(|time| time.parse().ok())
            .unwrap_or(0)
    };
    threads
        .map(|thread| of_thread(thread.unwrap().path()))
        .sum()
}

/// How many tasks a round makes: few, or with `ORCHESTRA_SOAK` 10 000 in all.
fn tasks_of_a_round() -> usize {
    if std::env::var_os("ORCHESTRA_SOAK").is_some() {
        1_000
    } else {
        150
    }
}

/// What one round cost: bytes written, and nanoseconds computed.
#[derive(Debug, Clone, Copy)]
struct Cost {
    bytes: u64,
    time: u64,
}

fn cost(session: &mut Session, work: impl FnOnce(&mut Session)) -> Cost {
    let (bytes, time) = (written(session), computed(session));
    work(session);
    Cost {
        bytes: written(session) - bytes,
        time: computed(session).saturating_sub(time),
    }
}

/// Ten rounds, at the end of which the board is ten times as large as after the first: the cost of
/// a thing that grows with the board grows at least 4.5 times between the first two rounds and the
/// last two. The lower of two is compared, so that one disturbance says nothing.
fn stays_the_same(what: &str, rounds: &[u64]) {
    let (first, last) = (&rounds[..2], &rounds[rounds.len() - 2..]);
    let (first, last) = (first.iter().max().unwrap(), last.iter().min().unwrap());
    assert!(*last <= *first * 2, "{what}: {rounds:?}");
}

#[test]
fn scenario_17_changes_and_questions_cost_the_same_on_a_large_board() {
    const CALLS: usize = 100;
    let workspace = Workspace::git();
    let mut session = Session::start(workspace.command(["stdio"]));
    session.ok("create_project", &json!({"name": "My App"}));
    session.ok("create_epic", &json!({"project": "my-app", "title": "E"}));
    let story = json!({"project": "my-app", "epic_id": "MA-1", "title": "S", "user_story": "U"});
    session.ok("create_story", &story);
    let size = tasks_of_a_round();
    let task = json!({"project": "my-app", "story_id": "MA-2", "title": "Next", "type": "task"});
    session.ok("create_task", &task);
    session.ok(
        "update_task",
        &json!({"project": "my-app", "task_id": "MA-3", "status": "todo"}),
    );
    let mut rounds: [Vec<Cost>; 3] = Default::default();
    for round in 0..10 {
        let created = cost(&mut session, |session| {
            for number in 0..size {
                session.ok("create_task", &json!({"project": "my-app", "story_id": "MA-2", "title": format!("Task {number}"), "type": "task"}));
            }
        });
        // Tasks of this round, whose histories are as short as those of the others were.
        let first = 4 + round * size;
        let updated = cost(&mut session, |session| {
            for number in 0..CALLS {
                session.ok("update_task", &json!({"project": "my-app", "task_id": format!("MA-{}", first + number), "title": format!("Better {number}")}));
            }
        });
        let asked = cost(&mut session, |session| {
            for _ in 0..CALLS {
                let next = session.ok("get_next_task", &json!({"project": "my-app"}));
                assert_eq!(next["task"]["id"], "MA-3", "{next}");
            }
        });
        for (all, one) in rounds.iter_mut().zip([created, updated, asked]) {
            all.push(one);
        }
    }
    let total = session.ok("get_workflow_status", &json!({"project": "my-app"}))["total"].clone();
    assert_eq!(total, 10 * size + 1);
    for (what, rounds) in ["create_task", "update_task", "get_next_task"]
        .iter()
        .zip(&rounds)
    {
        let bytes: Vec<u64> = rounds.iter().map(|cost| cost.bytes).collect();
        let time: Vec<u64> = rounds.iter().map(|cost| cost.time).collect();
        println!("{what}: bytes {bytes:?}, time {time:?}");
        stays_the_same(&format!("bytes of {what}"), &bytes);
        stays_the_same(&format!("time of {what}"), &time);
    }
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
