//! MCP as it is, from and to our own peers.

use bytes::Bytes;
use orchestra_hub::SessionName;
use orchestra_mcp::Said;
use orchestra_plugin::{
    envelope::Response,
    generated::{McpMessage, McpRequest, McpResponse},
    quic::Reply,
};
use orchestra_wire::{Fields, Method, RawJson, RequestId, Rope, shown, text_of, write};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::select;

use crate::translate::{session, session_named};

use super::{
    dispatch::{Turn, given, message},
    failure::{Failure, chain},
};

/// What stands before the methods that want no answer.
const NOTIFICATIONS: &str = "notifications/";

/// Requests that a plugin may make besides calls of tools: it may look at the catalog, at its own tasks, and at the
/// prompts that it is permitted.
const OF_PLUGINS: [Method; 7] = [
    Method::Discover,
    Method::Ping,
    Method::ToolsList,
    Method::PromptsList,
    Method::PromptsGet,
    Method::TasksGet,
    Method::TasksCancel,
];

/// What a method of MCP has answered, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verbatim {
    Result(Bytes),
    Error(Bytes),
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// What is said of a message beside it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside<'a> {
    /// The trace that it belongs to, or nothing.
    pub(super) trace: &'a str,
    /// The session that it is sent for, or nothing.
    pub(super) session: &'a str,
}

impl Turn<'_> {
    pub(super) async fn mcp(&self, reply: &mut Reply) -> Result<Response, Failure> {
        let asked: McpRequest = message(self.request)?;
        let mut params = given(&asked.params).cloned();
        if asked.method == Method::ToolsCall.name() {
            let named = params.as_ref().ok_or_else(|| {
                Failure::new("invalid_request", "tools/call without params names no tool")
            })?;
            params = Some(self.tool_params(named, "", None)?);
        } else if self.connected.who.plugin().is_some() {
            let known = Method::parse(&asked.method);
            if !known.is_some_and(|method| OF_PLUGINS.contains(&method)) {
                self.refused("method", &asked.method);
                let text = format!("plugins may not call {}", shown(&asked.method));
                return Err(Failure::new("not_permitted", text));
            }
            if known == Some(Method::PromptsGet) {
                self.check_prompt_of(params.as_ref())?;
            }
        }
        let beside = Beside {
            trace: &asked.trace_parent,
            session: &asked.session_id,
        };
        let said = self.relay(&asked.method, params, beside, reply).await?;
        let response = match said {
            Verbatim::Result(result) => McpResponse {
                result,
                ..McpResponse::default()
            },
            Verbatim::Error(error) => McpResponse {
                error,
                ..McpResponse::default()
            },
        };
        Ok(Response::new(self.id(), &response))
    }

    /// The params of `tools/call` with the name of the tool that is meant, if it may be called.
    /// `named` is the name beside them; it must not be another one.
    pub(super) fn tool_params(
        &self,
        params: &Bytes,
        named: &str,
        provider: Option<&str>,
    ) -> Result<Bytes, Failure> {
        let raw: &RawValue = serde_json::from_slice(params)
            .map_err(|error| Failure::new("invalid_request", chain(&error)))?;
        // Read as the caller reads them.
        let fields = Fields::find(Some(raw), "params").map_err(|_| {
            Failure::new(
                "invalid_request",
                "the params of tools/call must be an object",
            )
        })?;
        let Some(name) = fields.name.and_then(text_of) else {
            let text = "the params of tools/call name no tool";
            return Err(Failure::new("invalid_request", text));
        };
        if !named.is_empty() && named != name {
            let text = format!(
                "the request names the tool {:?}, and its params {:?}",
                shown(named),
                shown(&name)
            );
            return Err(Failure::new("invalid_request", text));
        }
        let meant = self.route(&name, provider)?;
        Ok(match meant == name {
            true => params.clone(),
            false => renamed(&RawJson::from_frame(raw, Some(params)), &meant),
        })
    }

    /// Lets a message be answered. What is said before the answer goes out at once.
    pub(super) async fn relay(
        &self,
        method: &str,
        params: Option<Bytes>,
        beside: Beside<'_>,
        reply: &mut Reply,
    ) -> Result<Verbatim, Failure> {
        let params = params.map(RawJson::checked).transpose();
        let params = params.map_err(|error| Failure::new("invalid_request", chain(&error)))?;
        let named = params.as_ref().and_then(session_named);
        let session = SessionName::given(named.as_deref().unwrap_or(beside.session));
        let params = match (&session, &named) {
            (Some(session), None) => params.map(|params| session::named(params, session)),
            _ => params,
        };
        let along = self.along(session);
        let mut rope = Rope::new();
        match method.starts_with(NOTIFICATIONS) {
            true => write::notification(&mut rope, method, params.as_ref()),
            false => write::request(
                &mut rope,
                &RequestId::from_number(1),
                method,
                params.as_ref(),
            ),
        }
        let message = Bytes::from(rope.into_vec());
        let trace = Some(beside.trace).filter(|trace| !trace.is_empty());
        let mut relayed = self.connected.relay.ask(&message, trace, along);
        drop(message);
        let mut stopping = self.face.stopping.subscribe();
        let mut is_ending = false;
        loop {
            let said = select! {
                said = relayed.next() => said,
                () = async { drop(stopping.wait_for(|now| *now).await) }, if !is_ending => {
                    is_ending = true;
                    relayed.end().await;
                    continue;
                }
            };
            match said {
                Some(Said::Before(json)) => {
                    let message = Response::new(self.id(), &McpMessage { json });
                    self.connected.replies.send(reply, message).await?;
                }
                Some(Said::Answer(answer)) => return parts(&answer),
                None => return Ok(Verbatim::Result(Bytes::from_static(b"{}"))),
            }
        }
    }
}

/// The result or error of an answer.
fn parts(answer: &Bytes) -> Result<Verbatim, Failure> {
    let read: Answer<'_> = serde_json::from_slice(answer)
        .map_err(|error| Failure::new("invalid_response", chain(&error)))?;
    let part = |raw: &RawValue| answer.slice_ref(raw.get().as_bytes());
    match (read.result, read.error) {
        (Some(result), _) => Ok(Verbatim::Result(part(result))),
        (None, Some(error)) => Ok(Verbatim::Error(part(error))),
        (None, None) => Err(Failure::new("invalid_response", "the response is empty")),
    }
}

/// What an error of JSON-RPC says.
pub(super) fn message_of(error: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Message {
        message: String,
    }
    serde_json::from_slice::<Message>(error).map_or_else(|_| String::new(), |error| error.message)
}

/// Params with another name.
fn renamed(params: &RawJson, name: &str) -> Bytes {
    let mut rope = Rope::new();
    rope.push(b"{\"name\":");
    write::string(&mut rope, name);
    if let Some(members) = params.members() {
        session::push_others(&mut rope, members, "name");
    }
    rope.push_byte(b'}');
    rope.into_vec().into()
}
