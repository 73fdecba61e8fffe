//! Why a tool did not do its work: text that a model reads and acts on.

use std::fmt;

use orchestra_board::{Refusal, TextError};
use orchestra_hub::{Content, Outcome, ToolResult};
use orchestra_store::{ActionError, ReadError};

/// A tool failed at its own work; the call itself was well-formed.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    refusal: bool,
}

impl Failure {
    /// A failure with this text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            refusal: false,
        }
    }

    /// Whether the board said no, rather than the store or the arguments.
    pub(crate) const fn is_refusal(&self) -> bool {
        self.refusal
    }

    /// The tool result that tells of it. The path of the workspace is not the caller's business
    /// and becomes `.`.
    pub(crate) fn into_outcome(self, workspace: &str) -> Outcome {
        let text = if workspace.len() > 1 {
            self.text.replace(workspace, ".")
        } else {
            self.text
        };
        Outcome::Tool(ToolResult {
            content: vec![Content::Text(text)],
            is_error: true,
            ..ToolResult::default()
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self {
            text: refusal.to_string(),
            refusal: true,
        }
    }
}

impl From<TextError> for Failure {
    fn from(error: TextError) -> Self {
        Self::text(error.to_string())
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(refusal) => refusal.into(),
            error => Self::text(error.to_string()),
        }
    }
}

impl From<ActionError> for Failure {
    fn from(error: ActionError) -> Self {
        match error {
            ActionError::Refused(refusal) => refusal.into(),
            error => Self::text(error.to_string()),
        }
    }
}
