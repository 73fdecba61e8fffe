//! The worktree of an earlier attempt is used again: what has come since is brought into it, beside what the
//! job has done there.

use orchestra_plan::{event::Act, ids::Commit, phase::Phase};

use super::{Cx, Stopped, Together, link, merge_message, words};
use crate::{
    git::{Forward, GitError, Merging, Repository, Worktree},
    runner::act::commit::check_lfs_settings,
};

/// The worktree of an earlier attempt, with what has come since.
pub(super) async fn again(
    cx: &Cx<'_>,
    found: &Worktree,
    base: Commit,
    sources: &[Commit],
) -> Result<Together, Stopped> {
    let repository = found.repository();
    let validates = cx.assignment.job.is_snapshot_validation();
    let commits = cx.assignment.acts.contains(&Act::of(Phase::Commit));
    if validates && !commits && found.is_as_sealed().await? == Some(false) {
        let head = found.head().await?;
        if !missing(repository, &base, &head, sources).await?.is_empty() {
            return Err(words::changed(found));
        }
    }
    cx.unseal().await.map_err(Stopped::Failed)?;
    let prepared = repository.prepare(cx.assignment.owner(), &base).await?;
    let (worktree, mut head) = (prepared.worktree, prepared.head);
    let missing = missing(repository, &base, &head, sources).await?;
    link(cx, &worktree).await?;
    if missing.is_empty() {
        return Ok(Together {
            base,
            head,
            fresh: false,
        });
    }
    let checked = check_lfs_settings(cx, &worktree).await;
    checked.map_err(Stopped::Failed)?;
    if validates && commits {
        // What was mended is committed before it is verified, and so before something else comes beside it.
        let mended = worktree.commit(&base, &cx.assignment.message()).await?;
        head = mended.map_err(|refusal| words::refused(&refusal))?.commit;
    } else if validates {
        // What checks have changed is no work, and would stand in the way.
        worktree.reset(&head).await?;
    }
    let message = merge_message(cx);
    if let Some(together) = rebased(cx, &worktree, &base, &head, sources, &message).await? {
        return Ok(together);
    }
    // What was done before is the job's, whatever comes beside it.
    let is_begun = head != base;
    let base_at = |head: &Commit| if is_begun { &base } else { head }.clone();
    for source in missing {
        match worktree.begin_merge(source, &message).await? {
            Merging::Merged(commit) => head = commit,
            Merging::Conflicts(paths) => {
                let words = words::between(cx, &worktree, (source, &head), sources, &paths);
                return Err(Stopped::Conflicts {
                    base: base_at(&head),
                    paths,
                    words,
                    fresh: false,
                });
            }
        }
    }
    Ok(Together {
        base: base_at(&head),
        head,
        fresh: false,
    })
}

/// What a worktree does not have yet.
async fn missing<'a>(
    repository: &Repository,
    base: &Commit,
    head: &Commit,
    sources: &'a [Commit],
) -> Result<Vec<&'a Commit>, GitError> {
    let mut missing = Vec::new();
    for source in sources {
        if source != base && !repository.is_ancestor(source, head).await? {
            missing.push(source);
        }
    }
    Ok(missing)
}

/// Brings what is missing together without the job's own work first, so that it starts from that, and that
/// into the worktree. `None`, with nothing done, where either has conflicts.
async fn rebased(
    cx: &Cx<'_>,
    worktree: &Worktree,
    began: &Commit,
    head: &Commit,
    sources: &[Commit],
    message: &str,
) -> Result<Option<Together>, Stopped> {
    let is_begun = head != began;
    let repository = worktree.repository();
    let all: Vec<Commit> = std::iter::once(began).chain(sources).cloned().collect();
    let Forward::Merged(base) = repository.merge(&all, message).await? else {
        return Ok(None);
    };
    let both = [head.clone(), base.clone()];
    let Forward::Merged(_) = repository.merge(&both, message).await? else {
        return Ok(None);
    };
    match worktree.begin_merge(&base, message).await? {
        Merging::Merged(merged) => Ok(Some(Together {
            // Where the job has done nothing yet, it starts from what was merged.
            base: if is_begun { base } else { merged.clone() },
            head: merged,
            fresh: false,
        })),
        Merging::Conflicts(paths) => Err(Stopped::Conflicts {
            base: began.clone(),
            words: words::between(cx, worktree, (&base, head), sources, &paths),
            paths,
            fresh: false,
        }),
    }
}
