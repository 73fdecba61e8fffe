//! A board outside of the working tree, which several checkouts share.

mod damaged;
mod linked;
mod removed;
mod repository;
mod restored;

use std::error::Error as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_board::{Claim, Command, Issue, Kind};
use orchestra_place::{Choice, Place};
use orchestra_store::{
    Action, ActionError, Fault, Fix, Home, Options, SharedHome, Store, accept, give_up,
};
use rusqlite::Connection;

use crate::fixture::{clock, options};
use crate::words::{agent, create, create_project, id, slug, target};

pub(crate) const SETTLE: Duration = Duration::from_secs(30);

/// Two directories, of which the first is the main checkout, and a state directory.
pub(crate) struct Checkouts {
    directory: tempfile::TempDir,
}

impl Checkouts {
    pub(crate) fn new() -> Self {
        Self::below(tempfile::tempdir().expect("set up"))
    }

    fn below(directory: tempfile::TempDir) -> Self {
        for name in ["main", "linked", "state"] {
            fs::create_dir(directory.path().join(name)).expect("set up");
        }
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory
            .path()
            .canonicalize()
            .expect("set up")
            .join(name)
    }

    pub(crate) fn home(&self) -> SharedHome {
        let state = self.path("state");
        let place = Place::find(&self.path("main"), Some(&state), Choice::State).expect("set up");
        SharedHome::new(place, state)
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            home: Home::Shared(self.home()),
            flush: true,
            sweep: true,
            ..options(&clock())
        }
    }

    pub(crate) fn open(&self, name: &str) -> Store {
        Store::open(&self.path(name), self.options()).expect("set up")
    }

    /// Options of a program that writes no readable files: what it has is in the database alone.
    fn without_files(&self) -> Options {
        Options {
            flush: false,
            sweep: false,
            ..self.options()
        }
    }

    /// Removes the database and its log, and leaves the directory.
    fn remove_database(&self) {
        for name in ["board.db", "board.db-wal", "board.db-shm"] {
            drop(fs::remove_file(self.home().directory().join(name)));
        }
    }

    fn open_without_files(&self, name: &str) -> Store {
        Store::open(&self.path(name), self.without_files()).expect("set up")
    }

    /// Fills the board of the first checkout, and leaves its database whole without its log.
    fn filled(&self) {
        let store = self.open("main");
        fill(&store);
        store.close(SETTLE);
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.path("main/.projects")
    }
}

pub(crate) fn run(store: &Store, command: Command) {
    store
        .submit_blocking(None, Action::Board(command))
        .expect("set up");
}

/// Creates a task of story MA-2.
pub(crate) fn add_task(store: &Store, title: &str) {
    run(store, create(Kind::Task, Some("MA-2"), title));
}

/// Creates project `my-app` with epic MA-1, story MA-2 and task MA-3.
pub(crate) fn fill(store: &Store) {
    run(store, create_project("My App"));
    run(store, create(Kind::Epic, None, "Epic"));
    run(store, create(Kind::Story, Some("MA-1"), "Story"));
    add_task(store, "Task");
}

fn find(store: &Store, issue: &str) -> Option<Issue> {
    let found = store.read(|reader| reader.issue(&slug(), &id(issue)));
    found.expect("readable").map(|found| found.issue)
}

pub(crate) fn has(store: &Store, issue: &str) -> bool {
    find(store, issue).is_some()
}

fn title(store: &Store, issue: &str) -> String {
    find(store, issue).expect("it is there").title.to_string()
}

/// The claim of task MA-3.
pub(crate) fn claim(store: &Store) -> Option<Claim> {
    find(store, "MA-3").expect("it is there").claim
}

/// Claims task MA-3.
pub(crate) fn make_claim(store: &Store) {
    let (target, agent) = (target("MA-3"), agent("eve"));
    run(store, Command::Claim { target, agent });
    assert!(claim(store).is_some());
}

fn version(database: &Path) -> i64 {
    let database = Connection::open(database).expect("set up");
    let version = database.pragma_query_value(None, "user_version", |row| row.get(0));
    version.expect("readable")
}

fn set_version(database: &Path, version: i64) {
    let database = Connection::open(database).expect("set up");
    let set = database.pragma_update(None, "user_version", version);
    set.expect("set up");
}

/// Asserts that a checkout has no board of its own any more.
fn assert_is_moved(checkout: &Path) {
    let refused = Store::open(checkout, options(&clock())).expect_err("it was moved");
    let source = refused.source().expect("a reason").to_string();
    assert!(source.contains("board = \"repository\""), "{source}");
}

/// Removes a directory in which programs may create files meanwhile.
fn remove(directory: &Path) {
    let is_left = |error: std::io::Error| error.kind() != std::io::ErrorKind::NotFound;
    while fs::remove_dir_all(directory).is_err_and(is_left) {}
}

fn tree(directory: &Path) -> Vec<String> {
    let (mut found, mut left) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).expect("set up").map(Result::unwrap) {
            match entry.file_type().expect("set up").is_dir() {
                true => left.push(entry.path()),
                false => found.push(
                    entry
                        .path()
                        .strip_prefix(directory)
                        .expect("set up")
                        .display()
                        .to_string(),
                ),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn change_of_one_checkout_is_seen_in_the_other_and_ids_differ() {
    let checkouts = Checkouts::new();
    let (main, linked) = (checkouts.open("main"), checkouts.open("linked"));
    fill(&main);
    assert!(has(&linked, "MA-3"));
    add_task(&linked, "Of linked");
    add_task(&main, "Of main");
    assert!(has(&main, "MA-4") && has(&linked, "MA-5"));
    linked.settle(SETTLE).unwrap();
    assert!(
        checkouts
            .files()
            .join("my-app/epics/MA-1/epic.toon")
            .is_file()
    );
    assert!(!checkouts.path("linked/.projects").exists());
    let directory = checkouts.home().directory();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("board.db")), 0o600);
}

#[test]
fn readable_files_that_vanish_remove_nothing_and_are_written_again() {
    let checkouts = Checkouts::new();
    let store = checkouts.open("main");
    fill(&store);
    store.settle(SETTLE).unwrap();
    let before = tree(&checkouts.files());
    let task = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon";
    for removed in ["", "my-app/epics", task] {
        let path = checkouts.files().join(removed);
        match path.is_dir() {
            true => fs::remove_dir_all(&path).unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
        // A program that starts looks through all files.
        let other = checkouts.open("linked");
        other.settle(SETTLE).unwrap();
        assert!(has(&other, "MA-3"), "{removed}");
        let report = other.doctor(Fix::Nothing).unwrap();
        let is_told = |finding: &String| {
            finding.contains("missing") && (removed != task || finding.starts_with(task))
        };
        assert!(report.findings.iter().any(is_told), "{removed}: {report:?}");
        other.doctor(Fix::Mend).unwrap();
        assert_eq!(tree(&checkouts.files()), before, "{removed}");
        assert!(other.doctor(Fix::Nothing).unwrap().findings.is_empty());
    }
    fs::remove_dir_all(checkouts.files()).unwrap();
    add_task(&store, "Next");
    store.settle(SETTLE).unwrap();
    assert!(
        checkouts
            .files()
            .join(task)
            .with_file_name("MA-4.toon")
            .is_file()
    );
    assert!(has(&store, "MA-3"));
}

#[test]
fn description_that_vanishes_is_kept_while_other_edits_are_applied() {
    let checkouts = Checkouts::new();
    let store = checkouts.open("main");
    fill(&store);
    store.settle(SETTLE).unwrap();
    let path = checkouts.files().join("my-app/epics/MA-1/epic.toon");
    let text = fs::read_to_string(&path).unwrap();
    let before = find(&store, "MA-1").unwrap();
    drop(fs::remove_file(path.with_file_name("MA-1.md")));
    fs::write(&path, text.replace("Epic", "Renamed")).unwrap();
    let other = checkouts.open("linked");
    other.settle(SETTLE).unwrap();
    let after = find(&store, "MA-1").unwrap();
    assert_eq!(after.title.as_str(), "Renamed");
    assert_eq!(after.description, before.description);
}

#[test]
fn database_that_is_lost_gives_no_id_twice() {
    let checkouts = Checkouts::new();
    let store = checkouts.open("main");
    fill(&store);
    run(&store, create_project("Other"));
    drop(store);
    remove(&checkouts.home().directory());
    fs::remove_dir_all(checkouts.files()).unwrap();
    let store = checkouts.open("main");
    run(&store, create_project("My App"));
    run(&store, create(Kind::Epic, None, "Epic"));
    assert!(!has(&store, "MA-1") && !has(&store, "MA-3"));
}

#[test]
fn board_that_was_planted_is_read_and_not_changed_until_it_is_accepted() {
    let (origin, checkouts) = (Checkouts::new(), Checkouts::new());
    origin.filled();
    let (from, to) = (origin.home().directory(), checkouts.home().directory());
    fs::create_dir_all(&to).unwrap();
    for name in ["board.db", "board.db-wal"] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
    let planted = checkouts.open("main");
    assert!(has(&planted, "MA-3"));
    let refused = planted.submit_blocking(None, Action::Board(create(Kind::Epic, None, "No")));
    assert!(matches!(planted.read_only(), Some(Fault::Untrusted(path)) if *path == to));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("orchestra board trust")
    );
    drop(planted);
    let accepted = accept(&checkouts.path("main"), &checkouts.options()).unwrap();
    assert_eq!(accepted, Some(to));
    let store = checkouts.open("main");
    run(&store, create(Kind::Epic, None, "Yes"));
    assert!(has(&store, "MA-4"));
    assert_eq!(
        accept(&checkouts.path("main"), &checkouts.options()).unwrap(),
        None
    );
}

#[test]
fn board_that_was_in_the_checkout_is_moved_whole_and_once() {
    let checkouts = Checkouts::new();
    let main = checkouts.path("main");
    let store = Store::open(&main, options(&clock())).unwrap();
    fill(&store);
    drop(store);
    let store = checkouts.open("linked");
    assert!(has(&store, "MA-3"));
    add_task(&store, "Next");
    assert!(has(&store, "MA-4"));
    assert_is_moved(&main);
    store.settle(SETTLE).unwrap();
    drop(store);
    // Its files are newer than what it left behind.
    remove(&checkouts.home().directory());
    assert!(has(&checkouts.open("main"), "MA-4"));
}

#[test]
fn database_that_was_in_the_checkout_has_no_claim_without_end_and_does_not_use_up_ids() {
    let checkouts = Checkouts::new();
    let main = checkouts.path("main");
    let store = Store::open(&main, options(&clock())).unwrap();
    fill(&store);
    drop(store);
    let raw = Connection::open(main.join(".projects/.store/board.db")).unwrap();
    raw.execute_batch(
        "UPDATE issue SET claim_agent = 'eve', claim_until = 99999999999 WHERE number = 3;
         UPDATE project SET next_issue = 999999999999999;",
    )
    .unwrap();
    drop(raw);
    let store = checkouts.open("main");
    let claim = claim(&store).unwrap();
    assert!(claim.until.unix_seconds() < 99_999_999_999, "{claim:?}");
    add_task(&store, "Next");
    assert!(has(&store, "MA-4"));
}

#[test]
fn board_that_another_one_replaced_is_kept_beside_it() {
    let checkouts = Checkouts::new();
    let former = checkouts.open_without_files("main");
    fill(&former);
    let other = Checkouts::new();
    drop(other.open("main"));
    let directory = checkouts.home().directory();
    let beside = directory.join("beside.db");
    fs::copy(other.home().directory().join("board.db"), &beside).unwrap();
    // As of a program that has built a database meanwhile.
    for name in ["board.db-wal", "board.db-shm"] {
        drop(fs::remove_file(directory.join(name)));
    }
    fs::rename(&beside, directory.join("board.db")).unwrap();
    let epic = Action::Board(create(Kind::Epic, None, "Next"));
    // A look of its own may have found the replacement before.
    let refused = former.submit_blocking(None, epic).unwrap_err();
    let copies: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("replaced-"))
        .collect();
    let [copy] = &copies[..] else {
        panic!("{refused}: {copies:?}");
    };
    let copy = Connection::open(copy).unwrap();
    let issues: i64 = copy
        .query_row("SELECT count(*) FROM issue", [], |row| row.get(0))
        .unwrap();
    assert_eq!(issues, 3);
}

#[test]
fn former_database_that_a_killed_program_left_unmarked_is_refused() {
    let checkouts = Checkouts::new();
    let main = checkouts.path("main");
    let store = Store::open(&main, options(&clock())).unwrap();
    fill(&store);
    drop(store);
    let database = checkouts.files().join(".store/board.db");
    let before = version(&database);
    drop(checkouts.open("main"));
    assert_ne!(version(&database), before);
    // A kill between the copy and the mark leaves this.
    set_version(&database, before);
    assert!(has(&checkouts.open("linked"), "MA-3"));
    assert_is_moved(&main);
}

#[test]
fn database_that_was_given_up_is_not_put_back_by_a_program_that_has_it_open() {
    let checkouts = Checkouts::new();
    let options = checkouts.without_files();
    let store = Store::open(&checkouts.path("main"), options.clone()).unwrap();
    fill(&store);
    let directory = checkouts.home().directory();
    let given_up = give_up(&checkouts.path("linked"), &options).unwrap();
    fs::rename(&directory, checkouts.path("state").join("aside")).unwrap();
    drop(given_up);
    // Its project is not there, so that the name is free.
    run(&store, create_project("My App"));
    assert!(!has(&store, "MA-1"));
}

#[test]
fn creation_is_refused_while_another_program_keeps_the_list_of_databases_locked() {
    let checkouts = Checkouts::new();
    let store = checkouts.open_without_files("main");
    fill(&store);
    let lock = orchestra_fs::Lock::wait(&checkouts.path("state/plans.lock")).unwrap();
    let project = || Action::Board(create_project("Other"));
    let refused = store.submit_blocking(None, project()).unwrap_err();
    // Ids that are listed as given need no list.
    add_task(&store, "Next");
    assert!(matches!(refused, ActionError::Fault(Fault::Unlisted(_))));
    drop(lock);
    store.submit_blocking(None, project()).unwrap();
}

#[test]
fn planted_trigger_is_removed_before_the_board_is_accepted() {
    let (origin, checkouts) = (Checkouts::new(), Checkouts::new());
    origin.filled();
    let (from, to) = (origin.home().directory(), checkouts.home().directory());
    let database = Connection::open(from.join("board.db")).unwrap();
    database
        .execute_batch(
            "CREATE TRIGGER planted AFTER UPDATE ON issue BEGIN UPDATE issue SET title = 'No'; END;
             CREATE TRIGGER also AFTER INSERT ON event BEGIN DELETE FROM issue; END;
             PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .unwrap();
    drop(database);
    fs::create_dir_all(&to).unwrap();
    fs::copy(from.join("board.db"), to.join("board.db")).unwrap();
    accept(&checkouts.path("main"), &checkouts.options()).unwrap();
    let store = checkouts.open("main");
    run(&store, create(Kind::Epic, None, "Yes"));
    for issue in ["MA-1", "MA-2", "MA-3", "MA-4"] {
        assert_ne!(title(&store, issue), "No");
    }
}

#[test]
fn board_that_is_built_from_files_for_the_first_time_has_no_claims() {
    let (origin, checkouts) = (Checkouts::new(), Checkouts::new());
    let store = origin.open("main");
    fill(&store);
    make_claim(&store);
    store.settle(SETTLE).unwrap();
    store.close(SETTLE);
    drop(store);
    // The same board, built once more, has its claims.
    remove(&origin.home().directory());
    assert!(claim(&origin.open("main")).is_some());
    for file in tree(&origin.files()) {
        let to = checkouts.files().join(&file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(origin.files().join(&file), to).unwrap();
    }
    assert_eq!(claim(&checkouts.open("main")), None);
}
