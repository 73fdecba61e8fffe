//! Boards of linked checkouts from before all checkouts shared one.

use std::fs::{self, File};

use orchestra_board::Command;
use orchestra_store::{Action, BoardSize, Options, Store};

use super::{
    Checkouts, SETTLE, add_task, assert_is_moved, claim, fill, has, make_claim, run, set_version,
    title, version,
};
use crate::fixture::{clock, options};
use crate::words::{chunk, rename, slug, used_for};

impl Checkouts {
    /// A board of a checkout alone, whose usage begins later than that of the shared one.
    fn alone(&self, name: &str) -> Store {
        let clock = clock();
        clock.pass(60);
        Store::open(&self.path(name), options(&clock)).expect("set up")
    }

    /// The shared board with that of the linked checkout in it.
    fn merged(&self) -> Store {
        let store = self.open("linked");
        let merged = store.merge_worktree(&self.path("linked"));
        merged.expect("merged");
        store
    }
}

/// Tokens that were used, and the number of remembered texts.
fn sums(store: &Store) -> (u64, u64) {
    let sums = store.read(|reader| {
        let usage = reader.usage(10)?.totals.input;
        Ok((usage, reader.memory_size(&slug())?.chunks))
    });
    sums.expect("readable")
}

#[test]
fn board_of_a_linked_checkout_is_merged_once_even_if_its_mark_is_lost() {
    let checkouts = Checkouts::new();
    let linked = checkouts.alone("linked");
    fill(&linked);
    run(&linked, Command::RecordUsage(used_for("MA-3", 5)));
    for text in ["of both", "of linked"] {
        let saved = linked.submit_blocking(None, Action::SaveMemory(chunk(text)));
        saved.unwrap();
    }
    drop(linked);
    let database = checkouts.path("linked/.projects/.store/board.db");
    let before = version(&database);
    let main = checkouts.open("main");
    fill(&main);
    run(&main, rename("MA-3", "Of main"));
    run(&main, Command::RecordUsage(used_for("MA-3", 7)));
    let saved = main.submit_blocking(None, Action::SaveMemory(chunk("of both")));
    saved.unwrap();
    assert!(!has(&main, "MA-4"));
    for _ in 0..2 {
        let store = checkouts.merged();
        assert!(has(&store, "MA-6") && !has(&store, "MA-7"));
        assert_eq!(title(&store, "MA-3"), "Of main");
        assert_eq!(title(&store, "MA-6"), "Task");
        assert_eq!(sums(&store), (12, 2));
        drop(store);
        // A program that ends between the merge and the mark leaves this.
        assert_ne!(version(&database), before);
        set_version(&database, before);
    }
    add_task(&main, "Next");
    assert!(has(&main, "MA-7"));
    drop(checkouts.merged());
    assert_is_moved(&checkouts.path("linked"));
}

#[test]
fn opening_merges_no_board_of_a_linked_checkout_and_a_merge_drops_its_claims() {
    let checkouts = Checkouts::new();
    let linked = checkouts.alone("linked");
    fill(&linked);
    make_claim(&linked);
    drop(linked);
    for name in ["main", "linked"] {
        assert!(!has(&checkouts.open(name), "MA-3"), "{name}");
    }
    let size = BoardSize::of_checkout(&checkouts.path("linked"));
    assert_eq!(size.unwrap().unwrap().issues, 3);
    let merged = checkouts.merged();
    assert!(has(&merged, "MA-3") && claim(&merged).is_none());
}

#[test]
fn board_of_a_linked_checkout_in_use_is_not_merged() {
    let checkouts = Checkouts::new();
    let linked = checkouts.alone("linked");
    fill(&linked);
    drop(linked);
    let store = checkouts.path("linked/.projects/.store");
    let lock = File::open(store.join("keeper.lock"))
        .or_else(|_| File::create(store.join("keeper.lock")))
        .unwrap();
    lock.lock().unwrap();
    let shared = checkouts.open("linked");
    let refused = shared.merge_worktree(&checkouts.path("linked"));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains(&store.display().to_string()), "{refused}");
    assert!(!has(&shared, "MA-3"));
    drop((lock, shared));
    assert!(has(&checkouts.merged(), "MA-3"));
}

#[test]
fn edits_of_files_are_merged_and_missing_files_remove_nothing() {
    let checkouts = Checkouts::new();
    let with_files = Options {
        flush: true,
        sweep: true,
        ..options(&clock())
    };
    let linked = Store::open(&checkouts.path("linked"), with_files).unwrap();
    fill(&linked);
    linked.settle(SETTLE).unwrap();
    drop(linked);
    let epic = checkouts.path("linked/.projects/my-app/epics/MA-1/epic.toon");
    let text = fs::read_to_string(&epic).unwrap();
    fs::write(&epic, text.replace("Epic", "Renamed")).unwrap();
    fs::remove_dir_all(epic.with_file_name("stories")).unwrap();
    let store = checkouts.merged();
    assert_eq!(title(&store, "MA-1"), "Renamed");
    assert!(has(&store, "MA-3"));
    store.settle(SETTLE).unwrap();
    let mirrored = checkouts
        .files()
        .join("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon");
    assert!(mirrored.is_file());
}
