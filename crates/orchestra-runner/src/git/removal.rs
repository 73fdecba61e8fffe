//! Removing worktrees, but none that holds something of anybody's.

use std::{
    fmt,
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use orchestra_plan::ids::Commit;

use super::{GitError, HalfDone, Marker, Worktree};

/// How many paths are named when a worktree is kept.
const NAMED: usize = 20;

/// How many of them are said.
const SAID: usize = 5;

/// Begin of the names of directories in the git directory of a worktree that are of this program and its job.
const PRIVATE: &str = "orchestra-";

/// What became of a worktree that was to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// It is still there, since it holds something.
    Kept(Held),
}

/// What a worktree holds that would be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// Uncommitted changes that its job has not made: some of the paths.
    Changes(Vec<PathBuf>),
    /// Commits that no branch has.
    Commits(Commit),
    /// A merge or the like that somebody has begun.
    HalfDone(HalfDone),
    /// A named pipe in the place of a file that git opens, so that git cannot list the changes.
    Pipe(PathBuf),
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changes(paths) => {
                let named: Vec<_> = paths
                    .iter()
                    .take(SAID)
                    .map(|path| path.to_string_lossy())
                    .collect();
                let more = if paths.len() > SAID { ", …" } else { "" };
                write!(f, "uncommitted files: {}{more}", named.join(", "))
            }
            Self::Commits(commit) => write!(f, "commits that no branch has, up to {commit}"),
            Self::HalfDone(_) => f.write_str("an unfinished merge or a similar operation"),
            Self::Pipe(path) => write!(
                f,
                "the named pipe `{}`, for which git waits",
                path.display()
            ),
        }
    }
}

impl Worktree {
    /// Removes the worktree, unless it holds uncommitted changes that were not there when it was
    /// [sealed](Self::seal), or commits that are neither among the known ones nor in any branch.
    ///
    /// What git ignores goes with it, links are not followed, and when this is broken off the next call goes
    /// on with it.
    pub async fn remove(&self, known: &[Commit]) -> Result<Removal, GitError> {
        let mut marker = self.marker()?;
        if !marker.removing {
            if let Some(held) = self.held(&marker, known).await? {
                return Ok(Removal::Kept(held));
            }
            marker.removing = true;
            marker.write(self.directory())?;
        }
        self.discard().await?;
        Ok(Removal::Removed)
    }

    /// What would be lost if it were removed, as [`remove`](Self::remove) sees it, or began anew.
    ///
    /// # Errors
    /// When git cannot be asked.
    pub async fn holds(&self, known: &[Commit]) -> Result<Option<Held>, GitError> {
        let marker = self.marker()?;
        match marker.removing {
            true => Ok(None),
            false => self.held(&marker, known).await,
        }
    }

    /// Notes that what is in it is nobody's until a job has been at work in it, so that whoever comes next takes
    /// nothing for somebody's that is half gone, or half made.
    pub fn give_up(&self) -> Result<(), GitError> {
        let mut marker = self.marker()?;
        marker.given_up = true;
        marker.write(self.directory())
    }

    /// What would be lost.
    pub(super) async fn held(
        &self,
        marker: &Marker,
        known: &[Commit],
    ) -> Result<Option<Held>, GitError> {
        // Before its files are checked out nothing can be in it.
        if marker.base.is_none() || marker.given_up || !self.is_checked_out() {
            return Ok(None);
        }
        let status = match self.status(&marker.links).await {
            Err(GitError::Pipe { path, .. }) => return Ok(Some(Held::Pipe(path))),
            status => status?,
        };
        let seal = marker.seal.as_ref();
        let (now, status) = self.sealed(status).await?;
        if seal == Some(&now) {
            return Ok(None);
        }
        if let Some(operation) = HalfDone::at(self.directory()) {
            return Ok(Some(Held::HalfDone(operation)));
        }
        if !status.entries.is_empty() {
            let mut paths = status.paths(|_| true);
            paths.truncate(NAMED);
            return Ok(Some(Held::Changes(paths)));
        }
        let Some(head) = status.head else {
            return Ok(None);
        };
        let ours = marker.base.as_ref() == Some(&head)
            || known.contains(&head)
            || seal.is_some_and(|seal| seal.head.as_deref() == Some(head.as_str()));
        if ours || self.in_a_branch(&head).await? {
            return Ok(None);
        }
        Ok(Some(Held::Commits(head)))
    }

    /// Whether a branch or tag has the commit. What a plan keeps it forgets again.
    async fn in_a_branch(&self, commit: &Commit) -> Result<bool, GitError> {
        let arguments = [
            "for-each-ref",
            "--count=1",
            "--format=%(refname)",
            "--contains",
            commit.as_str(),
            "refs/heads/",
            "refs/tags/",
            "refs/remotes/",
            "refs/stash",
        ];
        let answer = self
            .repository()
            .call("look for a branch with a commit", arguments)
            .on(commit)
            .run()
            .await?;
        Ok(!answer.output.is_empty())
    }

    /// Deletes it with all that is in it.
    pub(super) async fn discard(&self) -> Result<(), GitError> {
        delete_all(self.path()).await?;
        let marker = Marker::read(self.directory())?;
        self.delete_private().await?;
        // single-flight: git must not make one while it forgets another.
        let lock = self.repository().lock().await?;
        // The worktree itself goes last: its mark names the submodules.
        for submodule in marker.map(|marker| marker.submodules).unwrap_or_default() {
            self.forget_submodule(&submodule, &lock).await?;
        }
        self.repository().forget(&lock, self.path()).await
    }

    /// Deletes the directories in its git directory that a job may have written: git cannot delete all that is possible
    /// there.
    async fn delete_private(&self) -> Result<(), GitError> {
        let entries = fs::read_dir(self.directory()).into_iter().flatten();
        let private = entries.filter_map(Result::ok).filter(|entry| {
            let is_private = entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(PRIVATE.as_bytes());
            is_private && entry.file_type().is_ok_and(|kind| kind.is_dir())
        });
        for entry in private.collect::<Vec<_>>() {
            delete_all(&entry.path()).await?;
        }
        Ok(())
    }
}

/// Deletes the directory of a worktree.
pub(super) async fn delete_all(path: &Path) -> Result<(), GitError> {
    let directory = path.to_owned();
    let deleted = tokio::task::spawn_blocking(move || delete(&directory)).await;
    let result = deleted.unwrap_or_else(|error| Err(io::Error::other(error)));
    result.map_err(|source| GitError::File {
        operation: "delete the files of a worktree",
        path: path.to_owned(),
        source,
    })
}

/// Deletes a directory, without following links; that it is gone is fine. What leads to its git directory
/// goes last: whoever runs git there until then, or when this is broken off, does so in no other repository.
fn delete(path: &Path) -> io::Result<()> {
    // A job may have taken its own permissions away.
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    }
    let remove = |path: &Path| {
        let removed = orchestra_fs::remove_tree(path);
        removed.map_err(orchestra_fs::Error::into_cause)
    };
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
            continue;
        }
        match fs::remove_file(entry.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    remove(path)
}
