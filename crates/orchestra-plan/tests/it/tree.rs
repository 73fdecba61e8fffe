//! Worktrees and targets of the simulated git.

use std::collections::BTreeSet;

use orchestra_plan::ids::JobId;

/// Content of a worktree, and what is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) committed: BTreeSet<JobId>,
    pub(crate) dirty: BTreeSet<JobId>,
    /// Content at the last successful check.
    pub(crate) checked: Option<BTreeSet<JobId>>,
    pub(crate) set_up: bool,
}

impl Tree {
    pub(crate) fn seen(&self) -> BTreeSet<JobId> {
        self.committed.union(&self.dirty).copied().collect()
    }
}

/// Content of the target of a plan, and what the user has checked out meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) holds: BTreeSet<JobId>,
    pub(crate) base: Option<JobId>,
    /// True if the last intended move was made.
    pub(crate) moved: bool,
}
