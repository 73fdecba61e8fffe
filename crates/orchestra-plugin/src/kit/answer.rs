//! What a handler says: an answer or an error, and how each is put for old peers and for our own.
//!
//! Our own peers get the result of MCP as JSON. Old ones get a `Struct`, of which they show the
//! member `text` to a reader, or all of it when there is none.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    generated::ToolResponse,
    structs::{self, Numbers, StructError},
};

/// What a tool answers.
#[derive(Debug, Clone)]
pub struct Answer {
    content: Vec<Content>,
    structured: Option<Value>,
    failed: bool,
    verbatim: Option<Box<RawValue>>,
}

/// A piece of an answer or of a prompt's message.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Text.
    Text(String),
    /// Any other content block of MCP, as it is: an image, a sound, a link to a resource. Peers
    /// that know only text do not show it.
    Block(Value),
}

impl Answer {
    /// A text for a reader.
    pub fn text(text: impl Into<String>) -> Self {
        Self::content([Content::Text(text.into())])
    }

    /// Several pieces.
    pub fn content(content: impl IntoIterator<Item = Content>) -> Self {
        Self {
            content: content.into_iter().collect(),
            structured: None,
            failed: false,
            verbatim: None,
        }
    }

    /// A value for a program. It is also the text, as JSON, unless one is added.
    ///
    /// # Errors
    /// The value has no form in JSON.
    pub fn json(value: impl Serialize) -> Result<Self, ToolError> {
        let value = serde_json::to_value(value)?;
        let mut answer = Self::content([]);
        match value {
            object @ Value::Object(_) => answer.structured = Some(object),
            // Structured content is an object.
            other => answer.content.push(Content::Text(other.to_string())),
        }
        Ok(answer)
    }

    /// A whole result of `tools/call`, passed on as it is.
    pub fn mcp(result: Box<RawValue>) -> Self {
        let mut answer = Self::content([]);
        answer.verbatim = Some(result);
        answer
    }

    /// The same with one more piece.
    #[must_use]
    pub fn with(mut self, content: Content) -> Self {
        self.content.push(content);
        self
    }

    /// The same as what went wrong, for a model to read and do better.
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.failed = true;
        self
    }
}

/// Why a handler failed. Made from every error by `?`; the causes are told too.
///
/// It is no error itself, so that it can be made from all that are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    code: String,
    message: String,
}

impl ToolError {
    /// An error with a short word for programs, like `not_found`, and words for a reader.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }

    /// An error in words.
    pub fn message_only(message: impl Into<String>) -> Self {
        Self::new(HANDLER_ERROR, message)
    }

    /// The word for programs.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The words for a reader.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::message_only(message)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The code of a failure that has none of its own.
pub(super) const HANDLER_ERROR: &str = "handler_error";

/// What the peer understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    /// The first peers: a `Struct`.
    Old,
    /// Our own: a result of MCP.
    Mcp,
}

/// The response to a call of a tool.
pub(super) fn response(outcome: Result<Answer, ToolError>, speech: Speech) -> ToolResponse {
    match outcome {
        Ok(answer) => match speech {
            Speech::Mcp => ToolResponse {
                success: !answer.failed,
                mcp_result: mcp_result(answer),
                ..ToolResponse::default()
            },
            Speech::Old => old_response(&answer),
        },
        Err(error) => {
            let result = (speech == Speech::Mcp)
                .then(|| mcp_result(Answer::text(error.message.as_str()).failed()));
            ToolResponse {
                mcp_result: result.unwrap_or_default(),
                ..failure(&error.code, error.message)
            }
        }
    }
}

/// A response that says that something failed; the form of an error in answer to any request.
pub(super) fn failure(code: &str, message: impl Into<String>) -> ToolResponse {
    ToolResponse {
        success: false,
        error_code: code.to_owned(),
        error_message: message.into(),
        ..ToolResponse::default()
    }
}

/// The same, where the call failed as a call and not as a tool.
pub(super) fn call_failure(code: &str, message: &str, number: i32) -> ToolResponse {
    ToolResponse {
        mcp_error: rpc_error(number, message),
        ..failure(code, message)
    }
}

/// A JSON-RPC error object.
pub(super) fn rpc_error(code: i32, message: &str) -> Bytes {
    json!({"code": code, "message": message}).to_string().into()
}

/// The result of `tools/call` as JSON.
fn mcp_result(answer: Answer) -> Bytes {
    if let Some(verbatim) = answer.verbatim {
        // Not copied: the text is taken over.
        return Box::<str>::from(verbatim).into_string().into();
    }
    let structured_text = answer
        .structured
        .as_ref()
        .filter(|_| answer.content.is_empty())
        .map(Value::to_string);
    let mut content: Vec<Piece<'_>> = answer.content.iter().map(Piece::of).collect();
    content.extend(structured_text.as_deref().map(Piece::text));
    let result = McpResult {
        content,
        structured_content: answer.structured.as_ref(),
        is_error: answer.failed.then_some(true),
    };
    let json = serde_json::to_vec(&result);
    json.expect("the keys of JSON values are texts").into()
}

impl Content {
    /// The content block of MCP.
    pub(super) fn to_mcp(&self) -> Value {
        serde_json::to_value(Piece::of(self)).expect("the keys of JSON values are texts")
    }
}

fn old_response(answer: &Answer) -> ToolResponse {
    if answer.failed {
        return failure(HANDLER_ERROR, text_of(answer));
    }
    let json = match (&answer.structured, &answer.verbatim) {
        (Some(object), _) if answer.content.is_empty() => object.to_string(),
        (None, Some(verbatim)) => match text_in_result(verbatim) {
            Some(text) => json!({ "text": text }).to_string(),
            None => verbatim.get().to_owned(),
        },
        _ => json!({"text": text_of(answer)}).to_string(),
    };
    let encoded = structs::encode(json.as_bytes(), Numbers::Exact);
    // An integer that no double holds keeps its digits in a text.
    let encoded = match encoded {
        Err(StructError::Inexact { .. }) => {
            let text = json!({ "text": json }).to_string();
            structs::encode(text.as_bytes(), Numbers::Exact)
        }
        encoded => encoded,
    };
    match encoded {
        Ok(result) => ToolResponse {
            success: true,
            result: Some(result),
            ..ToolResponse::default()
        },
        Err(StructError::TooLarge) => too_large(json.len()),
        Err(error) => failure(HANDLER_ERROR, format!("the result cannot be sent: {error}")),
    }
}

/// The answer in the place of one that fits into no frame.
pub(super) fn too_large(length: usize) -> ToolResponse {
    failure(
        "result_too_large",
        format!(
            "the result of {length} bytes exceeds the limit of {}: ask for less of it",
            crate::frame::MAX_FRAME_BYTES
        ),
    )
}

fn text_of(answer: &Answer) -> String {
    if answer.content.is_empty()
        && let Some(structured) = &answer.structured
    {
        return structured.to_string();
    }
    let texts = answer.content.iter().filter_map(|content| match content {
        Content::Text(text) => Some(text.as_str()),
        Content::Block(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The texts of a result of `tools/call`.
pub(super) fn text_in_result(result: &RawValue) -> Option<String> {
    let value: Value = serde_json::from_str(result.get()).ok()?;
    let pieces = value.get("content")?.as_array()?;
    let texts = pieces
        .iter()
        .filter_map(|piece| piece.get("text")?.as_str());
    Some(texts.collect::<Vec<_>>().join("\n"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct McpResult<'a> {
    content: Vec<Piece<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
}

/// A content block on the wire. One of the two is set, so nothing is guessed when it is written.
#[derive(Serialize)]
#[serde(untagged)]
enum Piece<'a> {
    Text {
        #[serde(rename = "type")]
        kind: &'static str,
        text: &'a str,
    },
    Block(&'a Value),
}

impl<'a> Piece<'a> {
    fn of(content: &'a Content) -> Self {
        match content {
            Content::Text(text) => Self::text(text),
            Content::Block(block) => Self::Block(block),
        }
    }

    fn text(text: &'a str) -> Self {
        Self::Text { kind: "text", text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structs::{Style, decode};

    fn old(answer: Answer) -> String {
        let response = response(Ok(answer), Speech::Old);
        decode(&response.result.unwrap(), Style::Plain).unwrap()
    }

    fn ours(answer: Answer) -> String {
        let response = response(Ok(answer), Speech::Mcp);
        String::from_utf8(response.mcp_result.to_vec()).unwrap()
    }

    #[test]
    fn a_text_is_the_member_text_or_a_content_block() {
        assert_eq!(old(Answer::text("hi")), r#"{"text":"hi"}"#);
        assert_eq!(
            ours(Answer::text("hi")),
            r#"{"content":[{"type":"text","text":"hi"}]}"#
        );
    }

    #[test]
    fn an_object_is_the_struct_or_structured_content() {
        let answer = Answer::json(json!({"n": 1})).unwrap();
        assert_eq!(old(answer.clone()), r#"{"n":1}"#);
        assert_eq!(
            ours(answer),
            r#"{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}"#
        );
        let list = Answer::json([1, 2]).unwrap();
        assert_eq!(old(list), r#"{"text":"[1,2]"}"#);
    }

    #[test]
    fn a_failure_says_so_to_both() {
        let failed = Answer::text("no").failed();
        let response = response(Ok(failed.clone()), Speech::Old);
        assert!(!response.success);
        assert_eq!(response.error_message, "no");
        assert!(ours(failed).ends_with(r#""isError":true}"#));
    }

    #[test]
    fn a_whole_result_is_passed_on() {
        let result = r#"{"content":[{"type":"text","text":"a"}],"_meta":{"x":1}}"#;
        let raw = RawValue::from_string(result.to_owned()).unwrap();
        assert_eq!(ours(Answer::mcp(raw.clone())), result);
        assert_eq!(old(Answer::mcp(raw)), r#"{"text":"a"}"#);
    }

    #[test]
    fn the_causes_of_an_error_are_told() {
        let error =
            crate::envelope::EnvelopeError::Envelope(crate::field::FieldError::Utf8 { number: 1 });
        let error = ToolError::from(error);
        assert!(
            error.message().starts_with("malformed envelope: "),
            "{error}"
        );
        assert_eq!(error.code(), "handler_error");
    }
}
