//! The locks of a repository: one of us at a time, among the tasks of a process and among processes.
//!
//! Git lists the worktrees of a repository before it adds one, and fails on an entry that another git has
//! begun but not yet written. Whoever adds, lists or removes worktrees does so under this lock, and only
//! that: files are checked out and deleted outside of it. Whoever brings a plan's work onto its branch does
//! so under another one: what a working tree looks like half way is nobody's changes.

use std::{
    fs::File,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestra_fs::{Access, Reason};
use rustix::fs::{FlockOperation, flock};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::{sleep, timeout},
};

use super::GitError;

/// The lock files in the repository's common directory.
pub(super) const WORKTREES: &str = "orchestra.lock";
pub(super) const LANDING: &str = "orchestra-landing.lock";
pub(super) const BOARD: &str = "orchestra-board.lock";

/// How often the lock of another is tried again: at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(8);

/// The lock of a repository, held until it is dropped.
#[derive(Debug)]
pub struct RepositoryLock {
    /// Closing it gives the lock up; it goes before the turn among our own tasks does.
    file: File,
    _turn: OwnedMutexGuard<()>,
}

impl RepositoryLock {
    /// The lock for a process that is to keep it as long as it runs.
    pub(super) fn share(&self) -> Option<Stdio> {
        self.file.try_clone().ok().map(Stdio::from)
    }
}

/// Waits for a lock of the repository with that common directory: for its turn among our own tasks first,
/// which needs no looking again and again.
pub(super) async fn lock(
    common: &Path,
    name: &str,
    turns: &Arc<Mutex<()>>,
    patience: Duration,
) -> Result<RepositoryLock, GitError> {
    let path = common.join(name);
    let failed = |source| GitError::File {
        operation: "lock the repository",
        path: path.clone(),
        source,
    };
    let started = Instant::now();
    let turn = timeout(patience, turns.clone().lock_owned()).await;
    let turn = turn.map_err(|_| GitError::Busy {
        path: path.clone(),
        after: patience,
    })?;
    // Whoever may write there could put a link, which would lead anywhere.
    let file = orchestra_fs::open_or_create(&path, Access::Private);
    let file = file.map_err(|error| match error.reason() {
        Reason::System(_) => failed(error.into_cause()),
        reason => GitError::NotOurs {
            path: path.clone(),
            why: reason.to_string(),
        },
    })?;
    let mut wait = FIRST_WAIT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                return Ok(RepositoryLock { file, _turn: turn });
            }
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
        if started.elapsed() >= patience {
            return Err(GitError::Busy {
                path,
                after: patience,
            });
        }
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}
