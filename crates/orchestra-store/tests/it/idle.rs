//! A store that was opened without threads, and changes before they start.

use orchestra_store::{Action, Options, Store, What};

use crate::board::{Board, PATIENCE, still};
use crate::notices::heard;
use crate::words::create_project;

const TASK: &str = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon";

#[test]
fn foreign_commit_and_hand_edit_before_the_start_are_seen_after_it() {
    let board = Board::with_tasks(still());
    let path = board.directory.path().to_owned();
    board.store.close(PATIENCE);
    let idle = Store::open_idle(&path, Options::default()).expect("opens");
    let mut changes = idle.changes();
    // Another process makes a project, and ends.
    let other = Store::open(&path, still()).expect("opens");
    other
        .submit_blocking(None, Action::Board(create_project("Other")))
        .expect("made");
    other.settle(PATIENCE).expect("settles");
    other.close(PATIENCE);
    drop(other);
    let board = Board {
        store: idle,
        directory: board.directory,
    };
    board.edit(TASK, "First", "By hand");
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    assert!(changes.try_recv().is_err(), "nothing looks for changes yet");
    board.store.start();
    while heard(&mut changes).what != What::Projects {}
    board.wait("the edit", |board| {
        board.title_of("MA-3").as_deref() == Some("By hand")
    });
}
