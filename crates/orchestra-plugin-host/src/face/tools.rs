//! `tool_call`: which tool is meant, and what its result is for a peer that knows no MCP.

use orchestra_hub::{ProviderError, SessionName};
use orchestra_mcp::{DirectCaller, DirectError};
use orchestra_plugin::{
    envelope::Response,
    generated::{ToolRequest, ToolResponse},
    quic::Reply,
    structs::{self, Numbers, Style},
};
use orchestra_wire::{Method, shown};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::translate::{PROVIDER_META, SESSION_META};

use super::{
    dispatch::{Turn, given, message},
    failure::{Failure, chain},
    permission::{Allowed, Need},
    verbatim::{Beside, Verbatim},
};

/// The AI provider that is asked where the one that was named has no such tool.
const CLAUDE: &str = "claude";

/// AI providers that one of another name speaks for.
const ALIASES: [&str; 5] = ["grok", "perplexity", "deepseek", "qwen", "kimi"];
const ALIASED: &str = "openai";

/// The tool that reaches every other one by its arguments.
const CALL_TOOL: &str = "call_tool";

/// The result of a tool, as MCP has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
    #[serde(rename = "_meta")]
    meta: Option<ResultMeta>,
}

#[derive(Deserialize)]
struct ResultMeta {
    /// The short word for the kind of a failure.
    #[serde(rename = "orchestra/errorCode")]
    error_code: Option<String>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// A call of a tool by a peer that knows no MCP.
pub(super) struct Plain<'a> {
    pub(super) tool: &'a str,
    pub(super) provider: Option<&'a str>,
    /// A `Struct`.
    pub(super) arguments: Option<&'a [u8]>,
    pub(super) session: &'a str,
}

impl Turn<'_> {
    pub(super) async fn tool_call(&self, reply: &mut Reply) -> Result<Response, Failure> {
        let asked: ToolRequest = message(self.request)?;
        let provider = Some(&*asked.provider).filter(|provider| !provider.is_empty());
        if let Some(params) = given(&asked.mcp_params) {
            let params = self.tool_params(params, &asked.tool_name, provider)?;
            let beside = Beside {
                trace: &asked.trace_parent,
                session: &asked.session_id,
            };
            let said = self.relay(Method::ToolsCall.name(), Some(params), beside, reply);
            return Ok(Response::new(self.id(), &of_verbatim(said.await?)));
        }
        let call = Plain {
            tool: &asked.tool_name,
            provider,
            arguments: asked.arguments.as_deref(),
            session: &asked.session_id,
        };
        let caller = DirectCaller {
            trace: Some(asked.trace_parent.clone()).filter(|trace| !trace.is_empty()),
            ..DirectCaller::default()
        };
        let result = self.call_plainly(&call, caller).await?;
        Ok(Response::new(self.id(), &for_old_peers(&result)?))
    }

    /// Makes a call, whose result is that of MCP.
    pub(super) async fn call_plainly(
        &self,
        call: &Plain<'_>,
        caller: DirectCaller,
    ) -> Result<bytes::Bytes, Failure> {
        let name = self.route(call.tool, call.provider)?;
        let mut params = format!("{{\"name\":{}", json!(name));
        if let Some(arguments) = call.arguments {
            params.push_str(",\"arguments\":");
            let decoded = structs::decode_into(arguments, Style::Plain, &mut params);
            decoded.map_err(|error| Failure::new("invalid_arguments", chain(&error)))?;
        }
        let said = [
            (SESSION_META, Some(call.session)),
            (PROVIDER_META, call.provider),
        ];
        let said = said.into_iter();
        let said =
            said.filter_map(|(name, text)| Some((name, text.filter(|text| !text.is_empty())?)));
        let meta: serde_json::Map<String, Value> = said
            .map(|(name, text)| (name.to_owned(), text.into()))
            .collect();
        if !meta.is_empty() {
            params.push_str(&format!(",\"_meta\":{}", Value::Object(meta)));
        }
        params.push('}');
        let caller = DirectCaller {
            client: Some(self.connected.who.id().as_str().into()),
            along: self.along(SessionName::given(call.session)),
            whole: !call.session.is_empty() || call.provider.is_some(),
            ..caller
        };
        let params = params.into();
        let direct = &self.connected.direct;
        let called = direct.call(Method::ToolsCall, &params, caller).await;
        called.map_err(|error| self.failed(error, call, &name))
    }

    /// The name in the hub of the tool that is meant, if it may be called.
    ///
    /// With a provider: its tool, or that of the provider which speaks for it, or that of `claude`,
    /// or a tool of that name. Without one: a tool of that name, or else that of `claude`.
    pub(super) fn route(&self, tool: &str, provider: Option<&str>) -> Result<String, Failure> {
        let ai = |provider: &'static str| {
            let name = self.face.host.ai_tool(provider, tool)?;
            Some((provider.to_owned(), name))
        };
        let is_known = || {
            let attachment = self.connected.direct.attachment();
            attachment.input_schema(tool).is_some()
        };
        let found = match provider {
            Some(asked) => {
                let own = self.face.host.ai_tool(asked, tool);
                let own = own.map(|name| (asked.to_owned(), name));
                let alias = || ALIASES.contains(&asked).then(|| ai(ALIASED)).flatten();
                own.or_else(alias).or_else(|| ai(CLAUDE))
            }
            None => ai(CLAUDE).filter(|_| self.face.options.claude_first || !is_known()),
        };
        if let Some((used, name)) = found {
            let allowed = &self.permissions.ai;
            if allowed.allows(&used) || provider.is_some_and(|asked| allowed.allows(asked)) {
                return Ok(name);
            }
            return Err(self.not_permitted(Need::Provider, &used));
        }
        // Who may use all of them is not held up by the question which it is.
        if self.permissions.ai != Allowed::All
            && let Some(used) = self.face.host.ai_provider_of(tool)
            && !self.permissions.ai.allows(&used)
        {
            return Err(self.not_permitted(Need::Provider, &used));
        }
        let is_plugin = self.connected.who.plugin().is_some();
        if !self.permissions.tools.allows(tool) || (is_plugin && tool == CALL_TOOL) {
            return Err(self.not_permitted(Need::Tool, tool));
        }
        Ok(tool.to_owned())
    }

    fn failed(&self, error: DirectError, call: &Plain<'_>, name: &str) -> Failure {
        let error = match error {
            DirectError::Malformed(text) => return Failure::new("invalid_arguments", text),
            DirectError::TooLarge(text) => return Failure::new("result_too_large", text),
            DirectError::Busy => return Failure::new("busy", error.to_string()),
            DirectError::Provider(error) => error,
        };
        match error {
            ProviderError::Unknown { .. } => not_found(call),
            ProviderError::InvalidParams(text) => Failure::new("invalid_arguments", text),
            ProviderError::Unreachable(cause) => {
                let plugin = self.server_of(name);
                let text = format!("failed to route tool call to plugin \"{plugin}\": {cause}");
                Failure::new("routing_error", text)
            }
            error => {
                let code = match error {
                    ProviderError::Denied(_) => "not_permitted",
                    ProviderError::Cancelled => "cancelled",
                    ProviderError::DeadlineExceeded => "deadline_exceeded",
                    _ => "handler_error",
                };
                Failure::new(code, error.to_string())
            }
        }
    }

    /// Whose tool it is.
    fn server_of(&self, name: &str) -> String {
        let catalogs = self.face.server.hub().catalogs();
        let owner = catalogs.iter().find_map(|(id, catalog)| {
            let tool = catalog.tools.iter().find(|tool| tool.name == name)?;
            Some(tool.server().unwrap_or(id.as_str()).to_owned())
        });
        owner.unwrap_or_default()
    }
}

fn not_found(call: &Plain<'_>) -> Failure {
    let mut text = format!("no plugin provides tool \"{}\"", shown(call.tool));
    if let Some(provider) = call.provider {
        text.push_str(&format!(" for provider \"{}\"", shown(provider)));
    }
    Failure::new("tool_not_found", text)
}

/// A result of MCP as a `Struct`.
///
/// The structured content if there is any, with the text beside it where it says something else;
/// the text alone where there is but one text; otherwise the content as it is.
pub(super) fn for_old_peers(result: &[u8]) -> Result<ToolResponse, Failure> {
    let unreadable = |error: &dyn std::error::Error| Failure::new("invalid_response", chain(error));
    let result: ToolResult<'_> = serde_json::from_slice(result).map_err(|e| unreadable(&e))?;
    let text = lone_text(&result);
    if result.is_error {
        let code = result.meta.and_then(|meta| meta.error_code);
        let texts = result.content.iter().filter_map(|block| text_of(block));
        return Ok(ToolResponse {
            error_code: code.unwrap_or_else(|| "tool_error".to_owned()),
            error_message: texts.collect::<Vec<_>>().join("\n"),
            ..ToolResponse::default()
        });
    }
    let structured = result.structured_content.map(RawValue::get);
    let structured = structured.filter(|text| text.starts_with('{'));
    let json = match (structured, text) {
        (Some(structured), Some(text)) => Some(with_text(structured, &text)),
        (Some(structured), None) => Some(structured.to_owned()),
        (None, Some(text)) => Some(json!({"text": text}).to_string()),
        (None, None) if result.content.is_empty() => None,
        (None, None) => Some(json!({"content": result.content}).to_string()),
    };
    // A number that no double holds is sent as text with all digits.
    let encoded = json.map(
        |json| match structs::encode(json.as_bytes(), Numbers::Exact) {
            Err(structs::StructError::Inexact { .. } | structs::StructError::OutOfRange { .. }) => {
                let text = lone_text(&result).unwrap_or_else(|| json.clone());
                let text = json!({ "text": text }).to_string();
                structs::encode(text.as_bytes(), Numbers::Exact)
            }
            encoded => encoded,
        },
    );
    let too_large = |error: structs::StructError| match error {
        structs::StructError::TooLarge => Failure::new("result_too_large", error.to_string()),
        error => unreadable(&error),
    };
    Ok(ToolResponse {
        success: true,
        result: encoded.transpose().map_err(too_large)?,
        ..ToolResponse::default()
    })
}

/// Structured content with a text beside it, unless that is the same as JSON. Its numbers are not rounded.
fn with_text(structured: &str, text: &str) -> String {
    let value: Option<Value> = serde_json::from_str(structured).ok();
    let is_same = || serde_json::from_str::<Value>(text).is_ok_and(|said| Some(said) == value);
    let members = value.as_ref().and_then(Value::as_object);
    let members = members.filter(|members| !members.contains_key("text") && !is_same());
    let open = structured.trim_end().strip_suffix('}');
    match (members, open) {
        (Some(members), Some(open)) => {
            let comma = if members.is_empty() { "" } else { "," };
            format!("{open}{comma}\"text\":{}}}", Value::from(text))
        }
        _ => structured.to_owned(),
    }
}

fn lone_text(result: &ToolResult<'_>) -> Option<String> {
    match &result.content[..] {
        [only] => text_of(only),
        _ => None,
    }
}

fn text_of(block: &RawValue) -> Option<String> {
    let block: Block = serde_json::from_str(block.get()).ok()?;
    block.text.filter(|_| block.kind == "text")
}

/// What was said in MCP, for one of our own peers.
fn of_verbatim(said: Verbatim) -> ToolResponse {
    match said {
        Verbatim::Result(result) => ToolResponse {
            success: true,
            mcp_result: result,
            ..ToolResponse::default()
        },
        Verbatim::Error(error) => ToolResponse {
            error_code: "mcp_error".to_owned(),
            error_message: super::verbatim::message_of(&error),
            mcp_error: error,
            ..ToolResponse::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struct_of(result: &Value) -> Option<Value> {
        let response = for_old_peers(result.to_string().as_bytes()).unwrap();
        assert!(response.success, "{response:?}");
        let text = structs::decode(&response.result?, Style::Plain).unwrap();
        Some(serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn a_result_of_mcp_becomes_a_struct() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
        for (result, expected) in [
            (json!({"content": [text("a")]}), Some(json!({"text": "a"}))),
            (json!({"content": [text("")]}), Some(json!({"text": ""}))),
            (json!({"content": []}), None),
            (
                json!({"content": [text("a"), image]}),
                Some(json!({"content": [text("a"), image]})),
            ),
            (
                json!({"content": [text("{\"n\": 1}")], "structuredContent": {"n": 1}}),
                Some(json!({"n": 1})),
            ),
            (
                json!({"content": [text("one")], "structuredContent": {"n": 1}}),
                Some(json!({"n": 1, "text": "one"})),
            ),
            (
                json!({"content": [text("one")], "structuredContent": {"text": 2}}),
                Some(json!({"text": 2})),
            ),
            (
                json!({"content": [text("one")], "structuredContent": [1]}),
                Some(json!({"text": "one"})),
            ),
        ] {
            assert_eq!(struct_of(&result), expected, "{result}");
        }
    }

    #[test]
    fn number_that_no_double_holds_is_sent_with_all_digits_in_the_text() {
        let text = |text: &str| json!({"type": "text", "text": text});
        for number in [
            "9007199254740993",
            "-9007199254740993",
            "18446744073709551617",
            "1e400",
        ] {
            for content in [
                String::new(),
                text(&format!("{{\"n\":{number}}}")).to_string(),
                text("beside it").to_string(),
            ] {
                let result = format!(
                    r#"{{"content":[{content}],"structuredContent":{{"n":{number},"m":1}}}}"#
                );
                let response = for_old_peers(result.as_bytes()).unwrap();
                let back = structs::decode(&response.result.unwrap(), Style::Plain).unwrap();
                let back: Value = serde_json::from_str(&back).unwrap();
                let said = back["text"].as_str().unwrap();
                assert!(
                    said.contains(number) || said == "beside it",
                    "{result}: {back}"
                );
                assert!(back.get("n").is_none(), "{result}: {back}");
            }
        }
    }

    #[test]
    fn a_tool_that_failed_says_so() {
        let result = json!({
            "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "way"}],
            "isError": true,
            "_meta": {"orchestra/errorCode": "validation_error"},
        });
        let response = for_old_peers(result.to_string().as_bytes()).unwrap();
        assert!(!response.success);
        assert_eq!(response.error_code, "validation_error");
        assert_eq!(response.error_message, "no\nway");
    }
}
