//! Who watches the board hears of every change, this process's and others'.

use std::time::Instant;

use orchestra_board::Kind;
use orchestra_store::{Action, ChangeNotice, What};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use crate::board::{Board, PATIENCE, still};
use crate::fixture::{Workspace, open};
use crate::words::{comment, create, create_project, id, slug};

/// Waits for a notice, at most so long that something must be wrong.
pub(crate) fn heard(receiver: &mut Receiver<ChangeNotice>) -> ChangeNotice {
    let began = Instant::now();
    loop {
        match receiver.try_recv() {
            Ok(notice) => return notice,
            Err(TryRecvError::Empty) => {
                assert!(began.elapsed() < PATIENCE, "nothing was heard");
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn own_and_foreign_changes_are_heard_in_order() {
    let board = Workspace::with_a_story();
    let other = open(board.path());
    let mut receiver = board.store.changes();
    let _close = board.store.watch_closely();
    board.create(Kind::Task, Some("MA-2"), "x");
    let notice = |text: &str, what| ChangeNotice {
        project: Some(slug()),
        issue: Some(id(text)),
        what,
    };
    // What was made just before may still be told.
    let first = std::iter::from_fn(|| Some(heard(&mut receiver)));
    let mut first = first.skip_while(|heard| heard.issue != Some(id("MA-3")));
    assert_eq!(first.next(), Some(notice("MA-3", What::IssueCreated)));
    let command = create(Kind::Epic, None, "y");
    other
        .submit_blocking(None, Action::Board(command))
        .expect("made");
    assert_eq!(heard(&mut receiver), notice("MA-4", What::IssueCreated));
    board.remember("something");
    assert_eq!(heard(&mut receiver).what, What::Memory);
}

#[test]
fn without_a_close_watch_only_the_list_of_projects_is_told() {
    let board = Workspace::with_a_story();
    let other = open(board.path());
    let mut receiver = board.store.changes();
    board.create(Kind::Task, Some("MA-2"), "x");
    other
        .submit_blocking(None, Action::Board(create_project("Other")))
        .expect("made");
    let of_projects = ChangeNotice {
        project: None,
        issue: None,
        what: What::Projects,
    };
    // The workspace's own project may be told of as well, but no issue.
    assert_eq!(heard(&mut receiver), of_projects);
}

#[test]
fn after_the_database_was_replaced_changes_are_told_again() {
    let board = Board::with_tasks(still());
    board.settle();
    let mut receiver = board.store.changes();
    let _close = board.store.watch_closely();
    std::fs::remove_dir_all(board.path(".store")).expect("removes");
    // Which changes of another database are new is not known.
    board.run(comment("MA-3", "x"));
    while heard(&mut receiver).what != What::Everything {}
    board.run(comment("MA-3", "y"));
    while heard(&mut receiver).issue != Some(id("MA-3")) {}
}
