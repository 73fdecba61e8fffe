//! What is remembered, for an index beside the store: every change is told, and by row.

use orchestra_board::{Command, SessionId};
use orchestra_store::{Action, Made, NewSession, NewSessionEvent, Remembered};

use crate::board::{Board, still};
use crate::fixture::Workspace;
use crate::words::{body, chunk, label, slug};

fn rows(workspace: &Workspace) -> Vec<Remembered> {
    workspace.read(|reader| reader.remembered_after(i64::MIN, 100))
}

#[test]
fn changes_are_told_by_row() {
    let workspace = Workspace::empty();
    workspace.make_project("My App");
    let begin = workspace.read(|reader| reader.memory_place());
    let Made::Chunk { chunk: saved, .. } = workspace.remember("the lock is fair").made else {
        panic!("a chunk is made");
    };
    workspace.act(Action::SaveSession(NewSession {
        project: slug(),
        id: SessionId::parse("monday").expect("an id"),
        summary: body("We talked."),
        events: vec![NewSessionEvent {
            kind: label("note"),
            summary: body("About locks."),
            at: None,
        }],
        started_at: None,
        ended_at: None,
        from_hooks: false,
    }));

    let found = rows(&workspace);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].text, "the lock is fair");
    assert_eq!(found[1].text, "We talked.\nAbout locks.");
    let all: Vec<i64> = found.iter().map(|item| item.row).collect();
    let changes = workspace.read(|reader| reader.memory_changes(begin));
    assert_eq!(changes.rows, all);
    assert!(!changes.removed && !changes.look_through, "{changes:?}");
    assert_eq!(workspace.read(|reader| reader.remembered_rows()), all);
    let range = workspace.read(|reader| reader.remembered_range(&slug()));
    assert!(all.iter().all(|row| range.contains(row)), "{range:?}");
    let second = workspace.read(|reader| reader.remembered_after(all[0], 100));
    assert_eq!(second, found[1..]);
    let one = workspace.read(|reader| reader.remembered_text(all[0]));
    assert_eq!(one.as_ref(), found.first());

    workspace.act(Action::ForgetMemory {
        project: slug(),
        id: saved.id,
    });
    let after = workspace.read(|reader| reader.memory_changes(changes.place));
    assert!(after.removed && after.rows.is_empty(), "{after:?}");
    assert_eq!(workspace.read(|reader| reader.remembered_count()), 1);
    workspace.run(Command::DeleteProject { project: slug() });
    let last = workspace.read(|reader| reader.memory_changes(after.place));
    assert!(last.removed, "{last:?}");
    assert_eq!(workspace.read(|reader| reader.remembered_count()), 0);
    // The place of a log that was longer is of another one.
    let other = workspace.read(|reader| {
        let shorter = reader.memory_changes(last.place)?;
        assert!(!shorter.look_through, "{shorter:?}");
        reader.memory_changes(begin)
    });
    assert!(other.removed, "{other:?}");
}

#[test]
fn a_long_text_is_given_by_its_beginning() {
    let workspace = Workspace::empty();
    workspace.make_project("My App");
    let mut long = chunk(&"é".repeat(20_000));
    long.summary = body("short");
    workspace.act(Action::SaveMemory(long));
    let found = rows(&workspace);
    assert!(found[0].text.len() <= 8 * 1024, "{}", found[0].text.len());
    assert!(found[0].text.starts_with("short\né"));
    assert!(found[0].text.ends_with('é'));
}

#[test]
fn a_database_that_was_built_anew_has_other_rows_however_long_its_log_is() {
    let board = Board::with_tasks(still());
    let place = |board: &Board| {
        let place = board.store.read(|reader| reader.memory_place());
        place.expect("a place")
    };
    let changes = |board: &Board, since| {
        let changes = board.store.read(|reader| reader.memory_changes(since));
        changes.expect("changes")
    };
    let before = place(&board);
    board.remember("the lock is fair");
    board.settle();
    let there = changes(&board, before);
    assert_eq!(there.rows.len(), 1, "{there:?}");
    let board = board.rebuilt(|_| {});
    // Its log grows longer than the one before was.
    for number in 0..50 {
        board.remember(&format!("text {number}"));
    }
    let after = changes(&board, there.place);
    assert!(after.look_through && after.rows.is_empty(), "{after:?}");
    assert!(!changes(&board, after.place).look_through);
    // Where it is only opened again, it is the same.
    let board = board.reopened(still(), |_| {});
    assert!(!changes(&board, after.place).look_through);
}
