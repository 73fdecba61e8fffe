//! Why a document is not read, written, deleted or listed.

use super::{DocumentPathError, GlobError, MetadataError, NewDocument};
use crate::{ActionError, Fault, ReadError};

/// Why something about documents was not done. Nothing of it was kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DocumentError {
    /// The path can be no document's.
    #[error(transparent)]
    Path(#[from] DocumentPathError),
    /// The metadata cannot be kept.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The pattern of a list is none.
    #[error(transparent)]
    Pattern(#[from] GlobError),
    /// The expected version is no number that means anything.
    #[error(
        "expected_version {0} is invalid; pass 0 to create the document, its current version to replace it, or -1 to write in any case"
    )]
    Expected(i64),
    /// There is too much of it.
    #[error(
        "the document and its metadata have {bytes} bytes, but at most {} are allowed; split the document",
        NewDocument::MAX_BYTES
    )]
    TooLarge {
        /// How much there is.
        bytes: usize,
    },
    /// What is there forbids it.
    #[error(transparent)]
    Refused(#[from] DocumentRefusal),
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why what is there forbids to write a document. The first two texts are those of the storage
/// contract, for programs that look for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentRefusal {
    /// It was to be made, and is there.
    #[error("file already exists (expected_version=0 means create new)")]
    Exists,
    /// Another version was expected; 0 stands for a document that is not there.
    #[error("version conflict: expected {expected}, current {current}")]
    Conflict {
        /// The version that was expected.
        expected: i64,
        /// The version that is there.
        current: i64,
    },
    /// A file stands where a directory is needed, or the other way round, or a link does.
    #[error("`.projects/{path}` is in the way: {what}")]
    InTheWay {
        /// The path below `.projects/`.
        path: String,
        /// What it is.
        what: &'static str,
    },
}

impl From<ActionError> for DocumentError {
    fn from(error: ActionError) -> Self {
        match error {
            ActionError::Document(refusal) => Self::Refused(refusal),
            ActionError::Fault(fault) => Self::Fault(fault),
            // Only the board refuses in these ways, and it has no part in documents.
            ActionError::Refused(_) | ActionError::Invalid(_) => {
                Self::Fault(Fault::Unknown { what: "document" })
            }
        }
    }
}

impl From<ReadError> for DocumentError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Fault(fault) => Self::Fault(fault),
            ReadError::Refused(_) | ReadError::Cursor(_) => {
                Self::Fault(Fault::Unknown { what: "document" })
            }
        }
    }
}
