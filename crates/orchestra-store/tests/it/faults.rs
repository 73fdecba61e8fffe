//! Trouble with the disk and the database: clear errors, nothing half done, reading goes on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use orchestra_board::Kind;
use orchestra_store::{Action, ActionError, Fault, OpenError, Store};
use rusqlite::Connection;

use crate::fixture::{Workspace, clock, open, options};
use crate::mount::Mount;
use crate::words::{body, create, create_project, id, slug};

fn database(workspace: &Path) -> std::path::PathBuf {
    workspace.join(".projects/.store/board.db")
}

fn fault(error: OpenError) -> Fault {
    match error {
        OpenError::Fault { source, .. } => source,
        other => panic!("{other}"),
    }
}

#[test]
fn a_database_of_a_newer_schema_is_refused_and_left_alone() {
    let workspace = Workspace::with_a_story();
    workspace.store.close(Duration::from_secs(1));
    let connection = Connection::open(database(workspace.path())).expect("a database");
    connection
        .pragma_update(None, "user_version", 99)
        .expect("written");
    drop(connection);
    let error = fault(Store::open(workspace.path(), options(&clock())).expect_err("newer"));
    assert!(matches!(error, Fault::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("update the program"));
    let connection = Connection::open(database(workspace.path())).expect("a database");
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .expect("read");
    assert_eq!(version, 99);
}

#[test]
fn what_is_no_database_is_refused_and_left_alone() {
    let workspace = Workspace::with_a_story();
    workspace.store.close(Duration::from_secs(1));
    let garbage = vec![b'x'; 8192];
    for name in ["board.db-wal", "board.db-shm"] {
        let _ = fs::remove_file(workspace.path().join(".projects/.store").join(name));
    }
    fs::write(database(workspace.path()), &garbage).expect("written");
    let error = fault(Store::open(workspace.path(), options(&clock())).expect_err("garbage"));
    assert!(matches!(error, Fault::Corrupt), "{error:?}");
    assert!(error.to_string().contains("orchestra doctor"));
    assert_eq!(fs::read(database(workspace.path())).expect("read"), garbage);
}

#[test]
fn another_programs_database_is_not_taken_for_a_board() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(directory.path().join(".projects/.store")).expect("made");
    let connection = Connection::open(database(directory.path())).expect("a database");
    connection
        .execute_batch("CREATE TABLE things (id INTEGER)")
        .expect("a table");
    drop(connection);
    let error = fault(Store::open(directory.path(), options(&clock())).expect_err("not ours"));
    assert!(matches!(error, Fault::Corrupt), "{error:?}");
}

#[test]
fn a_damaged_page_is_reported_and_the_rest_can_be_read() {
    let workspace = Workspace::with_a_story();
    for number in 0..200 {
        workspace.create(Kind::Task, Some("MA-2"), &format!("task {number}"));
    }
    workspace.store.close(Duration::from_secs(1));
    let connection = Connection::open(database(workspace.path())).expect("a database");
    connection
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .expect("moved");
    let root: i64 = connection
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'event'",
            [],
            |row| row.get(0),
        )
        .expect("a page");
    drop(connection);
    let mut bytes = fs::read(database(workspace.path())).expect("read");
    let page = usize::try_from(root - 1).expect("a page") * 4096;
    bytes[page..page + 4096].fill(0xA5);
    fs::write(database(workspace.path()), bytes).expect("written");
    let store = open(workspace.path());
    let record = store
        .read(|reader| reader.issue(&slug(), &id("MA-2")))
        .expect("readable")
        .expect("the story");
    assert_eq!(record.children, 200);
    let error = store
        .submit_blocking(None, Action::Board(create(Kind::Task, Some("MA-2"), "x")))
        .expect_err("damage");
    assert!(
        matches!(error, ActionError::Fault(Fault::Corrupt)),
        "{error:?}"
    );
    let record = store
        .read(|reader| reader.issue(&slug(), &id("MA-2")))
        .expect("readable")
        .expect("the story");
    assert_eq!(
        record.children, 200,
        "nothing of the failed change is there"
    );
}

#[test]
fn a_database_that_another_program_locks_is_reported() {
    let workspace = Workspace::with_a_story();
    let other = Connection::open(database(workspace.path())).expect("a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    assert!(workspace.issue("MA-1").is_some(), "reading goes on");
    let error = workspace
        .try_act(Action::Board(create(Kind::Epic, None, "x")))
        .expect_err("locked");
    assert!(
        matches!(error, ActionError::Fault(Fault::Locked)),
        "{error:?}"
    );
    other.execute_batch("ROLLBACK").expect("unlocked");
    workspace.create(Kind::Epic, None, "x");
}

#[test]
fn the_workspace_must_be_a_directory_and_no_link_is_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing");
    let error = Store::open(&missing, options(&clock())).expect_err("missing");
    assert!(matches!(error, OpenError::NotADirectory(_)), "{error}");
    #[cfg(unix)]
    {
        let elsewhere = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink(elsewhere.path(), directory.path().join(".projects"))
            .expect("a link");
        let error = Store::open(directory.path(), options(&clock())).expect_err("a link");
        assert!(matches!(error, OpenError::SymbolicLink(_)), "{error}");
        assert_eq!(fs::read_dir(elsewhere.path()).expect("readable").count(), 0);
    }
}

#[test]
fn a_deleted_store_directory_is_made_anew_under_a_running_store() {
    let workspace = Workspace::with_a_story();
    fs::remove_dir_all(workspace.path().join(".projects/.store")).expect("removed");
    // Without readable files nothing is left to rebuild from, but the board works on.
    workspace.make_project("My App");
    let made = workspace.create(Kind::Epic, None, "x");
    assert_eq!(made.issue.id.to_string(), "MA-1");
    let second = open(workspace.path());
    assert!(
        second
            .read(|reader| reader.issue(&slug(), &id("MA-1")))
            .expect("readable")
            .is_some()
    );
}

#[test]
fn a_full_disk_is_reported_and_nothing_acknowledged_is_lost() {
    let Some(mount) = Mount::tmpfs(4) else { return };
    let store = open(mount.0.path());
    let act = |command| store.submit_blocking(None, Action::Board(command));
    act(create_project("My App")).expect("made");
    act(create(Kind::Epic, None, "Epic")).expect("made");
    act(create(Kind::Story, Some("MA-1"), "Story")).expect("made");
    let mut made = 0;
    let error = loop {
        let mut command = create(Kind::Task, Some("MA-2"), "x");
        if let orchestra_board::Command::CreateIssue { issue, .. } = &mut command {
            issue.description = body(&"long words ".repeat(2_000));
        }
        match act(command) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 10_000, "4 MiB are never full");
    };
    assert!(
        matches!(error, ActionError::Fault(Fault::DiskFull)),
        "{error:?}"
    );
    assert!(error.to_string().contains("free some space"));
    let children = || {
        store
            .read(|reader| reader.issue(&slug(), &id("MA-2")))
            .expect("readable")
            .expect("there")
            .children
    };
    assert_eq!(children(), made);
    mount.remount("size=64m");
    act(create(Kind::Task, Some("MA-2"), "x")).expect("room again");
    assert_eq!(children(), made + 1);
    store.close(Duration::from_secs(1));
    let verdict: String = Connection::open(database(mount.0.path()))
        .expect("a database")
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("a verdict");
    assert_eq!(verdict, "ok");
}

#[test]
fn a_file_system_that_cannot_be_written_can_be_read() {
    let Some(mount) = Mount::tmpfs(16) else {
        return;
    };
    let store = open(mount.0.path());
    store
        .submit_blocking(None, Action::Board(create_project("My App")))
        .expect("made");
    store.close(Duration::from_secs(1));
    drop(store);
    mount.remount("ro");
    let store = open(mount.0.path());
    assert!(
        store
            .read(|reader| reader.project(&slug()))
            .expect("readable")
            .is_some()
    );
    let error = store
        .submit_blocking(None, Action::Board(create(Kind::Epic, None, "x")))
        .expect_err("read-only");
    assert!(
        matches!(error, ActionError::Fault(Fault::ReadOnly)),
        "{error:?}"
    );
    drop(store);
    mount.remount("rw");
}

#[test]
fn a_closed_store_says_so_and_can_still_be_read() {
    let workspace = Workspace::with_a_story();
    workspace.store.close(Duration::from_secs(1));
    let error = workspace
        .try_act(Action::Board(create(Kind::Epic, None, "x")))
        .expect_err("closed");
    assert!(
        matches!(error, ActionError::Fault(Fault::Closed)),
        "{error:?}"
    );
    assert!(workspace.issue("MA-2").is_some());
}

#[test]
fn what_was_submitted_before_the_end_is_written() {
    let workspace = Workspace::with_a_story();
    // Nobody waits for the answers.
    for _ in 0..500 {
        drop(
            workspace
                .store
                .submit(None, Action::Board(create(Kind::Task, Some("MA-2"), "x"))),
        );
    }
    workspace.store.close(Duration::from_secs(5));
    assert_eq!(workspace.issue("MA-2").expect("the story").children, 500);
}
