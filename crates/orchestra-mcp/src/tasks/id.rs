//! Ids of tasks.

use std::fmt;

use crate::secret::SecretId;

/// The id of a task, which nobody guesses (MCP, extension tasks, security considerations).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TaskId(SecretId);

impl TaskId {
    /// A new id; `None` when the system has no secret to give.
    pub(crate) fn draw() -> Option<Self> {
        SecretId::draw().map(Self)
    }

    /// Parses an id; `None` when it cannot be one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        SecretId::parse(text).map(Self)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
