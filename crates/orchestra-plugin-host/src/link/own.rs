//! MCP to an orchestrator of ours, as it is: nothing is translated.

use orchestra_mcp::client::{Answer, Outgoing};
use orchestra_plugin::{
    envelope::{PayloadOf, Response, ResponseKind},
    generated::{
        McpRequest, McpResponse, PromptGetRequest, PromptGetResponse, ToolRequest, ToolResponse,
    },
};
use orchestra_wire::{ErrorCode, RawJson, Revision, RpcError};
use serde_json::value::RawValue;

use crate::translate::{Question, Terms, member_text, session_named, trace};

/// A request as it goes over the line.
pub(super) fn question(terms: &Terms, request: &Outgoing) -> Question {
    let empty = RawJson::empty_object();
    let params = request.params.as_ref().unwrap_or(&empty);
    let name = || member_text(params, "name").unwrap_or_default();
    let session = || terms.session_of(session_named(params));
    let revision = Revision::NEWEST.as_str().to_owned();
    match request.method.as_str() {
        "tools/call" => Question::new(&ToolRequest {
            tool_name: name(),
            arguments: None,
            caller_plugin: terms.caller.clone(),
            trace_parent: trace(params),
            provider: terms.provider.clone(),
            session_id: session(),
            mcp_params: params.to_bytes(),
            revision,
        }),
        "prompts/get" => Question::new(&PromptGetRequest {
            prompt_name: name(),
            mcp_params: params.to_bytes(),
            revision,
            session_id: session(),
            caller_plugin: terms.caller.clone(),
            trace_parent: trace(params),
            ..PromptGetRequest::default()
        }),
        method => Question::new(&McpRequest {
            method: method.to_owned(),
            params: request
                .params
                .as_ref()
                .map(RawJson::to_bytes)
                .unwrap_or_default(),
            session_id: session(),
            caller_plugin: terms.caller.clone(),
            trace_parent: trace(params),
            revision,
        }),
    }
}

/// What the orchestrator answered.
pub(super) fn answer(terms: &Terms, response: &Response) -> Answer {
    let (result, error) = match response.kind() {
        Some(ResponseKind::Mcp) => {
            let answered: McpResponse = decoded(terms, response)?;
            (answered.result, answered.error)
        }
        Some(ResponseKind::PromptGet) => {
            let answered: PromptGetResponse = decoded(terms, response)?;
            (answered.mcp_result, answered.mcp_error)
        }
        Some(ResponseKind::ToolCall) => {
            let answered: ToolResponse = decoded(terms, response)?;
            if answered.mcp_result.is_empty() && answered.mcp_error.is_empty() {
                // So it refuses what it does not route, whatever was asked.
                return terms.read(
                    &crate::translate::Reading::Call,
                    std::slice::from_ref(response),
                );
            }
            (answered.mcp_result, answered.mcp_error)
        }
        _ => return Err(internal(terms.failure("call", "unexpected response type"))),
    };
    if !error.is_empty() {
        let error = serde_json::from_slice::<&RawValue>(&error);
        return Err(error.map_or_else(
            |_| internal(terms.failure("call", "its error is not valid JSON")),
            RpcError::from_raw,
        ));
    }
    RawJson::checked(result)
        .map_err(|_| internal(terms.failure("call", "its result is not valid JSON")))
}

fn decoded<M: PayloadOf<ResponseKind>>(terms: &Terms, response: &Response) -> Result<M, RpcError> {
    response
        .message()
        .map_err(|error| internal(terms.failure("call", &crate::translate::chain(&error))))
}

fn internal(message: String) -> RpcError {
    RpcError::new(ErrorCode::INTERNAL_ERROR, message)
}
