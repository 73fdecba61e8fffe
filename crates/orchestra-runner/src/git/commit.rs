//! The commit phase: what a job has left in its worktree becomes a commit.

use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use orchestra_plan::ids::Commit;

use super::{
    DiffStats, GitError, HalfDone, Worktree,
    names::shortened,
    status::{Compared, Differs, Status},
};

const STAGE: &str = "stage what a job has left";

/// How many paths are named in a refusal.
pub(super) const NAMED: usize = 20;

/// What a job's work came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The commit: the base itself when there is nothing new.
    pub commit: Commit,
    /// How many commits the job has made by itself; they are kept.
    pub by_job: u64,
    /// Whether something was uncommitted, and now is.
    pub made: bool,
    /// What changed since the base; empty when commits change nothing.
    pub stats: DiffStats,
}

/// Why a job's work was not committed; the worktree is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitRefusal {
    /// The job has rewritten the history that it began from.
    #[error(
        "the worktree is at commit {head}, which does not descend from {base}; create new commits instead of rewriting existing ones"
    )]
    Rewritten {
        /// Where it began.
        base: Commit,
        /// Where it is.
        head: Commit,
    },
    /// The job has begun a merge or the like and not ended it.
    #[error("a {operation} is in progress in the worktree; finish or abort it")]
    HalfDone {
        /// What it is.
        operation: HalfDone,
    },
    /// A merge has left paths with several versions.
    #[error("these paths have unresolved conflicts; resolve them with `git add` or `git rm`: {}", listed(.paths))]
    Unmerged {
        /// Some of them.
        paths: Vec<PathBuf>,
    },
    /// There are repositories inside the worktree whose content no commit would have.
    #[error("these directories are separate git repositories, so their files would not be committed; remove their `.git`, or add them as submodules: {}", listed(.paths))]
    Nested {
        /// Some of them.
        paths: Vec<PathBuf>,
    },
    /// There are changes inside of submodules that no commit of these has.
    #[error("these submodules have changes that the plan would lose: {}. First look for unknown programs in the `config` file of the git directory of each submodule: the job can change that file, and git runs programs that it names. Then commit the changes (`git -C PATH commit`) or undo them (`git -C PATH stash --include-untracked`)", listed(.paths))]
    Submodules {
        /// Some of them.
        paths: Vec<PathBuf>,
    },
}

impl CommitRefusal {
    /// A stable word for the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rewritten { .. } => "history-rewritten",
            Self::HalfDone { .. } => "operation-half-done",
            Self::Unmerged { .. } => "paths-unmerged",
            Self::Nested { .. } => "nested-repositories",
            Self::Submodules { .. } => "submodules-dirty",
        }
    }
}

/// Returns a list of paths for people, with escapes in place of control characters.
pub(super) fn listed(paths: &[PathBuf]) -> String {
    let mut list = String::new();
    for path in paths {
        if !list.is_empty() {
            list.push_str(", ");
        }
        for c in path.to_string_lossy().chars() {
            match c.is_control() {
                true => list.extend(c.escape_default()),
                false => list.push(c),
            }
        }
    }
    list
}

/// A path that git left out of the index although it was to be staged. Git succeeds all the same.
fn left_out(said: &str) -> Option<&str> {
    let mut lines = said.lines();
    lines.find_map(|line| line.strip_prefix("Ignoring path "))
}

impl Worktree {
    /// Commits everything in the worktree that git does not ignore, onto the commits that the job has made
    /// itself. `HEAD` is detached at the result, which is kept for the plan where it is not the base; no branch
    /// moves, even when the job has checked one out.
    ///
    /// Nothing is at work in the worktree any more. Broken off, it can be called again.
    ///
    /// # Errors
    /// The outer error is git's; the inner one says what the job has to put right.
    pub async fn commit(
        &self,
        base: &Commit,
        message: &str,
    ) -> Result<Result<Committed, CommitRefusal>, GitError> {
        self.unlock().await?;
        let links = self.marker()?.links;
        let mut status = self.status(&links).await?;
        if status.head.is_none() && HalfDone::at(self.directory()).is_none() {
            // The job has checked out a branch without commits (`git checkout --orphan`): its files are the work.
            self.move_head(base).await?;
            status = self.status(&links).await?;
        }
        if let Some(refusal) = self.unfit(&status) {
            return Ok(Err(refusal));
        }
        let head = match &status.head {
            Some(head) => head.clone(),
            None => self.head().await?,
        };
        if status.entries.is_empty() && head == *base {
            self.stay_detached(&head).await?;
            let stats = DiffStats::default();
            return Ok(Ok(Committed {
                commit: head,
                by_job: 0,
                made: false,
                stats,
            }));
        }
        let Some(by_job) = self.commits_since(base, &head).await? else {
            return Ok(Err(CommitRefusal::Rewritten {
                base: base.clone(),
                head,
            }));
        };
        let commit = match status.entries.is_empty() {
            true => head.clone(),
            false => self.commit_onto(&head, &status, message).await?,
        };
        self.keep_at_head(&commit).await?;
        let stats = self.repository().changes(base, &commit).await?;
        self.keep_submodules(&stats).await?;
        let made = commit != head;
        Ok(Ok(Committed {
            commit,
            by_job,
            made,
            stats,
        }))
    }

    /// What stands against a commit.
    fn unfit(&self, status: &Status) -> Option<CommitRefusal> {
        let some = |which: Differs| {
            let mut paths = status.paths(|differs| differs == which);
            paths.truncate(NAMED);
            Some(paths).filter(|paths| !paths.is_empty())
        };
        if let Some(paths) = some(Differs::Unmerged) {
            return Some(CommitRefusal::Unmerged { paths });
        }
        if let Some(operation) = HalfDone::at(self.directory()) {
            return Some(CommitRefusal::HalfDone { operation });
        }
        if let Some(paths) = some(Differs::Nested) {
            return Some(CommitRefusal::Nested { paths });
        }
        some(Differs::Dirty).map(|paths| CommitRefusal::Submodules { paths })
    }

    /// How many commits lead from the base to the head; `None` when the head has lost the base.
    async fn commits_since(&self, base: &Commit, head: &Commit) -> Result<Option<u64>, GitError> {
        const OPERATION: &str = "count the commits of a job";
        if base == head {
            return Ok(Some(0));
        }
        let range = format!("{base}...{head}");
        let arguments = ["rev-list", "--count", "--left-right", &range, "--"];
        let text = self.call(OPERATION, arguments).run().await?.text();
        let mut numbers = text
            .split_whitespace()
            .map(|number| number.parse::<u64>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(0), Some(count)) => Ok(Some(count)),
            (Some(_), Some(_)) => Ok(None),
            _ => Err(super::call::Call::unreadable(OPERATION, &range, &text)),
        }
    }

    /// A commit of all that is in the worktree; the head itself when that is what it has already.
    async fn commit_onto(
        &self,
        head: &Commit,
        status: &Status,
        message: &str,
    ) -> Result<Commit, GitError> {
        self.stage(status).await?;
        let tree = self
            .call("write a tree", ["write-tree"])
            .run()
            .await?
            .text();
        let tree = tree.trim();
        let of_head = format!("{head}^{{tree}}");
        let before = self
            .call("find a tree", ["rev-parse", "--verify", &of_head])
            .run()
            .await?
            .text();
        if before.trim() == tree {
            return Ok(head.clone());
        }
        self.repository().commit_tree(tree, &[head], message).await
    }

    /// Stages everything but the links that we have made and what agents leave, which a job may have staged. `git add` would enter
    /// submodules with the configuration that a job has given them.
    pub(super) async fn stage(&self, status: &Status) -> Result<(), GitError> {
        let paths = status.to_stage(self.path());
        let orders: [(&[&str], &[&str], _); 3] = [
            (&[], &["--force-remove"], paths.gone),
            (&[], &["--add", "--remove", "--replace"], paths.content),
            (
                &["-c", "core.fileMode=false"],
                &["--remove"],
                paths.content_alone,
            ),
        ];
        for (settings, options, paths) in orders {
            if paths.is_empty() {
                continue;
            }
            let mut input = Vec::new();
            for path in paths {
                input.extend_from_slice(path.as_os_str().as_bytes());
                input.push(0);
            }
            let mut call = self.call(STAGE, ["update-index"]);
            for setting in settings {
                call = call.option(setting);
            }
            for option in options {
                call = call.arg(option);
            }
            let call = call.arg("-z").arg("--stdin").input(input);
            let answer = call.takes_files().run().await?;
            if let Some(name) = left_out(&answer.said) {
                return Err(GitError::Name {
                    what: "path in a commit",
                    name: shortened(name),
                    why: "git reserves names like `.git`, and does not commit a link with the name `.gitmodules`",
                });
            }
        }
        if !paths.mode_alone.is_empty() {
            let lines = paths.mode_alone.iter().flat_map(Compared::line);
            let call = self.call(STAGE, ["update-index", "-z", "--index-info"]);
            call.input(lines.collect::<Vec<u8>>()).run().await?;
        }
        let mut out: Vec<PathBuf> = self.marker()?.links.iter().map(PathBuf::from).collect();
        out.extend(status.left.iter().cloned());
        if out.is_empty() {
            return Ok(());
        }
        let mut input = Vec::new();
        for path in out {
            input.extend_from_slice(b":(top,literal)");
            input.extend_from_slice(path.as_os_str().as_bytes());
            input.push(0);
        }
        let options = [
            "rm",
            "--cached",
            "--quiet",
            "--ignore-unmatch",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        ];
        let call = self.call("leave links out of a commit", options);
        call.input(input).run().await.map(drop)
    }

    /// Detaches `HEAD` when the job has checked a branch out.
    async fn stay_detached(&self, head: &Commit) -> Result<(), GitError> {
        let content = super::repository::small_file(&self.directory().join("HEAD"))?;
        if content.is_some_and(|content| content.starts_with("ref:")) {
            self.move_head(head).await?;
        }
        Ok(())
    }
}
