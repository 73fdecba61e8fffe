//! What a conversation is made of.

use serde_json::{Map, Value};

/// One message, in the order in which a model is given them.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// How the model is to behave; the first one, if there is any.
    System(String),
    /// What the person said.
    User(String),
    /// What the model said, and which tools it called.
    Assistant {
        /// Its words.
        text: String,
        /// Its calls, in order.
        calls: Vec<Call>,
    },
    /// What came of a call.
    Tool(Answer),
}

/// A call of a tool by a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What tells it from the others of the conversation.
    pub id: String,
    /// The tool, as the hub calls it; what the model said where there is none.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The id of the call.
    pub call: String,
    /// The tool that was called.
    pub tool: String,
    /// What it answered, as the model is shown it.
    pub text: String,
    /// Images that it answered, for models that can see.
    pub images: Vec<Image>,
    /// Whether the call failed, or was not made.
    pub is_error: bool,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its media type, as `image/png`.
    pub mime: String,
    /// Its bytes, in base64.
    pub data: String,
}

impl Message {
    /// Its words; of a call without words, none.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::System(text) | Self::User(text) | Self::Assistant { text, .. } => text,
            Self::Tool(answer) => &answer.text,
        }
    }
}

impl Call {
    /// What is the same of two calls that do the same: the tool and its arguments, whatever their order.
    #[must_use]
    pub fn same(&self) -> String {
        let arguments: std::collections::BTreeMap<&String, &Value> =
            self.arguments.iter().collect();
        let arguments = serde_json::to_string(&arguments).unwrap_or_default();
        format!("{} {arguments}", self.tool)
    }
}
