//! Whatever is commanded, all views of the board agree.

use std::collections::BTreeMap;

use orchestra_board::{Command, IssuePatch, Kind, Model, Slug, State, Tally, View, parent_state};
use proptest::prelude::*;

use crate::fixture::{Board, agent, body, id, new_issue, title};

/// One random step: which command, and numbers that pick what it is about.
type Step = (u8, u8, u8, u8);

fn command(board: &Board, (what, which, other, state): Step) -> Command {
    let id_of = |number: u8| id(&format!("MA-{}", number % 24 + 1));
    let target = board.target(&id_of(which).to_string());
    let parent = Some(id_of(other));
    let create = |kind: Kind| {
        let issue = orchestra_board::NewIssue {
            parent: parent.clone(),
            ..new_issue(kind, None, "x")
        };
        Command::CreateIssue {
            project: board.slug.clone(),
            issue,
        }
    };
    let to = State::ALL[usize::from(state) % 13];
    match what % 16 {
        0 => create(Kind::Epic),
        1 | 2 => create(Kind::Story),
        3..=5 => create(Kind::Task),
        6..=9 => Command::UpdateIssue {
            target,
            patch: IssuePatch {
                state: Some(to),
                title: Some(title("y")),
                ..IssuePatch::default()
            },
            evidence: Some(body("long enough evidence")),
            version: None,
        },
        10 => Command::AdvanceTask {
            target,
            evidence: Some(body("long enough evidence")),
        },
        11 => Command::RejectTask {
            target,
            reason: None,
        },
        12 => Command::MoveIssue {
            target,
            to: id_of(other),
        },
        13 => Command::DeleteIssue {
            target,
            expected: [Kind::Task, Kind::Story, Kind::Epic][usize::from(state) % 3],
        },
        14 => Command::AddDependency {
            target,
            on: id_of(other),
        },
        _ => Command::ClaimNext {
            project: board.slug.clone(),
            agent: agent("ada"),
        },
    }
}

/// Every parent's state is what its children say, nothing hangs in the air, no id came twice.
fn check(model: &Model, slug: &Slug) {
    for issue in model.issues() {
        match &issue.parent {
            None => assert_eq!(issue.kind, Kind::Epic),
            Some(parent) => {
                let parent = model
                    .issue(slug, parent)
                    .expect("a model")
                    .expect("a parent");
                assert_eq!(Some(parent.kind), issue.kind.parent_kind());
            }
        }
        if !issue.kind.is_leaf() {
            let mut tally = Tally::default();
            for child in model
                .issues()
                .filter(|child| child.parent.as_ref() == Some(&issue.id))
            {
                tally.add(child.state);
            }
            assert_eq!(issue.state, parent_state(&tally, issue.own), "{}", issue.id);
        }
        assert!(
            !(issue.state.is_final() && issue.claim.is_some()),
            "{} is over and claimed",
            issue.id
        );
    }
    let mut made = BTreeMap::new();
    for event in model.events() {
        if let orchestra_board::Change::IssueCreated(issue) = &event.change {
            *made.entry(issue.id.clone()).or_insert(0) += 1;
        }
    }
    assert!(
        made.values().all(|count| *count == 1),
        "an id was used again"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn parents_follow_children_after_any_commands(steps in prop::collection::vec(any::<Step>(), 1..120)) {
        let mut board = Board::with_a_task();
        for step in steps {
            let command = command(&board, step);
            let before = board.model.events().len();
            if board.run_as(Some("ada"), &command).is_err() {
                prop_assert_eq!(board.model.events().len(), before);
            }
            check(&board.model, &board.slug);
        }
    }
}
