//! What can go wrong on the way back.

use crate::{kit::storage::StorageError, quic::CallError};

/// The codes of orchestrators by which a call is refused before anything runs.
const BEFORE: [&str; 10] = [
    "busy",
    "invalid_arguments",
    "invalid_request",
    "not_permitted",
    "not_reachable",
    "not_registered",
    "permission_denied",
    "tool_not_found",
    "unknown_peer",
    "unknown_request",
];

/// Why the orchestrator has not done what was asked.
#[derive(Debug, thiserror::Error)]
pub enum OrchestratorError {
    /// The plugin was started without one.
    #[error("the plugin has no orchestrator to call: it was started without --orchestrator-addr")]
    None,
    /// There is no connection at the moment.
    #[error("there is no connection to the orchestrator: {0}")]
    Away(String),
    /// The call went wrong on its way.
    #[error("the call of the orchestrator failed")]
    Call(#[source] CallError),
    /// The orchestrator, or the tool that was called, says no.
    #[error("{message} ({code})")]
    Refused {
        /// A short word for programs.
        code: String,
        /// Words for a reader.
        message: String,
    },
    /// The storage says no.
    #[error("the storage refused the request")]
    Storage(#[source] StorageError),
    /// What was to be sent has no form in the protocol.
    #[error("cannot send the request: {0}")]
    Unsendable(String),
    /// The answer cannot be understood.
    #[error("cannot parse the response: {0}")]
    Answer(String),
    /// The orchestrator is of an older kind, which does not know this.
    #[error("the orchestrator does not support {0}")]
    Unsupported(&'static str),
}

impl OrchestratorError {
    /// Whether a document was not as expected: read it again, and try once more.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Storage(StorageError::Conflict(_)))
    }

    /// Whether what was asked may have been done in spite of the error. A refusal may come after the
    /// tool has run, unless its code says that it comes before.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Call(error) => error.may_have_run(),
            Self::Refused { code, .. } => !BEFORE.contains(&code.as_str()),
            Self::Answer(_) | Self::Storage(StorageError::UnknownOutcome(_)) => true,
            _ => false,
        }
    }
}
