//! Boards whose directory moves, becomes a repository or is replaced, and boards that are open meanwhile.

use std::fs;
use std::path::Path;
use std::process;

use orchestra_board::Kind;
use orchestra_place::{Choice, Place};
use orchestra_store::{
    Action, ActionError, Fault, Home, Options, ReadError, SharedHome, Store, accept,
    copy_to_checkout,
};
use rusqlite::Connection;

use super::in_checkout;
use crate::fixture::{clock, options};
use crate::shared_home::{Checkouts, SETTLE, add_task, claim, fill, has, make_claim, run};
use crate::words::{create, id, slug};

impl Checkouts {
    /// Options for the board of a directory, as it is there now.
    fn options_of(&self, directory: &Path, choice: Choice) -> Options {
        let state = self.path("state");
        let place = Place::find(directory, Some(&state), choice).expect("a place");
        Options {
            home: Home::Shared(SharedHome::new(place, state)),
            ..self.options()
        }
    }

    fn open_at(&self, directory: &Path, choice: Choice) -> Store {
        Store::open(directory, self.options_of(directory, choice)).expect("it opens")
    }
}

fn git(directory: &Path, words: &[&str]) {
    let mut git = process::Command::new("git");
    let status = git.args(words).current_dir(directory).status();
    assert!(status.expect("git runs").success(), "{words:?}");
}

fn version(database: &Path) -> i64 {
    let connection = Connection::open(database).expect("it opens");
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    version.expect("readable")
}

/// Number of tasks after the first. A board that was moved may leave out ids.
fn later_tasks(store: &Store) -> usize {
    let is_there = |number: &u32| has(store, &format!("MA-{number}"));
    (4..1_000).filter(is_there).count()
}

#[test]
fn board_of_a_directory_that_moves_back_comes_along_each_time() {
    let checkouts = Checkouts::new();
    let (main, moved) = (checkouts.path("main"), checkouts.path("moved"));
    let store = checkouts.open("main");
    fill(&store);
    make_claim(&store);
    drop(store);
    for (number, (from, to)) in [(&main, &moved), (&moved, &main), (&main, &moved)]
        .into_iter()
        .enumerate()
    {
        fs::rename(from, to).unwrap();
        let store = checkouts.open_at(to, Choice::State);
        assert!(claim(&store).is_some(), "{number}");
        add_task(&store, "Next");
        assert_eq!(later_tasks(&store), number + 1);
    }
}

#[test]
fn board_of_a_directory_that_is_no_repository_any_more_is_built_from_its_files() {
    let checkouts = Checkouts::new();
    let main = checkouts.path("main");
    let open = || checkouts.open_at(&main, Choice::Repository);
    let store = open();
    fill(&store);
    drop(store);
    git(&main, &["init", "--quiet"]);
    let store = open();
    add_task(&store, "Next");
    store.settle(SETTLE).unwrap();
    drop(store);
    fs::remove_dir_all(main.join(".git")).unwrap();
    let store = open();
    assert_eq!(later_tasks(&store), 1);
    add_task(&store, "Next");
    assert_eq!(later_tasks(&store), 2);
}

#[test]
fn new_repository_at_the_path_of_a_moved_one_has_a_board_of_its_own_in_the_state_directory() {
    for is_opened_before in [false, true] {
        let checkouts = Checkouts::new();
        let (main, moved) = (checkouts.path("main"), checkouts.path("moved"));
        git(&main, &["init", "--quiet"]);
        let store = checkouts.open("main");
        fill(&store);
        drop(store);
        fs::rename(&main, &moved).unwrap();
        if is_opened_before {
            assert!(has(&checkouts.open_at(&moved, Choice::State), "MA-3"));
        }
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "--quiet"]);
        let store = checkouts.open("main");
        assert!(store.read_only().is_none(), "{is_opened_before}");
        fill(&store);
        // Ids begin again.
        assert!(has(&store, "MA-3") && !has(&store, "MA-4"));
        let aside = checkouts.home().directory().join("former-1.db");
        assert!(aside.is_file(), "{is_opened_before}");
    }
}

#[test]
fn board_in_use_stays_in_its_place_while_its_directory_becomes_a_repository() {
    let checkouts = Checkouts::new();
    let (main, state) = (checkouts.path("main"), checkouts.path("state"));
    let home = || {
        let place = Place::find(&main, Some(&state), Choice::Repository).unwrap();
        SharedHome::new(place, state.clone()).or_in_use_before()
    };
    let open = || {
        let options = Options {
            home: Home::Shared(home()),
            ..checkouts.options()
        };
        Store::open(&main, options).unwrap()
    };
    let served = open();
    fill(&served);
    git(&main, &["init", "--quiet"]);
    let other = open();
    add_task(&other, "Next");
    assert!(has(&served, "MA-4"));
    drop((served, other));
    assert!(home().directory().starts_with(main.join(".git")));
    assert!(has(&open(), "MA-4"));
}

#[test]
fn board_that_a_program_reads_is_not_moved_into_the_checkout() {
    let checkouts = Checkouts::new();
    let home = checkouts.home();
    fill(&checkouts.open("main"));
    let reading = Store::open_idle(&checkouts.path("linked"), checkouts.options()).unwrap();
    assert!(has(&reading, "MA-3"));
    let refused = copy_to_checkout(&home, true).unwrap_err();
    let source = std::error::Error::source(&refused).unwrap();
    let is_held = source
        .downcast_ref()
        .is_some_and(|fault| matches!(fault, Fault::Held { .. }));
    assert!(is_held, "{source}");
    drop(reading);
    copy_to_checkout(&home, true).unwrap().finish().unwrap();
    assert!(has(&in_checkout(&checkouts.path("main")).unwrap(), "MA-3"));
}

#[test]
fn reader_of_a_board_that_was_moved_out_of_the_checkout_reports_that() {
    let checkouts = Checkouts::new();
    let main = checkouts.path("main");
    fill(&Store::open(&main, options(&clock())).unwrap());
    let reading = Store::open_idle(&main, options(&clock())).unwrap();
    assert!(has(&reading, "MA-3"));
    drop(checkouts.open("main"));
    let read = reading.read(|reader| reader.issue(&slug(), &id("MA-3")));
    assert!(
        matches!(read, Err(ReadError::Fault(Fault::Moved))),
        "{read:?}"
    );
}

#[test]
fn change_of_a_board_that_was_moved_out_of_the_checkout_is_refused() {
    let checkouts = Checkouts::new();
    let main = checkouts.path("main");
    // It takes no lock for the files, so that the move does not wait for it.
    let writing = Options {
        flush: false,
        ..options(&clock())
    };
    let writing = Store::open(&main, writing).unwrap();
    fill(&writing);
    let moved = checkouts.open("main");
    let epic = Action::Board(create(Kind::Epic, None, "Lost"));
    let refused = writing.submit_blocking(None, epic);
    assert!(
        matches!(refused, Err(ActionError::Fault(Fault::Moved))),
        "{refused:?}"
    );
    assert!(has(&moved, "MA-3") && !has(&moved, "MA-4"));
}

#[test]
fn database_that_git_tracks_is_data_until_it_is_accepted() {
    let checkouts = Checkouts::new();
    let main = checkouts.path("main");
    let store = Store::open(&main, options(&clock())).unwrap();
    fill(&store);
    make_claim(&store);
    drop(store);
    let database = checkouts.files().join(".store/board.db");
    let before = version(&database);
    git(&main, &["init", "--quiet"]);
    git(&main, &["add", "--force", ".projects/.store/board.db"]);
    let shared = || checkouts.options_of(&main, Choice::Repository);
    // Once for the copy, and once with it.
    for _ in 0..2 {
        let store = Store::open(&main, shared()).unwrap();
        assert!(has(&store, "MA-3"));
        assert!(matches!(store.read_only(), Some(Fault::Untrusted(_))));
        let epic = Action::Board(create(Kind::Epic, None, "No"));
        store.submit_blocking(None, epic).unwrap_err();
    }
    assert_eq!(version(&database), before);
    assert!(accept(&main, &shared()).unwrap().is_some());
    let store = Store::open(&main, shared()).unwrap();
    assert!(claim(&store).is_none());
    run(&store, create(Kind::Epic, None, "Yes"));
    assert!(has(&store, "MA-4"));
}
