//! commit: what a job has left in its worktree.

use std::path::Path;

use orchestra_plan::{
    event::{Failure, FailureKind, WorkSummary},
    ids::Commit,
};
use orchestra_process::Sandbox;

use super::{Cx, Done};
use crate::{
    agents::{forget_evidence, read_evidence},
    cause::chain,
    git::{BoardPaths, ChangeKind, Committed, GitError, PathRefusal, Repository, Worktree},
    runner::host::git_failure,
};

/// Makes a commit of what is in the worktree. Where nothing has changed, that has to be right.
pub(super) async fn commit(cx: &Cx<'_>, expects_no_changes: bool) -> Result<Done, Failure> {
    let assignment = cx.assignment;
    let worktree = cx.worktree().await?;
    let Some(base) = &assignment.base else {
        let words = "the starting point of the job is not known";
        return Err(Failure::new(FailureKind::Internal, words));
    };
    check_lfs_settings(cx, &worktree).await?;
    let committed = worktree
        .commit(base, &assignment.message())
        .await
        .map_err(|error| git_failure(&error))?
        .map_err(|refusal| Failure::new(FailureKind::Git, refusal.to_string()))?;
    let repository = worktree.repository();
    if committed.commit != *base {
        let bases: Vec<&Commit> = std::iter::once(base).chain(&assignment.kept).collect();
        check_paths(cx, repository, &bases, &committed.commit).await?;
    }
    let summary = summary(&committed);
    if committed.commit == *base && !expects_no_changes {
        let id = assignment.job.id.to_string();
        match read_evidence(worktree.path(), &id) {
            Ok(Some(evidence)) => {
                let words = format!("nothing had to be changed: {}", evidence.summary);
                cx.say(&words).await;
            }
            Ok(None) => {
                let words = "the work changed nothing; if that is right, set expectsNoChanges (with \
                             `orchestra plan retry PLAN JOB --expects-no-changes`), or have it leave a \
                             file of evidence";
                return Err(Failure::new(FailureKind::NothingChanged, words));
            }
            Err(error) => {
                let words = format!("the work changed nothing, and {}", chain(&error));
                return Err(Failure::new(FailureKind::NothingChanged, words));
            }
        }
    }
    if committed.commit == *base && !assignment.kept.contains(base) {
        // A merge of what the job depends on is nobody's but this worktree's.
        let kept = worktree.keep(base).await;
        kept.map_err(|error| git_failure(&error))?;
    }
    Ok(Done {
        commit: Some(committed.commit),
        summary: Some(summary),
        ..Done::default()
    })
}

/// Checks that a job in a sandbox has not left settings of git-lfs, with which the next checkout would contact addresses
/// that the sandbox closes.
pub(super) async fn check_lfs_settings(cx: &Cx<'_>, worktree: &Worktree) -> Result<(), Failure> {
    if !cx.assignment.sandboxed && cx.host.latest_settings().await.sandbox == Sandbox::None {
        return Ok(());
    }
    let settings = worktree.lfs_settings().await;
    match settings.map_err(|error| git_failure(&error))? {
        None => Ok(()),
        Some(path) => {
            let words = format!(
                "the job left `{}`, which names the servers of git-lfs; a plan with a sandbox does not use such a \
                 file of a job: remove it from the worktree, and commit it yourself before the plan",
                path.display()
            );
            Err(Failure::new(FailureKind::Git, words))
        }
    }
}

/// Checks, before an agent starts, that commands in the sandbox have left no repository in the worktree whose programs
/// git of the agent would run outside of the sandbox.
pub(super) async fn check_repositories(cx: &Cx<'_>) -> Result<(), Failure> {
    let worktree = cx.worktree().await?;
    if !worktree.may_have_repositories() {
        return Ok(());
    }
    let check = async {
        let head = worktree.head().await?;
        let merged = merged(cx, worktree.repository(), &head).await?;
        let bases: Vec<&Commit> = cx.assignment.base.iter().chain(&merged).collect();
        worktree.check_repositories(&bases).await
    };
    check
        .await
        .map_err(|error| git_failure(&error))?
        .map_err(|refusal| Failure::new(FailureKind::Git, refusal.to_string()))
}

/// Checks that a result has no paths that would be other than files of the user in a checkout. Accepts paths that one of
/// the bases has, or a branch of the user that was merged into the result.
pub(super) async fn check_paths(
    cx: &Cx<'_>,
    repository: &Repository,
    bases: &[&Commit],
    commit: &Commit,
) -> Result<(), Failure> {
    let options = &cx.host.options;
    let is_shared = match options.is_board_shared {
        None => Ok(false),
        Some(look) => {
            let workspace = options.workspace.clone();
            let look = tokio::task::spawn_blocking(move || look(&workspace));
            look.await.unwrap_or_else(|error| Err(error.to_string()))
        }
    };
    // Git reports the path without links.
    let workspace = options.workspace.canonicalize();
    let workspace = workspace.unwrap_or_else(|_| options.workspace.clone());
    let below = workspace.strip_prefix(repository.toplevel());
    let board = match is_shared {
        Ok(false) => BoardPaths::Committed,
        Ok(true) | Err(_) => BoardPaths::Refused(below.unwrap_or_else(|_| Path::new(""))),
    };
    let merged = merged(cx, repository, commit).await;
    let merged = merged.map_err(|error| git_failure(&error))?;
    let mut bases: Vec<&Commit> = bases.iter().copied().chain(&merged).collect();
    bases.sort_unstable();
    bases.dedup();
    let checked = repository.check_paths(&bases, commit, board).await;
    checked
        .map_err(|error| git_failure(&error))?
        .map_err(|refusal| {
            let words = match (&refusal, &is_shared) {
                (PathRefusal::Board(_), Err(reason)) => format!(
                    "the result changes `.projects`, and it is not known whether the board of the workspace is part \
                     of commits: {reason}; correct that, and retry the job"
                ),
                _ => refusal.to_string(),
            };
            Failure::new(FailureKind::Git, words)
        })
}

/// The newest commit of each branch of the user that a result contains: a job may start from one, and later ones may be
/// merged into its worktree.
async fn merged(
    cx: &Cx<'_>,
    repository: &Repository,
    commit: &Commit,
) -> Result<Vec<Commit>, GitError> {
    let branches = cx.assignment.branches.as_ref();
    let branches = branches.map(|branches| [&branches.base, &branches.target]);
    let own = cx.assignment.job.base_branch.as_ref();
    let mut merged = Vec::new();
    for branch in branches.into_iter().flatten().chain(own) {
        if let Some(tip) = repository.tip(branch).await? {
            merged.extend(repository.merge_base(&tip, commit).await?);
        }
    }
    Ok(merged)
}

/// Forgets what an earlier attempt left that excuses a lack of changes: it is none of this one's.
pub(super) async fn forget(cx: &Cx<'_>) -> Result<(), Failure> {
    let (worktree, id) = (cx.worktree().await?, cx.assignment.job.id.to_string());
    let forgotten = forget_evidence(worktree.path(), &id);
    forgotten.map_err(|error| {
        let words = format!("evidence of an earlier attempt cannot be removed: {error}");
        Failure::new(FailureKind::Worktree, words)
    })
}

fn summary(committed: &Committed) -> WorkSummary {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let stats = &committed.stats;
    let own = u32::try_from(committed.by_job).unwrap_or(u32::MAX);
    WorkSummary {
        commits: own.saturating_add(u32::from(committed.made)),
        files_added: number(stats.count(ChangeKind::Added)),
        files_modified: number(stats.count(ChangeKind::Modified)),
        files_deleted: number(stats.count(ChangeKind::Deleted)),
    }
}
