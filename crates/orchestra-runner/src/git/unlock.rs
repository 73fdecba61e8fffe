//! References that are ours alone: a git that is killed while it writes one leaves it locked, and nobody but
//! us would ever remove that lock.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, flock};
use tokio::time::{Instant, sleep};

use super::{
    GitError,
    call::{Answer, Call},
    kept, snapshot,
};

/// For how long a git locks a reference at most, with much to spare: some milliseconds.
const LOCKED_FOR: Duration = Duration::from_secs(2);

/// How often it is looked whether a lock has gone.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// More than the references that one call of ours writes before it is killed.
const MOST: usize = 1_000;

/// Runs a call that writes references of ours, again where one was locked: a lock that somebody holds is
/// waited for, and one that was left behind is removed. The directory is that of the references.
pub(super) async fn unlocked(
    directory: &Path,
    call: impl Fn() -> Call,
) -> Result<Answer, GitError> {
    for _ in 0..MOST {
        match call().run().await {
            Err(GitError::Locked {
                operation,
                subject,
                stderr,
            }) => {
                let is_free = match ours(&stderr) {
                    Some(name) => free(&directory.join(format!("{name}.lock"))).await,
                    None => false,
                };
                if !is_free {
                    return Err(GitError::Locked {
                        operation,
                        subject,
                        stderr,
                    });
                }
            }
            other => return other,
        }
    }
    call().run().await
}

/// The reference that git says is locked, if it is ours.
fn ours(said: &str) -> Option<&str> {
    let (_, named) = said.split_once("cannot lock ref '")?;
    let (name, _) = named.split_once('\'')?;
    let is_ours = name.starts_with(kept::PREFIX) || snapshot::plan_of_snapshot(name).is_some();
    (is_ours && !name.contains("..")).then_some(name)
}

/// Waits until a lock is gone, or removes it when it has been there for too long to be anybody's.
async fn free(lock: &Path) -> bool {
    let Some(found) = made(lock) else {
        return true;
    };
    let since = Instant::now();
    let age = found.elapsed().unwrap_or_default();
    while age + since.elapsed() < LOCKED_FOR {
        sleep(LOOK_EVERY).await;
        if made(lock) != Some(found) {
            return true;
        }
    }
    remove(lock).is_ok() || made(lock).is_none()
}

/// Removes what was found: of those of us who come upon it one does, and none what another has made since.
fn remove(lock: &Path) -> io::Result<()> {
    let Some(file) = orchestra_fs::open(lock)? else {
        return Ok(());
    };
    flock(&file, FlockOperation::LockExclusive)?;
    let (found, there) = (file.metadata()?, fs::symlink_metadata(lock)?);
    match (found.dev(), found.ino()) == (there.dev(), there.ino()) {
        true => fs::remove_file(lock),
        false => Ok(()),
    }
}

/// When a lock was made, if it is there.
fn made(lock: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(lock).ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_ours_by_its_name_alone() {
        let said = |name: &str| {
            format!(
                "fatal: cannot lock ref '{name}': Unable to create '/x/{name}.lock': File exists."
            )
        };
        for name in [
            "refs/orchestra/a/base",
            "refs/heads/orchestrator/snapshot/a",
            "refs/heads/orchestrator-snapshot-a",
        ] {
            assert_eq!(ours(&said(name)), Some(name));
        }
        for name in ["refs/heads/main", "HEAD", "refs/orchestra/../heads/main"] {
            assert_eq!(ours(&said(name)), None);
        }
        assert_eq!(ours("fatal: Unable to create '/x/packed-refs.lock'"), None);
    }
}
