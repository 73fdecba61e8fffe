//! Boards whose readable files are on a recorded disk, and what a kill or a power cut leaves of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_board::{Kind, Timestamp};
use orchestra_store::{Clock, Options, Store};

use crate::board::Board;
use crate::recording::{Image, RecordingFs};
use crate::words::{create, create_project};

#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(1_800_000_000)
    }
}

/// The database's files as they were at a moment.
pub(crate) type Database = Arc<BTreeMap<String, Vec<u8>>>;

pub(crate) fn options(fs: &Arc<RecordingFs>) -> Options {
    let files: Arc<RecordingFs> = Arc::clone(fs);
    Options {
        files,
        clock: Arc::new(Noon),
        watch: false,
        sweep: true,
        ..Options::default()
    }
}

pub(crate) fn database(store: &Path) -> Database {
    let mut all = BTreeMap::new();
    for name in ["board.db-wal", "board.db"] {
        all.insert(
            name.to_owned(),
            fs::read(store.join(name)).unwrap_or_default(),
        );
    }
    Arc::new(all)
}

/// A board on a recorded disk, with project `my-app` and these issues, from MA-1 on.
pub(crate) fn recorded(issues: &[(Kind, Option<&str>)]) -> (Board, Arc<RecordingFs>) {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().canonicalize().expect("a directory");
    let disk = Arc::new(RecordingFs::new(&root.join(".projects")));
    let store = Store::open(&root, options(&disk)).expect("opens");
    let board = Board { store, directory };
    board.run(create_project("My App"));
    for (kind, parent) in issues {
        board.run(create(*kind, *parent, "Begun"));
    }
    board.settle();
    (board, disk)
}

/// A board as a kill or a power cut left it.
pub(crate) fn reopened(
    image: &Image,
    database: &Database,
    options_of: impl FnOnce(Options) -> Options,
) -> (Board, Arc<RecordingFs>) {
    let (directory, root) = left_behind(database);
    let disk = Arc::new(RecordingFs::from_image(&root.join(".projects"), image));
    let store = Store::open(&root, options_of(options(&disk))).expect("opens");
    (Board { directory, store }, disk)
}

/// As [`reopened`], with a look at the disk and the place of the database before anything happens.
pub(crate) fn reopened_on(
    image: &Image,
    database: &Database,
    before: impl FnOnce(&RecordingFs, PathBuf),
) -> (Board, Arc<RecordingFs>) {
    let (directory, root) = left_behind(database);
    let disk = Arc::new(RecordingFs::from_image(&root.join(".projects"), image));
    before(&disk, root.join(".projects/.store"));
    let store = Store::open(&root, options(&disk)).expect("opens");
    (Board { directory, store }, disk)
}

fn left_behind(database: &Database) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().canonicalize().expect("a directory");
    let place = root.join(".projects/.store");
    fs::create_dir_all(&place).expect("makes");
    for (name, content) in &**database {
        fs::write(place.join(name), content).expect("writes");
    }
    (directory, root)
}
