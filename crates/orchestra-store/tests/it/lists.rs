//! Lists and single answers beyond what the model test compares.

use orchestra_board::{Change, Command, Kind, Refusal, State};
use orchestra_store::{Action, ActionError, Cursor, IssueFilter, Made, PageRequest, ReadError};

use crate::fixture::Workspace;
use crate::words::{
    agent, answer, body, comment, create, id, ids_of, new_issue, slug, target, title,
};

#[test]
fn ids_go_by_number() {
    let board = Workspace::with_a_story();
    for _ in 0..12 {
        board.create(Kind::Task, Some("MA-2"), "x");
    }
    let ids = board.ids(&IssueFilter {
        kinds: vec![Kind::Task],
        ..IssueFilter::default()
    });
    assert_eq!(ids.first().map(String::as_str), Some("MA-3"));
    assert_eq!(ids.last().map(String::as_str), Some("MA-14"));
}

#[test]
fn a_page_goes_on_where_it_ended_although_things_change() {
    let board = Workspace::with_a_story();
    for _ in 0..6 {
        board.create(Kind::Task, Some("MA-2"), "x");
    }
    let page = |cursor: Option<String>| {
        let cursor = cursor.map(|text| Cursor::parse(&text).expect("a cursor"));
        board
            .read(|reader| reader.children(&slug(), &id("MA-2"), &PageRequest { limit: 3, cursor }))
    };
    let first = page(None);
    board.run(Command::DeleteIssue {
        target: target("MA-5"),
        expected: Kind::Task,
    });
    board.set_state("MA-6", State::Todo);
    let second = page(first.next_cursor);
    assert_eq!(ids_of(&second), ["MA-6", "MA-7", "MA-8"]);
    assert_eq!((second.total, second.next_cursor), (5, None));
}

#[test]
fn limits_are_kept_in_bounds_and_foreign_cursors_refused() {
    let board = Workspace::with_a_story();
    let page = board
        .read(|reader| reader.issues(&slug(), &IssueFilter::default(), &PageRequest::first(0)));
    assert_eq!(page.items.len(), 1);
    for cursor in ["n~1", "garbage", "i~ma-1"] {
        let request = PageRequest {
            limit: 1,
            cursor: Some(Cursor::parse(cursor).expect("a cursor")),
        };
        let result = board
            .store
            .read(|reader| reader.issues(&slug(), &IssueFilter::default(), &request));
        assert!(matches!(result, Err(ReadError::Cursor(_))), "{cursor}");
    }
    let front = PageRequest {
        limit: 1,
        cursor: Some(Cursor::parse("").expect("a cursor")),
    };
    let page = board.read(|reader| reader.issues(&slug(), &IssueFilter::default(), &front));
    assert_eq!(page.items.len(), 1);
}

#[test]
fn what_is_not_there_is_refused_or_nothing() {
    let board = Workspace::with_a_story();
    let missing = orchestra_board::Slug::parse("missing").expect("a slug");
    let list = board
        .store
        .read(|reader| reader.issues(&missing, &IssueFilter::default(), &PageRequest::default()));
    assert!(matches!(
        list,
        Err(ReadError::Refused(Refusal::NoProject { .. }))
    ));
    assert!(board.read(|reader| reader.project(&missing)).is_none());
    assert!(board.issue("MA-99").is_none());
    let below = board
        .store
        .read(|reader| reader.children(&slug(), &id("MA-99"), &PageRequest::default()));
    assert!(matches!(
        below,
        Err(ReadError::Refused(Refusal::NoIssue { .. }))
    ));
    let history = board
        .store
        .read(|reader| reader.history(&slug(), &id("MA-99"), &PageRequest::default()));
    assert!(matches!(
        history,
        Err(ReadError::Refused(Refusal::NoIssue { .. }))
    ));
}

#[test]
fn records_have_the_full_address() {
    let board = Workspace::with_a_story();
    board.create(Kind::Task, Some("MA-2"), "x");
    let (epic, story, task) = (
        board.issue("MA-1"),
        board.issue("MA-2"),
        board.issue("MA-3"),
    );
    let address = |record: Option<orchestra_store::IssueRecord>| {
        let record = record.expect("there");
        (
            record.epic.map(|id| id.to_string()),
            record.story.map(|id| id.to_string()),
            record.children,
        )
    };
    assert_eq!(address(epic), (None, None, 1));
    assert_eq!(address(story), (Some("MA-1".to_owned()), None, 1));
    assert_eq!(
        address(task),
        (Some("MA-1".to_owned()), Some("MA-2".to_owned()), 0)
    );
}

#[test]
fn histories_tell_evidence_reasons_and_agents() {
    let board = Workspace::with_a_story();
    board.create(Kind::Task, Some("MA-2"), "x");
    board.set_state("MA-3", State::Todo);
    let start = Command::StartTask {
        target: target("MA-3"),
    };
    board
        .store
        .submit_blocking(Some(agent("ada")), Action::Board(start))
        .expect("started");
    let evidence = Some(body("all 12 tests passed"));
    let advance = Command::AdvanceTask {
        target: target("MA-3"),
        evidence,
    };
    board
        .store
        .submit_blocking(Some(agent("ada")), Action::Board(advance))
        .expect("advanced");
    board.run(comment("MA-3", "well done"));
    let page = board.read(|reader| reader.history(&slug(), &id("MA-3"), &PageRequest::first(3)));
    assert_eq!(page.total, 7);
    let cursor = page
        .next_cursor
        .map(|text| Cursor::parse(&text).expect("a cursor"));
    let rest = board
        .read(|reader| reader.history(&slug(), &id("MA-3"), &PageRequest { limit: 50, cursor }));
    let all: Vec<_> = page.items.into_iter().chain(rest.items).collect();
    assert_eq!(all.len(), 7);
    let shown = all.iter().rev().find_map(|event| match &event.change {
        Change::StateChanged {
            evidence: Some(evidence),
            ..
        } => Some((evidence.to_string(), event.agent.clone())),
        _ => None,
    });
    assert_eq!(
        shown,
        Some(("all 12 tests passed".to_owned(), Some(agent("ada"))))
    );
    assert!(matches!(&all[6].change, Change::Commented { text } if text.as_str() == "well done"));
}

#[test]
fn a_receipt_shows_what_came_of_it() {
    let board = Workspace::with_a_story();
    board.create(Kind::Task, Some("MA-2"), "x");
    for state in [
        State::Todo,
        State::InProgress,
        State::ReadyForTesting,
        State::InTesting,
        State::ReadyForDocs,
        State::InDocs,
        State::Documented,
        State::InReview,
    ] {
        board.set_state("MA-3", state);
    }
    let receipt = board.run(Command::RejectTask {
        target: target("MA-3"),
        reason: Some(body("no")),
    });
    let ids: Vec<String> = receipt
        .issues
        .iter()
        .map(|record| record.issue.id.to_string())
        .collect();
    assert_eq!(ids, ["MA-3", "MA-4"]);
    assert_eq!(receipt.issues[1].issue.fixes, Some(id("MA-3")));
    let project = board
        .run(Command::RenameProject {
            project: slug(),
            name: title("New"),
        })
        .project;
    assert_eq!(project.expect("the project").census.of_kind(Kind::Bug), 1);
    let readme = board.act(Action::WriteReadme {
        project: slug(),
        overwrite: false,
    });
    assert!(matches!(readme.made, Made::Readme { bytes } if bytes > 0));
    let text = board
        .read(|reader| reader.readme(&slug()))
        .expect("written");
    assert!(text.contains("| MA-4 | Fix: x | backlog |"), "{text}");
}

#[test]
fn a_refused_action_leaves_no_trace_among_others() {
    let board = Workspace::with_a_story();
    let good = || Action::Board(create(Kind::Task, Some("MA-2"), "x"));
    let issue = new_issue(Kind::Task, Some("MA-99"), "x");
    let bad = Action::Board(Command::CreateIssue {
        project: slug(),
        issue,
    });
    let submitted = [good(), bad, good()].map(|action| board.store.submit(None, action));
    let results = submitted.map(answer);
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(matches!(
        &results[1],
        Err(ActionError::Refused(Refusal::NoIssue { .. }))
    ));
    assert_eq!(
        results[2].as_ref().expect("made").issues[0].issue.id,
        id("MA-4")
    );
}
