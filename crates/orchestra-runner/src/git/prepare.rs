//! Making the worktree of a job, or finding the one that is there.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    io::{self, ErrorKind::NotFound},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_plan::ids::Commit;

use super::{
    GitError, HalfDone, Marker, Owner, Repository, RepositoryLock, WORKTREES, Worktree, call::Call,
    files, removal::delete_all,
};

/// More than the file has that leads from a worktree to its git directory.
const SMALL: u64 = 64 << 10;

/// How often adding a worktree is tried again when another git is adding one at the same moment.
const TRIES: u32 = 8;

/// How often a worktree is made whose git directory has vanished, or that somebody else makes just now.
const MADE: u32 = 5;

/// For how long such a one is left alone first, times the number of tries.
const BREATH: Duration = Duration::from_millis(50);

/// A worktree that is there, and how it came to be.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The worktree.
    pub worktree: Worktree,
    /// Where its `HEAD` is: the commit that was asked for when it was made just now, and perhaps commits of
    /// an earlier attempt when it was there already.
    pub head: Commit,
    /// Whether it was there already.
    pub reused: bool,
    /// What was broken off there, and is undone.
    pub undone: Option<HalfDone>,
}

impl Repository {
    /// Where the worktree of an owner is, or would be.
    pub fn worktree_path(&self, owner: Owner) -> PathBuf {
        self.toplevel().join(WORKTREES).join(owner.directory())
    }

    /// Sees to it that the owner has a worktree: the one that is there, put in order, or a new one at the
    /// commit, with `HEAD` detached.
    ///
    /// What an earlier attempt has left uncommitted stays; a merge or the like that it broke off is undone.
    /// No process may be at work in it. Dropping the future leaves at worst a worktree that the next call
    /// puts in order.
    ///
    /// # Errors
    /// [`GitError::NotOurs`] when something else stands at its path.
    pub async fn prepare(&self, owner: Owner, commit: &Commit) -> Result<Prepared, GitError> {
        let mut made = 0;
        loop {
            made += 1;
            match self.prepare_once(owner, commit).await {
                // A git of a runner that was killed may have taken it for its own.
                Err(GitError::Failed { stderr, .. })
                    if made < MADE
                        && (stderr.contains("not a git repository")
                            || stderr.contains("already exists")) => {}
                Err(GitError::Locked { .. }) if made < MADE => {}
                prepared => return prepared,
            }
            tokio::time::sleep(BREATH * made).await;
        }
    }

    async fn prepare_once(&self, owner: Owner, commit: &Commit) -> Result<Prepared, GitError> {
        let path = self.worktree_path(owner);
        self.own_directory()?;
        match self.usable_worktree(owner).await? {
            Some(worktree) => worktree.reuse(commit).await,
            None => self.add(owner, &path, commit).await,
        }
    }

    /// The worktree of an owner, when there is one.
    ///
    /// # Errors
    /// [`GitError::NotOurs`] when something else stands at its path.
    pub fn worktree(&self, owner: Owner) -> Result<Option<Worktree>, GitError> {
        let path = self.worktree_path(owner);
        let found = Worktree::at(self, &path)?;
        let Some((worktree, marker)) = found else {
            return Ok(None);
        };
        if marker.owner == owner {
            return Ok(Some(worktree));
        }
        let why = format!("it belongs to the plan {}", marker.owner.plan());
        Err(GitError::NotOurs { path, why })
    }

    /// The worktree of an owner, when there is one that can be worked in: one of which nothing was on the disk
    /// when the power was cut, or whose git directory is gone, cannot, and is made anew by whoever prepares it.
    ///
    /// # Errors
    /// [`GitError::NotOurs`] when something else stands at its path.
    pub async fn usable_worktree(&self, owner: Owner) -> Result<Option<Worktree>, GitError> {
        match self.worktree(owner) {
            Err(GitError::NotOurs { .. }) => {}
            found => return found,
        }
        // single-flight: a git that outlives its runner may be about to fill it, or to clear it away.
        let _lock = self.lock().await?;
        match self.worktree(owner) {
            Err(GitError::NotOurs { path, .. }) if self.has_vanished(&path) || is_stub(&path) => {
                Ok(None)
            }
            found => found,
        }
    }

    /// Whether a directory was a worktree of this repository, and its git directory is gone. Git makes that
    /// one first and removes it last.
    fn has_vanished(&self, path: &Path) -> bool {
        let link = files::read(&path.join(".git"), SMALL).ok().flatten();
        let link = link.unwrap_or_default();
        let Some(leads) = link.strip_prefix(b"gitdir: ") else {
            return false;
        };
        let admin = path.join(OsStr::from_bytes(leads.trim_ascii_end()));
        let ours = self.common_directory().join("worktrees");
        // Both are gone where it was the only worktree.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_ours = admin
            .parent()
            .is_some_and(|parent| parent == ours || real(parent) == real(&ours));
        is_ours && fs::symlink_metadata(&admin).is_err_and(|error| error.kind() == NotFound)
    }

    /// Sees to it that the directory of our worktrees is one, and inside the working tree.
    fn own_directory(&self) -> Result<(), GitError> {
        let path = self.toplevel().join(WORKTREES);
        let failed = |source| GitError::File {
            operation: "make the directory of worktrees",
            path: path.clone(),
            source,
        };
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_dir() => Ok(()),
            Ok(_) => {
                let why = "it should be a directory, and is none".to_owned();
                Err(GitError::NotOurs { path, why })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&path).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Adds a worktree under the lock, and checks the files out after it.
    async fn add(&self, owner: Owner, path: &Path, commit: &Commit) -> Result<Prepared, GitError> {
        const OPERATION: &str = "add a worktree";
        // single-flight: git makes two worktrees at once in each other's way.
        let lock = self.lock().await?;
        if self.has_vanished(path) || is_stub(path) {
            delete_all(path).await?;
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let added = self
                .call(
                    OPERATION,
                    ["worktree", "add", "--quiet", "--detach", "--no-checkout"],
                )
                .under(&lock)
                .arg("--lock")
                .arg("--reason")
                .arg(owner.reason())
                .arg("--")
                .arg(path)
                .arg(commit.as_str())
                .on(path.display())
                .run()
                .await;
            let Err(error) = added else {
                break;
            };
            let said = match &error {
                GitError::Failed { stderr, .. } => stderr.as_str(),
                _ => return Err(error),
            };
            if said.contains("is a missing but") && tries < TRIES {
                self.forget_missing(&lock, owner, path).await?;
            } else if said.contains("commondir") && tries < TRIES {
                tokio::time::sleep(Duration::from_millis(u64::from(tries))).await;
            } else {
                return Err(error);
            }
        }
        let found = Worktree::at(self, path)?;
        let Some((worktree, _)) = found else {
            return Err(Call::unreadable(
                OPERATION,
                &path.display().to_string(),
                "no worktree",
            ));
        };
        // Why git keeps it says whose it is from its first moment on; more can be said without the lock.
        drop(lock);
        Marker::new(owner, Some(commit.clone())).write(&worktree.admin)?;
        if let Err(error) = worktree.reset(commit).await {
            // Somebody else is at it, who goes on. Otherwise what is half there is of no use to anybody, and
            // why it is so matters more than what comes of this.
            if !matches!(error, GitError::Locked { .. }) {
                let _ = worktree.discard().await;
            }
            return Err(error);
        }
        Ok(Prepared {
            worktree,
            head: commit.clone(),
            reused: false,
            undone: None,
        })
    }

    /// Has git forget the worktree of an owner whose directory is gone, as when its removal was cut off.
    ///
    /// # Errors
    /// When git cannot be asked.
    pub async fn forget_gone(&self, owner: Owner) -> Result<(), GitError> {
        let path = self.worktree_path(owner);
        // single-flight: git must not make one while it forgets another.
        let lock = self.lock().await?;
        match self.forget_missing(&lock, owner, &path).await {
            // There is nothing to forget.
            Err(GitError::NotOurs { .. }) => Ok(()),
            other => other,
        }
    }

    /// Forgets a worktree of the owner whose directory somebody has deleted.
    async fn forget_missing(
        &self,
        lock: &RepositoryLock,
        owner: Owner,
        path: &Path,
    ) -> Result<(), GitError> {
        let entries = self.entries_unlocked().await?;
        let ours = entries.iter().any(|entry| {
            entry.path == path
                && entry
                    .marker
                    .as_ref()
                    .is_some_and(|marker| marker.owner == owner)
        });
        if !ours {
            let why = "git knows a worktree there that is not ours".to_owned();
            return Err(GitError::NotOurs {
                path: path.to_owned(),
                why,
            });
        }
        self.forget(lock, path).await
    }

    /// Tells git to forget a worktree, whether its directory is there or not.
    pub(super) async fn forget(&self, lock: &RepositoryLock, path: &Path) -> Result<(), GitError> {
        self.call(
            "remove a worktree",
            ["worktree", "remove", "--force", "--force", "--"],
        )
        .under(lock)
        .arg(path)
        .on(path.display())
        .run()
        .await
        .map(drop)
    }
}

impl Repository {
    /// Removes what is left of worktrees that git does not know: a git that is told to end while it makes one
    /// leaves its directory, with nothing in it. What has anything in it stays.
    pub(super) async fn remove_stubs(&self, owners: &BTreeSet<String>) -> Result<(), GitError> {
        let is_left = |path: &Path| {
            let has_git_alone = || {
                let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
                entries.all(|entry| entry.file_name() == ".git")
            };
            is_stub(path) || self.has_vanished(path) && has_git_alone()
        };
        let all = fs::read_dir(self.toplevel().join(WORKTREES));
        let all = all.into_iter().flatten().flatten();
        let is_owners = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            name.to_str().is_some_and(|name| owners.contains(name))
        };
        let paths = all.filter(is_owners).map(|entry| entry.path());
        let left: Vec<PathBuf> = paths.filter(|path| is_left(path)).collect();
        if left.is_empty() {
            return Ok(());
        }
        // single-flight: in one that git is about to make there is nothing either.
        let _lock = self.lock().await?;
        for path in left.iter().filter(|path| is_left(path)) {
            delete_all(path).await?;
        }
        Ok(())
    }
}

/// Whether a directory has nothing in it, but perhaps a `.git` without content.
fn is_stub(path: &Path) -> bool {
    let is_empty = |entry: &fs::DirEntry| {
        let data = entry.metadata();
        entry.file_name() == ".git" && data.is_ok_and(|data| data.is_file() && data.len() == 0)
    };
    let is_directory = fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
    let entries = fs::read_dir(path);
    is_directory
        && entries
            .is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|entry| is_empty(&entry))))
}

impl Worktree {
    /// Puts a worktree in order that was there before.
    async fn reuse(self, commit: &Commit) -> Result<Prepared, GitError> {
        let mut marker = self.marker()?;
        self.unlock().await?;
        let is_new = marker.base.is_none() || marker.removing || !self.is_checked_out();
        self.mend(commit)?;
        if is_new {
            // It was never checked out to its end, or is half deleted: nobody has worked in it since.
            self.reset(commit).await?;
            marker = Marker {
                base: Some(commit.clone()),
                removing: false,
                seal: None,
                ..marker
            };
            marker.write(&self.admin)?;
            let head = commit.clone();
            return Ok(Prepared {
                worktree: self,
                head,
                reused: true,
                undone: None,
            });
        }
        let undone = self.undo_half_done().await?;
        self.detach().await?;
        let head = self.head().await?;
        Ok(Prepared {
            worktree: self,
            head,
            reused: true,
            undone,
        })
    }
}
