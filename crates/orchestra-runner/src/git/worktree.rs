//! Worktrees of ours: how one is made, found again after a crash, and put in order.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_plan::ids::Commit;
use tokio::time::{Instant, sleep};

use super::{
    GitError, HalfDone, Marker, Owner, Repository,
    call::{Call, is_ours},
    files,
    mend::is_lost,
    names,
    nested::leads_back,
    sparse,
    status::{self, Status},
};

/// The directory below the root of the working tree that holds our worktrees.
pub const WORKTREES: &str = ".worktrees";

/// More than the file has that leads from a worktree to its git directory.
const SMALL: u64 = 64 << 10;

/// Lock files that a git that was killed leaves in the git directory of a worktree.
const STALE: [&str; 3] = ["index.lock", "HEAD.lock", "config.worktree.lock"];

/// How often it is looked whether a git has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A worktree of ours: one that carries our [`Marker`].
#[derive(Debug, Clone)]
pub struct Worktree {
    repository: Repository,
    path: PathBuf,
    pub(super) admin: PathBuf,
    owner: Owner,
}

impl Worktree {
    /// The worktree of ours at a path, with its marker; `None` when nothing is there.
    pub(super) fn at(
        repository: &Repository,
        path: &Path,
    ) -> Result<Option<(Self, Marker)>, GitError> {
        let not_ours = |why: &str| GitError::NotOurs {
            path: path.to_owned(),
            why: why.to_owned(),
        };
        match fs::symlink_metadata(path) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Ok(data) if data.is_dir() => {}
            _ => return Err(not_ours("it is no directory")),
        }
        let link = files::read(&path.join(".git"), SMALL).ok();
        let link = link.ok_or_else(|| not_ours("its `.git` is no file"))?;
        let link = link.unwrap_or_default();
        // Deleted before the rest was, or lost with the power.
        let is_lost = is_lost(&link);
        let admin = match is_lost {
            true => repository.lost_admin(path)?,
            false => None,
        };
        let admin = match (admin, link.strip_prefix(b"gitdir: ")) {
            (Some(admin), _) => admin,
            (None, Some(leads)) => {
                let leads = path.join(OsStr::from_bytes(leads.trim_ascii_end()));
                repository.admin(path, &leads).map_err(not_ours)?
            }
            (None, None) if is_lost => return Err(not_ours("it is a directory, but no worktree")),
            (None, None) => return Err(not_ours("its `.git` leads nowhere")),
        };
        let marker = Marker::read(&admin)?.ok_or_else(|| not_ours("it does not carry our mark"))?;
        let worktree = Self {
            repository: repository.clone(),
            path: path.to_owned(),
            admin,
            owner: marker.owner,
        };
        Ok(Some((worktree, marker)))
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its git directory, inside the repository's.
    pub fn directory(&self) -> &Path {
        &self.admin
    }

    /// Whose it is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The repository that it belongs to.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// What is known of it.
    pub fn marker(&self) -> Result<Marker, GitError> {
        let marker = Marker::read(&self.admin)?;
        marker.ok_or_else(|| GitError::NotOurs {
            path: self.path.clone(),
            why: "its mark is gone".to_owned(),
        })
    }

    /// Where its `HEAD` is.
    pub async fn head(&self) -> Result<Commit, GitError> {
        const OPERATION: &str = "find the commit of a worktree";
        let answer = self
            .call(OPERATION, ["rev-parse", "-q", "--verify", "HEAD^{commit}"])
            .accept(&[0, 1])
            .run()
            .await?;
        match answer.code {
            0 => names::commit(answer.text().trim()),
            _ => Err(GitError::Unborn {
                path: self.path.clone(),
            }),
        }
    }

    /// Puts every file that git knows at the commit, also those that a sparse checkout leaves out, and detaches
    /// `HEAD` there.
    ///
    /// What is uncommitted in such files is lost, so this is for worktrees with nothing to lose.
    pub async fn reset(&self, commit: &Commit) -> Result<(), GitError> {
        self.detach().await?;
        let arguments = [
            "reset",
            "--quiet",
            "--hard",
            "--no-recurse-submodules",
            commit.as_str(),
        ];
        let mut call = self.call("check a commit out", arguments);
        if sparse::include_all(&self.admin)? {
            call = sparse::APPLIED.into_iter().fold(call, Call::option);
        }
        call.takes_files().run().await?;
        self.whole().note_checkout().await
    }

    /// Begins anew at a commit: whatever earlier attempts have left is deleted, but for what git ignores.
    pub async fn restart(&self, commit: &Commit) -> Result<(), GitError> {
        self.give_up()?;
        self.unlock().await?;
        self.remove_foreign_repositories().await?;
        self.remove_lfs_settings().await?;
        self.undo_half_done().await?;
        self.reset(commit).await?;
        let mut call = self.call(
            "delete what is left in a worktree",
            ["clean", "--quiet", "-ffd"],
        );
        for link in self.marker()?.links {
            call = call.arg("-e").arg(format!("/{}", escape_pattern(&link)));
        }
        for argument in self.kept_leftovers()? {
            call = call.arg(argument);
        }
        call.run().await?;
        // Those that were in no place of a submodule before.
        self.remove_foreign_repositories().await?;
        self.unlink_submodules().await?;
        let mut marker = self.marker()?;
        marker.base = Some(commit.clone());
        marker.seal = None;
        marker.conflicts = None;
        marker.write(&self.admin)
    }

    /// A call of git in the worktree, which holds even when the job has put another repository there.
    pub(super) fn call<I, A>(&self, operation: &'static str, arguments: I) -> Call
    where
        I: IntoIterator<Item = A>,
        A: Into<std::ffi::OsString>,
    {
        self.repository
            .git()
            .call(operation, &self.path, arguments)
            .env("GIT_DIR", &self.admin)
            .env("GIT_WORK_TREE", &self.path)
    }

    /// What it holds besides its commit, but for these links, what is as it was checked
    /// out, and what agents leave.
    pub(super) async fn status(&self, links: &[String]) -> Result<Status, GitError> {
        let call = self.call(status::OPERATION, status::ARGUMENTS);
        let call = call.arg(status::OUTSIDE).takes_files();
        let mut status = Status::of(call, links).await?;
        self.whole().leave_out_unchanged(&mut status).await?;
        self.leave_out_leftovers(&mut status).await?;
        for submodule in self.dirty_submodules().await? {
            status.note_dirty(submodule);
        }
        Ok(status)
    }

    /// Removes lock files of a git that was killed. One that a runner before us has started may still be
    /// at work, and would move what we put in order: that is waited for.
    pub(super) async fn unlock(&self) -> Result<(), GitError> {
        let locks: Vec<PathBuf> = STALE.iter().map(|name| self.admin.join(name)).collect();
        let deadline = Instant::now() + self.repository.git().timeout();
        let young = self.repository.git().timeout();
        while git_is_at_work(self.path.clone(), locks.clone(), young).await {
            if Instant::now() >= deadline {
                return Err(GitError::Locked {
                    operation: "put a worktree in order",
                    subject: self.path.display().to_string(),
                    stderr: "a git process uses the worktree and does not end".to_owned(),
                });
            }
            sleep(LOOK_EVERY).await;
        }
        for lock in locks {
            // One that cannot be removed makes the next git say so.
            let _ = fs::remove_file(lock);
        }
        Ok(())
    }

    /// Makes `HEAD` name a commit rather than a branch, so that none moves with it.
    pub(super) async fn detach(&self) -> Result<(), GitError> {
        let head = super::repository::small_file(&self.admin.join("HEAD"))?.unwrap_or_default();
        if !head.starts_with("ref:") {
            return Ok(());
        }
        let marker = self.marker()?;
        let Some(commit) = self.head().await.ok().or(marker.base) else {
            let why = "its HEAD names no commit".to_owned();
            return Err(GitError::NotOurs {
                path: self.path.clone(),
                why,
            });
        };
        self.move_head(&commit).await
    }

    /// Points `HEAD` itself, not a branch, at a commit.
    pub(super) async fn move_head(&self, to: &Commit) -> Result<(), GitError> {
        let arguments = [
            "update-ref",
            "--no-deref",
            "-m",
            "orchestra",
            "HEAD",
            to.as_str(),
        ];
        self.call("move the HEAD of a worktree", arguments)
            .run()
            .await
            .map(drop)
    }

    /// Undoes what was begun and broken off.
    pub(super) async fn undo_half_done(&self) -> Result<Option<HalfDone>, GitError> {
        let Some(operation) = HalfDone::at(&self.admin) else {
            return Ok(None);
        };
        self.check_submodules().await?;
        // Aborting moves the branch that is checked out, or was before a rebase: none moves here.
        self.detach().await?;
        let began = super::repository::small_file(&self.admin.join("rebase-merge/orig-head"))?;
        let arguments = match operation {
            HalfDone::Merge => ["merge", "--abort"],
            HalfDone::Rebase => ["rebase", "--quit"],
            HalfDone::CherryPick => ["cherry-pick", "--abort"],
            HalfDone::Revert => ["revert", "--abort"],
            HalfDone::Bisect => ["bisect", "reset"],
        };
        const OPERATION: &str = "undo what was broken off in a worktree";
        let undone = self.call(OPERATION, arguments).run().await;
        if undone.is_err() {
            // What git cannot undo by itself, for its notes are broken, is forgotten.
            for sign in ["rebase-merge", "rebase-apply", "sequencer"] {
                let _ = fs::remove_dir_all(self.admin.join(sign));
            }
            for sign in [
                "MERGE_HEAD",
                "MERGE_MSG",
                "MERGE_MODE",
                "CHERRY_PICK_HEAD",
                "REVERT_HEAD",
                "BISECT_LOG",
            ] {
                let _ = fs::remove_file(self.admin.join(sign));
            }
            self.call(OPERATION, ["reset", "--quiet", "--hard", "HEAD"])
                .run()
                .await?;
        }
        if operation == HalfDone::Rebase {
            let began = began.and_then(|name| names::commit(name.trim()).ok());
            let began = match began {
                Some(commit) => commit,
                None => self.head().await?,
            };
            self.reset(&began).await?;
        }
        Ok(Some(operation))
    }
}

impl Repository {
    /// The git directory of a worktree that its `.git` file leads to, which must lead back: a job can write that
    /// file.
    fn admin(&self, path: &Path, leads: &Path) -> Result<PathBuf, &'static str> {
        let ours = self.common_directory().join("worktrees");
        let real = |path: &Path| path.canonicalize().ok();
        let parent = leads.parent().and_then(real);
        let name = leads
            .file_name()
            .filter(|_| parent.is_some() && parent == real(&ours));
        let admin = ours.join(name.ok_or("it is a worktree of another repository")?);
        let back = files::read(&admin.join("gitdir"), SMALL).ok().flatten();
        match is_lost(&back.unwrap_or_default()) || leads_back(&admin, path) {
            true => Ok(admin),
            false => Err("its `.git` leads to the git directory of another worktree"),
        }
    }
}

/// Whether a git of ours runs in a directory, or anybody's that has one of these locks, as far as the system
/// tells (Linux); elsewhere one does whose lock is younger than a call of ours may take.
async fn git_is_at_work(directory: PathBuf, locks: Vec<PathBuf>, young: Duration) -> bool {
    let look = move || {
        let is_locked = locks.iter().any(|lock| lock.exists());
        let Some(processes) = processes() else {
            let age = |lock: &PathBuf| fs::metadata(lock).ok()?.modified().ok()?.elapsed().ok();
            return locks.iter().filter_map(age).any(|age| age < young);
        };
        processes.filter_map(Result::ok).any(|process| {
            let process = process.path();
            let there =
                fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&directory));
            let is = |file: &str, what: &dyn Fn(&[u8]) -> bool| {
                fs::read(process.join(file)).is_ok_and(|content| what(&content))
            };
            // A user who reads its history there is in nobody's way.
            there
                && is("comm", &|name| name.starts_with(b"git"))
                && (is_locked || is("cmdline", &may_be_ours))
        })
    };
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}

/// Whether a command line is that of a call of ours, or not to be seen yet since its program has just begun.
fn may_be_ours(line: &[u8]) -> bool {
    line.is_empty() || is_ours(line)
}

/// Where the system shows processes, and what they work in.
fn processes() -> Option<fs::ReadDir> {
    let shows = cfg!(target_os = "linux").then(|| fs::read_dir("/proc").ok());
    shows.flatten()
}

/// A path as a pattern that means just that path.
fn escape_pattern(path: &str) -> String {
    let special = |letter| matches!(letter, '*' | '?' | '[' | '\\' | '!' | '#' | ' ');
    let mut escaped = String::new();
    for letter in path.chars() {
        if special(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
