//! What somebody has begun in a worktree since its job was last at work there: it is gone on with, or left alone
//! and named, and never thrown away.

use std::path::PathBuf;

use orchestra_plan::ids::Commit;

use super::{Cx, Stopped, merge_message, words};
use crate::git::{Forward, GitError, HalfDone, Repository, Worktree};

/// Sees to what is half done in a worktree that is used again. A merge of what the job builds on, whose
/// conflicts are solved, is concluded; what its job has left half done itself is undone later. Gives the commit
/// that the job starts from then.
pub(super) async fn concluded(
    cx: &Cx<'_>,
    worktree: &Worktree,
    base: Commit,
    sources: &[Commit],
) -> Result<Commit, Stopped> {
    let repository = worktree.repository();
    let Some(operation) = worktree.half_done() else {
        return Ok(base);
    };
    let with = match operation {
        HalfDone::Merge => worktree.merging()?,
        _ => None,
    };
    if let Some(with) = with {
        let head = worktree.head().await?;
        if repository.is_ancestor(&with, &head).await? {
            // It was committed, and git was killed before it had forgotten it.
            if worktree.is_clean().await? {
                return Ok(base);
            }
        } else if is_of(repository, &with, sources).await? {
            return solved(cx, worktree, base, (&with, &head), sources).await;
        }
    }
    match worktree.is_as_sealed().await? {
        Some(false) => Err(words::begun(worktree, operation)),
        // Where nothing is noted, it was looked at before by a runner that was killed.
        Some(true) | None => Ok(base),
    }
}

/// Whether a commit is one of those that a job builds on, or was one of them when that was merged.
async fn is_of(
    repository: &Repository,
    commit: &Commit,
    sources: &[Commit],
) -> Result<bool, GitError> {
    for source in sources {
        if repository.is_ancestor(commit, source).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Concludes a merge whose conflicts a person has solved. One that nobody has looked at is begun anew: what it
/// brings in may have moved since.
async fn solved(
    cx: &Cx<'_>,
    worktree: &Worktree,
    base: Commit,
    (with, head): (&Commit, &Commit),
    sources: &[Commit],
) -> Result<Commit, Stopped> {
    if worktree.has_untouched_conflicts().await? {
        return Ok(base);
    }
    let message = merge_message(cx);
    let both = [head.clone(), with.clone()];
    let paths: Vec<PathBuf> = match worktree.repository().merge(&both, &message).await? {
        Forward::Merged(_) => Vec::new(),
        Forward::Conflict(conflict) => conflict.paths.into_iter().map(|path| path.path).collect(),
    };
    let finished = worktree.finish_merge(head, with, &paths, &message).await?;
    match finished {
        // What the job has done before the conflict stays its work.
        Ok(merged) if base == *head => Ok(merged),
        Ok(_) => Ok(base),
        Err(unsolved) => {
            let mut left = unsolved.markers;
            left.extend(unsolved.undecided);
            let paths = if left.is_empty() { paths } else { left };
            let words = words::between(cx, worktree, (with, head), sources, &paths);
            Err(Stopped::Conflicts {
                base,
                paths,
                words: format!("the conflicts are not all solved: {words}"),
                fresh: false,
            })
        }
    }
}

/// Sees to it that a worktree which is to begin anew holds nothing of anybody's.
pub(super) async fn nobodys(cx: &Cx<'_>, worktree: &Worktree) -> Result<(), Stopped> {
    let assignment = cx.assignment;
    let known: Vec<Commit> = [&assignment.base, &assignment.commit]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    match worktree.holds(&known).await? {
        Some(held) => Err(words::held(worktree, &held)),
        None => Ok(()),
    }
}
