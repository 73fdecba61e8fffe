//! What a provider answers.

use bytes::Bytes;
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{ListKind, SkillAnswer};

/// A successful answer of a provider. A tool that failed at its own work is also an `Outcome`
/// (`ToolResult::is_error`), as MCP has it.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Answer to a tool call.
    Tool(ToolResult),
    /// Answer to a prompt request.
    Prompt(PromptResult),
    /// Answer to a resource read.
    Resource(ResourceResult),
    /// Answer to a completion request.
    Completion(Completion),
    /// What there is of skills; only the hub says it.
    Skills(SkillAnswer),
    /// A part of a list; only the hub says it.
    List {
        /// Which list.
        kind: ListKind,
        /// Its items as JSON text, separated by commas.
        items: Bytes,
        /// Where the next page starts.
        next: Option<usize>,
    },
    /// The `result` of another server, an object, passed on as it came. Faces fit it to what their
    /// caller's revision can understand.
    Verbatim {
        /// What it is the result of.
        kind: ResultKind,
        /// The result.
        result: RawJson,
        /// Whether it is that of a tool that says it failed.
        is_error: bool,
    },
    /// The verbatim `result` of a method the hub does not know.
    Raw(RawJson),
    /// The call cannot go on without answers from the client; it is called again with them.
    InputRequired(InputRequired),
}

/// What another server's result is the result of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultKind {
    /// A tool call.
    Tool,
    /// A prompt request.
    Prompt,
    /// A resource read.
    Resource,
    /// A completion request.
    Completion,
}

/// The result of a tool call.
#[derive(Debug, Clone, Default)]
pub struct ToolResult {
    /// Content blocks.
    pub content: Vec<Content>,
    /// `structuredContent`, if the tool has an output schema.
    pub structured: Option<RawJson>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// `_meta`, if any; an object.
    pub meta: Option<RawJson>,
}

impl ToolResult {
    /// Reads the result of another server's tool; content of an unknown form is left out.
    #[must_use]
    pub fn of_verbatim(result: &RawJson, is_error: bool) -> Self {
        let content = result.member("content");
        let items = content
            .as_ref()
            .and_then(|content| content.parse::<Vec<&RawValue>>().ok());
        let block = |item: &RawValue| {
            let raw = RawJson::from_raw(item);
            #[derive(Deserialize)]
            struct TextBlock {
                text: String,
            }
            let is_plain = raw.members()?.all(|member| match &*member.key {
                "type" => member.value.as_str() == "\"text\"",
                key => key == "text",
            });
            let text = raw.parse::<TextBlock>().ok().filter(|_| is_plain);
            Some(text.map_or(Content::Raw(raw), |block| Content::Text(block.text)))
        };
        Self {
            content: items.into_iter().flatten().filter_map(block).collect(),
            structured: result.member("structuredContent"),
            is_error,
            meta: result.member("_meta"),
        }
    }
}

/// One content block.
#[derive(Debug, Clone)]
pub enum Content {
    /// A text block.
    Text(String),
    /// Any other block, verbatim.
    Raw(RawJson),
}

/// The result of a prompt request.
#[derive(Debug, Clone)]
pub struct PromptResult {
    /// Description.
    pub description: Option<String>,
    /// `messages`: a JSON array of prompt messages.
    pub messages: RawJson,
}

/// The result of a resource read.
#[derive(Debug, Clone)]
pub struct ResourceResult {
    /// The contents, usually one.
    pub contents: Vec<ResourceContents>,
}

/// One content of a resource.
#[derive(Debug, Clone)]
pub struct ResourceContents {
    /// URI of this content.
    pub uri: String,
    /// Media type.
    pub mime_type: Option<String>,
    /// Text, or base64 when `binary`.
    pub data: String,
    /// Whether `data` is base64 of bytes.
    pub binary: bool,
}

/// The result of a completion request.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// At most 100 values.
    pub values: Vec<String>,
    /// How many there are in all, if known.
    pub total: Option<u64>,
    /// Whether there are more than `values`.
    pub has_more: bool,
}

/// What a call needs from the client before it can go on.
#[derive(Debug, Clone)]
pub struct InputRequired {
    /// `inputRequests`: a JSON object from key to `{method, params}`.
    pub requests: RawJson,
    /// Opaque text handed back with the answers.
    pub state: Option<String>,
    /// Whether an error of the client answers a question. Otherwise it ends the call.
    pub takes_errors: bool,
}

/// Why a provider could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProviderError {
    /// No such tool, prompt or resource.
    #[error("unknown {kind}: {name}")]
    Unknown {
        /// `tool`, `prompt` or `resource`.
        kind: &'static str,
        /// The requested name or URI. The name of a tool or prompt may be followed by the servers that could have it, each
        /// with the reason for which that is not known.
        name: String,
    },
    /// No such resource, by the answer of another server, or as long as servers that could have it do not list their
    /// resources. Has the code of the caller's revision.
    #[error("{message}")]
    NoResource {
        /// The message of the server, or the URI with these servers.
        message: String,
        /// `data`, verbatim.
        data: Option<RawJson>,
    },
    /// The parameters of the call are malformed.
    #[error("{0}")]
    InvalidParams(String),
    /// The rules of the hub do not permit the tool.
    #[error("tool {0} is not permitted here")]
    Denied(String),
    /// The provider cannot be reached or broke while it answered.
    #[error("{0}")]
    Unreachable(String),
    /// A JSON-RPC error of the provider, passed on as it is.
    #[error("{message}")]
    Rpc {
        /// JSON-RPC code.
        code: i64,
        /// Message.
        message: String,
        /// `data`, verbatim.
        data: Option<RawJson>,
    },
    /// The caller cancelled the call.
    #[error("cancelled")]
    Cancelled,
    /// The deadline passed.
    #[error("deadline exceeded")]
    DeadlineExceeded,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verbatim_result_can_be_read_as_one_of_a_tool() {
        let text = r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b","annotations":{}},
            {"type":"image","data":""},7],"structuredContent":{"x":1},"_meta":{"k":1},"more":0}"#;
        let result = RawJson::checked(Bytes::from_static(text.as_bytes())).unwrap();
        let result = ToolResult::of_verbatim(&result, true);
        assert!(matches!(&result.content[0], Content::Text(text) if text == "a"));
        assert!(matches!(
            &result.content[1..],
            [Content::Raw(_), Content::Raw(_)]
        ));
        assert_eq!(result.structured.unwrap().as_str(), r#"{"x":1}"#);
        assert_eq!(result.meta.unwrap().as_str(), r#"{"k":1}"#);
        assert!(result.is_error);
    }
}
