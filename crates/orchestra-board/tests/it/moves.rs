//! Moves of tasks: the table, the gates, rejecting, ids.

use orchestra_board::{Command, IssueRef, Kind, Priority, Refusal, State, Version};

use crate::fixture::{Board, body, id};

#[test]
fn every_tool_that_moves_obeys_the_table_in_all_169_pairs() {
    for from in State::ALL {
        for to in State::ALL {
            let mut board = Board::with_a_task();
            board.force("MA-3", from);
            let moved = board.set("MA-3", to);
            assert_eq!(
                moved.is_ok(),
                from.can_become(to),
                "{from} -> {to}: {moved:?}"
            );
            let expected = if from.can_become(to) { to } else { from };
            assert_eq!(board.issue("MA-3").state, expected);
        }
    }
}

#[test]
fn gates_hold_whichever_tool_asks() {
    for from in State::ALL {
        let Some(to) = from.next().filter(|to| from.gate(*to).is_some()) else {
            continue;
        };
        for evidence in [
            None,
            Some(""),
            Some("   "),
            Some("too short"),
            Some("  too short  "),
        ] {
            let mut board = Board::with_a_task();
            board.force("MA-3", from);
            let evidence = evidence.map(body);
            let target = board.target("MA-3");
            let patch = orchestra_board::IssuePatch {
                state: Some(to),
                ..Default::default()
            };
            let mut commands = vec![
                Command::AdvanceTask {
                    target: target.clone(),
                    evidence: evidence.clone(),
                },
                Command::UpdateIssue {
                    target: target.clone(),
                    patch,
                    evidence: evidence.clone(),
                    version: None,
                },
            ];
            if from == State::InProgress {
                commands.push(Command::CompleteTask { target, evidence });
            }
            for command in commands {
                let refusal = board.run(&command).expect_err("gated");
                assert!(refusal.to_string().starts_with("GATE BLOCKED"), "{refusal}");
                assert_eq!(board.issue("MA-3").state, from);
            }
        }
    }
}

#[test]
fn the_happy_path_needs_evidence_four_times() {
    let mut board = Board::with_a_task();
    board.set("MA-3", State::Todo).expect("planned");
    board
        .run(&Command::StartTask {
            target: board.target("MA-3"),
        })
        .expect("started");
    let mut shown = 0;
    while board.issue("MA-3").state != State::Done {
        let target = board.target("MA-3");
        if board
            .run(&Command::AdvanceTask {
                target: target.clone(),
                evidence: None,
            })
            .is_err()
        {
            shown += 1;
            let evidence = Some(body("cargo test: 12 passed"));
            board
                .run(&Command::AdvanceTask { target, evidence })
                .expect("with evidence");
        }
    }
    assert_eq!(shown, 4);
    assert_eq!(board.states(&["MA-2", "MA-1"]), ["done", "done"]);
}

#[test]
fn advancing_from_outside_the_path_says_how_to_get_there() {
    let mut board = Board::with_a_task();
    let refusal = board
        .run(&Command::AdvanceTask {
            target: board.target("MA-3"),
            evidence: None,
        })
        .expect_err("in the backlog");
    assert!(
        refusal.to_string().contains("update_task to status todo"),
        "{refusal}"
    );
}

#[test]
fn rejecting_makes_a_linked_bug_and_keeps_the_story_open() {
    let mut board = Board::with_a_task();
    board.force("MA-3", State::InReview);
    let reason = Some(body("it leaks"));
    let command = Command::RejectTask {
        target: board.target("MA-3"),
        reason,
    };
    let decision = board.run(&command).expect("rejected");
    assert_eq!(decision.subjects.len(), 2);
    let bug = board.issue("MA-4");
    assert_eq!((bug.kind, bug.priority), (Kind::Bug, Some(Priority::High)));
    assert_eq!(bug.title.as_str(), "Fix: Task");
    assert!(bug.description.as_str().ends_with("\n\nit leaks"));
    assert_eq!(bug.fixes, Some(id("MA-3")));
    assert_eq!(
        board.states(&["MA-3", "MA-4", "MA-2"]),
        ["rejected", "backlog", "in-progress"]
    );
    assert!(board.run(&command).is_err(), "only from review");
}

#[test]
fn ids_are_never_used_again() {
    let mut board = Board::with_a_task();
    board.delete("MA-3").expect("deleted");
    assert_eq!(board.create(Kind::Task, Some("MA-2"), "Next"), id("MA-4"));
    board.delete("MA-1").expect("deleted with all below");
    assert_eq!(board.model.issues().count(), 0);
    assert_eq!(board.create(Kind::Epic, None, "Again"), id("MA-5"));
}

#[test]
fn ancestors_that_are_given_must_be_right() {
    let mut board = Board::with_a_task();
    board.create(Kind::Epic, None, "Other");
    let target = |epic: &str, story: &str| IssueRef {
        epic: Some(id(epic)),
        story: Some(id(story)),
        ..board.target("MA-3")
    };
    let (right, wrong) = (target("MA-1", "MA-2"), target("MA-4", "MA-2"));
    let claim = |target| Command::Claim {
        target,
        agent: crate::fixture::agent("ada"),
    };
    board.run(&claim(right)).expect("the right ancestors");
    let refusal = board.run(&claim(wrong)).expect_err("the wrong epic");
    assert_eq!(refusal.to_string(), "MA-3 belongs to epic MA-1, not MA-4");
}

#[test]
fn orphans_and_misfits_are_refused() {
    let mut board = Board::with_a_task();
    for (kind, parent) in [
        (Kind::Story, "MA-9"),
        (Kind::Story, "MA-2"),
        (Kind::Task, "MA-1"),
        (Kind::Task, "MA-3"),
    ] {
        let issue = crate::fixture::new_issue(kind, Some(parent), "x");
        let command = Command::CreateIssue {
            project: board.slug.clone(),
            issue,
        };
        let refusal = board.run(&command).expect_err("no such parent");
        assert!(
            matches!(refusal, Refusal::NoIssue { .. } | Refusal::WrongKind { .. }),
            "{refusal}"
        );
    }
}

#[test]
fn a_stale_version_is_refused() {
    let mut board = Board::with_a_task();
    let seen = board.issue("MA-3").version();
    let update = |board: &Board, version, text: &str| Command::UpdateIssue {
        target: board.target("MA-3"),
        patch: orchestra_board::IssuePatch {
            title: Some(crate::fixture::title(text)),
            ..Default::default()
        },
        evidence: None,
        version: Some(version),
    };
    board
        .run(&update(&board, seen, "First"))
        .expect("the version that was seen");
    let refusal = board
        .run(&update(&board, seen, "Second"))
        .expect_err("stale");
    assert!(matches!(refusal, Refusal::VersionMismatch { .. }));
    let unknown = Version::parse("0000000000000000").expect("a version");
    assert!(board.run(&update(&board, unknown, "Third")).is_err());
}

#[test]
fn dependencies_close_no_circle() {
    let mut board = Board::with_a_task();
    board.create(Kind::Task, Some("MA-2"), "b");
    board.create(Kind::Task, Some("MA-2"), "c");
    let wait = |board: &mut Board, who: &str, on: &str| {
        board.run(&Command::AddDependency {
            target: board.target(who),
            on: id(on),
        })
    };
    wait(&mut board, "MA-3", "MA-4").expect("fine");
    wait(&mut board, "MA-4", "MA-5").expect("fine");
    let refusal = wait(&mut board, "MA-5", "MA-3").expect_err("a circle");
    assert!(
        refusal.to_string().ends_with("MA-5 → MA-3 → MA-4 → MA-5"),
        "{refusal}"
    );
    assert!(wait(&mut board, "MA-3", "MA-3").is_err());
}
