//! Claims, and what comes next.

use orchestra_board::{
    CLAIM_LEASE_SECONDS, Command, IssueId, IssuePatch, Kind, Priority, Refusal, State,
};

use crate::fixture::{Board, agent, body, id};

fn next(board: &mut Board, who: &str) -> Option<IssueId> {
    let command = Command::ClaimNext {
        project: board.slug.clone(),
        agent: agent(who),
    };
    let decision = board.run_as(Some(who), &command).expect("always an answer");
    decision
        .next
        .expect("what was found")
        .task
        .map(|task| task.id)
}

#[test]
fn two_agents_get_different_tasks() {
    let mut board = Board::with_a_task();
    board.create(Kind::Task, Some("MA-2"), "Second");
    board.force("MA-3", State::Todo);
    board.force("MA-4", State::Todo);
    assert_eq!(next(&mut board, "ada"), Some(id("MA-3")));
    assert_eq!(next(&mut board, "bob"), Some(id("MA-4")));
    assert_eq!(next(&mut board, "cid"), None);
    assert_eq!(
        next(&mut board, "ada"),
        Some(id("MA-3")),
        "goes on with what it holds"
    );
}

#[test]
fn claimed_task_is_not_edited_by_a_job_of_another_agent() {
    let mut board = Board::with_a_task();
    board.force("MA-3", State::Todo);
    next(&mut board, "ada (job 1a2b/one)");
    let update = Command::UpdateIssue {
        target: board.target("MA-3"),
        patch: IssuePatch {
            priority: Some(Some(Priority::High)),
            ..IssuePatch::default()
        },
        evidence: None,
        version: None,
    };
    for job in ["job 1a2b/one", "ada (job 1a2b/two)"] {
        let refused = board.run_as(Some(job), &update).expect_err("claimed");
        assert!(
            refused.to_string().contains("is claimed by ada"),
            "{refused}"
        );
    }
    for allowed in ["ada (job 1a2b/one)", "bob"] {
        board.run_as(Some(allowed), &update).expect("may edit");
    }
}

#[test]
fn what_is_above_a_foreign_claim_is_neither_deleted_nor_cancelled() {
    let mut board = Board::with_a_task();
    board.force("MA-3", State::Todo);
    next(&mut board, "ada");
    for (parent, kind) in [("MA-2", Kind::Story), ("MA-1", Kind::Epic)] {
        let delete = Command::DeleteIssue {
            target: board.target(parent),
            expected: kind,
        };
        for who in [None, Some("bob")] {
            let refused = board.run_as(who, &delete).expect_err("claimed below");
            assert!(refused.to_string().contains("MA-3"), "{refused}");
            let refused = board.set_as(who, parent, State::Cancelled);
            let refused = refused.expect_err("claimed below");
            assert!(refused.to_string().contains("MA-3"), "{refused}");
        }
    }
    let delete = Command::DeleteIssue {
        target: board.target("MA-2"),
        expected: Kind::Story,
    };
    board
        .run_as(Some("ada"), &delete)
        .expect("it is theirs to delete");
}

#[test]
fn a_foreign_claim_refuses_moves_but_not_comments_until_it_ends() {
    let mut board = Board::with_a_task();
    board.force("MA-3", State::Todo);
    next(&mut board, "ada");
    for who in [None, Some("bob")] {
        let refusal = board
            .set_as(who, "MA-3", State::InProgress)
            .expect_err("claimed");
        assert!(
            refusal.to_string().contains("claimed by ada until"),
            "{refusal}"
        );
    }
    let comment = Command::Comment {
        target: board.target("MA-3"),
        text: body("hello"),
    };
    board
        .run_as(Some("bob"), &comment)
        .expect("comments are free");
    board
        .set_as(Some("ada"), "MA-3", State::InProgress)
        .expect("its own");
    board.now = board.now.plus_seconds(CLAIM_LEASE_SECONDS);
    board
        .set_as(Some("bob"), "MA-3", State::Blocked)
        .expect("the lease has ended");
}

#[test]
fn changes_renew_the_lease_and_the_end_of_work_drops_it() {
    let mut board = Board::with_a_task();
    board.force("MA-3", State::Todo);
    next(&mut board, "ada");
    board.now = board.now.plus_seconds(CLAIM_LEASE_SECONDS - 1);
    board
        .set_as(Some("ada"), "MA-3", State::InProgress)
        .expect("renews");
    board.now = board.now.plus_seconds(CLAIM_LEASE_SECONDS - 1);
    assert!(board.set_as(Some("bob"), "MA-3", State::Blocked).is_err());
    board.force("MA-3", State::Done);
    assert_eq!(board.issue("MA-3").claim, None);
    let claim = Command::Claim {
        target: board.target("MA-3"),
        agent: agent("bob"),
    };
    assert!(matches!(
        board.run(&claim),
        Err(Refusal::NothingToClaim { .. })
    ));
}

#[test]
fn next_honours_kind_priority_dependencies_and_never_offers_the_backlog() {
    let mut board = Board::with_a_task();
    for (kind, priority) in [
        (Kind::Task, Priority::Critical),
        (Kind::Bug, Priority::Low),
        (Kind::Hotfix, Priority::Low),
    ] {
        let issue = orchestra_board::NewIssue {
            priority: Some(priority),
            ..crate::fixture::new_issue(kind, Some("MA-2"), "x")
        };
        board
            .run(&Command::CreateIssue {
                project: board.slug.clone(),
                issue,
            })
            .expect("created");
    }
    assert_eq!(next(&mut board, "ada"), None, "all in the backlog");
    for text in ["MA-3", "MA-4", "MA-5", "MA-6"] {
        board.force(text, State::Todo);
    }
    board
        .run(&Command::AddDependency {
            target: board.target("MA-6"),
            on: id("MA-3"),
        })
        .expect("waits");
    let order: Vec<_> = ["a", "b", "c", "d"]
        .map(|who| next(&mut board, who))
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(order, [id("MA-5"), id("MA-4"), id("MA-3")]);
    board.force("MA-3", State::Done);
    assert_eq!(next(&mut board, "d"), Some(id("MA-6")));
}

#[test]
fn releasing_needs_the_holder_or_the_end_of_the_lease() {
    let mut board = Board::with_a_task();
    let release = |board: &Board, who: Option<&str>| Command::Release {
        target: board.target("MA-3"),
        agent: who.map(agent),
    };
    assert!(matches!(
        board.run(&release(&board, None)),
        Err(Refusal::NotClaimed { .. })
    ));
    board
        .run(&Command::Claim {
            target: board.target("MA-3"),
            agent: agent("ada"),
        })
        .expect("claimed");
    assert!(matches!(
        board.run(&release(&board, Some("bob"))),
        Err(Refusal::Claimed { .. })
    ));
    board.run(&release(&board, Some("ada"))).expect("released");
    assert_eq!(board.issue("MA-3").claim, None);
}

#[test]
fn edits_by_others_are_welcome() {
    let mut board = Board::with_a_task();
    board
        .run(&Command::Claim {
            target: board.target("MA-3"),
            agent: agent("ada"),
        })
        .expect("claimed");
    let patch = IssuePatch {
        priority: Some(Some(Priority::High)),
        ..IssuePatch::default()
    };
    let command = Command::UpdateIssue {
        target: board.target("MA-3"),
        patch,
        evidence: None,
        version: None,
    };
    board
        .run_as(Some("bob"), &command)
        .expect("an edit is no move");
}
