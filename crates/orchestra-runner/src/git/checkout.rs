//! The branch that a plan ends on where somebody has it checked out: the working tree follows when it is
//! wholly clean, and is not touched otherwise.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use orchestra_plan::ids::Branch;

use super::{
    Change, ChangeKind, DiffStats, GitError, HalfDone, Intent, Repository, RepositoryLock,
    Worktree, WorktreeEntry, baseline,
    call::Call,
    commit::listed,
    names,
    repository::small_file,
    status::{self, Differs, Status},
};

/// How many paths are named in a refusal.
const NAMED: usize = 20;

/// The variable by which git gets an empty value of a setting.
const NONE: &str = "GIT_MERGE_OPTIONS_NONE";

/// What git says of a reference that is not where it was when it began.
const MOVED: &str = "but expected";

/// Why a working tree cannot follow its branch. It was not touched, nor was the branch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckoutRefusal {
    /// It has changes that are not committed.
    #[error("the target branch is checked out in `{}`, which has uncommitted changes ({}); commit or stash them and retry", path.display(), listed(.changes))]
    Dirty {
        /// The working tree.
        path: PathBuf,
        /// Some of them.
        changes: Vec<PathBuf>,
    },
    /// It has changes that git does not show, in files that the plan changes.
    #[error("the target branch is checked out in `{}`, where git hides your changes of files that the plan would overwrite ({}). Run `git update-index --no-assume-unchanged FILE` and `git update-index --no-skip-worktree FILE` for each file, commit or stash the changes, and retry", path.display(), listed(.files))]
    Overlooked {
        /// The working tree.
        path: PathBuf,
        /// Some of them.
        files: Vec<PathBuf>,
    },
    /// Git takes files for changed there that the plan changes and that only a checkout has converted.
    #[error("the target branch is checked out in `{}`, where git shows files of the plan as changed only because of line endings or filters ({}). Run `git checkout --detach` there, retry, and then run `git checkout --force {branch}`", path.display(), listed(.files))]
    Converted {
        /// The working tree.
        path: PathBuf,
        /// Some of them.
        files: Vec<PathBuf>,
        /// The branch.
        branch: Branch,
    },
    /// Something is under way in it.
    #[error("a {operation} is in progress in `{}`, where the target branch is checked out; finish or abort it and retry", path.display())]
    HalfDone {
        /// The working tree.
        path: PathBuf,
        /// What it is.
        operation: HalfDone,
    },
    /// Another git is at work in it.
    #[error("another git process works in `{}`, where the target branch is checked out; retry after it has ended. If no git process runs, remove `index.lock` from the git directory of that working tree", path.display())]
    Busy {
        /// The working tree.
        path: PathBuf,
    },
    /// Files that git does not know or ignores are where the plan has some.
    #[error("the target branch is checked out in `{}`, where the plan would overwrite untracked files ({}); move them away and retry", path.display(), listed(.files))]
    InTheWay {
        /// The working tree.
        path: PathBuf,
        /// Some of them.
        files: Vec<PathBuf>,
    },
    /// Submodules that are checked out would have to change.
    #[error("the target branch is checked out in `{}`, which has submodules that the plan changes ({}). Check out another branch there and retry; then check out the target branch again and run `git submodule update`", path.display(), listed(.submodules))]
    Submodules {
        /// The working tree.
        path: PathBuf,
        /// Some of them.
        submodules: Vec<PathBuf>,
    },
    /// The branch is checked out more than once.
    #[error("the target branch is checked out in several working trees ({}); check out another branch in all but one of them, and retry", listed(.paths))]
    Twice {
        /// The working trees.
        paths: Vec<PathBuf>,
    },
}

impl CheckoutRefusal {
    /// A stable word for the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Dirty { .. } => "target-checkout-dirty",
            Self::Overlooked { .. } => "target-checkout-overlooked",
            Self::Converted { .. } => "target-checkout-converted",
            Self::HalfDone { .. } => "target-checkout-half-done",
            Self::Busy { .. } => "target-checkout-busy",
            Self::InTheWay { .. } => "target-checkout-files-in-the-way",
            Self::Submodules { .. } => "target-checkout-submodules",
            Self::Twice { .. } => "target-checked-out-twice",
        }
    }
}

impl Repository {
    /// Lets the working tree that has the branch checked out follow it, and gives where that is; `None` when
    /// none has. Git moves the branch that is checked out when it comes to that, which may be another one by
    /// then: [`Self::put_back`]. It keeps the lock until it ends, even when we are killed meanwhile.
    pub(super) async fn follow(
        &self,
        intent: &Intent,
        lock: &RepositoryLock,
    ) -> Result<Option<Result<PathBuf, CheckoutRefusal>>, GitError> {
        let mut there = Vec::new();
        for entry in self.worktrees().await? {
            let Some(directory) = self.directory_of(&entry)? else {
                continue;
            };
            if entry.marker.is_none()
                && let Some(operation) = in_use(&directory, &names::reference(&intent.target))?
            {
                let path = entry.path;
                return Ok(Some(Err(CheckoutRefusal::HalfDone { path, operation })));
            }
            let has_it = entry.branch.as_ref() == Some(&intent.target) && !entry.bare;
            if has_it && entry.marker.is_some() {
                self.detach_ours(&entry).await?;
            } else if has_it {
                there.push((entry.path, directory));
            }
        }
        let (path, directory) = match there.len() {
            0 => return Ok(None),
            1 => there.remove(0),
            _ => {
                let paths = there.into_iter().map(|(path, _)| path).collect();
                return Ok(Some(Err(CheckoutRefusal::Twice { paths })));
            }
        };
        if let Some(refusal) = self.unfit(&path, &directory, intent).await? {
            return Ok(Some(Err(refusal)));
        }
        let arguments = [
            "merge",
            "--ff-only",
            "--no-stat",
            "--quiet",
            "--no-autostash",
            "--no-verify-signatures",
            "--no-overwrite-ignore",
            intent.new.as_str(),
        ];
        let call = self
            .git()
            .call("let a working tree follow its branch", &path, arguments);
        // Options of the user's for merges into the branch, such as `-s ours`, would make another commit of it.
        let without = format!("--config-env=branch.{}.mergeOptions={NONE}", intent.target);
        let call = call.option(without).env(NONE, "");
        let call = self.signed(call).await?.on(path.display()).under(lock);
        let followed = call.undisturbed().run().await;
        match followed {
            Ok(_) => Ok(Some(Ok(path))),
            // Between our look and git's something has changed, and git has touched nothing.
            Err(GitError::Locked { .. }) => Ok(Some(Err(CheckoutRefusal::Busy { path }))),
            Err(GitError::Failed { stderr, .. }) if stderr.contains("would be overwritten") => {
                Ok(Some(Err(self.overwritten(path, &stderr).await?)))
            }
            Err(GitError::Failed { stderr, .. }) if stderr.contains("fast-forward") => {
                Ok(Some(Ok(path)))
            }
            // The user has moved it when the files were there already.
            Err(GitError::Failed { stderr, .. }) if stderr.contains(MOVED) => {
                self.take_back(&path, intent).await?;
                Ok(Some(Ok(path)))
            }
            Err(error) => Err(error),
        }
    }

    /// Why git refuses to overwrite files although [`Self::unfit`] has found no change of them.
    async fn overwritten(&self, path: PathBuf, said: &str) -> Result<CheckoutRefusal, GitError> {
        let named = said.lines().filter_map(|line| line.strip_prefix('\t'));
        let changes: Vec<PathBuf> = named.map(PathBuf::from).take(NAMED).collect();
        if changes.is_empty() {
            // Git would list all files.
            return Ok(CheckoutRefusal::Dirty { path, changes });
        }
        let arguments = ["ls-files", "-v", "-z", "--"];
        let call = self.git().call(status::OPERATION, &path, arguments);
        let call = call.option("--literal-pathspecs");
        let listed = changes.iter().fold(call, Call::arg).run().await?;
        // Each has its mark before it: `S` for `--skip-worktree`, and a lower-case letter for `--assume-unchanged`.
        let files = listed.fields().filter_map(|field| match field {
            [mark, b' ', name @ ..] if *mark == b'S' || mark.is_ascii_lowercase() => {
                Some(PathBuf::from(OsStr::from_bytes(name)))
            }
            _ => None,
        });
        let files: Vec<PathBuf> = files.collect();
        Ok(match files.is_empty() {
            true => CheckoutRefusal::Dirty { path, changes },
            false => CheckoutRefusal::Overlooked { path, files },
        })
    }

    /// Brings the files of a plan to a working tree in which the user checked its branch out in the moment in
    /// which that moved. One that has them already, or changes, stays as it is.
    pub(super) async fn catch_up(
        &self,
        intent: &Intent,
        lock: &RepositoryLock,
    ) -> Result<(), GitError> {
        const OPERATION: &str = "bring files to a branch that was checked out meanwhile";
        let Some(old) = &intent.old else {
            return Ok(());
        };
        for entry in self.worktrees().await? {
            let has_it = entry.branch.as_ref() == Some(&intent.target);
            if !has_it || entry.bare || entry.marker.is_some() {
                continue;
            }
            let arguments = ["read-tree", "-m", "-u", old.as_str(), intent.new.as_str()];
            let call = self.git().call(OPERATION, &entry.path, arguments);
            let call = call.on(entry.path.display()).under(lock).undisturbed();
            match call.run().await {
                Err(error @ (GitError::Failed { .. } | GitError::Locked { .. })) => {
                    tracing::warn!(path = %entry.path.display(), %error, "a branch was checked out while a plan updated it; its files were not updated");
                }
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Takes the files back that [`Self::follow`] brought to a working tree whose branch moved elsewhere in
    /// that moment. What the user has changed meanwhile stays, and then so do the files.
    async fn take_back(&self, path: &Path, intent: &Intent) -> Result<(), GitError> {
        const OPERATION: &str = "take files back that a plan brought";
        let arguments = ["read-tree", "-m", "-u", intent.new.as_str(), "HEAD"];
        let call = self.git().call(OPERATION, path, arguments);
        match call.on(path.display()).undisturbed().run().await {
            Err(error @ GitError::Failed { .. }) => {
                tracing::warn!(path = %path.display(), %error, "a branch moved while a plan updated it; its files cannot be restored");
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Undoes what [`Self::follow`] did to another branch, or to a detached `HEAD`, that the user checked out
    /// in that moment. False when the branch is checked out there all the same.
    pub(super) async fn put_back(&self, path: &Path, intent: &Intent) -> Result<bool, GitError> {
        const OPERATION: &str = "put a branch back that was checked out meanwhile";
        let call = |arguments: &[&str]| {
            let arguments = arguments.iter().copied();
            self.git().call(OPERATION, path, arguments)
        };
        let head = call(&["symbolic-ref", "-q", "HEAD"]).accept(&[0, 1]);
        let head = head.run().await?.text();
        if head.trim() == names::reference(&intent.target) {
            return Ok(false);
        }
        let commit = async |name: &str| {
            let arguments = ["rev-parse", "-q", "--verify", name];
            let answer = call(&arguments).accept(&[0, 1, 128]).run().await?;
            Ok::<_, GitError>(names::commit(answer.text().trim()).ok())
        };
        // Git notes there where a branch was before it moves it along.
        let (now, was) = (commit("HEAD").await?, commit("ORIG_HEAD").await?);
        if now.as_ref() == Some(&intent.new)
            && let Some(was) = was
            && was != intent.new
            && self.is_ancestor(&was, &intent.new).await?
        {
            tracing::warn!(path = %path.display(), branch = head.trim(), "another branch was checked out while a plan updated the files; restoring its files");
            call(&["reset", "--keep", "--quiet", was.as_str()])
                .undisturbed()
                .run()
                .await?;
        }
        Ok(true)
    }

    /// Detaches a worktree of ours in which a job has checked the branch out, which then moves without it.
    async fn detach_ours(&self, entry: &WorktreeEntry) -> Result<(), GitError> {
        let worktree = Worktree::at(self, &entry.path)?;
        if let (Some((worktree, _)), Some(head)) = (worktree, &entry.head) {
            worktree.move_head(head).await?;
        }
        Ok(())
    }

    /// What keeps a working tree from following.
    async fn unfit(
        &self,
        path: &Path,
        directory: &Path,
        intent: &Intent,
    ) -> Result<Option<CheckoutRefusal>, GitError> {
        let owned = path.to_owned();
        if let Some(operation) = HalfDone::at(directory) {
            return Ok(Some(CheckoutRefusal::HalfDone {
                path: owned,
                operation,
            }));
        }
        let is_busy = || {
            ["index.lock", "HEAD.lock"]
                .iter()
                .any(|lock| directory.join(lock).exists())
        };
        if is_busy() {
            return Ok(Some(CheckoutRefusal::Busy { path: owned }));
        }
        let mut status = Status::of(
            self.git().call(status::OPERATION, path, status::ARGUMENTS),
            &[],
        )
        .await?;
        // Overwriting what is stored as it is loses nothing, and no commit of the user's would change it.
        let unchanged = baseline::leave_out_stored(&mut status, path, |operation, arguments| {
            self.git().call(operation, path, arguments)
        });
        let unchanged = unchanged.await?;
        // Git enters no submodule here, so what is uncommitted inside of one stays.
        let stays = |differs| {
            matches!(
                differs,
                Differs::Untracked | Differs::Nested | Differs::Dirty
            )
        };
        let mut changes = status.paths(|differs| !stays(differs));
        changes.truncate(NAMED);
        if !changes.is_empty() && is_busy() {
            // They are what another git has done half way.
            return Ok(Some(CheckoutRefusal::Busy { path: owned }));
        }
        if !changes.is_empty() {
            return Ok(Some(CheckoutRefusal::Dirty {
                path: owned,
                changes,
            }));
        }
        let brought = match &intent.old {
            Some(old) => self.changes(old, &intent.new).await?,
            None => {
                let root = self.empty_root().await?;
                self.changes(&root, &intent.new).await?
            }
        };
        // Git itself lets no merge change them.
        let is_unchanged = |change: &&Change| unchanged.contains(&change.path);
        let changes = brought.changes.iter().filter(is_unchanged).take(NAMED);
        let files: Vec<PathBuf> = changes.map(|change| change.path.clone()).collect();
        if !files.is_empty() {
            return Ok(Some(CheckoutRefusal::Converted {
                path: owned,
                files,
                branch: intent.target.clone(),
            }));
        }
        let mut submodules = changed_submodules(path, &brought);
        submodules.truncate(NAMED);
        if !submodules.is_empty() {
            return Ok(Some(CheckoutRefusal::Submodules {
                path: owned,
                submodules,
            }));
        }
        let mut files = files_in_the_way(path, &brought);
        files.truncate(NAMED);
        if !files.is_empty() {
            return Ok(Some(CheckoutRefusal::InTheWay { path: owned, files }));
        }
        Ok(None)
    }

    /// The git directory of a worktree; `None` when its working tree is gone.
    fn directory_of(&self, entry: &WorktreeEntry) -> Result<Option<PathBuf>, GitError> {
        let place = entry.path.join(".git");
        if place.is_dir() {
            return Ok(Some(place));
        }
        let leads = small_file(&place)?;
        let leads = leads
            .as_deref()
            .and_then(|text| text.strip_prefix("gitdir: "));
        Ok(leads.map(|leads| entry.path.join(leads.trim_end())))
    }
}

/// What in a working tree will move the branch when it ends: git shows `HEAD` as detached meanwhile.
fn in_use(directory: &Path, reference: &str) -> Result<Option<HalfDone>, GitError> {
    const NOTES: [(&str, HalfDone); 3] = [
        ("rebase-merge/head-name", HalfDone::Rebase),
        ("rebase-apply/head-name", HalfDone::Rebase),
        ("BISECT_START", HalfDone::Bisect),
    ];
    for (note, operation) in NOTES {
        let content = small_file(&directory.join(note))?.unwrap_or_default();
        let name = content.trim();
        if name == reference || reference.strip_prefix("refs/heads/") == Some(name) {
            return Ok(Some(operation));
        }
    }
    Ok(None)
}

/// Submodules that are checked out and of which the plan changes what they are at.
fn changed_submodules(tree: &Path, brought: &DiffStats) -> Vec<PathBuf> {
    let there = |path: &Path| tree.join(path).join(".git").exists();
    let changes = brought
        .changes
        .iter()
        .filter(|change| change.submodule && there(&change.path));
    changes.map(|change| change.path.clone()).collect()
}

/// What stands where the plan brings files: at their path, or where their directories go.
fn files_in_the_way(tree: &Path, brought: &DiffStats) -> Vec<PathBuf> {
    let gone: BTreeSet<&Path> = brought
        .changes
        .iter()
        .filter(|change| change.kind == ChangeKind::Deleted)
        .map(|change| change.path.as_path())
        .collect();
    let mut found = Vec::new();
    for change in brought
        .changes
        .iter()
        .filter(|change| change.kind == ChangeKind::Added)
    {
        for part in change
            .path
            .ancestors()
            .filter(|part| !part.as_os_str().is_empty())
        {
            let Ok(data) = fs::symlink_metadata(tree.join(part)) else {
                continue;
            };
            // A directory becomes a file only when the plan deletes what is in it, and git sees to that.
            let fits = if part == change.path {
                data.is_dir() && gone.iter().any(|path| path.starts_with(part))
            } else {
                data.is_dir() || gone.contains(part)
            };
            if !fits && !found.iter().any(|known| known == part) {
                found.push(part.to_owned());
            }
        }
    }
    found
}
