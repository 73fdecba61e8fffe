//! Boards whose directory is removed while programs have them open.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use orchestra_board::Kind;
use orchestra_store::{Action, ActionError, Fault, Store};
use rusqlite::Connection;

use super::{Checkouts, SETTLE, add_task, fill, has, remove, run};
use crate::words::create;

#[test]
fn directory_that_is_removed_while_programs_live_loses_nothing() {
    let checkouts = Checkouts::new();
    let (main, linked) = (checkouts.open("main"), checkouts.open("linked"));
    fill(&main);
    add_task(&linked, "Of linked");
    for number in 5..8 {
        remove(&checkouts.home().directory());
        drop(fs::remove_dir_all(checkouts.files()));
        add_task(&linked, "Later");
        add_task(&main, "Latest");
        remove(&checkouts.home().directory());
        // A program that starts builds no database while others have theirs.
        assert!(has(&checkouts.open("main"), "MA-3"), "{number}");
        assert!(has(&linked, "MA-3") && has(&main, "MA-4"), "{number}");
    }
    assert!(has(&main, "MA-10") && !has(&main, "MA-11"));
}

#[test]
fn program_that_opens_a_board_during_the_removal_of_its_directory_has_all_of_it() {
    let checkouts = Checkouts::new();
    let main = checkouts.open("main");
    fill(&main);
    main.settle(SETTLE).unwrap();
    // The first file of the directory that is removed.
    fs::remove_file(checkouts.home().directory().join("board.db-wal")).unwrap();
    let other = std::thread::scope(|scope| {
        let opening = scope.spawn(|| checkouts.open("linked"));
        checkouts.remove_database();
        opening.join().unwrap()
    });
    assert!(has(&other, "MA-3"));
    add_task(&other, "Next");
    assert!(has(&main, "MA-4"));
}

#[test]
fn change_after_a_removal_is_seen_by_the_next_read_of_another_program() {
    let checkouts = Checkouts::new();
    let main = checkouts.open_without_files("main");
    fill(&main);
    let linked = checkouts.open_without_files("linked");
    // Has a connection to the first database from here on.
    assert!(has(&linked, "MA-3"));
    for number in 4..7 {
        remove(&checkouts.home().directory());
        add_task(&main, "Next");
        // A check of the place by the first read must not count for the connection to the removed database.
        assert!(has(&linked, &format!("MA-{number}")), "{number}");
        assert!(has(&linked, &format!("MA-{number}")), "{number}");
    }
}

#[test]
fn program_with_an_earlier_state_does_not_put_the_board_back() {
    let checkouts = Checkouts::new();
    let earlier = checkouts.open_without_files("main");
    fill(&earlier);
    let newest = checkouts.open_without_files("linked");
    for number in [4, 6] {
        remove(&checkouts.home().directory());
        add_task(&newest, "Next");
        remove(&checkouts.home().directory());
        add_task(&earlier, "Latest");
        assert!(has(&earlier, &format!("MA-{number}")), "{number}");
        assert!(has(&earlier, &format!("MA-{}", number + 1)), "{number}");
    }
}

#[test]
fn program_that_put_the_board_back_ends_after_the_others_have_it_open() {
    let checkouts = Checkouts::new();
    let earlier = checkouts.open_without_files("main");
    fill(&earlier);
    for number in 4..7 {
        let command = checkouts.open_without_files("linked");
        remove(&checkouts.home().directory());
        add_task(&command, "Of a command");
        let ending = std::thread::spawn(move || drop(command));
        remove(&checkouts.home().directory());
        ending.join().unwrap();
        assert!(has(&earlier, &format!("MA-{number}")), "{number}");
    }
}

#[test]
fn program_with_an_earlier_state_that_waits_for_the_lock_does_not_put_the_board_back() {
    let checkouts = Checkouts::new();
    let earlier = checkouts.open_without_files("main");
    fill(&earlier);
    let newest = checkouts.open_without_files("linked");
    remove(&checkouts.home().directory());
    add_task(&newest, "Next");
    let lock = fs::File::open(checkouts.home().directory().join("writer.lock")).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| add_task(&earlier, "Latest"));
        remove(&checkouts.home().directory());
        drop(lock);
    });
    assert!(has(&earlier, "MA-4") && has(&newest, "MA-5"));
}

#[test]
fn earlier_state_that_is_put_back_gives_no_id_twice() {
    let checkouts = Checkouts::new();
    let earlier = Store::open_idle(&checkouts.path("main"), checkouts.without_files()).unwrap();
    fill(&checkouts.open_without_files("linked"));
    assert!(has(&earlier, "MA-3"));
    let database = checkouts.home().directory().join("board.db");
    let raw = Connection::open(&database).unwrap();
    // As a program does that puts the database back and is killed.
    raw.execute(
        "INSERT INTO counter (name, value) VALUES ('superseded', 1)",
        [],
    )
    .unwrap();
    drop(raw);
    remove(&checkouts.home().directory());
    run(&earlier, create(Kind::Task, Some("MA-2"), "Next"));
    assert!(has(&earlier, "MA-3") && !has(&earlier, "MA-4"));
}

#[test]
fn removed_database_that_cannot_be_copied_is_kept_open_until_it_can() {
    let checkouts = Checkouts::new();
    let store = checkouts.open_without_files("main");
    fill(&store);
    // Nothing can be written where the copy is to be.
    let obstacle = checkouts.home().directory().join("board.db.new");
    fs::create_dir(&obstacle).unwrap();
    checkouts.remove_database();
    let task = || Action::Board(create(Kind::Task, Some("MA-2"), "Next"));
    store.submit_blocking(None, task()).unwrap_err();
    fs::remove_dir(&obstacle).unwrap();
    store.submit_blocking(None, task()).unwrap();
    assert!(has(&store, "MA-3") && has(&store, "MA-4"));
}

#[test]
fn removed_database_is_marked_once_it_is_reopened_after_a_failure() {
    let checkouts = Checkouts::new();
    let store = checkouts.open_without_files("main");
    fill(&store);
    let removed = Connection::open(checkouts.home().directory().join("board.db")).unwrap();
    let is_marked = || {
        let sql = "SELECT EXISTS (SELECT 1 FROM counter WHERE name = 'superseded')";
        removed.query_row(sql, [], |row| row.get::<_, bool>(0))
    };
    assert!(!is_marked().unwrap());
    // A database that an earlier program has open in the checkout.
    let former = checkouts.files().join(".store");
    fs::create_dir_all(&former).unwrap();
    super::set_version(&former.join("board.db"), 1);
    let lock = fs::File::create(former.join("keeper.lock")).unwrap();
    lock.lock().unwrap();
    remove(&checkouts.home().directory());
    let task = || Action::Board(create(Kind::Task, Some("MA-2"), "Next"));
    let refused = store.submit_blocking(None, task()).unwrap_err();
    assert!(
        matches!(refused, ActionError::Fault(Fault::Held { .. })),
        "{refused}"
    );
    assert!(checkouts.home().directory().join("board.db").exists());
    fs::remove_dir_all(&former).unwrap();
    store.submit_blocking(None, task()).unwrap();
    assert!(is_marked().unwrap());
}

#[test]
fn removed_board_below_a_path_that_is_not_utf8_is_put_back() {
    let name = OsStr::from_bytes(b"board-\xff-");
    let checkouts = Checkouts::below(tempfile::Builder::new().prefix(name).tempdir().unwrap());
    let store = checkouts.open_without_files("main");
    fill(&store);
    remove(&checkouts.home().directory());
    add_task(&store, "Next");
    assert!(has(&store, "MA-3") && has(&store, "MA-4"));
}

#[test]
fn program_without_changes_of_its_own_puts_a_removed_database_back() {
    let checkouts = Checkouts::new();
    let main = checkouts.open_without_files("main");
    fill(&main);
    let idle = Store::open_idle(&checkouts.path("linked"), checkouts.without_files()).unwrap();
    drop(main);
    remove(&checkouts.home().directory());
    add_task(&idle, "Next");
    assert!(has(&idle, "MA-3") && has(&idle, "MA-4"));
}

#[test]
fn program_that_waits_for_its_first_change_delays_no_opening_after_a_removal() {
    let checkouts = Checkouts::new();
    let idle = Store::open_idle(&checkouts.path("linked"), checkouts.options()).unwrap();
    remove(&checkouts.home().directory());
    let store = checkouts.open("main");
    fill(&store);
    assert!(has(&store, "MA-3"));
    drop(idle);
}
