//! Why a tool did not do its work: text that a model reads and acts on.

use std::fmt;

use orchestra_board::{Refusal, TextError};
use orchestra_hub::{Content, InputRequired, Outcome, ToolResult};
use orchestra_store::{ActionError, ReadError};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::plan_service::PlanFault;
use crate::text::{self, TextFormat};

/// A tool failed at its own work; the call itself was well-formed.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    refusal: bool,
    /// What programs tell it by, where that is told.
    code: Option<String>,
    /// Question for the user of the client, to be answered before the call is made again.
    asks: Option<Box<InputRequired>>,
}

/// A failure as the tools tell it that tell a code.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(crate) struct Coded {
    success: bool,
    /// Stays the same over versions.
    code: String,
    error: String,
}

impl Failure {
    /// A failure with this text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            refusal: false,
            code: None,
            asks: None,
        }
    }

    /// A failure that programs tell by a code.
    pub(crate) fn coded(code: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            code: Some(code.into()),
            ..Self::text(text)
        }
    }

    /// No failure yet: the client is asked for something first.
    pub(crate) fn asking(input: InputRequired) -> Self {
        Self {
            asks: Some(Box::new(input)),
            ..Self::text("the client did not ask its user")
        }
    }

    /// What programs tell it by, where that is told.
    pub(crate) fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Whether the board said no, rather than the store or the arguments.
    pub(crate) const fn is_refusal(&self) -> bool {
        self.refusal
    }

    /// The tool result that tells of it. The path of the workspace is not the caller's business
    /// and becomes `.`.
    pub(crate) fn into_outcome(self, workspace: &str) -> Outcome {
        Outcome::Tool(ToolResult {
            content: vec![Content::Text(without_path(&self.text, workspace))],
            is_error: true,
            ..ToolResult::default()
        })
    }
}

/// Replaces the path of the workspace by `.`, also before a path below it. A full stop behind the path is left out, since
/// `..` means another directory. A longer name is that of another directory.
fn without_path(text: &str, workspace: &str) -> String {
    if workspace.len() <= 1 {
        return text.to_owned();
    }
    let is_of_name = |letter: char| letter.is_alphanumeric() || "._-~+@%".contains(letter);
    let mut parts = text.split(workspace);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = match part.trim_start_matches('.') {
            rest if rest.starts_with('/') || rest.starts_with(is_of_name) => part,
            rest => rest,
        };
        let is_whole = !shown.ends_with(is_of_name) && !rest.starts_with(is_of_name);
        let (path, rest) = match is_whole {
            true => (".", rest),
            false => (workspace, part),
        };
        shown.push_str(path);
        shown.push_str(rest);
    }
    shown
}

impl Failure {
    /// The tool result that tells of it with its code; `otherwise` where it has none.
    pub(crate) fn into_coded(self, otherwise: &str, format: TextFormat) -> Outcome {
        if let Some(input) = self.asks {
            return Outcome::InputRequired(*input);
        }
        let coded = Coded {
            success: false,
            code: self.code.unwrap_or_else(|| otherwise.to_owned()),
            error: self.text,
        };
        text::outcome_of(&coded, format, false)
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
            refusal: true,
            ..Self::text(refusal.to_string())
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

impl From<PlanFault> for Failure {
    fn from(fault: PlanFault) -> Self {
        Self::coded(fault.code, fault.message)
    }
}

impl From<orchestra_plan::command::Refusal> for Failure {
    fn from(refusal: orchestra_plan::command::Refusal) -> Self {
        PlanFault::from(refusal).into()
    }
}

#[cfg(test)]
mod tests {
    use super::without_path;

    #[test]
    fn path_of_the_workspace_is_replaced_only_as_a_whole() {
        for (text, shown) in [
            ("/t/a", "."),
            ("`/t/a/b.md` is not a file", "`./b.md` is not a file"),
            (
                "/t/a/.git was moved to /t/a-m/.git",
                "./.git was moved to /t/a-m/.git",
            ),
            (
                "/t/a was moved to /t/a.old: go",
                ". was moved to /t/a.old: go",
            ),
            ("/s/t/a and /t/a, /t/ab", "/s/t/a and ., /t/ab"),
            ("it is not in /t/a.", "it is not in ."),
            (
                "it is in `/t/a`. See /t/a. Or in /s/t/a.",
                "it is in `.`. See . Or in /s/t/a.",
            ),
            ("/t/a./b, /t/a.b", "/t/a./b, /t/a.b"),
        ] {
            assert_eq!(without_path(text, "/t/a"), shown);
        }
        assert_eq!(without_path("/t", "/"), "/t");
    }
}
