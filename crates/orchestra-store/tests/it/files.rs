//! The readable files follow the board, and the board follows them.

use std::fs;

use orchestra_board::{
    AgentName, CLAIM_LEASE_SECONDS, Command, Cost, Kind, NewRequest, PrdMove, RequestKind,
    SessionId, State, UsageEntry, UsageOf,
};
use orchestra_store::{Action, NewChunk, NewHookEvent, NewSession, NewSessionEvent, Options};

use crate::board::{Board, still};
use crate::words::{body, comment, create, id, label, new_issue, slug, target, title};

const TASK: &str = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon";
const OTHER: &str = "my-app/epics/MA-1/stories/MA-2/tasks/MA-4.toon";

/// One of everything that has a file.
fn full() -> Board {
    let board = Board::with_tasks(still());
    let agent = AgentName::parse("bob: the \"builder\"").expect("a name");
    board.describe("MA-3", "# Many\n\nlines, 🚀 and שלום\n\n- [ ] x");
    board.describe("MA-1", "one: line");
    board.set_state("MA-3", State::Todo);
    board.run(Command::Claim {
        target: target("MA-3"),
        agent: agent.clone(),
    });
    let start = Action::Board(Command::StartTask {
        target: target("MA-3"),
    });
    board
        .store
        .submit_blocking(Some(agent.clone()), start)
        .expect("starts");
    let evidence = Some(body("ran all the tests,\nall of them pass"));
    let complete = Action::Board(Command::CompleteTask {
        target: target("MA-3"),
        evidence,
    });
    board
        .store
        .submit_blocking(Some(agent), complete)
        .expect("completes");
    board.run(comment("MA-3", "true"));
    board.run(Command::AddDependency {
        target: target("MA-4"),
        on: id("MA-3"),
    });
    board.run(Command::ReportBug {
        project: slug(),
        issue: new_issue(Kind::Bug, Some("MA-2"), "123"),
    });
    board.run(Command::LogRequest {
        project: slug(),
        request: orchestra_board_request(),
    });
    board.run(Command::Prd {
        project: slug(),
        step: PrdMove::Start { restart: false },
    });
    let step = PrdMove::Answer {
        text: body("null"),
        overwrite: false,
    };
    board.run(Command::Prd {
        project: slug(),
        step,
    });
    board.run(Command::WritePrd {
        project: slug(),
        content: "# PRD\r\nas it is  \n\n".into(),
    });
    let cost = Cost::from_units(0.1).expect("a cost");
    let entry = UsageEntry {
        provider: Some("p".into()),
        model: None,
        input_tokens: 7,
        output_tokens: 9,
        cost,
        of: Some(UsageOf {
            project: slug(),
            issue: Some(id("MA-3")),
        }),
    };
    board.run(Command::RecordUsage(entry));
    for text in ["remember\nthis", "and that"] {
        board.act(Action::SaveMemory(NewChunk {
            summary: body("- a summary"),
            source: Some(label("task")),
            source_id: Some(label("MA-3")),
            tags: vec![label("a,b"), label("true")],
            ..NewChunk::of(slug(), body(text))
        }));
    }
    board.act(Action::SaveSession(NewSession {
        project: slug(),
        id: SessionId::parse("s.1").expect("an id"),
        summary: body("it went\nwell"),
        events: vec![NewSessionEvent {
            kind: label("note"),
            summary: body("[x]: y"),
            at: None,
        }],
        started_at: None,
        ended_at: None,
        from_hooks: false,
    }));
    board.act(Action::SavePlan {
        project: slug(),
        title: title("A plan: now"),
        content: body("---\n1. do\n2. rest"),
        issue: Some(id("MA-3")),
        replace: false,
    });
    board.act(Action::HookEvent(NewHookEvent {
        event_type: label("PostToolUse"),
        session_id: None,
        tool_name: Some(label("Bash")),
        agent_type: None,
        data: Some(serde_json::json!({"x": [1.5, {"y": "z"}]})),
    }));
    board.act(Action::WriteReadme {
        project: slug(),
        overwrite: false,
    });
    board.settle();
    board
}

fn orchestra_board_request() -> NewRequest {
    NewRequest {
        kind: RequestKind::Feature,
        description: body("more: of\nit"),
    }
}

#[test]
fn files_tell_everything_in_readable_form() {
    let board = Board::with_tasks(still());
    let story = board.file("my-app/epics/MA-1/stories/MA-2/story.toon");
    assert!(
        story.starts_with(
            "schema: 1\nid: MA-2\ntype: story\ntitle: Story\nstatus: backlog\nepic: MA-1\n"
        ),
        "{story}"
    );
    let task = board.file(TASK);
    assert!(
        task.contains("\nepic: MA-1\nstory: MA-2\n") && task.ends_with("\nend: true\n"),
        "{task}"
    );
    let status = board.file("my-app/project-status.toon");
    assert!(
        status
            .contains("\ntasks:\n  backlog: 2\nepics[1]{id,title,status}:\n  MA-1,Epic,backlog\n"),
        "{status}"
    );
    assert!(board.file("my-app/prd.md").starts_with("# My App\n"));
    board.describe("MA-3", "two\nlines");
    board.set_state("MA-3", State::Todo);
    board.settle();
    assert_eq!(
        board.file("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.md"),
        "two\nlines\n"
    );
    let history = board.file("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.history.jsonl");
    assert_eq!(history.lines().count(), 3, "{history}");
    board.describe("MA-3", "one line");
    board.settle();
    assert!(!board.exists("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.md"));
    assert!(board.file(TASK).contains("\ndescription: one line\n"));
    assert!(
        fs::read_to_string(board.path(".gitignore"))
            .expect("reads")
            .contains(".store/")
    );
}

#[test]
fn what_is_deleted_or_moved_leaves_nothing_behind() {
    let board = Board::with_tasks(still());
    board.run(create(Kind::Epic, None, "Other"));
    board.run(Command::MoveIssue {
        target: target("MA-2"),
        to: id("MA-5"),
    });
    board.settle();
    assert!(board.exists("my-app/epics/MA-5/stories/MA-2/tasks/MA-3.toon"));
    assert!(board.exists("my-app/epics/MA-5/stories/MA-2/tasks/MA-3.history.jsonl"));
    assert!(!board.exists("my-app/epics/MA-1/stories"));
    board.run(Command::DeleteIssue {
        target: target("MA-5"),
        expected: Kind::Epic,
    });
    board.settle();
    assert!(!board.exists("my-app/epics/MA-5") && board.exists("my-app/epics/MA-1/epic.toon"));
    assert_eq!(board.problems(), "");
    board.run(Command::DeleteProject { project: slug() });
    board.settle();
    assert!(!board.exists("my-app"));
}

#[test]
fn a_board_is_rebuilt_from_its_files_to_the_byte() {
    let board = full();
    let (answers, tree) = (board.answers(), board.tree());
    let board = board.rebuilt(|_| {});
    assert_eq!(board.answers(), answers);
    board.settle();
    assert_eq!(board.tree(), tree);
    assert_eq!(board.problems(), "");
    // It goes on where it was.
    let made = board.run(create(Kind::Task, Some("MA-2"), "New"));
    assert_eq!(made.issues[0].issue.id, id("MA-5"));
}

#[test]
fn files_are_rewritten_from_the_database() {
    let board = full();
    let tree = board.tree();
    let board = board.reopened(still(), |projects| {
        fs::remove_dir_all(projects.join("my-app")).expect("removes");
    });
    board.mend();
    board.settle();
    assert_eq!(board.tree(), tree);
}

const DESCRIPTION: &str = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.md";

#[test]
fn a_description_is_taken_in_however_long_its_writer_takes_from_opening_to_writing() {
    let board = Board::with_tasks(still());
    let is_by_hand = |board: &Board| {
        let issue = board.issue("MA-3").expect("is there");
        issue.description == body("by\nhand")
    };
    let written = |board: &Board| {
        let mut file = fs::File::create(board.path(DESCRIPTION)).expect("opens");
        board.mend();
        board.settle();
        std::io::Write::write_all(&mut file, b"by\nhand\n").expect("writes");
        drop(file);
        board.mend();
        board.settle();
    };
    written(&board);
    assert!(is_by_hand(&board), "{}", board.tree());
    // One that is there already is emptied first.
    written(&board);
    assert!(is_by_hand(&board), "{}", board.tree());
    assert_eq!(board.file(DESCRIPTION), "by\nhand\n");
    assert_eq!(board.problems(), "");
}

#[test]
fn a_description_that_is_opened_and_written_late_is_seen_while_the_files_are_watched() {
    let board = Board::with_tasks(Options::default());
    board.settle();
    let mut file = fs::File::create(board.path(DESCRIPTION)).expect("opens");
    // What was opened is looked at before something later is.
    board.edit(OTHER, "title: Second", "title: Later");
    board.wait("the later edit", |board| {
        board.title_of("MA-4").as_deref() == Some("Later")
    });
    board.settle();
    std::io::Write::write_all(&mut file, b"by\nhand\n").expect("writes");
    drop(file);
    board.wait("the description", |board| {
        board
            .issue("MA-3")
            .is_some_and(|issue| issue.description == body("by\nhand"))
    });
}

#[test]
fn an_empty_description_beside_a_short_one_says_nothing() {
    let board = Board::with_tasks(still());
    board.edit(
        TASK,
        "status: backlog",
        "description: short\nstatus: backlog",
    );
    fs::write(board.path(DESCRIPTION), "").expect("writes");
    board.mend();
    board.settle();
    let issue = board.issue("MA-3").expect("is there");
    assert_eq!(issue.description, body("short"));
    assert_eq!(board.problems(), "");
    let board = board.rebuilt(|_| {});
    let issue = board.issue("MA-3").expect("is there");
    assert_eq!(issue.description, body("short"));
}

#[test]
fn edits_are_seen_and_merged() {
    let board = Board::with_tasks(Options::default());
    board.edit(TASK, "title: First", "title: Renamed by hand");
    let took = board.wait("the title", |board| {
        board.title_of("MA-3").as_deref() == Some("Renamed by hand")
    });
    println!("an edit was seen after {took:?}");
    board.edit(
        TASK,
        "status: backlog",
        "status: todo\npriority: high\nlabels[2]: a,b",
    );
    board.wait("the state", |board| {
        board
            .issue("MA-3")
            .is_some_and(|issue| issue.state == State::Todo && issue.labels.len() == 2)
    });
    fs::write(
        board.path("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.md"),
        "by\nhand\n",
    )
    .expect("writes");
    board.wait("the description", |board| {
        board
            .issue("MA-3")
            .is_some_and(|issue| issue.description == body("by\nhand"))
    });
    fs::remove_file(board.path(OTHER)).expect("removes");
    board.wait("the removal", |board| board.issue("MA-4").is_none());
    board.settle();
    assert!(!board.exists("my-app/epics/MA-1/stories/MA-2/tasks/MA-4.history.jsonl"));
    let copy = board
        .file(TASK)
        .replace("MA-3", "MA-9")
        .replace("Renamed by hand", "A copy");
    fs::write(
        board.path("my-app/epics/MA-1/stories/MA-2/tasks/MA-9.toon"),
        copy,
    )
    .expect("writes");
    board.wait("the new task", |board| {
        board.title_of("MA-9").as_deref() == Some("A copy")
    });
    let made = board.run(create(Kind::Task, Some("MA-2"), "New"));
    assert_eq!(made.issues[0].issue.id, id("MA-10"));
    assert_eq!(board.problems(), "");
}

#[test]
fn fields_of_both_sides_are_kept() {
    let board = Board::with_tasks(still());
    board.edit(TASK, "title: First", "title: By hand");
    board.set_state("MA-3", State::Todo);
    board.settle();
    let issue = board.issue("MA-3").expect("there");
    assert_eq!(
        (issue.title.as_str(), issue.state),
        ("By hand", State::Todo)
    );
    let text = board.file(TASK);
    assert!(text.contains("title: By hand\nstatus: todo\n"), "{text}");
}

#[test]
fn where_both_changed_one_field_the_file_stays() {
    let board = Board::with_tasks(still());
    board.edit(TASK, "title: First", "title: Theirs\nlabels[1]: seen");
    board.rename("MA-3", "Ours");
    board.settle();
    board.wait("the conflict", |board| {
        board.exists(&format!("{TASK}.conflict"))
    });
    assert!(board.file(TASK).contains("title: Theirs\n"));
    assert!(
        board
            .file(&format!("{TASK}.conflict"))
            .contains("title: Ours\n")
    );
    let issue = board.issue("MA-3").expect("there");
    assert_eq!(
        (issue.title.as_str(), issue.labels.len()),
        ("Ours", 1),
        "the other field is taken"
    );
    assert!(
        board.problems().contains("both sides changed title"),
        "{}",
        board.problems()
    );
    // Nothing is overwritten until a person has chosen.
    board.set_state("MA-3", State::Todo);
    board.settle();
    assert!(board.file(TASK).contains("title: Theirs\n"));
    let board = board.reopened(Options::default(), |_| {});
    board.settle();
    assert!(board.file(TASK).contains("title: Theirs\n"));
    fs::remove_file(board.path(&format!("{TASK}.conflict"))).expect("removes");
    board.wait("the choice", |board| {
        board.title_of("MA-3").as_deref() == Some("Theirs")
    });
    board.settle();
    assert!(
        board.file(TASK).contains("title: Theirs\nstatus: todo\n"),
        "{}",
        board.file(TASK)
    );
    assert_eq!(board.problems(), "");
}

#[test]
fn a_conflict_that_stands_shows_what_the_board_says_now() {
    let board = Board::with_tasks(still());
    let beside = format!("{TASK}.conflict");
    board.edit(TASK, "title: First", "title: Theirs");
    board.rename("MA-3", "Ours");
    board.settle();
    assert!(board.file(&beside).contains("title: Ours\n"));
    board.rename("MA-3", "Ours again");
    board.settle();
    assert!(board.file(&beside).contains("title: Ours again\n"));
    assert!(board.file(TASK).contains("title: Theirs\n"));
    // What a person has written into it is not taken away.
    board.edit(&beside, "title: Ours again", "title: Noted");
    board.rename("MA-3", "Ours for now");
    board.settle();
    assert!(board.file(&beside).contains("title: Noted\n"));
    // The board has changed since a person looked: it is asked again.
    fs::remove_file(board.path(&beside)).expect("removes");
    board.rename("MA-3", "Ours at last");
    board.settle();
    assert!(board.file(&beside).contains("title: Ours at last\n"));
    assert_eq!(board.title_of("MA-3").as_deref(), Some("Ours at last"));
    assert!(board.file(TASK).contains("title: Theirs\n"));
    // Now it has not; what changed beside the question stays.
    board.set_state("MA-3", State::Todo);
    board.settle();
    fs::remove_file(board.path(&beside)).expect("removes");
    board.run(comment("MA-3", "meanwhile"));
    board.settle();
    assert!(
        board.file(TASK).contains("title: Theirs\nstatus: todo\n"),
        "{}",
        board.file(TASK)
    );
    assert_eq!(board.title_of("MA-3").as_deref(), Some("Theirs"));
    assert!(!board.exists(&beside));
    assert_eq!(board.problems(), "");
}

#[test]
fn a_conflict_that_is_settled_leaves_nothing_of_ours_behind() {
    let settled = |settle: fn(&Board), expected: &str| {
        let board = Board::with_tasks(still());
        let beside = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.md";
        board.describe("MA-3", "one\ntwo");
        board.settle();
        board.edit(beside, "two", "theirs");
        board.describe("MA-3", "one\nours");
        board.settle();
        let shown = [TASK, beside].map(|path| format!("{path}.conflict"));
        assert!(shown.iter().all(|path| board.exists(path)));
        settle(&board);
        board.run(comment("MA-3", "goes on"));
        board.settle();
        assert_eq!(board.file(beside), format!("one\n{expected}\n"));
        let issue = board.issue("MA-3").expect("there");
        assert_eq!(issue.description, body(&format!("one\n{expected}")));
        assert!(!shown.iter().any(|path| board.exists(path)));
        assert_eq!(board.problems(), "");
    };
    // The person's side is chosen.
    settled(
        |board| fs::remove_file(board.path(&format!("{TASK}.conflict"))).expect("removes"),
        "theirs",
    );
    // The board's side is, by writing it.
    settled(
        |board| {
            board.edit(
                "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.md",
                "theirs",
                "ours",
            );
            board.mend();
        },
        "ours",
    );
}

#[test]
fn broken_files_are_left_alone_and_told() {
    let check = |from: &str, to: &str, told: &str| {
        let board = Board::with_tasks(Options::default());
        let whole = board.file(TASK);
        board.edit(TASK, from, to);
        board.wait(told, |board| board.problems().contains(told));
        let broken = board.file(TASK);
        board.rename("MA-3", "Changed meanwhile");
        board.rename("MA-4", "The rest goes on");
        board.settle();
        assert_eq!(board.file(TASK), broken, "not overwritten");
        assert!(board.file(OTHER).contains("The rest goes on"));
        // Repaired, it is merged.
        fs::write(
            board.path(TASK),
            whole.replace("status: backlog", "status: todo"),
        )
        .expect("writes");
        board.wait("the repair", |board| {
            board
                .issue("MA-3")
                .is_some_and(|issue| issue.state == State::Todo)
        });
        board.settle();
        assert!(
            board
                .file(TASK)
                .contains("title: Changed meanwhile\nstatus: todo\n"),
            "{}",
            board.file(TASK)
        );
        assert_eq!(board.problems(), "");
    };
    check(
        "title: First",
        "title: true",
        "MA-3.toon:4: title: must be text, not true; quote it: \"true\"",
    );
    check("end: true\n", "", "MA-3.toon:9: ends too early");
    check(
        "schema: 1",
        "schema: 2",
        "MA-3.toon:1: schema: has schema 2, but this program supports schemas up to 1",
    );
    check(
        "title: First\n",
        "<<<<<<< HEAD\ntitle: First\n=======\ntitle: Other\n>>>>>>> topic\n",
        "MA-3.toon:4: contains conflict markers of an unfinished merge",
    );
}

#[test]
fn moved_by_hand() {
    let board = Board::with_tasks(Options::default());
    board.run(create(Kind::Story, Some("MA-1"), "Second story"));
    board.run(comment("MA-3", "kept"));
    board.settle();
    let tasks = board.path("my-app/epics/MA-1/stories/MA-5/tasks");
    fs::create_dir(&tasks).expect("makes");
    for name in ["MA-3.toon", "MA-3.history.jsonl"] {
        let from = board.path(&format!("my-app/epics/MA-1/stories/MA-2/tasks/{name}"));
        fs::rename(from, tasks.join(name)).expect("moves");
    }
    board.wait("the move", |board| {
        board
            .issue("MA-3")
            .is_some_and(|issue| issue.parent == Some(id("MA-5")))
    });
    board.settle();
    let history = board.file("my-app/epics/MA-1/stories/MA-5/tasks/MA-3.history.jsonl");
    assert!(
        history.contains("kept") && history.contains("\"change\":\"moved\""),
        "{history}"
    );
    assert!(!board.exists(TASK));
    assert_eq!(board.problems(), "");
}

#[test]
fn links_are_not_followed() {
    let board = Board::with_tasks(still());
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret"), "secret").expect("writes");
    fs::remove_file(board.path(TASK)).expect("removes");
    std::os::unix::fs::symlink(outside.path().join("secret"), board.path(TASK)).expect("links");
    let tasks = board.path("my-app/.plans");
    std::os::unix::fs::symlink(outside.path(), tasks).expect("links");
    board.rename("MA-3", "Changed");
    board.act(Action::SavePlan {
        project: slug(),
        title: title("P"),
        content: body("x"),
        issue: None,
        replace: false,
    });
    // Neither is written through, and the rest goes on.
    board.rename("MA-4", "Goes on");
    let _ = board.store.settle(std::time::Duration::from_secs(3));
    assert_eq!(
        fs::read_to_string(outside.path().join("secret")).expect("reads"),
        "secret"
    );
    assert_eq!(fs::read_dir(outside.path()).expect("lists").count(), 1);
    assert!(board.file(OTHER).contains("Goes on"));
    assert!(
        board.problems().contains("links are not followed"),
        "{}",
        board.problems()
    );
}

#[test]
fn change_below_a_directory_that_is_a_link_or_a_file_is_acknowledged_and_reported() {
    let tasks = "my-app/epics/MA-1/stories/MA-2/tasks";
    for is_link in [true, false] {
        let board = Board::with_tasks(still());
        let held = board.directory.path().join("held");
        fs::rename(board.path(tasks), &held).expect("moves");
        if is_link {
            std::os::unix::fs::symlink("elsewhere", board.path(tasks)).expect("links");
        } else {
            fs::write(board.path(tasks), "text").expect("writes");
        }
        board.run(create(Kind::Task, Some("MA-2"), "Third"));
        board.rename("MA-3", "Changed");
        board.settle();
        let problems = board.problems();
        assert!(
            problems.contains(&format!("{tasks} is not a directory")),
            "{problems}"
        );
        fs::remove_file(board.path(tasks)).expect("removes");
        fs::rename(&held, board.path(tasks)).expect("moves back");
        board.mend();
        board.settle();
        assert_eq!(board.problems(), "");
        assert!(board.file(TASK).contains("Changed"));
        assert!(board.file(&format!("{tasks}/MA-5.toon")).contains("Third"));
    }
}

#[test]
fn clone_with_a_link_as_directory_of_epics_accepts_changes() {
    let board = Board::with_tasks(still()).rebuilt(|projects| {
        let epics = projects.join("my-app/epics");
        fs::remove_dir_all(&epics).expect("removes");
        std::os::unix::fs::symlink("../../elsewhere", epics).expect("links");
    });
    board.run(create(Kind::Epic, None, "New"));
    board.settle();
    let problems = board.problems();
    assert!(
        problems.contains("my-app/epics is not a directory"),
        "{problems}"
    );
}

#[test]
fn claim_of_a_file_is_no_longer_than_its_lease_from_now() {
    let claimed = |board: &Board| {
        let until = board.issue("MA-3").and_then(|issue| issue.claim);
        let until = until.expect("a claim").until.unix_seconds();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = i64::try_from(now.expect("after 1970").as_secs()).expect("fits");
        assert!(until <= now + CLAIM_LEASE_SECONDS, "{until}");
    };
    let claim = "claimed_by: eve\nclaimed_until: \"2099-01-01T00:00:00Z\"\ncreated_at";
    let board = Board::with_tasks(still());
    board.edit(TASK, "created_at", claim);
    board.mend();
    claimed(&board);
    board.settle();
    assert!(!board.file(TASK).contains("2099"));
    let board = Board::with_tasks(still()).rebuilt(|projects| {
        let text = fs::read_to_string(projects.join(TASK)).expect("reads");
        fs::write(projects.join(TASK), text.replacen("created_at", claim, 1)).expect("writes");
    });
    claimed(&board);
    board.settle();
    assert!(!board.file(TASK).contains("2099"));
}
