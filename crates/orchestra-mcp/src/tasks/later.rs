//! When a call that may last becomes a task.

use orchestra_hub::{Call, Cx, Later, Outcome, ProviderError};
use tokio::select;

/// Whether a call becomes a task.
pub(crate) enum Long {
    /// Its client waits.
    Never,
    /// When its first poll does not answer.
    AtOnce,
    /// When its provider says so.
    WhenSaid(Later),
}

/// What became of a call first.
pub(crate) enum Ended {
    /// It was answered.
    Answered(Result<Outcome, ProviderError>),
    /// Its provider has said that it goes on for long.
    Later(Box<Call>),
}

impl Long {
    pub(crate) fn of(cx: &Cx) -> Self {
        match (cx.long, &cx.later) {
            (false, _) => Self::Never,
            (true, None) => Self::AtOnce,
            (true, Some(later)) => Self::WhenSaid(later.clone()),
        }
    }
}

/// Waits for the answer of a call, or until it is said that it takes long.
pub(crate) async fn until_later(mut call: Call, later: &Later) -> Ended {
    select! {
        biased;
        outcome = &mut call => Ended::Answered(outcome),
        () = later.begun() => Ended::Later(Box::new(call)),
    }
}
