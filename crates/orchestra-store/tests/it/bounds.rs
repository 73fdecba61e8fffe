//! What could grow without end does not.

use orchestra_board::{Command, Cost, Kind, UsageEntry, UsageOf};
use orchestra_store::{Action, Made, NewHookEvent, Options, PageRequest, Store};

use crate::fixture::{Workspace, clock, options};
use crate::words::{chunk, create_project, hook, id, label, new_issue, slug, target, used_for};

fn told_by_hook(event_type: &str, data: serde_json::Value) -> Action {
    Action::HookEvent(NewHookEvent {
        session_id: Some(label("s")),
        data: Some(data),
        ..hook(event_type)
    })
}

#[test]
fn the_latest_hook_events_are_kept_masked_and_cut() {
    let board = Workspace::empty();
    let answers: Vec<_> = (0..1_200)
        .map(|n| {
            board.store.submit(
                None,
                told_by_hook(
                    if n % 2 == 0 { "even" } else { "odd" },
                    serde_json::json!({ "duration_ms": n }),
                ),
            )
        })
        .collect();
    drop(answers);
    let huge = serde_json::json!({ "message": "x".repeat(1_000_000), "api_key": "very secret", "tool_input": { "command": "run --token abc", "content": "a line" } });
    board.act(told_by_hook("huge", huge));
    let page = board.read(|reader| reader.hook_events(None, &PageRequest::first(500)));
    assert_eq!(page.total, 1_000);
    let newest = &page.items[0];
    let kept = newest.data.as_ref().expect("data").to_string();
    assert!(
        kept.len() <= 8 * 1024
            && !kept.contains("secret")
            && !kept.contains("abc")
            && !kept.contains("a line"),
        "{kept}"
    );
    assert_eq!(
        page.items[1].data,
        Some(serde_json::json!({ "duration_ms": 1199 }))
    );
    let odd = board.read(|reader| reader.hook_events(Some("odd"), &PageRequest::first(2)));
    assert_eq!((odd.total, odd.items.len()), (500, 2));
    assert!(
        odd.items
            .iter()
            .all(|event| event.event_type == label("odd"))
    );
}

#[test]
fn usage_keeps_exact_sums_and_the_latest_of_the_rest() {
    let board = Workspace::empty();
    let entry = |n: u64| UsageEntry {
        provider: Some("p".repeat(1_000)),
        model: None,
        input_tokens: n,
        output_tokens: 1,
        cost: Cost::from_billionths(100_000_000),
        of: None,
    };
    for session in 0..203_u64 {
        let count = if session == 202 { 1_050 } else { 1 };
        for _ in 0..count {
            drop(
                board
                    .store
                    .submit(None, Action::Board(Command::RecordUsage(entry(session)))),
            );
        }
        let ended = board
            .store
            .submit(None, Action::Board(Command::EndUsageSession));
        drop(ended);
    }
    let receipt = board.act(Action::Board(Command::RecordUsage(entry(7))));
    assert!(
        matches!(receipt.made, Made::Usage(session) if session.totals.input == 7 && session.ended_at.is_none())
    );
    let usage = board.read(|reader| reader.usage(1_000));
    assert_eq!(usage.sessions.len(), 200);
    assert_eq!(usage.totals.output, 202 + 1_050 + 1);
    assert_eq!(usage.totals.cost.to_string(), "125.3");
    // Days keep what sessions do not.
    let days = board.read(|reader| reader.usage_days());
    let requests: u64 = days.iter().map(|day| day.sums.requests).sum();
    assert_eq!((days.len(), requests), (1, 202 + 1_050 + 1));
    let last = &usage.sessions[1];
    assert_eq!(
        (last.requests.len(), last.session.totals.output),
        (1_000, 1_050)
    );
    assert!(last.session.provider.len() <= 128 && last.session.ended_at.is_some());
    assert_eq!(
        board
            .act(Action::Board(Command::EndUsageSession))
            .events
            .len(),
        1
    );
    assert_eq!(
        board
            .act(Action::Board(Command::EndUsageSession))
            .events
            .len(),
        0
    );
}

/// What a story cost is what was recorded for it and for its tasks; the project has all of it.
#[test]
fn usage_is_summed_for_projects_and_issues() {
    let board = Workspace::with_a_story();
    for title in ["One", "Two"] {
        board.create(Kind::Task, Some("MA-2"), title);
    }
    let of_project = UsageOf {
        project: slug(),
        issue: None,
    };
    let entry = |tokens, of| UsageEntry {
        of,
        ..used_for("MA-3", tokens)
    };
    for used in [
        used_for("MA-3", 1),
        used_for("MA-4", 20),
        used_for("MA-2", 300),
        entry(4_000, Some(of_project)),
        entry(50_000, None),
    ] {
        board.run(Command::RecordUsage(used));
    }
    let sums = |issue: Option<&str>| {
        let sums = board.read(|reader| reader.usage_of(&slug(), issue.map(id).as_ref()));
        (sums.requests, sums.totals.input)
    };
    assert_eq!(sums(Some("MA-3")), (1, 1));
    assert_eq!(sums(Some("MA-2")), (3, 321));
    assert_eq!(sums(Some("MA-1")), (3, 321));
    assert_eq!(sums(None), (4, 4_321));
    let refused = board.try_act(Action::Board(Command::RecordUsage(used_for("MA-9", 1))));
    let refused = refused.expect_err("there is no such issue");
    assert!(refused.to_string().contains("MA-9"), "{refused}");
    assert_eq!(sums(None), (4, 4_321), "nothing was counted");
    // What a task cost that is deleted was spent on its story.
    board.run(Command::DeleteIssue {
        target: target("MA-4"),
        expected: Kind::Task,
    });
    assert_eq!(sums(Some("MA-2")), (3, 321));
    assert_eq!(sums(Some("MA-4")), (0, 0));
    let most = 9_000_000_000_000_000_000;
    for _ in 0..3 {
        board.run(Command::RecordUsage(used_for("MA-3", most)));
    }
    assert_eq!(sums(Some("MA-3")), (4, 9_000_000_000_000_000_000));
    // A request counts for the model that it names, and else for that of its session.
    let of_model = |model: Option<&str>| UsageEntry {
        model: model.map(str::to_owned),
        ..used_for("MA-2", 1)
    };
    board.run(Command::EndUsageSession);
    for model in [Some("one"), None, Some("two"), Some("one")] {
        board.run(Command::RecordUsage(of_model(model)));
    }
    let used = |project: Option<&str>, model: &str| {
        let days = board.read(|reader| reader.usage_days());
        let of = days.iter().filter(|day| {
            day.model == model && day.project.as_ref().map(orchestra_board::Slug::as_str) == project
        });
        of.map(|day| day.sums.requests).sum::<u64>()
    };
    assert_eq!(
        (used(Some("my-app"), "one"), used(Some("my-app"), "two")),
        (3, 1)
    );
    // A project of the same name begins anew; what all cost is not forgotten.
    board.run(Command::DeleteProject { project: slug() });
    board.make_project("My App");
    assert_eq!(sums(None), (0, 0));
    let usage = board.read(|reader| reader.usage(1));
    assert_eq!((usage.of.len(), usage.totals.output), (0, 12));
    assert_eq!((used(Some("my-app"), "one"), used(None, "one")), (0, 3));
}

#[test]
fn remembered_texts_have_a_quota_and_a_size() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(
        directory.path(),
        Options {
            max_chunks: 3,
            ..options(&clock())
        },
    )
    .expect("opens");
    store
        .submit_blocking(None, Action::Board(create_project("My App")))
        .expect("made");
    let save = |text: &str| store.submit_blocking(None, Action::SaveMemory(chunk(text)));
    for text in ["a", "b", "c"] {
        save(text).expect("kept");
    }
    assert!(
        save("d")
            .expect_err("full")
            .to_string()
            .contains("forget_memory")
    );
    save("a").expect("what is there is merged");
    assert!(
        save(&"x".repeat(64 * 1024 + 1))
            .expect_err("long")
            .to_string()
            .contains("65536")
    );
    assert!(save("  ").is_err());
}

#[test]
fn ids_are_never_used_again() {
    let board = Workspace::with_a_story();
    let first = board.create(Kind::Task, Some("MA-2"), "x").issue.id;
    board.run(Command::DeleteIssue {
        target: target(&first.to_string()),
        expected: Kind::Task,
    });
    let second = board.create(Kind::Task, Some("MA-2"), "x").issue.id;
    assert_eq!(
        (first.to_string(), second.to_string()),
        ("MA-3".to_owned(), "MA-4".to_owned())
    );
    let bug = || {
        let issue = new_issue(Kind::Bug, Some("MA-2"), "x");
        board
            .run(Command::ReportBug {
                project: slug(),
                issue,
            })
            .issues[0]
            .issue
            .id
            .to_string()
    };
    assert_eq!(bug(), "BUG-1");
    board.run(Command::DeleteIssue {
        target: target("BUG-1"),
        expected: Kind::Task,
    });
    assert_eq!(bug(), "BUG-2");
    board.run(Command::DeleteIssue {
        target: target("MA-1"),
        expected: Kind::Epic,
    });
    assert_eq!(
        board.create(Kind::Epic, None, "x").issue.id.to_string(),
        "MA-5"
    );
    assert!(board.issue("MA-4").is_none());
}

#[test]
fn a_project_made_again_knows_nothing_of_the_old_one() {
    let board = Workspace::with_a_story();
    board.remember("old");
    board.run(Command::DeleteProject { project: slug() });
    assert!(board.read(|reader| reader.project(&slug())).is_none());
    board.make_project("My App");
    assert_eq!(
        board
            .read(|reader| reader.project(&slug()))
            .expect("there")
            .census
            .total(),
        0
    );
    assert_eq!(board.search("epic"), [""; 0]);
    let epic = board.create(Kind::Epic, None, "Epic").issue.id;
    let history = board.read(|reader| reader.history(&slug(), &epic, &PageRequest::default()));
    assert_eq!(history.total, 1, "only its own history");
}
