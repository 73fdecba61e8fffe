//! merge-ri: the result of a plan onto its target, once.

use orchestra_plan::{
    command::Report,
    event::{Failure, FailureKind, MergeIntent},
    ids::Commit,
};

use super::{Cx, Done, commit::check_paths, target};
use crate::{
    git::{Applied, Integration, Intent, IntentState, Landing, Repository},
    runner::host::git_failure,
};

/// How often a result is merged with what has come meanwhile before it is integrated anew.
const CHASES: u32 = 5;

/// Moves the target to what was validated. The intent is durable before; what became of one that a runner
/// left behind is found by where the target is.
///
/// A target that has moved sends the result back to integration. Where it has moved again when that is done,
/// and nothing checks the result, it is merged with what has come on the spot: others may be quicker each time
/// than an integration is.
pub(super) async fn land(cx: &Cx<'_>) -> Result<Done, Failure> {
    let repository = cx.repository().await?;
    if let Some(intent) = &cx.assignment.intent {
        let intent = of_plan(intent);
        let state = repository.state_of(&intent).await;
        return match state.map_err(|error| git_failure(&error))? {
            IntentState::Done => Ok(landed(intent.new)),
            IntentState::Void => {
                let applied = apply(cx, repository, intent).await?;
                Ok(applied.unwrap_or_else(|| voided(moved())))
            }
            IntentState::Moved { .. } => Ok(voided(moved())),
        };
    }
    let before = cx.assignment.before.as_ref();
    let has_moved = before.is_some_and(|(.., failure)| failure.kind == FailureKind::TargetMoved);
    let chases = has_moved && cx.assignment.settings.verify_ri.is_none();
    for _ in 0..if chases { CHASES } else { 1 } {
        let Some(intent) = intended(cx, repository, chases).await? else {
            continue;
        };
        let told = Report::MergeIntended(MergeIntent {
            target: intent.target.clone(),
            old: intent.old.clone(),
            new: intent.new.clone(),
        });
        tell(cx, told).await?;
        match apply(cx, repository, intent).await? {
            Some(done) => return Ok(done),
            None => tell(cx, Report::MergeVoided).await?,
        }
    }
    Err(moved())
}

/// Has it kept what is told.
async fn tell(cx: &Cx<'_>, report: Report) -> Result<(), Failure> {
    match cx.teller.progress(report).await {
        true => Ok(()),
        // The plan was canceled meanwhile, or nobody runs it here any more.
        false => Err(Failure::new(FailureKind::Canceled, "the attempt is over")),
    }
}

/// How the work gets onto the target; `None` where that is no longer what was validated, unless it `may_merge`.
async fn intended(
    cx: &Cx<'_>,
    repository: &Repository,
    may_merge: bool,
) -> Result<Option<Intent>, Failure> {
    let assignment = cx.assignment;
    let (Some(branches), Some(commit)) = (&assignment.branches, &assignment.commit) else {
        let words = "the commit to merge or its target is not known";
        return Err(Failure::new(FailureKind::Internal, words));
    };
    let message = format!("[Plan] {}", assignment.settings.name.as_str());
    let floor = match assignment.despite {
        // A person has seen what would go.
        Some(FailureKind::TreeDestroyed) => 0,
        _ => cx.host.options.destroyed_below_percent,
    };
    let tip = target::found(cx, repository, branches).await?;
    let commits = [commit.clone()];
    let integration = repository
        .integrate(&branches.target, &commits, &message, floor)
        .await
        .map_err(|error| git_failure(&error))?;
    match integration {
        // A merge with what has come since was not validated.
        Integration::Ready {
            landing: Landing::Merge,
            ..
        } if !may_merge => Ok(None),
        // Somebody has to resolve it.
        Integration::Conflict(_) => Err(moved()),
        // It has moved since it was looked at.
        Integration::Ready { intent, .. } if intent.old != tip => Ok(None),
        Integration::Ready { intent, .. } => {
            // Conflicts that were solved are part of no commit that was checked before.
            let mut bases = vec![&branches.base_commit];
            bases.extend(&intent.old);
            check_paths(cx, repository, &bases, &intent.new).await?;
            Ok(Some(intent))
        }
        Integration::Destroyed { before, after } => {
            let files = if after == 1 { "file" } else { "files" };
            let words = format!(
                "the result has {after} {files} where {before} were: it is not merged; retry the job if \
                 that is right, and it is"
            );
            Err(Failure::new(FailureKind::TreeDestroyed, words))
        }
    }
}

/// Moves the target as intended; `None` where others have moved it.
async fn apply(
    cx: &Cx<'_>,
    repository: &Repository,
    intent: Intent,
) -> Result<Option<Done>, Failure> {
    let applied = repository.apply(&intent).await;
    match applied.map_err(|error| git_failure(&error))? {
        Applied::Done => {
            cx.say(&format!("{} is at {}", intent.target, intent.new))
                .await;
            Ok(Some(landed(intent.new)))
        }
        Applied::Moved { .. } => Ok(None),
        Applied::Refused(refusal) => {
            let words = format!("{refusal} [{}]", refusal.code());
            Ok(Some(voided(Failure::new(FailureKind::TargetDirty, words))))
        }
    }
}

fn of_plan(intent: &MergeIntent) -> Intent {
    Intent {
        target: intent.target.clone(),
        old: intent.old.clone(),
        new: intent.new.clone(),
    }
}

fn landed(commit: Commit) -> Done {
    Done {
        before: vec![Report::Merged(commit.clone())],
        commit: Some(commit),
        ..Done::default()
    }
}

fn voided(failure: Failure) -> Done {
    Done {
        before: vec![Report::MergeVoided],
        ..Done::failed(failure)
    }
}

fn moved() -> Failure {
    let words = "target branch advanced after validation; integrating again";
    Failure::new(FailureKind::TargetMoved, words)
}
