//! Why a session is no session.

use std::{io, path::Path};

use super::line::VERSION;

/// Why a session cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It cannot be read or written.
    #[error("the session {path} cannot be {what}")]
    Io {
        /// Which file.
        path: String,
        /// `read`, `written` or `made`.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no session.
    #[error("line {number} of {path} is not a valid record of a session: {what}")]
    Form {
        /// Which file.
        path: String,
        /// Which line.
        number: usize,
        /// What is wrong.
        what: String,
    },
    /// A newer program wrote it.
    #[error(
        "{path} has format version {found}, but this program supports versions up to {VERSION}; update the program"
    )]
    Newer {
        /// Which file.
        path: String,
        /// Its version.
        found: u32,
    },
}

impl SessionError {
    /// Returns the constructor of [`SessionError::Io`] from a cause. `what` is the failed operation: `read`, `written` or
    /// `made`.
    pub(super) fn io(path: &Path, what: &'static str) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io {
            path: path.display().to_string(),
            what,
            source,
        }
    }
}
