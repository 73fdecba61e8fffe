//! Schemas of requests and responses for the OpenAPI document. The code of MCP reads and writes the bodies; tests
//! compare the responses with these schemas.
#![expect(dead_code, reason = "they only describe")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// List of tools.
#[derive(ToSchema)]
pub(super) struct ToolList {
    tools: Vec<Tool>,
    /// Number of tools.
    count: u64,
}

/// A tool.
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
    /// Name of the tool.
    name: String,
    /// Arguments according to the input schema of the tool. Default: no arguments.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Map<String, Value>>,
}

/// Result of a tool.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct ToolAnswer {
    content: Vec<Block>,
    /// Structured result according to the output schema of the tool.
    #[schema(value_type = Option<Object>, nullable = false)]
    structured_content: Option<Map<String, Value>>,
    /// `true` if the tool failed, otherwise absent.
    #[schema(nullable = false)]
    is_error: Option<bool>,
}

/// Content block of MCP.
#[derive(ToSchema)]
struct Block {
    /// `text`, `image`, `audio`, `resource` or `resource_link`.
    r#type: String,
    #[schema(nullable = false)]
    text: Option<String>,
}

/// List of resources and resource templates.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct ResourceList {
    resources: Vec<Resource>,
    resource_templates: Vec<Template>,
    /// Number of resources.
    count: u64,
}

/// A resource.
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

/// Template for the URIs of MCP resources. `{name}` stands for one segment of a path.
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

/// Request for a resource.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceRead {
    /// URI of the resource.
    uri: String,
}

/// Contents of a resource.
#[derive(ToSchema)]
pub(super) struct ResourceAnswer {
    contents: Vec<Contents>,
}

/// Content of an MCP resource: text or binary data.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Contents {
    uri: String,
    #[schema(nullable = false)]
    mime_type: Option<String>,
    #[schema(nullable = false)]
    text: Option<String>,
    /// Binary data in Base64, instead of `text`.
    #[schema(nullable = false)]
    blob: Option<String>,
}

/// List of prompts.
#[derive(ToSchema)]
pub(super) struct PromptList {
    prompts: Vec<PromptEntry>,
    /// Number of prompts.
    count: u64,
}

/// A prompt.
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

/// An argument of a prompt.
#[derive(ToSchema)]
struct PromptArgument {
    name: String,
    #[schema(nullable = false)]
    description: Option<String>,
    required: bool,
}

/// Request for the messages of a prompt.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Prompt {
    /// Name of the prompt.
    name: String,
    /// Arguments of the prompt. Default: no arguments.
    arguments: Option<BTreeMap<String, String>>,
}

/// Messages of a prompt.
#[derive(ToSchema)]
pub(super) struct PromptAnswer {
    #[schema(nullable = false)]
    description: Option<String>,
    messages: Vec<PromptMessage>,
}

/// A message of a prompt.
#[derive(ToSchema)]
struct PromptMessage {
    /// `user` or `assistant`.
    role: String,
    content: Block,
}
