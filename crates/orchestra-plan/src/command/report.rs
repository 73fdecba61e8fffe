//! What whoever runs a job tells.

use crate::budget::Usage;
use crate::event::{Act, Failure, MergeIntent, Process, WorkSummary};
use crate::ids::{Commit, Millis};
use crate::pressure::{Filled, Part};

/// What has become of an attempt, told by whoever runs it.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The worktree is there, new or found again.
    WorktreeReady {
        /// Where.
        path: String,
        /// The commit that the job starts from.
        base: Commit,
        /// Whether it was made for this attempt, so that nothing is in it that was not committed.
        /// What a fresh worktree takes besides is done in this attempt, or the job begins anew.
        fresh: bool,
        /// Whether the repository says itself how a worktree is made ready, in a file of its own.
        sets_up: bool,
    },
    /// An act is about to be done: durable before anything of it happens.
    ActBegan(Act),
    /// A process does it.
    ProcessStarted(Process),
    /// The agent named its session.
    SessionKnown(String),
    /// What the agent has used since it was last told.
    Used(Usage),
    /// The agent's context has filled up so far.
    Filled(Filled),
    /// The act went well. With the last act of the attempt the job succeeds.
    ActSucceeded {
        /// Which.
        act: Act,
        /// Where the worktree stands now; of merge-fi and commit always.
        commit: Option<Commit>,
        /// What was changed since the job started, of commit.
        summary: Option<WorkSummary>,
        /// What was used since it was last told.
        usage: Usage,
        /// When its process ended, where that was before it is told: its runner was gone meanwhile.
        ended: Option<Millis>,
    },
    /// The act failed. What follows is decided here.
    ActFailed {
        /// Which.
        act: Act,
        /// Why.
        failure: Failure,
        /// What was used since it was last told.
        usage: Usage,
        /// When its process ended, where that was before it is told: its runner was gone meanwhile.
        ended: Option<Millis>,
    },
    /// The agent has left parts of its work to jobs of their own, which follow this one. The
    /// attempt goes on with what is done so far.
    Split(Vec<Part>),
    /// The process, or who ran it, is gone without a result: found at recovery.
    Lost {
        /// What was found.
        message: String,
    },
    /// The target is about to be moved: durable before it is.
    MergeIntended(MergeIntent),
    /// The target was not moved.
    MergeVoided,
    /// The target was moved.
    Merged(Commit),
}
