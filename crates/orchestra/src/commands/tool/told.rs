//! The result of a call, on stdout and stderr.

use orchestra_hub::Content;
use serde_json::{Value, json};

use super::Answer;
use crate::{
    exit::{Exit, Failure},
    output::{self, Format},
};

/// Prints a result: its text, or all of it as JSON. An error goes to stderr, unless all is JSON.
pub(super) fn print(answer: &Answer, format: Format) -> Result<Exit, Failure> {
    let Answer { result, refusal } = answer;
    let content: Vec<Value> = result.content.iter().map(block).collect::<Result<_, _>>()?;
    if format == Format::Json {
        let mut whole = json!({"content": content, "isError": result.is_error});
        if let Some(structured) = &result.structured {
            whole["structuredContent"] = structured.parse()?;
        }
        output::json(&whole)?;
        return Ok(if result.is_error { *refusal } else { Exit::Ok });
    }
    let texts: Vec<String> = content
        .iter()
        .map(|block| {
            block["text"]
                .as_str()
                .map_or_else(|| block.to_string(), str::to_owned)
        })
        .collect();
    let text = texts.join("\n");
    if result.is_error {
        let text = output::printable(&text);
        return Err(match refusal {
            Exit::Usage => Failure::usage_text(text),
            _ => Failure::refused(text),
        });
    }
    output::lines(&output::printable(&text))?;
    Ok(Exit::Ok)
}

/// A content block as JSON.
fn block(content: &Content) -> Result<Value, Failure> {
    match content {
        Content::Text(text) => Ok(json!({"type": "text", "text": text})),
        Content::Raw(raw) => Ok(raw.parse()?),
    }
}
