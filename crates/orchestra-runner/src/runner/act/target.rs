//! The target as others have left it: whose branch it is, and whether it was rewritten.

use orchestra_plan::{
    event::{Branches, Failure, FailureKind},
    ids::Commit,
};

use super::Cx;
use crate::{
    git::{GitError, Repository},
    runner::host::git_failure,
};

/// What is found where the target is, or will be.
enum Found {
    /// There is no such branch.
    Nothing,
    /// The plan may move the branch, which is there.
    There(Commit),
    /// The branch is there, and does not have the other commit any more, which the plan builds on.
    Rewritten(Commit, Commit),
    /// It is somebody else's: the plan was to make a branch of a name that it has made up.
    Taken,
}

/// The tip of the target, which the result is to be merged with; `None` where there is no such branch yet.
/// From now on the plan builds on it.
pub(super) async fn taken_in(
    cx: &Cx<'_>,
    repository: &Repository,
    branches: &Branches,
) -> Result<Option<Commit>, Failure> {
    let found = find(cx, repository, branches).await;
    let tip = match found.map_err(|error| git_failure(&error))? {
        Found::Nothing => return Ok(None),
        Found::There(tip) => tip,
        Found::Rewritten(tip, _) if cx.assignment.despite == Some(FailureKind::TargetRewritten) => {
            tip
        }
        Found::Rewritten(_, lost) => return Err(rewritten(branches, &lost)),
        Found::Taken => return Err(taken(branches)),
    };
    // Before it is: who comes next must not bring it back where somebody takes it out meanwhile.
    let noted = repository.note_target(cx.assignment.plan, &tip).await;
    noted.map_err(|error| git_failure(&error))?;
    Ok(Some(tip))
}

/// The tip of the target that is about to be moved; `None` where it is about to be made.
pub(super) async fn found(
    cx: &Cx<'_>,
    repository: &Repository,
    branches: &Branches,
) -> Result<Option<Commit>, Failure> {
    let found = find(cx, repository, branches).await;
    match found.map_err(|error| git_failure(&error))? {
        Found::Nothing => Ok(None),
        Found::There(tip) => Ok(Some(tip)),
        Found::Rewritten(_, lost) => Err(rewritten(branches, &lost)),
        Found::Taken => Err(taken(branches)),
    }
}

async fn find(
    cx: &Cx<'_>,
    repository: &Repository,
    branches: &Branches,
) -> Result<Found, GitError> {
    let assignment = cx.assignment;
    let Some(tip) = repository.tip(&branches.target).await? else {
        return Ok(Found::Nothing);
    };
    if branches.target_made && assignment.settings.target_branch.is_none() {
        let is_ours = match &assignment.merged {
            Some(merged) => repository.is_ancestor(merged, &tip).await?,
            None => false,
        };
        if !is_ours {
            return Ok(Found::Taken);
        }
    }
    let noted = repository.noted_target(assignment.plan).await?;
    let began = (!branches.target_made).then(|| branches.base_commit.clone());
    match noted.or(began) {
        Some(built_on) if !repository.is_ancestor(&built_on, &tip).await? => {
            Ok(Found::Rewritten(tip, built_on))
        }
        _ => Ok(Found::There(tip)),
    }
}

fn rewritten(branches: &Branches, lost: &Commit) -> Failure {
    let target = &branches.target;
    let words = format!(
        "branch `{target}` was rewritten: it does not have {} any more, which the plan builds on and would \
         bring back; run the plan anew, or clone it, to have its work done on what the branch has now; or \
         retry the job to merge all the same",
        lost.short()
    );
    Failure::new(FailureKind::TargetRewritten, words)
}

fn taken(branches: &Branches) -> Failure {
    let target = &branches.target;
    let word = orchestra_fs::quoted(target.as_str());
    let words = format!(
        "branch `{target}`, which the plan would create, was created by another program meanwhile and is not changed; rename it (`git branch -m {word} NAME`) or delete it, and retry the job"
    );
    Failure::new(FailureKind::TargetTaken, words)
}
