//! The real files, with a gate before each operation: a test sees what the store does, holds it up,
//! or has it fail.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use orchestra_store::{Entry, FileIo, RealFs, Stat};

use crate::board::PATIENCE;

/// What is about to be done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is looked at.
    Look,
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// Anything else.
    Other,
}

type Gate = dyn Fn(Step, &Path) -> io::Result<()> + Send + Sync;

struct Gated(Box<Gate>);

/// Files before whose every use `gate` is called; what it fails with, the operation fails with.
pub(crate) fn gated(
    gate: impl Fn(Step, &Path) -> io::Result<()> + Send + Sync + 'static,
) -> Arc<dyn FileIo> {
    Arc::new(Gated(Box::new(gate)))
}

impl std::fmt::Debug for Gated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gated").finish_non_exhaustive()
    }
}

impl FileIo for Gated {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        (self.0)(Step::Read, path)?;
        RealFs.read(path, limit)
    }
    fn read_whole(&self, path: &Path, limit: u64) -> io::Result<Option<(Vec<u8>, Stat)>> {
        (self.0)(Step::Read, path)?;
        RealFs.read_whole(path, limit)
    }
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        (self.0)(Step::Look, path)?;
        RealFs.stat(path)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        (self.0)(Step::Look, directory)?;
        RealFs.list(directory)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        (self.0)(Step::Other, path)?;
        RealFs.create_dir(path)
    }
    fn write_temp(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        (self.0)(Step::Write, path)?;
        RealFs.write_temp(path, content)
    }
    fn write_private_temp(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        (self.0)(Step::Write, path)?;
        RealFs.write_private_temp(path, content)
    }
    fn sync_file(&self, path: &Path) -> io::Result<()> {
        (self.0)(Step::Other, path)?;
        RealFs.sync_file(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        (self.0)(Step::Other, path)?;
        RealFs.sync_dir(path)
    }
    fn sync_all(&self, path: &Path) -> io::Result<bool> {
        (self.0)(Step::Other, path)?;
        RealFs.sync_all(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.0)(Step::Other, to)?;
        RealFs.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        (self.0)(Step::Other, path)?;
        RealFs.remove(path)
    }
    fn replace(&self, temp: &Path, path: &Path, expected: Option<Stat>) -> io::Result<bool> {
        (self.0)(Step::Other, path)?;
        RealFs.replace(temp, path, expected)
    }
    fn remove_known(&self, path: &Path, aside: &Path, expected: Stat) -> io::Result<bool> {
        (self.0)(Step::Other, path)?;
        RealFs.remove_known(path, aside, expected)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<bool> {
        (self.0)(Step::Other, path)?;
        RealFs.remove_dir(path)
    }
}

/// Counts how often the store looks whether git holds its lock.
#[derive(Debug, Default)]
pub(crate) struct LooksAtGit {
    count: Mutex<u64>,
    bell: Condvar,
}

impl LooksAtGit {
    /// The real files, on which looks are counted.
    pub(crate) fn files(self: &Arc<Self>) -> Arc<dyn FileIo> {
        let looks = Arc::clone(self);
        gated(move |step, path| {
            if step == Step::Look && path.ends_with(".git/index.lock") {
                *looks.count.lock().expect("whole") += 1;
                looks.bell.notify_all();
            }
            Ok(())
        })
    }

    /// Waits until the store has looked so often from now on that it has long been putting off
    /// what it would do without git: it looks again every 20 ms, and a file is gone after 60.
    pub(crate) fn wait(&self) {
        let count = self.count.lock().expect("whole");
        let enough = *count + 15;
        let waited = self
            .bell
            .wait_timeout_while(count, PATIENCE, |count| *count < enough)
            .expect("whole");
        assert!(!waited.1.timed_out(), "the store does not look at git");
    }
}
