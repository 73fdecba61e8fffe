//! Failures of a peer, in the words that callers of it have always read.

use std::error::Error;

use orchestra_mcp::client::Answer;
use orchestra_plugin::{
    envelope::{Response, ResponseKind},
    generated::{HealthResult, ToolResponse, health_result::Status},
};
use orchestra_wire::{ErrorCode, RawJson, RpcError, shown};

use super::{Peer, Terms};

/// Codes of peers that do not know a kind of request.
const UNKNOWN: [&str; 2] = ["unknown_request", "unsupported"];

impl Terms {
    /// The text for an operation that failed: `orchestrator list_tools failed: …`.
    #[must_use]
    pub fn failure(&self, operation: &str, cause: &str) -> String {
        let who = self.who();
        format!("{who} {operation} failed: {cause}")
    }

    /// The error for an operation that failed, with what is behind it.
    pub(super) fn failed(&self, operation: &str, error: &(dyn Error + 'static)) -> RpcError {
        internal(self.failure(operation, &chain(error)))
    }

    /// The error for an answer to something else.
    pub(super) fn unexpected(&self) -> RpcError {
        internal(format!("unexpected response type from {}", self.who()))
    }

    /// The error for a request that was answered by a tool call that failed, as peers refuse what
    /// they do not know.
    pub(super) fn refused(&self, operation: &str, response: &Response) -> RpcError {
        match response.message::<ToolResponse>() {
            Ok(refusal) if refusal.success => self.unexpected(),
            Ok(refusal) => internal(self.failure(operation, &said(&refusal))),
            Err(error) => self.failed(operation, &error),
        }
    }

    /// How the peer is. One that answers at all without knowing the question is well.
    pub(super) fn health(&self, response: &Response) -> Answer {
        if is_unknown(response) {
            return Ok(RawJson::empty_object());
        }
        let health: HealthResult = self.message("health", response)?;
        match health.status() {
            Status::Unhealthy => Err(internal(self.failure("health", &shown(&health.message)))),
            Status::Unspecified | Status::Healthy | Status::Degraded => Ok(RawJson::empty_object()),
        }
    }

    fn who(&self) -> String {
        match &self.peer {
            Peer::Plugin(id) => format!("plugin \"{id}\""),
            Peer::Orchestrator => "orchestrator".to_owned(),
        }
    }
}

/// What a tool call that failed says: its message, else its code.
pub(super) fn said(response: &ToolResponse) -> String {
    match response.error_message.as_str() {
        "" => format!("tool error: {}", response.error_code),
        message => message.to_owned(),
    }
}

/// Whether a peer says that it does not know the kind of request.
pub(super) fn is_unknown(response: &Response) -> bool {
    response.kind() == Some(ResponseKind::ToolCall)
        && response
            .message::<ToolResponse>()
            .is_ok_and(|refusal| !refusal.success && UNKNOWN.contains(&&*refusal.error_code))
}

pub(super) fn internal(message: String) -> RpcError {
    RpcError::new(ErrorCode::INTERNAL_ERROR, message)
}

/// An error and what is behind it, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
