//! What a tool of others answered.

use serde_json::{Value, value::RawValue};

use super::OrchestratorError;
use crate::{
    generated::ToolResponse,
    kit::answer::text_in_result,
    structs::{self, Style},
};

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// The text for a reader.
    pub text: String,
    /// The value for a program, if there is one.
    pub structured: Option<Value>,
}

impl Called {
    /// What a tool said, whichever way.
    pub(super) fn of(response: ToolResponse) -> Result<Self, OrchestratorError> {
        let answer = |error: &dyn std::fmt::Display| OrchestratorError::Answer(error.to_string());
        let raw: Option<Box<RawValue>> = match response.mcp_result.as_ref() {
            b"" => None,
            json => Some(serde_json::from_slice(json).map_err(|error| answer(&error))?),
        };
        if !response.success {
            let text = raw.as_deref().and_then(text_in_result);
            return Err(OrchestratorError::Refused {
                code: response.error_code,
                message: match response.error_message {
                    message if message.is_empty() => text.unwrap_or_default(),
                    message => message,
                },
            });
        }
        if let Some(raw) = raw {
            let result: Value = serde_json::from_str(raw.get()).map_err(|error| answer(&error))?;
            return Ok(Self {
                text: text_in_result(&raw).unwrap_or_default(),
                structured: result.get("structuredContent").cloned(),
            });
        }
        let Some(result) = response.result else {
            return Ok(Self {
                text: String::new(),
                structured: None,
            });
        };
        let json = structs::decode(&result, Style::Plain).map_err(|error| answer(&error))?;
        let value: Value = serde_json::from_str(&json).map_err(|error| answer(&error))?;
        Ok(match value.get("text") {
            Some(text) => Self {
                text: text.as_str().unwrap_or_default().to_owned(),
                structured: None,
            },
            None => Self {
                text: json,
                structured: Some(value),
            },
        })
    }
}
