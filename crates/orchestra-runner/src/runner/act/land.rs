//! merge-ri: the result of a plan onto its target, once.

use orchestra_plan::{
    command::Report,
    event::{Failure, FailureKind, MergeIntent},
    ids::Commit,
};

use super::{Cx, Done, target};
use crate::{
    git::{Applied, Integration, Intent, IntentState, Landing, Repository},
    runner::host::git_failure,
};

/// Moves the target to what was validated. The intent is durable before; what became of one that a runner
/// left behind is found by where the target is.
pub(super) async fn land(cx: &Cx<'_>) -> Result<Done, Failure> {
    let repository = cx.repository().await?;
    if let Some(intent) = &cx.assignment.intent {
        let intent = of_plan(intent);
        let state = repository.state_of(&intent).await;
        return match state.map_err(|error| git_failure(&error))? {
            IntentState::Done => Ok(landed(intent.new)),
            IntentState::Void => apply(cx, repository, intent).await,
            IntentState::Moved { .. } => Ok(voided(moved())),
        };
    }
    let Some(intent) = intended(cx, repository).await? else {
        return Err(moved());
    };
    let told = Report::MergeIntended(MergeIntent {
        target: intent.target.clone(),
        old: intent.old.clone(),
        new: intent.new.clone(),
    });
    if !cx.teller.progress(told).await {
        // The plan was canceled meanwhile, or nobody runs it here any more.
        return Err(Failure::new(FailureKind::Canceled, "the attempt is over"));
    }
    apply(cx, repository, intent).await
}

/// How the work gets onto the target; `None` where that is no longer what was validated.
async fn intended(cx: &Cx<'_>, repository: &Repository) -> Result<Option<Intent>, Failure> {
    let assignment = cx.assignment;
    let (Some(branches), Some(commit)) = (&assignment.branches, &assignment.commit) else {
        let words = "nobody knows what is to be merged, or where";
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
        }
        | Integration::Conflict(_) => Ok(None),
        // It has moved since it was looked at.
        Integration::Ready { intent, .. } if intent.old != tip => Ok(None),
        Integration::Ready { intent, .. } => Ok(Some(intent)),
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

async fn apply(cx: &Cx<'_>, repository: &Repository, intent: Intent) -> Result<Done, Failure> {
    let applied = repository.apply(&intent).await;
    match applied.map_err(|error| git_failure(&error))? {
        Applied::Done => {
            cx.say(&format!("{} is at {}", intent.target, intent.new))
                .await;
            Ok(landed(intent.new))
        }
        Applied::Moved { .. } => Ok(voided(moved())),
        Applied::Refused(refusal) => {
            let words = format!("{refusal} [{}]", refusal.code());
            Ok(voided(Failure::new(FailureKind::TargetDirty, words)))
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
    let words = "the target has moved since the result was validated: it is integrated anew";
    Failure::new(FailureKind::TargetMoved, words)
}
