//! Which worktrees there are, and those that nobody needs any more.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_plan::ids::{Branch, Commit, PlanId};

use super::{
    GitError, Held, Marker, Owner, Removal, Repository, WORKTREES, Worktree, call::Answer, names,
};

/// How often listing is tried again when another git is adding a worktree at the same moment.
const TRIES: u64 = 8;

/// A worktree that git knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeEntry {
    /// Its directory.
    pub path: PathBuf,
    /// The commit that it is at.
    pub head: Option<Commit>,
    /// The branch that is checked out in it.
    pub branch: Option<Branch>,
    /// Our mark, when it is ours.
    pub marker: Option<Marker>,
    /// Whether it is no working tree but a bare repository.
    pub bare: bool,
}

/// What became of the worktrees that no plan needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Those that are gone.
    pub removed: Vec<Owner>,
    /// Those that hold something.
    pub kept: Vec<(Owner, Held)>,
}

impl Repository {
    /// All worktrees that git knows, the user's included.
    pub async fn worktrees(&self) -> Result<Vec<WorktreeEntry>, GitError> {
        // single-flight: git must not be asked while it writes one of them.
        let _lock = self.lock().await?;
        self.entries_unlocked().await
    }

    /// All worktrees; the lock is held.
    pub(super) async fn entries_unlocked(&self) -> Result<Vec<WorktreeEntry>, GitError> {
        const OPERATION: &str = "list the worktrees";
        let mut tries = 0;
        let answer = loop {
            tries += 1;
            let listed = self
                .call(OPERATION, ["worktree", "list", "--porcelain", "-z"])
                .run()
                .await;
            match listed {
                Err(GitError::Failed { stderr, .. })
                    if stderr.contains("commondir") && tries < TRIES =>
                {
                    tokio::time::sleep(Duration::from_millis(tries)).await;
                }
                other => break other?,
            }
        };
        let mut entries = parse(&answer);
        for entry in &mut entries {
            entry.marker = self.marker_of(entry)?;
        }
        Ok(entries)
    }

    /// Our mark on a worktree, whose directory may be gone.
    fn marker_of(&self, entry: &WorktreeEntry) -> Result<Option<Marker>, GitError> {
        if !entry.path.starts_with(self.toplevel().join(WORKTREES)) {
            return Ok(None);
        }
        match Worktree::at(self, &entry.path) {
            Ok(Some((_, marker))) => return Ok(Some(marker)),
            Ok(None) => {}
            Err(_) => return Ok(None),
        }
        match self.lost_admin(&entry.path)? {
            Some(admin) => Marker::read(&admin),
            None => Ok(None),
        }
    }

    /// Removes our worktrees whose owners are not among the needed, unless they hold something. One that
    /// cannot be removed does not keep others from it; the first error is handed on after all were tried.
    pub async fn sweep(&self, needed: impl Fn(&Owner) -> bool) -> Result<Swept, GitError> {
        let mut swept = Swept::default();
        let mut failed = None;
        for entry in self.worktrees().await? {
            let Some(marker) = entry.marker.filter(|marker| !needed(&marker.owner)) else {
                continue;
            };
            match self.sweep_one(&entry.path).await {
                Ok(Removal::Removed) => swept.removed.push(marker.owner),
                Ok(Removal::Kept(held)) => swept.kept.push((marker.owner, held)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if swept == Swept::default() => Err(error),
            _ => Ok(swept),
        }
    }

    async fn sweep_one(&self, path: &Path) -> Result<Removal, GitError> {
        match Worktree::at(self, path)? {
            Some((worktree, _)) => worktree.remove(&[]).await,
            None => {
                // single-flight: git must not make one while it forgets another.
                let lock = self.lock().await?;
                self.forget(&lock, path).await?;
                Ok(Removal::Removed)
            }
        }
    }

    /// Removes all worktrees of a plan and its snapshot branch, as when it is cancelled or archived. The
    /// branch that the plan ends on is left as it is. Of its owners it is known what git may have begun for
    /// them and not ended.
    pub async fn remove_plan(
        &self,
        plan: PlanId,
        owners: &[Owner],
        known: &[Commit],
    ) -> Result<Swept, GitError> {
        let mut swept = Swept::default();
        for entry in self.worktrees().await? {
            let Some(marker) = entry.marker.filter(|marker| marker.owner.plan() == plan) else {
                continue;
            };
            let removal = match Worktree::at(self, &entry.path)? {
                Some((worktree, _)) => worktree.remove(known).await?,
                None => self.sweep_one(&entry.path).await?,
            };
            match removal {
                Removal::Removed => swept.removed.push(marker.owner),
                Removal::Kept(held) => swept.kept.push((marker.owner, held)),
            }
        }
        let owners = owners.iter().map(Owner::directory).collect();
        self.remove_stubs(&owners).await?;
        self.remove_snapshot(plan).await?;
        Ok(swept)
    }
}

/// Reads the list of worktrees.
fn parse(answer: &Answer) -> Vec<WorktreeEntry> {
    let mut entries: Vec<WorktreeEntry> = Vec::new();
    for field in answer.fields() {
        if let Some(path) = field.strip_prefix(b"worktree ") {
            entries.push(WorktreeEntry {
                path: PathBuf::from(OsStr::from_bytes(path)),
                head: None,
                branch: None,
                marker: None,
                bare: false,
            });
        }
        let Some(entry) = entries.last_mut() else {
            continue;
        };
        let Ok(text) = std::str::from_utf8(field) else {
            continue;
        };
        if let Some(head) = text.strip_prefix("HEAD ") {
            entry.head = names::commit(head).ok();
        } else if let Some(reference) = text.strip_prefix("branch ") {
            entry.branch = names::branch_of(reference);
        } else if text == "bare" {
            entry.bare = true;
        }
    }
    entries
}
