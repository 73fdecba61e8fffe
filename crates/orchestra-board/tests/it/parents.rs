//! Parents follow their children.

use orchestra_board::{Command, Kind, Refusal, State};

use crate::fixture::{Board, id};

#[test]
fn starting_a_task_lifts_story_and_epic_and_their_own_records_show_it() {
    let mut board = Board::with_a_task();
    board.set("MA-3", State::Todo).expect("planned");
    board
        .run(&Command::StartTask {
            target: board.target("MA-3"),
        })
        .expect("started");
    assert_eq!(board.states(&["MA-3", "MA-2", "MA-1"]), ["in-progress"; 3]);
}

#[test]
fn new_and_reopened_work_reopens_what_was_done() {
    let mut board = Board::with_a_task();
    board.force("MA-3", State::Done);
    assert_eq!(board.states(&["MA-2", "MA-1"]), ["done", "done"]);
    board.create(Kind::Task, Some("MA-2"), "More");
    assert_eq!(
        board.states(&["MA-2", "MA-1"]),
        ["in-progress", "in-progress"]
    );
    board.delete("MA-4").expect("deleted");
    assert_eq!(board.states(&["MA-2", "MA-1"]), ["done", "done"]);
    board.set("MA-3", State::Todo).expect("reopened");
    assert_eq!(board.states(&["MA-2", "MA-1"]), ["backlog", "backlog"]);
}

#[test]
fn cancelling_a_parent_takes_open_work_along_and_back() {
    let mut board = Board::with_a_task();
    board.create(Kind::Task, Some("MA-2"), "Done before");
    board.create(Kind::Story, Some("MA-1"), "Without tasks");
    board.force("MA-4", State::Rejected);
    board.set("MA-1", State::Cancelled).expect("cancelled");
    assert_eq!(
        board.states(&["MA-1", "MA-2", "MA-3", "MA-4", "MA-5"]),
        [
            "cancelled",
            "cancelled",
            "cancelled",
            "rejected",
            "cancelled"
        ]
    );
    board.set("MA-1", State::Backlog).expect("undone");
    assert_eq!(
        board.states(&["MA-3", "MA-4", "MA-5"]),
        ["backlog", "rejected", "backlog"]
    );
    assert_eq!(
        board.states(&["MA-1", "MA-2"]),
        ["in-progress", "in-progress"]
    );
}

#[test]
fn a_parent_is_moved_by_hand_only_before_work_starts() {
    let mut board = Board::with_a_task();
    board.set("MA-2", State::Todo).expect("planned");
    assert_eq!(board.states(&["MA-2", "MA-1"]), ["todo", "backlog"]);
    for state in [State::Done, State::InProgress, State::Blocked, State::Todo] {
        let refusal = board.set("MA-2", state).expect_err("follows its children");
        assert!(
            matches!(refusal, Refusal::FollowsChildren { .. }),
            "{refusal}"
        );
    }
    board.force("MA-3", State::Blocked);
    assert!(board.set("MA-2", State::Backlog).is_err());
}

#[test]
fn moving_work_changes_both_parents() {
    let mut board = Board::with_a_task();
    board.create(Kind::Story, Some("MA-1"), "Second");
    board.force("MA-3", State::Done);
    let command = Command::MoveIssue {
        target: board.target("MA-3"),
        to: id("MA-4"),
    };
    board.run(&command).expect("moved");
    assert_eq!(
        board.states(&["MA-2", "MA-4", "MA-1"]),
        ["backlog", "done", "in-progress"]
    );
    assert_eq!(
        board.run(&command).expect_err("there already"),
        Refusal::NothingToChange
    );
}
