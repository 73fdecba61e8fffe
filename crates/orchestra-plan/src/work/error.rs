//! Why something is not work.

use super::{AdmissionClass, wire::fields_of};
use crate::value::ValueError;

/// Why something is not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// A text that is empty, too long or not printable.
    #[error("a command {0}")]
    Text(ValueError),
    /// `@agent` without a task.
    #[error("`@agent` must be followed by a task of at most 100000 characters")]
    NoTask,
    /// A text that starts like an object, and is not the object that it should be.
    #[error("not a work object: {0}")]
    Json(String),
    /// A field that the type must have.
    #[error("a work object of type `{of}` needs the field `{field}`")]
    Missing {
        /// The type.
        of: AdmissionClass,
        /// The field, or the fields of which it needs one.
        field: &'static str,
    },
    /// A field that the type does not have.
    #[error("work of type `{of}` has no field `{field}`; its fields: {}", fields_of(*.of))]
    Foreign {
        /// The type.
        of: AdmissionClass,
        /// The field.
        field: &'static str,
    },
    /// An agent's task both here and in a file.
    #[error("an agent takes `instructions` or `instructionsFile`, not both")]
    TwoBriefs,
    /// A PowerShell whose error output is mixed into its output.
    #[error(
        "PowerShell turns `2>&1` into false failures; omit it: stdout and stderr are both logged without it"
    )]
    PowerShellRedirect,
    /// An error action for something that has none.
    #[error("`errorAction` is supported only by the shells powershell and pwsh")]
    ErrorAction,
}

impl WorkError {
    /// What programs tell this error by.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::NoTask => "work-text",
            Self::Json(_) => "work-json",
            Self::Missing { .. } => "work-field-missing",
            Self::Foreign { .. } => "work-field-foreign",
            Self::TwoBriefs => "work-two-briefs",
            Self::PowerShellRedirect => "work-powershell-redirect",
            Self::ErrorAction => "work-error-action",
        }
    }
}
