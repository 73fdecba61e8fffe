//! Why something asked of the plans was not done.

use std::path::PathBuf;

use orchestra_plan::command::Refusal;

use crate::{
    cause::chain,
    git::GitError,
    holder::{CallError, HandOverError, PlaceError, Refused},
    journal::{AppendError, Fault},
};

/// Why something asked of the plans was not done. [`Self::code`] stays the same over versions; the words
/// say what to do.
#[derive(Debug, thiserror::Error)]
pub enum PlansError {
    /// The plan, or what it works on, does not allow it, now or ever.
    #[error("{message}")]
    Refused {
        /// Which kind of refusal: those of [`orchestra_plan::command::Code`], of
        /// [`GitError::code`], and a few of the runner's own.
        code: String,
        /// Why, and what is allowed.
        message: String,
    },
    /// There is no such plan.
    #[error("no plan is named `{asked}`; existing plans: {known}")]
    UnknownPlan {
        /// What was asked for.
        asked: String,
        /// Some that there are.
        known: String,
    },
    /// Several plans have that name.
    #[error("several plans are named `{asked}`; pass the id of one: {candidates}")]
    AmbiguousPlan {
        /// What was asked for.
        asked: String,
        /// Their ids.
        candidates: String,
    },
    /// What plans are kept on fails.
    #[error(transparent)]
    Storage(#[from] Fault),
    /// Where plans are kept cannot be used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// What runs the plans cannot be asked, or has not answered.
    #[error("{0}")]
    Holder(CallError),
    /// A log of a job cannot be read.
    #[error("the log of job `{job}` cannot be read")]
    Log {
        /// Of which job.
        job: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The plans could not be handed over; this process still runs them.
    #[error(transparent)]
    HandOver(#[from] HandOverError),
    /// Git has failed for good.
    #[error("git failed permanently: {what}; the next program that runs the plans retries it")]
    LeftUndone {
        /// What was not done for it.
        what: String,
    },
    /// What a log holds cannot be read by this program.
    #[error("plan {plan} cannot be read: {what}; update the program")]
    Unreadable {
        /// Which plan.
        plan: String,
        /// What is wrong with it.
        what: String,
    },
    /// What plans are kept in was removed while they were run: nothing is known of them any more.
    #[error(
        "{} was removed while its plans were running (for example by `git clean -x`), so the plans are lost; {}",
        .storage.display(), what_is_left(.left)
    )]
    Gone {
        /// What was removed.
        storage: PathBuf,
        /// What is left of them in the repository.
        left: Vec<String>,
    },
    /// A fault of ours.
    #[error("the plans failed: {0}")]
    Internal(String),
}

impl PlansError {
    /// Why, with all that caused it, in one text.
    #[must_use]
    pub fn whole(&self) -> String {
        chain(self)
    }

    /// A stable word for the kind of error.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::UnknownPlan { .. } => "plan-unknown",
            Self::AmbiguousPlan { .. } => "plan-ambiguous",
            Self::Storage(Fault::DiskFull) => "disk-full",
            Self::Storage(Fault::Unsure(_)) | Self::Holder(CallError::MaybeDone) => "maybe-done",
            Self::Storage(_) => "storage-failed",
            Self::Place(_) => "storage-unusable",
            Self::Holder(CallError::Nobody { .. }) => "no-runner",
            Self::Holder(CallError::Ended) => "ending",
            Self::Holder(CallError::TooLong) => "too-long",
            Self::Holder(CallError::Refused(_)) => "refused",
            Self::Log { .. } => "log-unreadable",
            Self::HandOver(_) => "hand-over-failed",
            Self::LeftUndone { .. } => "left-undone",
            Self::Unreadable { .. } => "plan-unreadable",
            Self::Gone { .. } | Self::Holder(CallError::Gone) => "storage-gone",
            Self::Internal(_) => "internal",
        }
    }
}

/// What is left, and what to do about it.
fn what_is_left(left: &[String]) -> String {
    match left.is_empty() {
        true => "nothing of them is left".to_owned(),
        false => format!(
            "the results of their jobs are still in {}: copy what you need, then remove it with `git worktree remove --force --force` and `git branch -D`",
            left.join(", ")
        ),
    }
}

impl From<Refusal> for PlansError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused {
            code: refusal.code().name().to_owned(),
            message: refusal.message().to_owned(),
        }
    }
}

impl From<GitError> for PlansError {
    fn from(error: GitError) -> Self {
        Self::Refused {
            code: error.code().to_owned(),
            message: git_words(&error),
        }
    }
}

impl From<CallError> for PlansError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(Refused { code, message, .. }) => Self::Refused { code, message },
            other => Self::Holder(other),
        }
    }
}

/// The code and words of a fault of the journal, as they go over the socket.
pub(crate) fn refused_by(error: &AppendError) -> Refused {
    let code = match error {
        AppendError::Conflict { .. } => "version-conflict",
        AppendError::Deleted(_) => "plan-unknown",
        AppendError::TooLarge { .. } => "too-long",
        AppendError::Fault(Fault::DiskFull) => "disk-full",
        AppendError::Fault(Fault::Unsure(_)) => "maybe-done",
        AppendError::Fault(_) => "storage-failed",
    };
    refused(code, &chain(error))
}

/// A refusal as it goes over the socket.
pub(crate) fn refused(code: &str, message: &str) -> Refused {
    Refused {
        code: code.to_owned(),
        message: message.to_owned(),
        data: None,
    }
}

/// What went wrong with git and what to do about it.
pub(crate) fn git_words(error: &GitError) -> String {
    format!("{}; {}", chain(error), error.hint())
}
