//! The shapes of requests and answers, for the OpenAPI document. Both are read and written by the
//! code of MCP; tests hold answers against these shapes.
#![expect(dead_code, reason = "they only describe")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The tools.
#[derive(ToSchema)]
pub(super) struct ToolList {
    tools: Vec<Tool>,
    /// How many there are.
    count: u64,
}

/// One tool.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Tool {
    name: String,
    #[schema(nullable = false)]
    title: Option<String>,
    #[schema(nullable = false)]
    description: Option<String>,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    input_schema: Map<String, Value>,
    /// JSON Schema of the structured result.
    #[schema(value_type = Option<Object>, nullable = false)]
    output_schema: Option<Map<String, Value>>,
    /// Hints about what the tool does.
    #[schema(value_type = Option<Object>, nullable = false)]
    annotations: Option<Map<String, Value>>,
}

/// A call of a tool.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCall {
    /// Which tool.
    name: String,
    /// Its arguments, as its schema has them; none by default.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Map<String, Value>>,
}

/// What a tool answers.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct ToolAnswer {
    content: Vec<Block>,
    /// The result for programs, as the tool's output schema has it.
    #[schema(value_type = Option<Object>, nullable = false)]
    structured_content: Option<Map<String, Value>>,
    /// True when the tool failed; it is left out otherwise.
    #[schema(nullable = false)]
    is_error: Option<bool>,
}

/// A content block of MCP: text, an image, audio, a resource or a link to one.
#[derive(ToSchema)]
struct Block {
    r#type: String,
    #[schema(nullable = false)]
    text: Option<String>,
}

/// The resources.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct ResourceList {
    resources: Vec<Resource>,
    resource_templates: Vec<Template>,
    /// How many resources there are.
    count: u64,
}

/// One resource.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Resource {
    uri: String,
    name: String,
    #[schema(nullable = false)]
    title: Option<String>,
    #[schema(nullable = false)]
    description: Option<String>,
    #[schema(nullable = false)]
    mime_type: Option<String>,
}

/// The template of resources: `{name}` stands for one segment of a path.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Template {
    uri_template: String,
    name: String,
    #[schema(nullable = false)]
    title: Option<String>,
    #[schema(nullable = false)]
    description: Option<String>,
    #[schema(nullable = false)]
    mime_type: Option<String>,
}

/// Which resource to read.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceRead {
    uri: String,
}

/// What a resource holds.
#[derive(ToSchema)]
pub(super) struct ResourceAnswer {
    contents: Vec<Contents>,
}

/// One content of a resource.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Contents {
    uri: String,
    #[schema(nullable = false)]
    mime_type: Option<String>,
    #[schema(nullable = false)]
    text: Option<String>,
    /// Base64, instead of `text`.
    #[schema(nullable = false)]
    blob: Option<String>,
}

/// The prompts.
#[derive(ToSchema)]
pub(super) struct PromptList {
    prompts: Vec<PromptEntry>,
    /// How many there are.
    count: u64,
}

/// One prompt.
#[derive(ToSchema)]
struct PromptEntry {
    name: String,
    #[schema(nullable = false)]
    title: Option<String>,
    #[schema(nullable = false)]
    description: Option<String>,
    #[schema(nullable = false)]
    arguments: Option<Vec<PromptArgument>>,
}

/// One argument of a prompt.
#[derive(ToSchema)]
struct PromptArgument {
    name: String,
    #[schema(nullable = false)]
    description: Option<String>,
    required: bool,
}

/// A prompt that is to be filled in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Prompt {
    /// Which prompt.
    name: String,
    /// Its arguments; none by default.
    arguments: Option<BTreeMap<String, String>>,
}

/// A prompt that is filled in.
#[derive(ToSchema)]
pub(super) struct PromptAnswer {
    #[schema(nullable = false)]
    description: Option<String>,
    messages: Vec<PromptMessage>,
}

/// One message of a prompt.
#[derive(ToSchema)]
struct PromptMessage {
    /// `user` or `assistant`.
    role: String,
    content: Block,
}
