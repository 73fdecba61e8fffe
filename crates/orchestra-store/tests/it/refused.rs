//! What a person wrote into a file and what cannot be taken in is refused, with file and line: it
//! is not undone unseen.

use std::fs;

use orchestra_board::{Kind, NewRequest, RequestKind, State};
use orchestra_store::Options;

use crate::board::{Board, still};
use crate::words::{body, create, id, slug};

const EPIC: &str = "my-app/epics/MA-1/epic.toon";
const STORY: &str = "my-app/epics/MA-1/stories/MA-2/story.toon";
const TASK: &str = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon";

/// Edits a file; it is refused with these words, stays as it was written whatever the board does,
/// and is all right again when the edit is taken back.
fn is_refused(file: &str, (from, to): (&str, &str), told: &str) {
    let board = Board::with_tasks(still());
    board.run(create(Kind::Epic, None, "Other epic"));
    board.run(create(Kind::Story, Some("MA-1"), "Other story"));
    board.settle();
    board.edit(file, from, to);
    let edited = board.file(file);
    board.mend();
    for issue in ["MA-1", "MA-2", "MA-3"] {
        board.rename(issue, "Changed meanwhile");
    }
    board.settle();
    assert_eq!(board.file(file), edited, "not overwritten");
    let problems = board.problems();
    assert!(problems.contains(&format!("{file}:{told}")), "{problems}");
    assert!(!board.tree().contains(".conflict"), "{}", board.tree());
    board.edit(file, to, from);
    board.mend();
    board.settle();
    assert_eq!(board.problems(), "");
    assert!(board.file(file).contains("Changed meanwhile"));
}

#[test]
fn another_parent_by_hand_is_refused_with_where_to_move_the_file() {
    is_refused(
        TASK,
        ("story: MA-2", "story: MA-6"),
        "7: story: is MA-6, but the file is below MA-2, and the directory decides; \
         move the file to my-app/epics/MA-1/stories/MA-6/tasks/ instead, or write MA-2 here again",
    );
    is_refused(
        TASK,
        ("story: MA-2", "story: MA-9"),
        "7: story: is MA-9, which is not a story of this project; the file is below MA-2: write MA-2 here again",
    );
    is_refused(
        TASK,
        ("epic: MA-1", "epic: MA-5"),
        "6: epic: is MA-5, but a task has the epic of its story, MA-1; write MA-1 here again",
    );
    is_refused(
        STORY,
        ("epic: MA-1", "epic: MA-5"),
        "6: epic: is MA-5, but the file is below MA-1, and the directory decides; \
         move the directory MA-2 to my-app/epics/MA-5/stories/ instead, or write MA-1 here again",
    );
}

#[test]
fn what_was_told_to_be_done_moves_the_task() {
    let board = Board::with_tasks(Options::default());
    board.run(create(Kind::Story, Some("MA-1"), "Other story"));
    board.settle();
    board.edit(TASK, "story: MA-2", "story: MA-5");
    board.wait("the refusal", |board| {
        board.problems().contains("story: is MA-5")
    });
    let tasks = board.path("my-app/epics/MA-1/stories/MA-5/tasks");
    fs::create_dir(&tasks).expect("makes");
    fs::rename(board.path(TASK), tasks.join("MA-3.toon")).expect("moves");
    board.wait("the move", |board| {
        board
            .issue("MA-3")
            .is_some_and(|issue| issue.parent == Some(id("MA-5")))
    });
}

#[test]
fn a_directory_that_was_moved_may_still_say_where_it_stood() {
    let board = Board::with_tasks(Options::default());
    board.run(create(Kind::Epic, None, "Other epic"));
    board.settle();
    let stories = board.path("my-app/epics/MA-5/stories");
    fs::create_dir(&stories).expect("makes");
    let from = board.path("my-app/epics/MA-1/stories/MA-2");
    fs::rename(from, stories.join("MA-2")).expect("moves");
    board.edit(
        "my-app/epics/MA-5/stories/MA-2/tasks/MA-3.toon",
        "title: First",
        "title: Moved and renamed",
    );
    board.wait("the move", |board| {
        let parent = board.issue("MA-2").and_then(|issue| issue.parent);
        parent == Some(id("MA-5")) && board.title_of("MA-3").as_deref() == Some("Moved and renamed")
    });
    board.settle();
    assert_eq!(board.problems(), "");
    let text = board.file("my-app/epics/MA-5/stories/MA-2/tasks/MA-3.toon");
    assert!(text.contains("\nepic: MA-5\nstory: MA-2\n"), "{text}");
}

#[test]
fn a_file_that_was_moved_while_it_could_not_be_read_is_no_stranger() {
    let board = Board::with_tasks(Options::default());
    board.run(create(Kind::Epic, None, "Other epic"));
    board.settle();
    let stories = board.path("my-app/epics/MA-5/stories");
    fs::create_dir(&stories).expect("makes");
    // Another program has just begun to write it.
    let text = board.file(TASK);
    fs::write(board.path(TASK), "").expect("writes");
    let from = board.path("my-app/epics/MA-1/stories/MA-2");
    fs::rename(from, stories.join("MA-2")).expect("moves");
    let task = "my-app/epics/MA-5/stories/MA-2/tasks/MA-3.toon";
    board.wait("the move", |board| {
        let parent = board.issue("MA-2").and_then(|issue| issue.parent);
        parent == Some(id("MA-5")) && board.problems().contains(task)
    });
    board.settle();
    // What was moved is not missing, and mending forgets nothing of it.
    let problems = board.problems();
    assert!(
        !problems.contains("my-app/epics/MA-1/stories"),
        "{problems}"
    );
    board.mend();
    let text = text.replacen("title: First", "title: Moved and renamed", 1);
    fs::write(board.path(task), text).expect("writes");
    board.wait("the title", |board| {
        board.title_of("MA-3").as_deref() == Some("Moved and renamed")
    });
    board.settle();
    assert_eq!(board.problems(), "");
}

#[test]
fn a_state_that_follows_from_others_cannot_be_written() {
    for file in [EPIC, STORY] {
        is_refused(
            file,
            ("status: backlog", "status: done"),
            "5: status: cannot become done by hand: the state of MA-",
        );
        is_refused(
            file,
            ("status: backlog", "status: in-progress"),
            "5: status: cannot become in-progress by hand",
        );
    }
    // What can be written is taken.
    let board = Board::with_tasks(still());
    let states = |wanted: State, tasks: State| {
        board.mend();
        board.settle();
        assert_eq!(board.problems(), "");
        let state = |issue: &str| board.issue(issue).map(|issue| issue.state);
        assert_eq!((state("MA-1"), state("MA-3")), (Some(wanted), Some(tasks)));
    };
    board.edit(EPIC, "status: backlog", "status: cancelled");
    states(State::Cancelled, State::Cancelled);
    board.edit(EPIC, "status: cancelled", "status: backlog");
    states(State::Backlog, State::Backlog);
    board.edit(EPIC, "status: backlog", "status: todo");
    states(State::Todo, State::Backlog);
}

#[test]
fn a_state_that_was_written_with_those_it_follows_from_is_taken() {
    let board = Board::with_tasks(still());
    for file in [EPIC, STORY] {
        board.edit(file, "status: backlog", "status: in-progress");
    }
    board.mend();
    assert!(
        board
            .problems()
            .contains("cannot become in-progress by hand")
    );
    board.edit(TASK, "status: backlog", "status: todo");
    board.mend();
    board.edit(TASK, "status: todo", "status: in-progress");
    board.mend();
    board.settle();
    assert_eq!(board.problems(), "");
    let state = board.issue("MA-1").map(|issue| issue.state);
    assert_eq!(state, Some(State::InProgress));
}

#[test]
fn a_state_that_both_sides_changed_is_told() {
    let board = Board::with_tasks(still());
    board.edit(EPIC, "status: backlog", "status: cancelled");
    board.set_state("MA-3", State::Todo);
    board.set_state("MA-3", State::InProgress);
    board.settle();
    let problems = board.problems();
    assert!(
        problems.contains("epic.toon:5: status: cannot become cancelled"),
        "{problems}"
    );
    assert!(board.file(EPIC).contains("status: cancelled\n"));
}

#[test]
fn comments_and_unknown_lines_are_refused() {
    let comment = "5: is a comment, which would be lost when the file is next written";
    for file in [EPIC, STORY, TASK] {
        is_refused(file, ("status: ", "# note\nstatus: "), comment);
    }
    is_refused(
        TASK,
        ("status: ", "colour: red\nstatus: "),
        "5: colour: is not a field of this file; remove it",
    );
    is_refused(
        TASK,
        ("status: ", "own: todo\nstatus: "),
        "5: own: is not a field of this file; remove it",
    );
    is_refused(TASK, ("status: ", "a note\nstatus: "), "5: ");
    is_refused(TASK, ("status: ", "title: Twice\nstatus: "), "");
}

#[test]
fn comments_in_other_files_are_refused() {
    let board = Board::with_tasks(still());
    board.run(orchestra_board::Command::LogRequest {
        project: slug(),
        request: NewRequest {
            kind: RequestKind::Feature,
            description: body("# more\nof it"),
        },
    });
    board.settle();
    let files = ["my-app/project-status.toon", "my-app/requests.toon"];
    let edited = files.map(|file| {
        board.edit(file, "\n", "\n# note\n");
        board.file(file)
    });
    board.mend();
    board.settle();
    let problems = board.problems();
    for (file, edited) in files.iter().zip(edited) {
        assert!(
            problems.contains(&format!("{file}:2: is a comment")),
            "{problems}"
        );
        assert_eq!(board.file(file), edited);
    }
}
