//! Calls of tools and prompts, and streaming ones.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};

use super::{
    Fault, Server,
    answers::{INTERNAL_ERROR, INVALID_PARAMS},
    message,
};
use crate::{
    envelope::{Request, Response},
    frame::MAX_FRAME_BYTES,
    generated::{
        PromptGetRequest, PromptGetResponse, StreamCancel, StreamEnd, StreamStart, ToolRequest,
        ToolResponse,
    },
    kit::{
        answer::{self, Answer, HANDLER_ERROR, Speech, ToolError},
        arguments::Json,
        chunks::Chunks,
        cx::{Call, Cancel},
        tool::Function,
    },
    quic::Reply,
    structs::{self, Style},
};

/// The params of a call, as far as they are looked at.
#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "progressToken")]
    progress_token: Option<Box<RawValue>>,
}

impl Server {
    pub(super) async fn tool_call(
        &self,
        request: &Request,
        reply: &mut Reply,
    ) -> Result<Response, Fault> {
        let asked: ToolRequest = message(request)?;
        let Some(function) = self.surroundings.tools.function(&asked.tool_name) else {
            let message = format!("tool \"{}\" not found", asked.tool_name);
            let failure = answer::call_failure("tool_not_found", &message, INVALID_PARAMS);
            return Err(Fault::Failure(Box::new(failure)));
        };
        let speech = match asked.mcp_params.is_empty() && !self.has_revision() {
            true => Speech::Old,
            false => Speech::Mcp,
        };
        let (arguments, progress_token) = arguments(&asked.mcp_params, asked.arguments.as_ref())?;
        let call = Call {
            request_id: request.request_id().to_owned(),
            caller: asked.caller_plugin,
            session: asked.session_id,
            trace_parent: asked.trace_parent,
            provider: asked.provider,
            progress_token,
        };
        let outcome = match function {
            Function::Plain(function) => {
                self.run(call, reply, |cx, _| function(arguments, cx))
                    .await?
            }
            Function::Streaming(function) => {
                let collected = |cx, _| async {
                    let (sender, chunks) = mpsc::channel(1);
                    let work = function(arguments, cx, Chunks::text(sender));
                    let (done, text) = tokio::join!(work, collect(chunks));
                    let text = text?;
                    done.map(|()| Answer::text(text))
                };
                self.run(call, reply, collected).await?
            }
        };
        let mut response = answer::response(outcome, speech);
        if speech == Speech::Mcp && asked.mcp_params.is_empty() && response.success {
            // Whoever did not send the JSON may look for the other form.
            let old = legacy(&response);
            response.result = old;
        }
        Ok(Response::new(request.request_id(), &response))
    }

    pub(super) async fn prompt_get(
        &self,
        request: &Request,
        reply: &mut Reply,
    ) -> Result<Response, Fault> {
        let asked: PromptGetRequest = message(request)?;
        let id = request.request_id();
        let refusal = |description: String, number| PromptGetResponse {
            mcp_error: answer::rpc_error(number, &description),
            description,
            ..PromptGetResponse::default()
        };
        let Some(prompt) = self.offer.prompts.get(&asked.prompt_name) else {
            let message = format!("prompt \"{}\" not found", asked.prompt_name);
            return Ok(Response::new(id, &refusal(message, INVALID_PARAMS)));
        };
        let mcp = !asked.mcp_params.is_empty() || self.has_revision();
        let (arguments, progress_token) = match asked.mcp_params.is_empty() {
            false => arguments(&asked.mcp_params, None)?,
            true => (object(&asked.arguments)?, None),
        };
        let call = Call {
            request_id: id.to_owned(),
            caller: asked.caller_plugin,
            session: asked.session_id,
            trace_parent: asked.trace_parent,
            progress_token,
            ..Call::default()
        };
        let written = self
            .run(call, reply, |cx, _| (prompt.function)(arguments, cx))
            .await;
        let response = match written {
            Ok(Ok(messages)) => messages.response(mcp),
            Ok(Err(error)) => {
                let number = match error.code() {
                    HANDLER_ERROR => INTERNAL_ERROR,
                    _ => INVALID_PARAMS,
                };
                refusal(format!("prompt handler error: {error}"), number)
            }
            Err(fault) => return Err(fault),
        };
        Ok(Response::new(id, &response))
    }

    pub(super) async fn stream_start(
        &self,
        request: &Request,
        reply: &mut Reply,
    ) -> Result<Response, Fault> {
        let asked: StreamStart = message(request)?;
        let id = request.request_id();
        let end = |code: &str, message: String, total_chunks| StreamEnd {
            stream_id: asked.stream_id.clone(),
            success: code.is_empty(),
            error_code: code.to_owned(),
            error_message: message,
            total_chunks,
            ..StreamEnd::default()
        };
        let function = self.surroundings.tools.function(&asked.tool_name);
        let Some(Function::Streaming(function)) = function else {
            let message = format!("streaming tool \"{}\" not found", asked.tool_name);
            return Ok(Response::new(id, &end("tool_not_found", message, 0)));
        };
        let (arguments, progress_token) = arguments(&asked.mcp_params, asked.arguments.as_ref())?;
        let call = Call {
            request_id: id.to_owned(),
            caller: asked.caller_plugin.clone(),
            session: asked.session_id.clone(),
            trace_parent: asked.trace_parent.clone(),
            provider: asked.provider.clone(),
            progress_token,
        };
        let (switch, cancel) = Cancel::pair();
        let Some(_entry) = StreamEntry::new(self, &asked.stream_id, switch.clone()) else {
            let message = format!("there is a stream {:?} already", asked.stream_id);
            return Ok(Response::new(id, &end("invalid_request", message, 0)));
        };
        let sent = Arc::default();
        let streamed = |cx, frames| {
            let chunks = Chunks::stream(id.to_owned(), asked.stream_id.clone(), frames, &sent);
            function(arguments, cx, chunks)
        };
        let done = self.run_with(call, reply, switch, cancel, streamed).await;
        let total = sent.load(Ordering::Relaxed);
        let end = match done {
            Ok(Ok(())) => end("", String::new(), total),
            Ok(Err(error)) => end(error.code(), error.message().to_owned(), total),
            Err(Fault::Failure(failure)) => {
                end(&failure.error_code, failure.error_message.clone(), total)
            }
            Err(Fault::Gone) => return Err(Fault::Gone),
        };
        Ok(Response::new(id, &end))
    }

    pub(super) fn stream_cancel(&self, request: &Request) -> Result<Response, Fault> {
        let cancel: StreamCancel = message(request)?;
        if let Some(switch) = self.streams().get(&cancel.stream_id) {
            switch.send_replace(true);
        }
        Ok(Response::empty(request.request_id()))
    }
}

/// A streaming call that runs, and can be cancelled by its id.
struct StreamEntry<'a> {
    server: &'a Server,
    id: &'a str,
}

impl<'a> StreamEntry<'a> {
    /// `None` when there is one of that id.
    fn new(server: &'a Server, id: &'a str, switch: Arc<watch::Sender<bool>>) -> Option<Self> {
        let mut streams = server.streams();
        if streams.contains_key(id) {
            return None;
        }
        streams.insert(id.to_owned(), switch);
        Some(Self { server, id })
    }
}

impl Drop for StreamEntry<'_> {
    fn drop(&mut self) {
        self.server.streams().remove(self.id);
    }
}

/// The arguments of a call as JSON, and what its progress is reported under.
fn arguments(
    params: &Bytes,
    arguments: Option<&Bytes>,
) -> Result<(Json, Option<Box<RawValue>>), Fault> {
    let invalid = |error: &dyn std::fmt::Display| {
        Fault::failure("invalid_request", format!("malformed arguments: {error}"))
    };
    if !params.is_empty() {
        let read: Params<'_> = serde_json::from_slice(params).map_err(|error| invalid(&error))?;
        let token = read.meta.and_then(|meta| meta.progress_token);
        let arguments = match read.arguments {
            Some(arguments) if arguments.get() != "null" => Json::part_of(params, arguments),
            _ => Json::EMPTY,
        };
        return Ok((arguments, token));
    }
    let json = match arguments {
        Some(arguments) => {
            let text = structs::decode(arguments, Style::Plain).map_err(|error| invalid(&error))?;
            text.into_bytes().into()
        }
        None => Json::EMPTY,
    };
    Ok((json, None))
}

/// Texts as a JSON object.
fn object(texts: &BTreeMap<String, String>) -> Result<Json, Fault> {
    serde_json::to_vec(texts)
        .map(Json::from)
        .map_err(|error| Fault::failure("invalid_request", error.to_string()))
}

/// All chunks as one text.
async fn collect(mut chunks: mpsc::Receiver<Bytes>) -> Result<String, ToolError> {
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.recv().await {
        if whole.len() + chunk.len() > MAX_FRAME_BYTES {
            let message = "all chunks together fit into no answer: call the tool as a stream";
            return Err(ToolError::new("result_too_large", message));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(match String::from_utf8(whole) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// The `Struct` of a response that has the result of MCP.
fn legacy(response: &ToolResponse) -> Option<Bytes> {
    let raw: Box<RawValue> = serde_json::from_slice(&response.mcp_result).ok()?;
    answer::response(Ok(Answer::mcp(raw)), Speech::Old).result
}
