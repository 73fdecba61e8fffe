//! Tools: their definitions, calls, and what calls bring.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use orchestra_hub::SessionName;
use orchestra_mcp::client::Answer;
use orchestra_plugin::{
    envelope::Response,
    generated::{
        ListToolsRequest, ListToolsResponse, StreamStart, ToolDefinition, ToolRequest, ToolResponse,
    },
    structs::{self, Numbers, Style},
};
use orchestra_wire::{RawJson, Revision, RpcError};

use super::{Question, Reading, Step, Terms, ask, failure, text};

/// The member of `_meta` that names the session of the client that a call is made for.
pub(crate) const SESSION_META: &str = "orchestra/sessionId";

/// The member of `_meta` that names the AI provider that a call is for.
pub(crate) const PROVIDER_META: &str = "orchestra/provider";

/// The member of `_meta` by which the definition of a tool says that it answers in chunks.
const STREAMING_META: &str = "orchestra/streaming";

/// The longest name of a session, or of a provider, that is passed on.
const MAX_NAME_BYTES: usize = SessionName::MAX_BYTES;

/// A call of a tool, as both kinds of requests for it want it.
#[derive(Debug)]
struct Call {
    name: String,
    arguments: Option<Bytes>,
    trace: String,
    session: Option<String>,
    provider: Option<String>,
    params: Bytes,
}

pub(super) fn list() -> Step {
    ask(&ListToolsRequest {}, Reading::Tools)
}

impl Terms {
    pub(super) fn call(&self, params: Option<&RawJson>) -> Result<Step, RpcError> {
        let call = self.read_call(params)?;
        let request = ToolRequest {
            tool_name: call.name,
            arguments: call.arguments,
            caller_plugin: self.caller.clone(),
            trace_parent: call.trace,
            provider: self.provider_of(call.provider),
            session_id: self.session_of(call.session),
            mcp_params: self.beside(call.params),
            revision: self.mcp_revision(),
        };
        Ok(ask(&request, Reading::Call))
    }

    /// A call of a tool that answers in chunks.
    ///
    /// # Errors
    /// When the parameters are none of `tools/call`.
    pub fn stream(&self, stream: &str, params: Option<&RawJson>) -> Result<Question, RpcError> {
        let call = self.read_call(params)?;
        Ok(Question::new(&StreamStart {
            stream_id: stream.to_owned(),
            tool_name: call.name,
            arguments: call.arguments,
            caller_plugin: self.caller.clone(),
            session_id: self.session_of(call.session),
            provider: self.provider_of(call.provider),
            mcp_params: self.beside(call.params),
            trace_parent: call.trace,
            revision: self.mcp_revision(),
        }))
    }

    /// Whether a plugin says that it has no such tool for an ordinary call, so that nothing ran.
    /// Streaming tools of older plugins are none of those, and their lists do not tell them apart;
    /// those of ours answer either way.
    #[must_use]
    pub fn lacks_tool(&self, response: &Response) -> bool {
        let refusal = response.message::<ToolResponse>();
        matches!(self.peer, super::Peer::Plugin(_))
            && !self.is_ours()
            && refusal.is_ok_and(|said| !said.success && said.error_code == "tool_not_found")
    }

    /// The tools that say in a list of theirs that they answer in chunks, at most `most` of them.
    #[must_use]
    pub fn streaming_tools(&self, response: &Response, most: usize) -> HashSet<String> {
        let listed = response.message::<ListToolsResponse>().unwrap_or_default();
        let says_so = |tool: &ToolDefinition| {
            let meta = text::object(&tool.mcp_definition)?.member("_meta")?;
            Some(meta.member(STREAMING_META)?.as_str() == "true")
        };
        let tools = listed.tools.into_iter();
        let streaming = tools.filter(|tool| says_so(tool) == Some(true));
        streaming.map(|tool| tool.name).take(most).collect()
    }

    /// JSON for those who know where to find it.
    fn beside(&self, params: Bytes) -> Bytes {
        match self.is_ours() {
            true => params,
            false => Bytes::new(),
        }
    }

    /// The session that a call belongs to: the one that it is made for, or ours.
    pub(crate) fn session_of(&self, named: Option<String>) -> String {
        named.unwrap_or_else(|| self.session.clone())
    }

    /// The AI provider that is asked for: the one that a call names, or the one that stands for all.
    fn provider_of(&self, named: Option<String>) -> String {
        named.unwrap_or_else(|| self.provider.clone())
    }

    pub(super) fn mcp_revision(&self) -> String {
        match self.is_ours() {
            true => Revision::NEWEST_SESSION.as_str().to_owned(),
            false => String::new(),
        }
    }

    pub(super) fn listed_tools(&self, response: &Response) -> Answer {
        let listed: ListToolsResponse = self.message("list_tools", response)?;
        // Some peers tell them in another order each time.
        let mut tools: BTreeMap<String, ToolDefinition> = BTreeMap::new();
        let mut order = Vec::with_capacity(listed.tools.len());
        for tool in listed.tools {
            if tool.name.is_empty() || tools.contains_key(&tool.name) {
                let name = orchestra_wire::shown(&tool.name);
                tracing::warn!(peer = ?self.peer, tool = %name, "tool ignored: its name is already taken or empty");
                continue;
            }
            order.push(tool.name.clone());
            tools.insert(tool.name.clone(), tool);
        }
        if !self.is_ours() {
            order.sort_unstable();
        }
        let mut out = String::from("{\"tools\":[");
        for (index, name) in order.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            define(&mut out, &tools[name])
                .map_err(|error| self.failed(&format!("list_tools of {name}"), &error))?;
        }
        out.push_str("]}");
        text::raw(out)
    }

    pub(super) fn called(&self, response: &Response) -> Answer {
        let called: ToolResponse = match response.kind() {
            Some(orchestra_plugin::envelope::ResponseKind::ToolCall) => response
                .message()
                .map_err(|error| self.failed("tool_call", &error))?,
            _ => return Err(self.unexpected()),
        };
        let verbatim = self.verbatim("tool_call", &called.mcp_result, &called.mcp_error);
        if let Some(answer) = verbatim {
            return answer;
        }
        match called.success {
            false => shown(&failure::said(&called), true),
            true => {
                let said = text::shown_text(called.result.as_ref());
                shown(
                    &said.map_err(|error| self.failed("tool_call", &error))?,
                    false,
                )
            }
        }
    }
}

/// A result that is one text, which is always there.
pub(super) fn shown(said: &str, is_error: bool) -> Answer {
    let mut out = String::with_capacity(said.len() + 64);
    out.push_str("{\"content\":[{\"type\":\"text\",\"text\":");
    text::string(&mut out, said);
    out.push_str(match is_error {
        true => "}],\"isError\":true}",
        false => "}]}",
    });
    text::raw(out)
}

impl Terms {
    /// A call, with its arguments as the peer may look for them. Who knows where to find the JSON is
    /// given that alone where a frame does not hold both.
    fn read_call(&self, params: Option<&RawJson>) -> Result<Call, RpcError> {
        let empty = RawJson::empty_object();
        let params = params.unwrap_or(&empty);
        if params.members().is_none() {
            return Err(RpcError::invalid_params("invalid params: not an object"));
        }
        let name = match params.member("name") {
            None => String::new(),
            Some(name) => serde_json::from_str(name.as_str())
                .map_err(|_| RpcError::invalid_params("invalid params: name is not a string"))?,
        };
        if name.is_empty() {
            return Err(RpcError::invalid_params("missing required parameter: name"));
        }
        let arguments = params.member("arguments");
        let arguments = arguments.filter(|arguments| arguments.as_str() != "null");
        let arguments = arguments.map(|arguments| {
            let json = arguments.as_bytes();
            let encoded = match self.is_ours() {
                // The JSON goes beside it, with each digit.
                true => {
                    let beside = params.as_bytes().len();
                    structs::encode_beside(json, beside, Numbers::Nearest)
                }
                false => structs::encode(json, Numbers::Exact).map(Some),
            };
            encoded.map_err(|error| {
                let cause = failure::chain(&error);
                RpcError::invalid_params(format!("invalid arguments: {cause}"))
            })
        });
        Ok(Call {
            name,
            arguments: arguments.transpose()?.flatten(),
            trace: trace(params),
            session: session(params),
            provider: named_in_meta(params, PROVIDER_META),
            params: params.to_bytes(),
        })
    }
}

/// The trace that a request belongs to.
pub(crate) fn trace(params: &RawJson) -> String {
    let meta = params.member("_meta");
    let trace = meta.and_then(|meta| text::text_member(&meta, "traceparent"));
    trace.unwrap_or_default()
}

/// The session that a request names as the one that it is made for.
pub(crate) fn session(params: &RawJson) -> Option<String> {
    named_in_meta(params, SESSION_META)
}

/// The name that a member of `_meta` has, if it is no longer than such names are.
fn named_in_meta(params: &RawJson, member: &str) -> Option<String> {
    let meta = params.member("_meta")?;
    let named = text::text_member(&meta, member)?;
    Some(named).filter(|named| (1..=MAX_NAME_BYTES).contains(&named.len()))
}

/// Appends a definition: as its peer wrote it for MCP, else what there is.
fn define(out: &mut String, tool: &ToolDefinition) -> Result<(), structs::StructError> {
    let whole = text::object(&tool.mcp_definition);
    let whole = whole.filter(|whole| text::text_member(whole, "name").as_ref() == Some(&tool.name));
    if let Some(whole) = whole {
        out.push_str(whole.as_str());
        return Ok(());
    }
    out.push_str("{\"name\":");
    text::string(out, &tool.name);
    text::member(out, "description", &tool.description);
    out.push_str(",\"inputSchema\":");
    match &tool.input_schema {
        Some(schema) if !schema.is_empty() => structs::decode_into(schema, Style::Plain, out)?,
        _ => out.push_str("{\"type\":\"object\"}"),
    }
    out.push('}');
    Ok(())
}
