//! Prompts: what is said of one, and the function behind it.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    answer::{Content, ToolError},
    arguments::{self, Json},
    cx::Cx,
};
use crate::{
    generated::{ContentBlock, PromptArgument, PromptDefinition, PromptGetResponse, PromptMessage},
    quic::BoxFuture,
};

pub(super) type Function =
    dyn Fn(Json, Cx) -> BoxFuture<'static, Result<Messages, ToolError>> + Send + Sync;

/// A prompt that a plugin offers.
#[must_use]
pub struct Prompt {
    pub(super) name: String,
    description: String,
    title: Option<String>,
    arguments: Vec<PromptArgument>,
    pub(super) function: Arc<Function>,
}

/// The messages of a prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Messages {
    description: String,
    messages: Vec<(&'static str, Content)>,
}

impl Messages {
    /// No messages yet, and what they are for.
    pub fn new(description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            messages: Vec::new(),
        }
    }

    /// The same with one more message of the user.
    #[must_use]
    pub fn user(mut self, text: impl Into<String>) -> Self {
        self.messages.push(("user", Content::Text(text.into())));
        self
    }

    /// The same with one more message of the assistant.
    #[must_use]
    pub fn assistant(mut self, text: impl Into<String>) -> Self {
        self.messages
            .push(("assistant", Content::Text(text.into())));
        self
    }

    /// The response for old peers, and with `mcp` for our own.
    pub(super) fn response(self, mcp: bool) -> PromptGetResponse {
        if mcp {
            let messages: Vec<Value> = self
                .messages
                .iter()
                .map(|(role, content)| json!({"role": role, "content": content.to_mcp()}))
                .collect();
            let result = json!({"description": self.description, "messages": messages});
            return PromptGetResponse {
                mcp_result: Bytes::from(result.to_string()),
                ..PromptGetResponse::default()
            };
        }
        let messages = self.messages.into_iter().map(|(role, content)| {
            let text = match content {
                Content::Text(text) => text,
                Content::Block(block) => block.to_string(),
            };
            PromptMessage {
                role: role.to_owned(),
                content: Some(ContentBlock {
                    r#type: "text".to_owned(),
                    text,
                }),
            }
        });
        PromptGetResponse {
            messages: messages.collect(),
            description: self.description,
            ..PromptGetResponse::default()
        }
    }
}

impl Prompt {
    /// A prompt by its name, what it is for, and the function that writes it.
    ///
    /// The fields of the function's arguments are those of the prompt. All of them are texts:
    /// `String`, or `Option<String>` for one that may be left out.
    pub fn new<A, F, Fut>(name: &str, description: &str, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Messages, ToolError>> + Send + 'static,
    {
        let function = Arc::new(function);
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            title: None,
            arguments: listed(&arguments::input::<A>()),
            function: Arc::new(move |json: Json, cx: Cx| {
                let function = function.clone();
                Box::pin(async move { function(arguments::read::<A>(&json)?, cx).await })
            }),
        }
    }

    /// A name for people.
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(title.to_owned());
        self
    }

    pub(super) fn definition(&self) -> PromptDefinition {
        let arguments: Vec<Value> = self
            .arguments
            .iter()
            .map(|argument| {
                json!({
                    "name": argument.name,
                    "description": argument.description,
                    "required": argument.required,
                })
            })
            .collect();
        let mut whole = json!({
            "name": self.name,
            "description": self.description,
            "arguments": arguments,
        });
        if let (Some(title), Value::Object(whole)) = (&self.title, &mut whole) {
            whole.insert("title".to_owned(), title.as_str().into());
        }
        PromptDefinition {
            name: self.name.clone(),
            description: self.description.clone(),
            arguments: self.arguments.clone(),
            mcp_definition: Bytes::from(whole.to_string()),
        }
    }
}

/// The arguments of a prompt, read from the schema of its struct.
fn listed(schema: &Value) -> Vec<PromptArgument> {
    let required = |name: &str| {
        let required = schema.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|one| one == name))
    };
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return Vec::new();
    };
    properties
        .iter()
        .map(|(name, property)| PromptArgument {
            name: name.clone(),
            description: property
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            required: required(name),
        })
        .collect()
}
