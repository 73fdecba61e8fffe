//! The `git` program: repositories, worktrees, merges and references, without touching what is the user's.
//!
//! Everything here is an operation over the `git` program, run with a clean environment, no hooks, no
//! prompts, a time limit and bounded output ([`Git`]). What belongs to the user is read and never written:
//! no checkout of theirs, no index, no configuration and no existing branch, but for two things that they
//! ask for by name: the branch that a plan ends on moves forward, by compare and set, and where that branch
//! is checked out and wholly clean, the checkout follows. Fetching moves the branches of remotes. Of the repository itself we write objects,
//! worktrees below `.worktrees` that carry our [`Marker`], snapshot branches, references below
//! `refs/orchestra/` and two lines of `info/exclude`.
//!
//! Which job runs when, what of a plan is durable and who heals a conflict is decided by others; what they
//! must have made durable before an effect is handed to them as a value ([`Intent`]).

mod baseline;
mod board;
mod branches;
mod call;
mod checkout;
mod commit;
mod diff;
mod drivers;
mod error;
mod exclude;
mod fetch;
mod files;
mod identity;
mod integrate;
mod kept;
mod leftovers;
mod lfs;
mod links;
mod lock;
mod marker;
mod mend;
mod merge;
mod names;
mod nested;
mod orphans;
mod pipes;
mod planted;
mod prepare;
mod program;
mod removal;
mod repository;
mod reserved;
mod resolve;
mod seals;
mod snapshot;
mod sparse;
mod status;
mod submodules;
mod unlock;
mod worktree;

pub use board::{
    BoardEntry, BoardListing, BoardReference, BoardTree, Pushed, TreeRefusal, shown_remote,
};
pub use branches::{Base, Target, TargetChoice};
pub(crate) use call::ALWAYS;
pub use checkout::CheckoutRefusal;
pub use commit::{CommitRefusal, Committed};
pub use diff::{Change, ChangeKind, DiffStats, Patch};
pub use error::GitError;
pub use exclude::EXCLUDED;
pub use fetch::Occasion;
pub use integrate::{Applied, DESTROYED_BELOW_PERCENT, Integration, Intent, IntentState, Landing};
pub use lock::RepositoryLock;
pub use marker::{Marker, Owner};
pub use merge::{Conflict, ConflictPath, Forward};
pub use names::ObjectFormat;
pub use orphans::{Swept, WorktreeEntry};
pub use pipes::find_pipe;
pub use prepare::Prepared;
pub use program::{Git, GitSettings, GitTimes, OLDEST_GIT};
pub use removal::{Held, Removal};
pub use repository::{HalfDone, Head, Repository, Uncommitted};
pub use reserved::{BoardPaths, PathRefusal};
pub use resolve::{Merging, Unsolved};
pub use worktree::{WORKTREES, Worktree};
