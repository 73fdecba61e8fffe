//! How a result is written: compact JSON, and TOON where the program was told so.

use orchestra_hub::{Content, Outcome, ToolResult};
use orchestra_wire::RawJson;
use serde::Serialize;

use crate::failure::Failure;

/// How the text of a tool's result is written. The structured result is JSON either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextFormat {
    /// The same compact JSON as the structured result.
    #[default]
    Json,
    /// TOON, which costs a model fewer tokens for lists.
    Toon,
}

/// The outcome of a tool that did its work.
pub(crate) fn outcome<T: Serialize>(value: &T, format: TextFormat) -> Outcome {
    outcome_of(value, format, true)
}

/// The outcome of a tool, and whether it did its work.
pub(crate) fn outcome_of<T: Serialize>(value: &T, format: TextFormat, worked: bool) -> Outcome {
    let structured = match RawJson::of(value) {
        Ok(structured) => structured,
        Err(error) => {
            return Failure::text(format!("the result has no JSON form: {error}")).into_outcome("");
        }
    };
    let text = match format {
        TextFormat::Json => None,
        TextFormat::Toon => toon_format::encode_default(value).ok(),
    };
    let text = text.unwrap_or_else(|| structured.as_str().to_owned());
    Outcome::Tool(ToolResult {
        content: vec![Content::Text(text)],
        structured: Some(structured),
        is_error: !worked,
        ..ToolResult::default()
    })
}
