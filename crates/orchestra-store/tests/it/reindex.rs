//! The full-text index of what is remembered is made anew in parts, and mended when it is damaged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use orchestra_board::Timestamp;
use orchestra_store::{
    Action, ActionError, ChunkId, ChunkPatch, Fault, Made, NewChunk, ReadError, Reindex, Reindexed,
    Store, Submission,
};
use rusqlite::Connection;

use crate::fixture::{Workspace, clock, options};
use crate::memory::{save as save_session, session};
use crate::words::{answer, body, chunk, effort, label, slug};

/// Far longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn raw(board: &Workspace) -> Connection {
    let raw = Connection::open(board.path().join(".projects/.store/board.db")).expect("opens");
    raw.busy_timeout(PATIENCE).expect("it waits");
    raw
}

/// Remembers `count` texts, each with a number of its own, all at once.
fn fill(board: &Workspace, count: usize) {
    let text = |number: usize| {
        chunk(&format!(
            "fact n{number}x of the matter: {}",
            "said at length ".repeat(30)
        ))
    };
    let numbers: Vec<usize> = (0..count).collect();
    for some in numbers.chunks(10_000) {
        let saved: Vec<Submission> = some
            .iter()
            .map(|number| board.store.submit(None, Action::SaveMemory(text(*number))))
            .collect();
        for saved in saved {
            answer(saved).expect("it is remembered");
        }
    }
}

fn part(board: &Workspace, step: Reindex) -> Reindexed {
    match board.act(Action::ReindexMemory(step)).made {
        Made::Reindexed(now) => now,
        other => panic!("{other:?}"),
    }
}

fn try_find(store: &Store, query: &str) -> Result<Vec<u64>, ReadError> {
    let hits = store.read(|reader| reader.search_memory(&slug(), query, 10))?;
    let mut found: Vec<u64> = hits.iter().map(|hit| hit.item.id.number()).collect();
    found.sort_unstable();
    Ok(found)
}

fn found(board: &Workspace, query: &str) -> Vec<u64> {
    try_find(&board.store, query).expect("it can be searched")
}

/// Waits until the index answers again.
fn found_again(board: &Workspace, query: &str) -> Vec<u64> {
    let begin = Instant::now();
    loop {
        match try_find(&board.store, query) {
            Ok(found) => return found,
            Err(ReadError::Fault(Fault::IndexDamaged)) => {
                assert!(begin.elapsed() < PATIENCE, "it is not mended");
                std::thread::yield_now();
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Whether the index is whole, says nothing of what is gone, and nothing is left beside it.
fn check_whole(board: &Workspace) {
    let raw = raw(board);
    let count = |sql: &str| -> i64 { raw.query_row(sql, [], |row| row.get(0)).expect(sql) };
    raw.execute(
        "INSERT INTO memory_text (memory_text) VALUES ('integrity-check')",
        [],
    )
    .expect("a whole index");
    let rows = count("SELECT (SELECT count(*) FROM chunk) + (SELECT count(*) FROM session)");
    assert_eq!(count("SELECT count(*) FROM memory_text_docsize"), rows);
    let beside = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'memory_text_next%' OR name LIKE 'memory_text_old%'";
    assert_eq!(count(beside), 0);
    let marks = "SELECT count(*) FROM counter WHERE name IN ('reindex_row', 'reindex_damaged')";
    assert_eq!(count(marks), 0);
}

#[test]
fn all_that_was_found_before_is_found_after() {
    let board = Workspace::with_a_story();
    let marked = NewChunk {
        source: Some(label("task")),
        source_id: Some(label("MA-77")),
        tags: vec![label("greek")],
        ..chunk("alpha")
    };
    board.act(Action::SaveMemory(marked));
    save_session(&board, session("s", "gamma", &["delta was done"]));
    let in_context = |query: &str| board.read(|reader| reader.context(&slug(), query, 5)).len();
    let queries = ["alpha", "greek", "MA-77", "gamma", "delta"];
    let before = queries.map(in_context);
    assert_eq!(before, [1; 5]);
    board
        .store
        .reindex_memory(|_| {})
        .expect("the index is made");
    assert_eq!(queries.map(in_context), before);
    check_whole(&board);
}

#[test]
fn between_the_parts_all_is_found_and_changes_are_followed() {
    let board = Workspace::with_a_story();
    let count = 600;
    fill(&board, count);
    let mut expires = chunk("soon over");
    expires.expires_at = Some(Timestamp::from_unix_seconds(
        board.store.now().unix_seconds() + 1,
    ));
    board.act(Action::SaveMemory(expires));
    board.clock.pass(2);
    let mut parts = 0;
    let mut now = part(&board, Reindex::Begin);
    let run = now.run;
    assert_eq!(now.total, 601);
    while !now.is_done {
        parts += 1;
        // Whether the new index has reached them or not.
        for number in [0, 1, 300, 598, 599] {
            let expected: &[u64] = match (number, parts) {
                (1, 1) | (0 | 300 | 599, _) => &[number + 1],
                (598, 1) => &[599],
                _ => &[],
            };
            assert_eq!(found(&board, &format!("n{number}x")), expected, "{parts}");
        }
        if parts == 1 {
            for id in [2, 599] {
                board.act(Action::ForgetMemory {
                    project: slug(),
                    id: ChunkId::new(id),
                });
            }
            for id in [1, 600] {
                let mut patch = ChunkPatch::of(slug(), ChunkId::new(id));
                patch.content = Some(body(&format!("now n{}x is said otherwise", id - 1)));
                board.act(Action::UpdateMemory(Box::new(patch)));
            }
        }
        board.remember(&format!("a new one is p{parts}x"));
        assert_eq!(found(&board, &format!("p{parts}x")).len(), 1);
        now = part(&board, Reindex::Continue(run));
        assert!(parts < 2_000);
    }
    assert!(parts >= 2, "{parts}");
    assert_eq!(now.expired, 1);
    check_whole(&board);
    assert_eq!(found(&board, "otherwise"), [1, 600]);
    assert!(found(&board, "n1x").is_empty());
    for part in 1..=parts {
        assert_eq!(found(&board, &format!("p{part}x")).len(), 1, "{part}");
    }
    // A run that has ended is not begun again by whoever goes on with it.
    assert!(part(&board, Reindex::Continue(run)).is_done);
    assert!(part(&board, Reindex::Continue(run - 1)).is_done);
}

#[test]
fn a_run_that_was_interrupted_is_gone_on_with() {
    let board = Workspace::with_a_story();
    fill(&board, 600);
    let begun = part(&board, Reindex::Begin);
    let Workspace {
        directory,
        clock: _,
        store,
    } = board;
    store.close(PATIENCE);
    drop(store);
    let clock = clock();
    let store = Store::open(directory.path(), options(&clock)).expect("the store opens");
    let board = Workspace {
        directory,
        clock,
        store,
    };
    assert_eq!(found(&board, "n599x"), [600]);
    board.remember("in between");
    let made = board
        .store
        .reindex_memory(|_| {})
        .expect("the index is made");
    assert_eq!((made.run, made.is_done), (begun.run, true));
    assert!(made.rows >= 600, "{made:?}");
    check_whole(&board);
    assert_eq!(found(&board, "between").len(), 1);
}

/// Damages the index, and saves and searches on: what is saved is kept, and all is found again.
#[track_caller]
fn mended(how: &str, by_saving: bool) {
    let board = Workspace::with_a_story();
    fill(&board, 200);
    raw(&board).execute_batch(how).expect(how);
    if by_saving {
        let kept = board.try_act(Action::SaveMemory(chunk("kept all the same")));
        assert!(kept.is_ok(), "{how}: {kept:?}");
    }
    match try_find(&board.store, "n7x") {
        // Nothing of the damage was touched, or it is mended already.
        Ok(found) => assert_eq!(found, [8], "{how}"),
        Err(ReadError::Fault(fault @ Fault::IndexDamaged)) => {
            assert!(fault.to_string().contains("Try again"), "{fault}");
        }
        Err(other) => panic!("{how}: {other:?}"),
    }
    assert_eq!(found_again(&board, "n7x"), [8], "{how}");
    board.remember("kept afterwards");
    assert_eq!(found_again(&board, "afterwards").len(), 1, "{how}");
    if by_saving {
        assert_eq!(found_again(&board, "same").len(), 1, "{how}");
    }
    // What was touched by nobody is mended by hand.
    board
        .store
        .reindex_memory(|_| {})
        .unwrap_or_else(|error| panic!("{how}: {error:?}"));
    check_whole(&board);
}

#[test]
fn an_index_of_few_texts_is_mended_at_once() {
    for how in DAMAGES {
        let board = Workspace::with_a_story();
        fill(&board, 8);
        raw(&board).execute_batch(how).expect(how);
        let now = board.try_act(Action::ReindexMemory(Reindex::Damaged(0)));
        assert!(now.is_ok(), "{how}: {now:?}");
        assert_eq!(found_again(&board, "n7x"), [8], "{how}");
        check_whole(&board);
    }
}

const DAMAGES: &[&str] = &[
    // The list of what the index consists of.
    "DELETE FROM memory_text_data WHERE id = 10",
    "UPDATE memory_text_data SET block = x'00000001ffffffffffffffffff' WHERE id = 10",
    // All that it says.
    "UPDATE memory_text_data SET block = x'0102' WHERE id > 10",
    "UPDATE memory_text_data SET block = zeroblob(length(block)) WHERE id > 10",
    "DELETE FROM memory_text_data WHERE id > 10",
    "DELETE FROM memory_text_data",
    // Its tables.
    "DROP TABLE memory_text_data",
    "DROP TABLE memory_text_docsize",
    "DROP TABLE memory_text_config",
    "DROP TABLE memory_text",
];

#[test]
fn a_damaged_index_is_mended_when_something_is_saved() {
    for how in DAMAGES {
        mended(how, true);
    }
}

#[test]
fn a_damaged_index_is_mended_whatever_a_reader_makes_of_the_error() {
    let board = Workspace::with_a_story();
    fill(&board, 8);
    raw(&board)
        .execute_batch("DELETE FROM memory_text_data")
        .expect("deleted");
    let begin = Instant::now();
    loop {
        // As callers do that have errors of their own.
        let read = board
            .store
            .read(|reader| Ok(reader.search_memory(&slug(), "n7x", 10).is_ok()));
        if read.expect("it is read") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "it is not mended");
        std::thread::yield_now();
    }
    check_whole(&board);
}

#[test]
fn a_damaged_index_is_mended_when_it_is_searched() {
    for how in DAMAGES {
        mended(how, false);
    }
}

#[test]
fn damage_that_the_database_does_not_name_is_told_and_mended_by_hand() {
    let board = Workspace::with_a_story();
    fill(&board, 200);
    let how = "DROP TABLE memory_text_idx";
    raw(&board).execute_batch(how).expect(how);
    let refused = board.try_act(Action::SaveMemory(chunk("not kept")));
    assert!(
        matches!(refused, Err(ActionError::Fault(Fault::Corrupt))),
        "{refused:?}"
    );
    board.store.reindex_memory(|_| {}).expect("it is mended");
    assert_eq!(found(&board, "n7x"), [8]);
    board.remember("kept afterwards");
    assert_eq!(found(&board, "afterwards").len(), 1);
    check_whole(&board);
}

#[test]
fn an_index_that_says_it_were_empty_is_mended_by_hand() {
    let board = Workspace::with_a_story();
    fill(&board, 200);
    let how = "UPDATE memory_text_data SET block = x'00000000000000' WHERE id = 10";
    raw(&board).execute_batch(how).expect(how);
    assert!(found(&board, "n7x").is_empty());
    board.store.reindex_memory(|_| {}).expect("it is mended");
    assert_eq!(found(&board, "n7x"), [8]);
    check_whole(&board);
}

#[test]
fn an_index_that_is_damaged_while_it_is_made_anew_is_mended() {
    for how in [
        "DELETE FROM memory_text_data",
        "DELETE FROM memory_text_next_data",
        "DROP TABLE memory_text_next",
        "DROP TABLE memory_text_next_config",
        "DROP TABLE memory_text",
    ] {
        let board = Workspace::with_a_story();
        fill(&board, 2_000);
        part(&board, Reindex::Begin);
        raw(&board).execute_batch(how).expect(how);
        let made = board.store.reindex_memory(|_| {});
        assert!(made.is_ok_and(|made| made.is_done), "{how}");
        assert_eq!(found_again(&board, "n7x"), [8], "{how}");
        // By now nobody is about it any more.
        board.store.reindex_memory(|_| {}).expect(how);
        check_whole(&board);
    }
}

#[test]
fn an_index_that_is_damaged_while_it_is_mended_is_mended() {
    let board = Workspace::with_a_story();
    fill(&board, 2_000);
    raw(&board)
        .execute_batch("DROP TABLE memory_text")
        .expect("dropped");
    let mut now = part(&board, Reindex::Damaged(0));
    raw(&board)
        .execute_batch("DELETE FROM memory_text_next_data")
        .expect("deleted");
    // What is there already is changed in it.
    let mut patch = ChunkPatch::of(slug(), ChunkId::new(1));
    patch.content = Some(body("said otherwise"));
    board.act(Action::UpdateMemory(Box::new(patch)));
    assert_eq!(found_again(&board, "otherwise"), [1]);
    assert_eq!(found_again(&board, "n599x"), [600]);
    now = part(&board, Reindex::Continue(now.run));
    assert!(now.is_done);
    board
        .store
        .reindex_memory(|_| {})
        .expect("the index is made");
    check_whole(&board);
}

#[test]
fn changes_are_made_between_the_parts_of_a_new_index() {
    /// The first part creates the index, the last finds that nothing is left, and one is between.
    const MIN_PARTS: u64 = 3;
    let board = Workspace::with_a_story();
    let count = effort(3_000, 90_000);
    fill(&board, count);
    let other = board.store.clone();
    let began = Instant::now();
    let (changes, mut parts) = (AtomicU64::new(0), 0);
    let (made, slowest) = std::thread::scope(|scope| {
        // After each part, at least one change that was submitted meanwhile is done before the next part.
        let part = |now: &Reindexed| {
            parts += 1;
            let before = changes.load(Ordering::Relaxed);
            let begin = Instant::now();
            while !now.is_done && changes.load(Ordering::Relaxed) == before {
                assert!(begin.elapsed() < PATIENCE, "no change after part {parts}");
                std::thread::yield_now();
            }
        };
        let making = scope.spawn(|| board.store.reindex_memory(part));
        let mut slowest = Duration::ZERO;
        let mut number = 0;
        while !making.is_finished() {
            let begin = Instant::now();
            let text = chunk(&format!("meanwhile m{number}"));
            other
                .submit_blocking(None, Action::SaveMemory(text))
                .expect("it is remembered");
            slowest = slowest.max(begin.elapsed());
            // At no moment is it missing, or taken for damaged.
            assert_eq!(found(&board, "n7x"), [8]);
            number += 1;
            changes.fetch_add(1, Ordering::Relaxed);
        }
        (making.join().expect("it ends"), slowest)
    });
    let took = began.elapsed();
    let made = made.expect("the index is made");
    assert!(made.rows >= count as u64, "{made:?}");
    assert_eq!(part(&board, Reindex::Continue(made.run)).run, 1);
    let changes = changes.into_inner();
    assert!(
        parts >= MIN_PARTS && changes >= parts - 1,
        "{changes} changes, {parts} parts"
    );
    println!(
        "{count} texts indexed in {parts} parts and {took:?}; {changes} changes waited {slowest:?} at most"
    );
    check_whole(&board);
}

#[test]
fn where_nothing_can_be_written_an_index_stays_as_it_is() {
    let board = Workspace::with_a_story();
    fill(&board, 3);
    board.store.close(PATIENCE);
    let refused = board.store.reindex_memory(|_| {});
    assert!(
        matches!(refused, Err(ActionError::Fault(Fault::Closed))),
        "{refused:?}"
    );
    assert_eq!(found(&board, "n2x"), [3]);
}
