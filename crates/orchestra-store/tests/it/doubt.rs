//! A disk that fails to keep the database's log once: who changed something is told so, and what
//! is acknowledged after it survives a power cut.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra_board::Kind;
use orchestra_store::{
    Action, ActionError, Entry, Fault, FileIo, Options, RealFs, Receipt, Stat, Store,
};
use rusqlite::Connection;

use crate::fixture::{clock, open, options};
use crate::words::{create, create_project, id, slug};

/// The unit in which the system keeps or loses what was written.
const PAGE: usize = 4096;

/// The operating system's files, on a disk that may lose what it is given of the log. After a
/// failure the system takes for kept what it could not keep, as Linux does.
#[derive(Debug, Default)]
struct BadDisk(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    /// What the system takes for kept.
    believed: Vec<u8>,
    /// What is.
    kept: Vec<u8>,
    fails: bool,
}

impl Log {
    fn sync(&mut self, now: Vec<u8>) -> io::Result<()> {
        self.kept.resize(now.len(), 0);
        let failed = std::mem::take(&mut self.fails);
        for at in (0..now.len()).step_by(PAGE) {
            let page = at..now.len().min(at + PAGE);
            let is_dirty = self.believed.get(page.clone()) != now.get(page.clone());
            if is_dirty && !failed {
                self.kept[page.clone()].copy_from_slice(&now[page]);
            }
        }
        self.believed = now;
        match failed {
            true => Err(io::Error::other("the disk has failed")),
            false => Ok(()),
        }
    }
}

impl FileIo for BadDisk {
    fn sync_open(&self, file: &File, path: &Path) -> io::Result<()> {
        assert!(path.ends_with(".projects/.store/board.db-wal"));
        assert!(file.metadata().is_ok_and(|found| found.is_file()));
        let now = fs::read(path)?;
        self.0.lock().expect("not poisoned").sync(now)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        RealFs.read(path, limit)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        RealFs.stat(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        RealFs.list(directory)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealFs.create_dir(path)
    }

    fn write_temp(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        RealFs.write_temp(path, content)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        RealFs.sync_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealFs.sync_dir(path)
    }

    fn sync_all(&self, path: &Path) -> io::Result<bool> {
        RealFs.sync_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealFs.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<bool> {
        RealFs.remove_dir(path)
    }
}

struct Bench {
    store: Store,
    disk: Arc<BadDisk>,
    directory: tempfile::TempDir,
}

impl Bench {
    /// Project `my-app` with epic MA-1, on a disk that fails with the next change.
    fn about_to_fail() -> Self {
        let (directory, disk) = (
            tempfile::tempdir().expect("a directory"),
            Arc::new(BadDisk::default()),
        );
        let files: Arc<dyn FileIo> = Arc::<BadDisk>::clone(&disk);
        let options = Options {
            files,
            ..options(&clock())
        };
        let store = Store::open(directory.path(), options).expect("opens");
        let made = store.submit_blocking(None, Action::Board(create_project("My App")));
        made.expect("made");
        let bench = Self {
            store,
            disk,
            directory,
        };
        bench.epic().expect("made");
        bench.disk.0.lock().expect("not poisoned").fails = true;
        bench
    }

    fn epic(&self) -> Result<Receipt, ActionError> {
        let command = create(Kind::Epic, None, "x");
        self.store.submit_blocking(None, Action::Board(command))
    }

    fn has(&self, issue: &str) -> bool {
        has(&self.store, issue)
    }

    /// Somebody who reads the newest state of the database and goes on doing so.
    fn reader(&self) -> Connection {
        let path = self.directory.path().join(".projects/.store/board.db");
        let reader = Connection::open(path).expect("a database");
        let count: i64 = reader
            .execute_batch("BEGIN")
            .and_then(|()| reader.query_row("SELECT count(*) FROM issue", [], |row| row.get(0)))
            .expect("readable");
        assert!(count > 0);
        reader
    }

    /// The board as a power cut leaves it.
    fn after_power_cut(&self) -> (Store, tempfile::TempDir) {
        let left = tempfile::tempdir().expect("a directory");
        let (from, to) = (
            self.directory.path().join(".projects/.store"),
            left.path().join(".projects/.store"),
        );
        fs::create_dir_all(&to).expect("made");
        fs::copy(from.join("board.db"), to.join("board.db")).expect("copied");
        let kept = &self.disk.0.lock().expect("not poisoned").kept;
        fs::write(to.join("board.db-wal"), kept).expect("written");
        (open(left.path()), left)
    }
}

fn has(store: &Store, issue: &str) -> bool {
    let found = store.read(|reader| reader.issue(&slug(), &id(issue)));
    found.expect("readable").is_some()
}

fn is_whole(workspace: &Path) {
    let verdict: String = Connection::open(workspace.join(".projects/.store/board.db"))
        .expect("a database")
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("a verdict");
    assert_eq!(verdict, "ok");
}

#[test]
fn a_change_that_the_disk_may_not_keep_is_told_and_the_next_is_kept() {
    let bench = Bench::about_to_fail();
    let error = bench.epic().expect_err("the disk fails");
    assert!(
        matches!(error, ActionError::Fault(Fault::NotDurable(_))),
        "{error:?}"
    );
    assert!(bench.has("MA-2"), "it can be seen");
    let (store, _left) = bench.after_power_cut();
    assert!(has(&store, "MA-1"), "it was acknowledged and is lost");
    assert!(!has(&store, "MA-2"), "the disk did not keep it");
    bench.epic().expect("the disk works again");
    let (store, left) = bench.after_power_cut();
    for issue in ["MA-1", "MA-2", "MA-3"] {
        assert!(has(&store, issue), "{issue} was acknowledged and is lost");
    }
    is_whole(left.path());
}

/// A log that somebody reads cannot be begun anew, and what is written behind a gap in it would go
/// with the gap.
#[test]
fn nothing_is_written_to_a_log_in_doubt_that_somebody_reads() {
    for early in [true, false] {
        let bench = Bench::about_to_fail();
        let before = early.then(|| bench.reader());
        bench.epic().expect_err("the disk fails");
        let reader = before.unwrap_or_else(|| bench.reader());
        match bench.epic() {
            Err(ActionError::Fault(Fault::LogInDoubt)) => {
                assert!(!bench.has("MA-3"), "nothing of it was kept");
                drop(reader);
                bench.epic().expect("nobody reads any more");
            }
            // The log was begun anew before that reader came.
            Ok(_) if !early => drop(reader),
            other => panic!("the log is in doubt: {other:?}"),
        }
        let (store, left) = bench.after_power_cut();
        for issue in ["MA-1", "MA-2", "MA-3"] {
            assert!(has(&store, issue), "{issue} was acknowledged and is lost");
        }
        is_whole(left.path());
    }
}
