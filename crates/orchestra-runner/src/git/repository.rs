//! A repository: where its parts are, what it is, and what its references name.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{Mutex, OnceCell};

use orchestra_plan::ids::{Branch, Commit};

use super::{
    EXCLUDED, Git, GitError, ObjectFormat, RepositoryLock,
    baseline::leave_out_stored,
    call::Call,
    files,
    identity::Identity,
    lock, names,
    status::{self, Differs, Status},
};

/// How long whoever brings work onto a branch waits for another that does: the files of a large working tree
/// may have to be fetched before they can be written there.
const LANDING_PATIENCE: Duration = Duration::from_secs(600);

/// More than the small files have that git keeps about an operation.
const SMALL: u64 = 64 << 10;

/// A repository with a working tree. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Repository(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    git: Git,
    toplevel: PathBuf,
    directory: PathBuf,
    common: PathBuf,
    format: ObjectFormat,
    superproject: Option<PathBuf>,
    turns: Arc<Mutex<()>>,
    landings: Arc<Mutex<()>>,
    pub(super) exchanges: Arc<Mutex<()>>,
    pub(super) identity: OnceCell<Identity>,
}

/// Where a working tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The branch that is checked out; `None` when `HEAD` names a commit.
    pub branch: Option<Branch>,
    /// The commit; `None` when the branch has none yet.
    pub commit: Option<Commit>,
}

/// Directory of a board's files. Jobs use the board of the workspace, so they miss none of these.
pub(super) const BOARD: &str = ".projects";

/// How many paths of a working tree differ from the commit that it is at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uncommitted {
    /// Those that keep a working tree from following its branch.
    pub changed: usize,
    /// Others, without files of a board: files that git does not know, and submodules with changes inside.
    pub other: usize,
    /// Files of a board among those that are changed.
    pub board: usize,
}

/// An operation of git that was begun in a working tree and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HalfDone {
    /// `git merge`.
    Merge,
    /// `git rebase`, or `git am`.
    Rebase,
    /// `git cherry-pick`.
    CherryPick,
    /// `git revert`.
    Revert,
    /// `git bisect`.
    Bisect,
}

impl fmt::Display for HalfDone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Merge => "merge",
            Self::Rebase => "rebase",
            Self::CherryPick => "cherry-pick",
            Self::Revert => "revert",
            Self::Bisect => "bisect",
        })
    }
}

impl HalfDone {
    /// What is under way in the working tree with that git directory.
    pub(super) fn at(directory: &Path) -> Option<Self> {
        const SIGNS: [(&str, HalfDone); 6] = [
            ("rebase-merge", HalfDone::Rebase),
            ("rebase-apply", HalfDone::Rebase),
            ("MERGE_HEAD", HalfDone::Merge),
            ("CHERRY_PICK_HEAD", HalfDone::CherryPick),
            ("REVERT_HEAD", HalfDone::Revert),
            ("BISECT_LOG", HalfDone::Bisect),
        ];
        SIGNS
            .iter()
            .find(|(sign, _)| directory.join(sign).exists())
            .map(|(_, operation)| *operation)
    }
}

impl Repository {
    /// Opens the repository in whose working tree the path lies.
    ///
    /// # Errors
    /// [`GitError::NotARepository`], [`GitError::Bare`], [`GitError::Untrusted`], or what went wrong.
    pub async fn open(git: &Git, path: &Path) -> Result<Self, GitError> {
        const OPERATION: &str = "open the repository";
        let asked = [
            "rev-parse",
            "--is-bare-repository",
            "--show-object-format",
            "--path-format=absolute",
            "--git-common-dir",
            "--git-dir",
            "--show-toplevel",
            "--show-superproject-working-tree",
        ];
        if !path.is_dir() {
            return Err(GitError::NotARepository {
                path: path.to_owned(),
            });
        }
        let answer = git
            .call(OPERATION, path, asked)
            .accept(&[0, 128])
            .run()
            .await?;
        if answer.code != 0 {
            return Err(refused(path, &answer.text(), answer.said));
        }
        let unreadable = || {
            let subject = path.display().to_string();
            Call::unreadable(OPERATION, &subject, &answer.text())
        };
        let output = answer.output.strip_suffix(b"\n").unwrap_or(&answer.output);
        let lines: Vec<&[u8]> = output.split(|byte| *byte == b'\n').collect();
        let Some((&[_, format, common, directory, toplevel], rest)) = lines.split_first_chunk()
        else {
            return Err(unreadable());
        };
        let path_of = |line: &[u8]| PathBuf::from(OsStr::from_bytes(line));
        let (common, directory, toplevel) =
            (path_of(common), path_of(directory), path_of(toplevel));
        // Each line break in a path shows as one line more.
        let is_utf8 = common.to_str().is_some() && toplevel.to_str().is_some();
        let what = if rest.len() > 1 {
            Some("has a line break")
        } else if is_utf8 {
            None
        } else {
            // Jobs are recorded with the paths of their worktrees, as text.
            Some("is not UTF-8")
        };
        if let Some(what) = what {
            let path = path.to_owned();
            return Err(GitError::PathOfRepository { path, what });
        }
        if !toplevel.is_dir() || !common.is_dir() {
            return Err(unreadable());
        }
        let format = match format {
            b"sha1" => ObjectFormat::Sha1,
            b"sha256" => ObjectFormat::Sha256,
            _ => return Err(unreadable()),
        };
        Ok(Self(Arc::new(Inner {
            git: git.clone(),
            toplevel,
            directory,
            common,
            format,
            superproject: rest.first().map(|line| path_of(line)),
            turns: Arc::default(),
            landings: Arc::default(),
            exchanges: Arc::default(),
            identity: OnceCell::new(),
        })))
    }

    /// The same repository for a look that must not contact a remote: objects that a partial clone lacks are errors.
    #[must_use]
    pub fn without_lazy_fetches(&self) -> Self {
        let inner = &self.0;
        Self(Arc::new(Inner {
            git: inner.git.without_lazy_fetches(),
            toplevel: inner.toplevel.clone(),
            directory: inner.directory.clone(),
            common: inner.common.clone(),
            format: inner.format,
            superproject: inner.superproject.clone(),
            turns: Arc::clone(&inner.turns),
            landings: Arc::clone(&inner.landings),
            exchanges: Arc::clone(&inner.exchanges),
            identity: OnceCell::new(),
        }))
    }

    /// The git program that it is worked on with.
    pub fn git(&self) -> &Git {
        &self.0.git
    }

    /// The root of the working tree.
    pub fn toplevel(&self) -> &Path {
        &self.0.toplevel
    }

    /// The directory with the objects and references that all its working trees share.
    pub fn common_directory(&self) -> &Path {
        &self.0.common
    }

    /// The git directory of the working tree.
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// By which function it names its objects.
    pub fn format(&self) -> ObjectFormat {
        self.0.format
    }

    /// Whether it is an added working tree of another one.
    pub fn is_linked(&self) -> bool {
        self.0.common != self.0.directory
    }

    /// The working tree that has it as a submodule.
    pub fn superproject(&self) -> Option<&Path> {
        self.0.superproject.as_deref()
    }

    /// What is under way in the user's working tree.
    pub fn half_done(&self) -> Option<HalfDone> {
        HalfDone::at(&self.0.directory)
    }

    /// Waits for the lock under which worktrees are added, listed and removed.
    pub async fn lock(&self) -> Result<RepositoryLock, GitError> {
        let (common, patience) = (&self.0.common, self.0.git.timeout());
        lock::lock(common, lock::WORKTREES, &self.0.turns, patience).await
    }

    /// Waits for the lock under which work is brought onto branches.
    pub(super) async fn lock_landing(&self) -> Result<RepositoryLock, GitError> {
        lock::lock(
            &self.0.common,
            lock::LANDING,
            &self.0.landings,
            LANDING_PATIENCE,
        )
        .await
    }

    /// Waits until nothing that this program has begun is being brought onto a branch any more.
    pub async fn landed(&self) {
        // single-flight: it is held for no time, once whoever lands has given it up.
        drop(self.0.landings.lock().await);
    }

    /// A call of git in the working tree.
    pub(super) fn call<I, A>(&self, operation: &'static str, arguments: I) -> Call
    where
        I: IntoIterator<Item = A>,
        A: Into<std::ffi::OsString>,
    {
        self.0.git.call(operation, &self.0.toplevel, arguments)
    }

    /// Where the working tree is.
    pub async fn head(&self) -> Result<Head, GitError> {
        let symbolic = self
            .call(
                "find the branch that is checked out",
                ["symbolic-ref", "-q", "HEAD"],
            )
            .accept(&[0, 1])
            .run()
            .await?;
        // A name that is not UTF-8 cannot be named by a plan.
        let name = String::from_utf8(symbolic.output).unwrap_or_default();
        let branch = names::branch_of(name.trim());
        let commit = self.find("HEAD").await?;
        Ok(Head { branch, commit })
    }

    /// How many paths of the user's working tree differ from the commit that it is at, those too that git
    /// does not know, but for files that only a checkout converts. Directories of ours, which may not be excluded yet, are not the user's.
    pub async fn uncommitted(&self) -> Result<Uncommitted, GitError> {
        let call = self.call(status::OPERATION, status::ARGUMENTS);
        let mut status = Status::of(call, &[]).await?;
        let call = |operation, arguments| self.call(operation, arguments);
        leave_out_stored(&mut status, self.toplevel(), call).await?;
        let is_ours = |path: &Path| {
            let mut ours = EXCLUDED.iter().map(|name| name.trim_end_matches('/'));
            ours.any(|name| path.starts_with(name))
        };
        let entries = status.entries.iter();
        let mut found = Uncommitted::default();
        for (path, differs) in entries.filter(|(path, _)| !is_ours(path)) {
            let is_of_board = path.iter().any(|name| name == BOARD);
            match differs {
                Differs::Untracked | Differs::Nested | Differs::Dirty => {
                    found.other += usize::from(!is_of_board);
                }
                _ => {
                    found.changed += 1;
                    found.board += usize::from(is_of_board);
                }
            }
        }
        Ok(found)
    }

    /// The commit that a branch names; `None` when there is no such branch.
    pub async fn tip(&self, branch: &Branch) -> Result<Option<Commit>, GitError> {
        self.find(&names::reference(branch)).await
    }

    /// The commit that a text names, as git reads it: a branch, a tag, a commit or one relative to them.
    pub async fn find(&self, name: &str) -> Result<Option<Commit>, GitError> {
        const OPERATION: &str = "find a commit";
        if name.is_empty() || name.len() > 1024 || name.contains(char::is_control) {
            return Ok(None);
        }
        let arguments = ["rev-parse", "-q", "--verify", "--end-of-options"];
        let answer = self
            .call(OPERATION, arguments)
            .arg(format!("{name}^{{commit}}"))
            .on(names::shortened(name))
            .accept(&[0, 1, 128])
            .run()
            .await?;
        match answer.code {
            0 => names::commit(answer.text().trim()).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether the first commit is the second or one of those that it was made from.
    pub async fn is_ancestor(&self, first: &Commit, second: &Commit) -> Result<bool, GitError> {
        if first == second {
            return Ok(true);
        }
        let arguments = [
            "merge-base",
            "--is-ancestor",
            first.as_str(),
            second.as_str(),
        ];
        let answer = self
            .call("compare two commits", arguments)
            .on(format!("{first} and {second}"))
            .accept(&[0, 1])
            .run()
            .await?;
        Ok(answer.code == 0)
    }

    /// Finds the last commit that two commits have in common; `None` if their histories are separate.
    ///
    /// # Errors
    /// Those of git.
    pub async fn merge_base(
        &self,
        one: &Commit,
        other: &Commit,
    ) -> Result<Option<Commit>, GitError> {
        const OPERATION: &str = "find what two commits have in common";
        let subject = format!("{one} and {other}");
        let answer = self
            .call(OPERATION, ["merge-base", one.as_str(), other.as_str()])
            .on(&subject)
            .accept(&[0, 1])
            .run()
            .await?;
        if answer.code != 0 {
            return Ok(None);
        }
        let text = answer.text();
        match Commit::parse(text.trim()) {
            Ok(commit) => Ok(Some(commit)),
            Err(_) => Err(Call::unreadable(OPERATION, &subject, &text)),
        }
    }
}

/// Git's own small files name branches and commits; `None` when there is none or it is no text.
pub(super) fn small_file(path: &Path) -> Result<Option<String>, GitError> {
    let content = files::read(path, SMALL)?;
    Ok(content.and_then(|content| String::from_utf8(content).ok()))
}

/// Why git did not tell of the repository.
fn refused(path: &Path, text: &str, said: String) -> GitError {
    let mut lines = text.lines();
    if lines.next() == Some("true") {
        let place = lines.nth(2).map_or_else(|| path.to_owned(), PathBuf::from);
        return GitError::Bare { path: place };
    }
    if said.contains("not a git repository") || said.contains("must be run in a work tree") {
        return GitError::NotARepository {
            path: path.to_owned(),
        };
    }
    super::error::classify(
        "open the repository",
        path.display().to_string(),
        "exit status: 128".to_owned(),
        said,
    )
}
