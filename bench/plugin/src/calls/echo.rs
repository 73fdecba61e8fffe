//! The call itself: the same messages and the same work on either way.

use anyhow::{Result, ensure};
use orchestra_plugin::generated::{ToolRequest, ToolResponse};
use serde::{Deserialize, Serialize};

/// The revision of MCP that the params are written in.
const REVISION: &str = "2025-11-25";

/// A call of `echo` with a text of so many bytes.
pub(crate) fn request(text_bytes: usize) -> ToolRequest {
    let words = "the quick brown fox jumps over the lazy dog, again and ";
    let text: String = words.chars().cycle().take(text_bytes).collect();
    let params = serde_json::json!({"name": "echo", "arguments": {"text": text}});
    ToolRequest {
        tool_name: "echo".to_owned(),
        caller_plugin: "orchestrator".to_owned(),
        mcp_params: params.to_string().into(),
        revision: REVISION.to_owned(),
        ..ToolRequest::default()
    }
}

/// Makes sure that an answer is one.
///
/// # Errors
/// When it is none.
pub(crate) fn check(response: &ToolResponse, text_bytes: usize) -> Result<()> {
    let echoed = response.success && response.mcp_result.len() > text_bytes;
    ensure!(
        echoed,
        "no echo: {} {}",
        response.error_code,
        response.error_message
    );
    Ok(())
}

#[derive(Deserialize)]
struct Params {
    arguments: Arguments,
}

#[derive(Deserialize)]
struct Arguments {
    text: String,
}

#[derive(Serialize)]
struct Outcome<'a> {
    content: [Piece<'a>; 1],
}

#[derive(Serialize)]
struct Piece<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

/// What a plugin does with a call: reads the arguments, and writes the result.
///
/// # Errors
/// When the arguments are none.
pub(crate) fn answer(request: &ToolRequest) -> Result<ToolResponse> {
    let params: Params = serde_json::from_slice(&request.mcp_params)?;
    let text = params.arguments.text;
    let outcome = Outcome {
        content: [Piece {
            kind: "text",
            text: &text,
        }],
    };
    Ok(ToolResponse {
        success: true,
        mcp_result: serde_json::to_vec(&outcome)?.into(),
        ..ToolResponse::default()
    })
}
