//! Keeps the readable files and the database in step.
//!
//! `flush` writes what changed in the database, `intake` takes in what people changed in the
//! files, `sweep` looks for such changes where nobody told us, `rebuild` makes a database from
//! files alone. One thread does all of it, so that no file is looked at from two sides at once.

mod conflict;
mod engine;
pub(crate) mod fields;
mod flush;
mod git;
pub(crate) mod identity;
mod intake;
pub(crate) mod ledger;
mod listing;
pub(crate) mod merge;
pub(crate) mod needs;
pub(crate) mod owner;
pub(crate) mod place;
mod rebuild;
pub(crate) mod render;
mod report;
mod sweep;
mod worker;

pub(crate) use engine::Engine;
pub(crate) use intake::{above, read_document, shorten_claim};
pub(crate) use needs::{Board, Work};
pub(crate) use owner::Owner;
pub(crate) use place::{OTHERS, TEMP};
pub(crate) use rebuild::rebuild;
pub(crate) use worker::{Files, Shared as Reports};

use crate::{ActionError, Fault, ReadError};

/// Why the readable files could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A file could not be read or written.
    #[error(
        "cannot read or write the files in .projects; check the permissions of this directory and the free space of its disk"
    )]
    Io(#[from] std::io::Error),
    /// Something else stands where a directory is to be.
    #[error(
        "`.projects/{path}` is not a directory; replace it by one, because links are not followed"
    )]
    NotADirectory {
        /// The path below `.projects/`.
        path: String,
    },
    /// A file that is to be written was changed by another program, again and again or in a way that cannot be taken in.
    #[error("`.projects/{path}` exists where the board writes a file; move it away")]
    Stuck {
        /// The path below `.projects/`.
        path: String,
    },
    /// The database refuses what the files need.
    #[error("the readable files could not be recorded: {0}")]
    Refused(String),
    /// It took too long.
    #[error(
        "the readable files of the board are not up to date yet, but its database is; try again in a moment"
    )]
    Timeout,
}

impl FilesError {
    /// Returns whether another process may be able to do what this one is not.
    pub(crate) fn is_of_this_process(&self) -> bool {
        use std::io::ErrorKind as Kind;
        match self {
            Self::Fault(fault) => matches!(
                fault,
                Fault::ReadOnly | Fault::DirectoryMoved { .. } | Fault::Reconfigured(_)
            ),
            Self::Io(error) => {
                matches!(
                    error.kind(),
                    Kind::PermissionDenied | Kind::ReadOnlyFilesystem
                )
            }
            _ => false,
        }
    }
}

impl From<FilesError> for Fault {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Fault(fault) => fault,
            FilesError::Io(error) => Self::io("read or write the files in .projects", error),
            other => Self::io(
                "bring the files in .projects up to date",
                std::io::Error::other(other.to_string()),
            ),
        }
    }
}

impl From<ReadError> for FilesError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Fault(fault) => Self::Fault(fault),
            other => Self::Refused(other.to_string()),
        }
    }
}

impl From<ActionError> for FilesError {
    fn from(error: ActionError) -> Self {
        match error {
            ActionError::Fault(fault) => Self::Fault(fault),
            other => Self::Refused(other.to_string()),
        }
    }
}
