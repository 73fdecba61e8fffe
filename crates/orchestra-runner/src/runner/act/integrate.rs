//! merge-fi: the worktree of a job, with all that the job builds on.

mod again;
mod begun;
mod words;

use std::path::PathBuf;

use orchestra_plan::{
    command::Report,
    event::{Failure, FailureKind},
    ids::{Branch, Commit},
};

use super::{Cx, Done, Todo, ready, target};
use crate::{
    git::{Conflict, Forward, GitError, Merging, Repository, Worktree},
    runner::host::git_failure,
};

/// What a job builds on.
pub(super) struct Wanted<'a> {
    pub(super) commits: &'a [Commit],
    pub(super) base_branch: Option<&'a Branch>,
    /// The commit with the work of earlier attempts, which a worktree that is made anew starts from.
    pub(super) holds: Option<&'a Commit>,
    pub(super) clear: bool,
    /// Whether a worktree that is there is thrown away unless it holds something of somebody's.
    pub(super) anew: bool,
    pub(super) with_target: bool,
}

/// What stops it.
enum Stopped {
    Git(GitError),
    /// Something else that a person has to look at.
    Failed(Failure),
    /// Conflicts are left in the worktree.
    Conflicts {
        base: Commit,
        paths: Vec<PathBuf>,
        words: String,
        fresh: bool,
    },
}

impl From<GitError> for Stopped {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}

/// A worktree in which all is together.
struct Together {
    /// What the job starts from.
    base: Commit,
    /// Where the worktree stands.
    head: Commit,
    /// Whether the worktree was made, or emptied, for this attempt.
    fresh: bool,
}

/// Makes the worktree of a job or finds it, and brings into it what the job builds on.
pub(super) async fn integrate(cx: &Cx<'_>, wanted: Wanted<'_>) -> Result<Done, Failure> {
    let repository = cx.repository().await?;
    let path = repository.worktree_path(cx.assignment.owner());
    let made = together(cx, repository, wanted).await;
    let sets_up = ready::has_instructions(&path);
    let path = path.display().to_string();
    let ready = |base, fresh| Report::WorktreeReady {
        path,
        base,
        fresh,
        sets_up,
    };
    match made {
        Ok(Together { base, head, fresh }) => Ok(Done {
            before: vec![ready(base, fresh)],
            commit: Some(head),
            ..Done::default()
        }),
        Err(Stopped::Git(error)) => Err(git_failure(&error)),
        Err(Stopped::Failed(failure)) => Err(failure),
        Err(Stopped::Conflicts {
            base,
            paths,
            words,
            fresh,
        }) => {
            let mut failure = Failure::new(FailureKind::Conflict, words);
            failure.files = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            Ok(Done {
                before: vec![ready(base, fresh)],
                failure: Some(failure.bounded()),
                ..Done::default()
            })
        }
    }
}

async fn together(
    cx: &Cx<'_>,
    repository: &Repository,
    wanted: Wanted<'_>,
) -> Result<Together, Stopped> {
    let (clear, anew) = (wanted.clear, wanted.anew);
    let holds = wanted.holds.cloned();
    let mut sources = sources(cx, repository, wanted).await?;
    let found = repository.usable_worktree(cx.assignment.owner()).await?;
    let begun = match &found {
        Some(worktree) => worktree.marker()?.base,
        None => None,
    };
    match (found, begun) {
        (Some(worktree), Some(_)) if !clear && !anew && cx.assignment.solves_conflicts() => {
            let head = worktree.head().await?;
            let began = cx.assignment.base.clone();
            // What was done before the conflict is the job's, whatever comes beside it.
            let began = match began.filter(|began| *began != head) {
                Some(began) if repository.is_ancestor(&began, &head).await? => Some(began),
                _ => None,
            };
            let mut together = solved(cx, repository, &worktree, head, &sources).await?;
            together.base = began.unwrap_or(together.base);
            Ok(together)
        }
        (Some(worktree), Some(begun)) if !clear && !anew => {
            let base = cx.assignment.base.clone().unwrap_or(begun);
            let base = begun::concluded(cx, &worktree, base, &sources).await?;
            again::again(cx, &worktree, base, &sources).await
        }
        (found, _) => {
            if let Some(worktree) = &found {
                if anew {
                    begun::nobodys(cx, worktree).await?;
                }
                // Before anything of it is put in order.
                worktree.give_up()?;
            }
            // Somebody has removed the worktree, or asked for that; what was committed is not lost with it.
            if let Some(holds) = &holds {
                sources.insert(0, holds.clone());
            }
            match fresh(cx, repository, &sources).await {
                Ok(mut together) => {
                    together.fresh = true;
                    if let Some(base) = cx.assignment.base.clone().filter(|_| holds.is_some()) {
                        together.base = base;
                    }
                    Ok(together)
                }
                Err(Stopped::Conflicts {
                    base, paths, words, ..
                }) => Err(Stopped::Conflicts {
                    base,
                    paths,
                    words,
                    fresh: true,
                }),
                Err(stopped) => Err(stopped),
            }
        }
    }
}

/// The commits that are brought together, in their order.
async fn sources(
    cx: &Cx<'_>,
    repository: &Repository,
    wanted: Wanted<'_>,
) -> Result<Vec<Commit>, Stopped> {
    let unknown = |name: &str| GitError::Unknown {
        name: name.to_owned(),
    };
    let branches = cx.assignment.branches.as_ref();
    let branches = branches.ok_or_else(|| unknown("the base of the plan"))?;
    let mut sources = Vec::new();
    if cx.assignment.job.is_snapshot_validation() {
        sources.push(branches.base_commit.clone());
        sources.extend_from_slice(wanted.commits);
        if wanted.with_target {
            let tip = target::taken_in(cx, repository, branches).await;
            sources.extend(tip.map_err(Stopped::Failed)?);
        }
        return Ok(sources);
    }
    if !wanted.commits.is_empty() {
        return Ok(wanted.commits.to_vec());
    }
    sources.push(match wanted.base_branch {
        None => branches.base_commit.clone(),
        Some(branch) => match repository.tip(branch).await? {
            Some(tip) => tip,
            None => repository
                .find(branch.as_str())
                .await?
                .ok_or_else(|| unknown(branch.as_str()))?,
        },
    });
    Ok(sources)
}

/// A new worktree, or one in which everything begins anew.
async fn fresh(
    cx: &Cx<'_>,
    repository: &Repository,
    sources: &[Commit],
) -> Result<Together, Stopped> {
    let message = merge_message(cx);
    let forward = repository.merge(sources, &message).await?;
    let start = match &forward {
        Forward::Merged(commit) => commit,
        Forward::Conflict(conflict) => &conflict.onto,
    };
    let prepared = repository.prepare(cx.assignment.owner(), start).await?;
    match prepared.reused {
        true => prepared.worktree.restart(start).await?,
        false => prepared.worktree.give_up()?,
    }
    link(cx, &prepared.worktree).await?;
    match forward {
        Forward::Merged(commit) => Ok(Together {
            base: commit.clone(),
            head: commit,
            fresh: true,
        }),
        Forward::Conflict(conflict) => {
            let onto = conflict.onto.clone();
            let with = begin(cx, &prepared.worktree, &conflict, sources, &message).await?;
            joined(
                cx,
                repository,
                &prepared.worktree,
                with.unwrap_or(onto),
                sources,
            )
            .await
        }
    }
}

/// Brings the rest into a worktree whose head has some of it.
async fn joined(
    cx: &Cx<'_>,
    repository: &Repository,
    worktree: &Worktree,
    mut head: Commit,
    sources: &[Commit],
) -> Result<Together, Stopped> {
    let message = merge_message(cx);
    // Each merge that is begun brings in one more.
    for _ in 0..=sources.len() {
        let all: Vec<Commit> = std::iter::once(&head).chain(sources).cloned().collect();
        match repository.merge(&all, &message).await? {
            Forward::Merged(commit) => {
                if commit != head {
                    worktree.reset(&commit).await?;
                }
                return Ok(Together {
                    base: commit.clone(),
                    head: commit,
                    fresh: false,
                });
            }
            Forward::Conflict(conflict) => {
                if conflict.onto != head {
                    worktree.reset(&conflict.onto).await?;
                }
                head = match begin(cx, worktree, &conflict, sources, &message).await? {
                    Some(merged) => merged,
                    None => conflict.onto,
                };
            }
        }
    }
    Ok(Together {
        base: head.clone(),
        head,
        fresh: false,
    })
}

/// Leaves the conflicts of a merge in the worktree, for an agent or a person. Where git finds none there,
/// the commit that has both.
async fn begin(
    cx: &Cx<'_>,
    worktree: &Worktree,
    conflict: &Conflict,
    sources: &[Commit],
    message: &str,
) -> Result<Option<Commit>, Stopped> {
    match worktree.begin_merge(&conflict.with, message).await? {
        Merging::Merged(commit) => Ok(Some(commit)),
        Merging::Conflicts(paths) => Err(Stopped::Conflicts {
            base: conflict.onto.clone(),
            paths,
            words: words::of(cx, worktree, conflict, sources),
            fresh: false,
        }),
    }
}

/// Looks whether an agent has solved the conflicts that were left in the worktree.
async fn solved(
    cx: &Cx<'_>,
    repository: &Repository,
    worktree: &Worktree,
    head: Commit,
    sources: &[Commit],
) -> Result<Together, Stopped> {
    let message = merge_message(cx);
    let all: Vec<Commit> = std::iter::once(&head).chain(sources).cloned().collect();
    let conflict = match repository.merge(&all, &message).await? {
        // It was committed already.
        Forward::Merged(_) => {
            return joined(cx, repository, worktree, head, sources).await;
        }
        Forward::Conflict(conflict) => conflict,
    };
    let paths: Vec<PathBuf> = conflict
        .paths
        .iter()
        .map(|path| path.path.clone())
        .collect();
    let finished = worktree
        .finish_merge(&head, &conflict.with, &paths, &message)
        .await?;
    match finished {
        Ok(merged) => joined(cx, repository, worktree, merged, sources).await,
        Err(unsolved) => {
            let mut left = unsolved.markers;
            left.extend(unsolved.undecided);
            let words = match unsolved.given_up {
                true => "the merge was abandoned and must be repeated",
                false => "the conflicts are not all solved",
            };
            let words = format!("{words}: {}", words::of(cx, worktree, &conflict, sources));
            let paths = if left.is_empty() { paths } else { left };
            Err(Stopped::Conflicts {
                base: head,
                paths,
                words,
                fresh: false,
            })
        }
    }
}

/// Links what the plan asks for of what the user's working tree has and no commit. Nothing else is linked:
/// what a job writes below a link, it writes there.
async fn link(cx: &Cx<'_>, worktree: &Worktree) -> Result<(), GitError> {
    let settings = &cx.assignment.settings;
    if settings.worktree_init.is_empty() {
        let asked = settings.additional_symlink_dirs.iter();
        let directories: Vec<&str> = asked.map(|path| path.as_str()).collect();
        worktree.link_directories(&directories)?;
    }
    worktree.link_submodules().await.map(drop)
}

fn merge_message(cx: &Cx<'_>) -> String {
    let job = &cx.assignment.job;
    match job.is_snapshot_validation() {
        true => format!("[Plan] {}", cx.assignment.settings.name.as_str()),
        false => format!("[Plan] Bring together what {} builds on", job.name.as_str()),
    }
}
