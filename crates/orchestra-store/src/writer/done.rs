//! What the writer has done and not answered yet.

use crate::files::needs::Durability;
use crate::queue::{Answer, Job};
use crate::{ActionError, Fault, Made, Receipt};

/// A job that was done in a transaction that is not committed yet.
pub(super) enum Done {
    Action {
        job: Job,
        result: Box<Result<Receipt, ActionError>>,
    },
    Files {
        answer: Answer<()>,
        durability: Durability,
        result: Result<(), ActionError>,
    },
}

/// What is done again of a transaction that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// All of it, for what it failed for is mended.
    All,
    /// What may not have been to blame.
    OfOthers,
}

impl Done {
    /// The run of the full-text index that has more parts, and nobody who asks for them.
    pub(super) fn unwatched_run(&self) -> Option<u64> {
        let Self::Action {
            job: Job::Action { answer, .. },
            result,
        } = self
        else {
            return None;
        };
        match &**result {
            Ok(receipt) if answer.is_closed() => match &receipt.made {
                Made::Reindexed(now) if !now.is_done => Some(now.run),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether it is answered only when it is durable.
    pub(super) fn is_synced(&self) -> bool {
        match self {
            Self::Action { .. } => true,
            Self::Files { durability, .. } => *durability == Durability::Synced,
        }
    }

    /// Answers, as well as the disk allows: what is not durable was not done as far as anybody can
    /// rely on it.
    pub(super) fn answer(self, durable: &Result<(), Fault>) {
        match self {
            Self::Action {
                job: Job::Action { answer, .. },
                result,
            } => {
                drop(answer.send(result.and_then(|receipt| Ok(durable.clone().map(|()| receipt)?))))
            }
            Self::Action { .. } => {}
            Self::Files { answer, result, .. } => {
                drop(answer.send(result.and_then(|()| Ok(durable.clone()?))))
            }
        }
    }
}
