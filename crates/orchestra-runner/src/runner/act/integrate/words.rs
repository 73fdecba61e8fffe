//! What is said of a conflict: whose work is at odds with what, in which files, and how a person solves it.

use std::path::PathBuf;

use orchestra_plan::ids::Commit;

use super::{Cx, Todo};
use crate::git::{Conflict, Worktree};

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
    let mut named = files.iter().take(NAMED).cloned().collect::<Vec<_>>();
    if let more @ 1.. = files.len().saturating_sub(NAMED) {
        named.push(format!("{more} more"));
    }
    format!(
        "merge conflict: {} does not merge onto {} in {}; a person solves it in {}, commits it there \
         and retries the job, which goes on with it",
        side(cx, with, sources),
        side(cx, onto, sources),
        named.join(", "),
        worktree.path().display(),
    )
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
