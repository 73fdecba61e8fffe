//! What is said of a conflict: whose work is at odds with what, in which files, and how a person solves it.
//! And of what somebody has in a worktree, which is not thrown away.

use std::path::PathBuf;

use orchestra_plan::{
    event::{Failure, FailureKind},
    ids::Commit,
};

use super::{Cx, Stopped, Todo};
use crate::git::{CommitRefusal, Conflict, HalfDone, Held, Worktree};

/// How many files are named.
const NAMED: usize = 10;

/// What is said of a conflict that was left in a worktree.
pub(super) fn of(
    cx: &Cx<'_>,
    worktree: &Worktree,
    conflict: &Conflict,
    sources: &[Commit],
) -> String {
    let path = |path: &crate::git::ConflictPath| format!("{} ({})", path.path.display(), path.kind);
    let files: Vec<String> = conflict.paths.iter().map(path).collect();
    said(
        cx,
        worktree,
        (&conflict.with, &conflict.onto),
        sources,
        &files,
    )
}

/// What is said of what does not merge onto something else.
pub(super) fn between(
    cx: &Cx<'_>,
    worktree: &Worktree,
    sides: (&Commit, &Commit),
    sources: &[Commit],
    paths: &[PathBuf],
) -> String {
    let files = paths.iter().map(|path| path.display().to_string());
    said(cx, worktree, sides, sources, &files.collect::<Vec<_>>())
}

fn said(
    cx: &Cx<'_>,
    worktree: &Worktree,
    (with, onto): (&Commit, &Commit),
    sources: &[Commit],
    files: &[String],
) -> String {
    format!(
        "merge conflict: {} does not merge onto {} in {}; resolve it in {} and retry the job, which continues with your result",
        side(cx, with, sources),
        side(cx, onto, sources),
        named(files),
        worktree.path().display(),
    )
}

fn named(files: &[String]) -> String {
    let mut named = files.iter().take(NAMED).cloned().collect::<Vec<_>>();
    if let more @ 1.. = files.len().saturating_sub(NAMED) {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

fn of_somebody(words: String) -> Stopped {
    Stopped::Failed(Failure::new(FailureKind::Worktree, words))
}

/// What is said where somebody has begun something in a worktree that the job goes on in.
pub(super) fn begun(worktree: &Worktree, operation: HalfDone) -> Stopped {
    of_somebody(format!(
        "a {operation} was started in {} after the job ran there; finish or abort it, and retry the job",
        worktree.path().display()
    ))
}

/// What is said where the result is to be integrated anew in a worktree that somebody has changed.
pub(super) fn changed(worktree: &Worktree) -> Stopped {
    of_somebody(format!(
        "since the result was verified in {}, somebody has changed something there; retry the job, which \
         commits that and verifies it too, or put it away before",
        worktree.path().display()
    ))
}

/// What is said where a worktree that begins anew holds something of somebody's.
pub(super) fn held(worktree: &Worktree, held: &Held) -> Stopped {
    let what = match held {
        Held::Changes(paths) => {
            let paths = paths.iter().map(|path| path.display().to_string());
            format!("changes of {}", named(&paths.collect::<Vec<_>>()))
        }
        Held::Commits(commit) => format!("the commit {}", commit.short()),
        Held::HalfDone(operation) => format!("a {operation} that was begun"),
        pipe @ Held::Pipe(_) => pipe.to_string(),
    };
    of_somebody(format!(
        "the job begins anew, and {} holds {what}, which it has not left there; retry the job, and it goes on \
         with that, or put it away before",
        worktree.path().display()
    ))
}

/// What is said where what was mended cannot be committed.
pub(super) fn refused(refusal: &CommitRefusal) -> Stopped {
    Stopped::Failed(Failure::new(FailureKind::Git, refusal.to_string()))
}

/// A commit by what it is to the plan.
fn side(cx: &Cx<'_>, commit: &Commit, sources: &[Commit]) -> String {
    let short = commit.short();
    let mut made = cx.assignment.made.iter();
    if let Some((_, job)) = made.find(|(made, _)| made == commit) {
        return format!("the work of job `{job}` ({short})");
    }
    let is_last = sources.last() == Some(commit);
    let is_target =
        matches!(cx.assignment.todo, Todo::Integrate { with_target, .. } if with_target);
    match &cx.assignment.branches {
        Some(branches) if branches.base_commit == *commit => {
            format!("what the plan started from ({short})")
        }
        Some(branches) if is_last && is_target => {
            format!("branch `{}` ({short})", branches.target)
        }
        _ => format!("what its worktree has ({short})"),
    }
}
