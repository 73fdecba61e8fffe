//! Boards that move: between the main checkout and the place that all checkouts share, and with their workspace.

mod moved;

use std::fs;
use std::io;
use std::path::Path;
use std::process;

use orchestra_board::Kind;
use orchestra_place::{Choice, Place};
use orchestra_store::{
    Home, OpenError, Options, SharedHome, Store, clear_shared, copy_to_checkout, has_own_database,
};

use crate::fixture::{clock, options};
use crate::gated::{Step, gated};
use crate::shared_home::{Checkouts, SETTLE, add_task, claim, fill, has, make_claim, run};
use crate::words::{create, create_project};

fn in_checkout(main: &Path) -> Result<Store, OpenError> {
    let options = Options {
        flush: true,
        sweep: true,
        ..options(&clock())
    };
    Store::open(main, options)
}

fn cause(error: &OpenError) -> String {
    std::error::Error::source(error)
        .expect("a source")
        .to_string()
}

#[test]
fn board_that_moves_into_the_checkout_and_back_has_all_claims_and_skips_no_id() {
    let checkouts = Checkouts::new();
    let (main, home) = (checkouts.path("main"), checkouts.home());
    let store = checkouts.open("linked");
    fill(&store);
    make_claim(&store);
    store.settle(SETTLE).unwrap();
    drop(store);

    let copy = copy_to_checkout(&home, true).unwrap();
    assert_eq!(copy.finish().unwrap(), main);
    assert!(!home.has_board() && has_own_database(&checkouts.files()));
    let store = in_checkout(&main).unwrap();
    assert!(claim(&store).is_some());
    add_task(&store, "Next");
    store.settle(SETTLE).unwrap();
    let refused = Store::open(&main, checkouts.options()).unwrap_err();
    let cause = cause(&refused);
    assert!(cause.contains("board convert repository"), "{cause}");
    drop(store);

    clear_shared(&main, &home).unwrap();
    let store = checkouts.open("linked");
    assert!(home.has_board() && !has_own_database(&checkouts.files()));
    assert!(claim(&store).is_some());
    add_task(&store, "Next");
    assert!(has(&store, "MA-4") && has(&store, "MA-5") && !has(&store, "MA-6"));
}

#[test]
fn shared_board_counts_until_its_move_into_the_checkout_is_finished() {
    let checkouts = Checkouts::new();
    let (main, home) = (checkouts.path("main"), checkouts.home());
    let store = checkouts.open("main");
    fill(&store);
    store.settle(SETTLE).unwrap();
    drop(store);
    // As a program that ends after it has published the copy.
    drop(copy_to_checkout(&home, true).unwrap());
    assert!(home.has_board());
    let store = checkouts.open("main");
    add_task(&store, "Next");
    store.settle(SETTLE).unwrap();
    let refused = in_checkout(&main).unwrap_err();
    let cause = cause(&refused);
    assert!(cause.contains("board = \"repository\""), "{cause}");
    drop(store);
    copy_to_checkout(&home, true).unwrap().finish().unwrap();
    assert!(has(&in_checkout(&main).unwrap(), "MA-4"));
}

#[test]
fn git_ignores_the_files_of_a_shared_board_and_sees_those_of_a_checkout() {
    let checkouts = Checkouts::new();
    let rules = || fs::read_to_string(checkouts.files().join(".gitignore")).unwrap();
    let store = checkouts.open("main");
    store.settle(SETTLE).unwrap();
    drop(store);
    assert_eq!(rules(), "*\n");
    let copy = copy_to_checkout(&checkouts.home(), true).unwrap();
    copy.finish().unwrap();
    let store = in_checkout(&checkouts.path("main")).unwrap();
    store.settle(SETTLE).unwrap();
    drop(store);
    assert!(rules().starts_with(".store/\n"), "{}", rules());
    clear_shared(&checkouts.path("main"), &checkouts.home()).unwrap();
    checkouts.open("main").settle(SETTLE).unwrap();
    assert_eq!(rules(), "*\n");
}

#[test]
fn rules_of_ignored_files_are_added_behind_those_of_another_author() {
    const OWN: &str = ".store/\n.run/\n.events/\n*.orchestra-tmp\n";
    let checkouts = Checkouts::new();
    let (main, file) = (checkouts.path("main"), checkouts.files().join(".gitignore"));
    let after = |store: Store| {
        store.settle(SETTLE).unwrap();
        drop(store);
        fs::read_to_string(&file).unwrap()
    };
    after(checkouts.open("main"));
    for (before, expected) in [
        ("mine", "mine\n*\n"),
        ("!*\n", "!*\n*\n"),
        ("*\n!x\n", "*\n!x\n*\n"),
        ("!x\n*\r\ny\n", "!x\n*\r\ny\n"),
    ] {
        fs::write(&file, before).unwrap();
        assert_eq!(after(checkouts.open("main")), expected);
    }
    // Git has no rules of a link.
    let target = checkouts.path("main").join("target");
    fs::write(&target, "*\n").unwrap();
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&target, &file).unwrap();
    assert_eq!(after(checkouts.open("main")), "*\n");
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
    let copy = copy_to_checkout(&checkouts.home(), true).unwrap();
    copy.finish().unwrap();
    for (before, expected) in [
        (".store/\n", format!(".store/\n{}", &OWN[8..])),
        ("!.events/\n", format!("!.events/\n{OWN}")),
        ("", OWN.to_owned()),
    ] {
        fs::write(&file, before).unwrap();
        assert_eq!(after(in_checkout(&main).unwrap()), expected);
    }
}

#[test]
fn rules_of_the_other_mode_are_removed_from_those_of_another_author() {
    const OWN: &str = ".store/\n.run/\n.events/\n*.orchestra-tmp\n";
    let checkouts = Checkouts::new();
    let (main, file) = (checkouts.path("main"), checkouts.files().join(".gitignore"));
    let after = |store: Store| {
        store.settle(SETTLE).unwrap();
        drop(store);
        fs::read_to_string(&file).unwrap()
    };
    after(checkouts.open("main"));
    fs::write(&file, "mine\n*\n").unwrap();
    let copy = copy_to_checkout(&checkouts.home(), true).unwrap();
    copy.finish().unwrap();
    assert_eq!(after(in_checkout(&main).unwrap()), format!("mine\n{OWN}"));
    clear_shared(&main, &checkouts.home()).unwrap();
    assert_eq!(after(checkouts.open("main")), "mine\n*\n");
}

#[test]
fn rules_of_another_author_that_cannot_be_read_are_not_replaced() {
    let checkouts = Checkouts::new();
    checkouts.open("main").settle(SETTLE).unwrap();
    let file = checkouts.files().join(".gitignore");
    fs::write(&file, "mine\n").unwrap();
    let files = gated(|step, path| match step {
        Step::Read if path.ends_with(".gitignore") => Err(io::Error::other("broken")),
        _ => Ok(()),
    });
    let options = Options {
        files,
        ..checkouts.options()
    };
    let store = Store::open(&checkouts.path("main"), options).unwrap();
    fill(&store);
    assert!(store.settle(SETTLE).is_err());
    drop(store);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
}

#[test]
fn directory_in_the_place_of_the_rules_does_not_stop_the_readable_files() {
    let checkouts = Checkouts::new();
    let tasks = checkouts
        .files()
        .join("my-app/epics/MA-1/stories/MA-2/tasks");
    let store = checkouts.open("main");
    fill(&store);
    store.settle(SETTLE).unwrap();
    drop(store);
    let rules = checkouts.files().join(".gitignore");
    fs::remove_file(&rules).unwrap();
    fs::create_dir(&rules).unwrap();
    let store = checkouts.open("main");
    add_task(&store, "Second");
    store.settle(SETTLE).unwrap();
    drop(store);
    assert!(tasks.join("MA-4.toon").is_file());
    let copy = copy_to_checkout(&checkouts.home(), true).unwrap();
    copy.finish().unwrap();
    let store = in_checkout(&checkouts.path("main")).unwrap();
    add_task(&store, "Third");
    store.settle(SETTLE).unwrap();
    assert!(tasks.join("MA-5.toon").is_file());
    assert!(rules.is_dir());
}

#[test]
fn program_that_cannot_write_the_mirror_leaves_it_to_one_that_can() {
    let checkouts = Checkouts::new();
    let files = gated(|step, _| match step {
        Step::Write => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
        _ => Ok(()),
    });
    let options = Options {
        files,
        ..checkouts.options()
    };
    // The first program keeps the files, unless it resigns.
    let sandboxed = Store::open(&checkouts.path("linked"), options).unwrap();
    fill(&sandboxed);
    let other = checkouts.open("main");
    other.settle(SETTLE).unwrap();
    let tasks = checkouts
        .files()
        .join("my-app/epics/MA-1/stories/MA-2/tasks");
    assert!(tasks.join("MA-3.toon").is_file());
    add_task(&sandboxed, "Next");
    other.settle(SETTLE).unwrap();
    assert!(tasks.join("MA-4.toon").is_file());
}

#[test]
fn board_of_another_directory_that_was_at_the_path_is_set_aside() {
    let checkouts = Checkouts::new();
    let store = checkouts.open("main");
    fill(&store);
    drop(store);
    fs::rename(checkouts.path("main"), checkouts.path("away")).unwrap();
    fs::create_dir(checkouts.path("main")).unwrap();
    let store = checkouts.open("main");
    assert!(!has(&store, "MA-1"));
    run(&store, create_project("My App"));
    run(&store, create(Kind::Epic, None, "Epic"));
    assert!(has(&store, "MA-1"));
    let aside = checkouts.home().directory().join("former-1.db");
    assert!(aside.is_file());
}

#[test]
fn board_of_a_directory_that_moves_comes_along() {
    let checkouts = Checkouts::new();
    let store = checkouts.open("main");
    fill(&store);
    make_claim(&store);
    drop(store);
    let (moved, state) = (checkouts.path("moved"), checkouts.path("state"));
    fs::rename(checkouts.path("main"), &moved).unwrap();
    let place = Place::find(&moved, Some(&state), Choice::State).unwrap();
    let options = Options {
        home: Home::Shared(SharedHome::new(place, state)),
        ..checkouts.options()
    };
    let store = Store::open(&moved, options).unwrap();
    assert!(claim(&store).is_some());
    add_task(&store, "Next");
    assert!(has(&store, "MA-4") && !has(&store, "MA-5"));
    // Another directory at the earlier path has a board of its own.
    fs::create_dir(checkouts.path("main")).unwrap();
    let other = checkouts.open("main");
    assert!(!has(&other, "MA-1"));
    assert!(has(&store, "MA-1"));
}

#[test]
fn board_of_a_directory_moves_into_the_repository_that_it_becomes() {
    let checkouts = Checkouts::new();
    let (main, state) = (checkouts.path("main"), checkouts.path("state"));
    let home = || {
        let place = Place::find(&main, Some(&state), Choice::Repository).unwrap();
        SharedHome::new(place, state.clone())
    };
    let open = || {
        let options = Options {
            home: Home::Shared(home()),
            ..checkouts.options()
        };
        Store::open(&main, options).unwrap()
    };
    let store = open();
    fill(&store);
    make_claim(&store);
    drop(store);
    let git = process::Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(&main)
        .status();
    assert!(git.unwrap().success());
    let store = open();
    assert!(home().directory().starts_with(main.join(".git")));
    assert!(claim(&store).is_some());
    add_task(&store, "Next");
    assert!(has(&store, "MA-4") && !has(&store, "MA-5"));
}
