//! Locks of databases that the writer has open or has put back.

use std::fs;

use orchestra_place::{Choice, Place};

use super::*;
use crate::db::{FileId, Paths};
use crate::{Options, SharedHome};

#[test]
fn lock_of_a_removed_database_is_dropped_when_another_file_gets_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let [main, state] = ["main", "state"].map(|name| root.join(name));
    fs::create_dir(&main).unwrap();
    fs::create_dir(&state).unwrap();
    let place = Place::find(&main, Some(&state), Choice::State).unwrap();
    let home = SharedHome::new(place, state);
    let options = Options {
        home: Home::Shared(home.clone()),
        ..Options::default()
    };
    let paths = Paths::of(&main, &options.home);
    paths.make_directories().unwrap();
    fs::write(&paths.database, "").unwrap();
    let file = FileId::of(&paths.database).unwrap();
    let lock = db::lock_file(&paths.writer_lock).unwrap();
    let mut writer = Writer::new(Arc::new(Shared::new(paths, options, None)), lock, None);
    let removed = home.hold(file).unwrap();
    removed.file().unlock().unwrap();
    writer.removed.push(removed);
    writer.hold();
    assert!(writer.held.is_some());
    assert!(writer.removed.is_empty(), "it would be waited for");
}

#[test]
fn lock_that_another_file_replaced_is_released_without_that() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lock");
    let former = Lock::share(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let held = Lock::share(&path).unwrap();
    assert!(home::release(&former));
    assert!(held.is_current());
    assert!(home::release(&held));
    assert!(!path.exists());
}
