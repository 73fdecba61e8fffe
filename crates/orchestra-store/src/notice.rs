//! What is told to those who watch the board.

use orchestra_board::{IssueId, Slug};

/// Something was changed, by this process or another; it is durable already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeNotice {
    /// In which project; `None` for what concerns the workspace.
    pub project: Option<Slug>,
    /// Which issue, if one.
    pub issue: Option<IssueId>,
    /// What sort of thing.
    pub what: What,
}

/// What sort of thing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// Projects were made, renamed or deleted: the list of projects is another one.
    Projects,
    /// An issue was made.
    IssueCreated,
    /// An issue was changed.
    IssueChanged,
    /// An issue was deleted, with all below it.
    IssueDeleted,
    /// The text of `prd.md`.
    Prd,
    /// The PRD questionnaire.
    PrdSession,
    /// The logged requests.
    Requests,
    /// The remembered texts.
    Memory,
    /// The sessions.
    Sessions,
    /// The plans.
    Plans,
    /// The status page.
    Readme,
    /// Usage.
    Usage,
    /// Hook events.
    HookEvents,
    /// So much at once that anything may have changed.
    Everything,
}
