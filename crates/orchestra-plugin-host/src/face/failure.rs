//! Failures that are told in the generic form of the protocol, which every peer reads: a failed
//! `tool_call`, whatever was asked.

use std::error::Error;

use bytes::Bytes;
use orchestra_plugin::{
    envelope::{Request, RequestKind, Response},
    generated::{McpResponse, ToolResponse},
};
use serde_json::json;

pub(super) use crate::translate::chain;

/// Why something was not done: a short word, and the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }

    /// What is asked for is of no kind that is answered.
    pub(super) fn unknown_request() -> Self {
        Self::new("unknown_request", "unrecognized request type")
    }

    pub(super) fn invalid(error: &dyn Error) -> Self {
        Self::new("invalid_request", chain(error))
    }

    /// The answer to `request`.
    pub(super) fn answer(&self, request: &Request) -> Response {
        let id = request.request_id();
        if request.kind() == Some(RequestKind::Mcp) {
            let error = self.as_rpc();
            return Response::new(
                id,
                &McpResponse {
                    error,
                    ..McpResponse::default()
                },
            );
        }
        Response::new(id, &self.as_tool())
    }

    /// As the response to a call of a tool.
    pub(super) fn as_tool(&self) -> ToolResponse {
        ToolResponse {
            error_code: self.code.clone(),
            error_message: self.message.clone(),
            ..ToolResponse::default()
        }
    }

    /// As an error of JSON-RPC.
    pub(super) fn as_rpc(&self) -> Bytes {
        let code = match &*self.code {
            "invalid_request" | "invalid_arguments" | "not_permitted" | "tool_not_found" => -32602,
            _ => -32603,
        };
        let data = json!({"code": self.code});
        let error = json!({"code": code, "message": self.message, "data": data});
        error.to_string().into()
    }
}
