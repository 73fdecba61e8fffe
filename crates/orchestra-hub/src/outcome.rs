//! What a provider answers.

use orchestra_wire::RawJson;

use crate::SkillAnswer;

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
    /// The verbatim `result` of a method the hub does not know.
    Raw(RawJson),
    /// The call cannot go on without answers from the client; it is called again with them.
    InputRequired(InputRequired),
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
}

/// Why a provider could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProviderError {
    /// No such tool, prompt or resource.
    #[error("unknown {kind}: {name}")]
    Unknown {
        /// `tool`, `prompt` or `resource`.
        kind: &'static str,
        /// The name or URI asked for.
        name: String,
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
