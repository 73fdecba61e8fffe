//! JSON-RPC errors and the codes that MCP gives a meaning.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{RawJson, text_of};

/// The most characters of a peer's text that an error or a log shows.
const SHOWN_CHARS: usize = 200;

/// A text of a peer as an error or a log shows it: a long one is cut, so that it does not come back
/// whole.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A JSON-RPC error code. Foreign codes are passed on, so this is a number with known names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub i64);

impl ErrorCode {
    /// The text is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// JSON, but not a request.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// No such method, or none for this peer.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The parameters do not fit the method; also an unknown tool or prompt.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The provider cannot be reached, or the call broke.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// Resource not found, up to 2025-11-25.
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// HTTP headers do not fit the body, from 2026-07-28.
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// The call needs a client capability that was not declared, from 2026-07-28.
    pub const MISSING_CLIENT_CAPABILITY: Self = Self(-32021);
    /// The revision of the request is not supported, from 2026-07-28.
    pub const UNSUPPORTED_REVISION: Self = Self(-32022);
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// Code.
    pub code: ErrorCode,
    /// One sentence for people.
    pub message: Cow<'static, str>,
    /// `data`, verbatim.
    pub data: Option<RawJson>,
}

impl RpcError {
    /// An error without data.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The same error with `data`.
    #[must_use]
    pub fn with_data(mut self, data: RawJson) -> Self {
        self.data = Some(data);
        self
    }

    /// Reads an error of a peer. What it lacks or has in another form is made up: an error that is
    /// text is its message, and a code that is no integer is part of the message.
    #[must_use]
    pub fn from_raw(value: &RawValue) -> Self {
        #[derive(Default, Deserialize)]
        struct Parts<'a> {
            #[serde(borrow, default)]
            code: Option<&'a RawValue>,
            #[serde(borrow, default)]
            message: Option<&'a RawValue>,
            #[serde(borrow, default)]
            data: Option<&'a RawValue>,
        }
        let parts = match text_of(value) {
            Some(_) => Parts {
                message: Some(value),
                ..Parts::default()
            },
            None => match serde_json::from_str(value.get()) {
                Ok(parts) if value.get().starts_with('{') => parts,
                _ => return Self::malformed(value),
            },
        };
        let written = parts.code.map(RawValue::get).unwrap_or_default();
        let word = parts.code.and_then(text_of);
        let number = word.as_deref().unwrap_or(written).trim();
        let code = number.parse::<i64>().ok().or_else(|| {
            let number: f64 = number.parse().ok()?;
            let is_exact = number.fract() == 0.0 && number.abs() < 1e15;
            is_exact.then_some(number as i64)
        });
        let message = parts
            .message
            .and_then(text_of)
            .filter(|text| !text.is_empty());
        let message = match (message, parts.message.map(RawValue::get)) {
            (Some(message), _) => message.into_owned(),
            (None, Some(other)) if other != "null" && other != "\"\"" => other.to_owned(),
            (None, _) => {
                let data = parts.data.and_then(text_of);
                let data = data.filter(|text| !text.trim().is_empty());
                let others = || match has_others(value) {
                    true => format!(": {}", value.get()),
                    false => String::new(),
                };
                data.map_or_else(
                    || format!("the peer sent an error without a message{}", others()),
                    Cow::into_owned,
                )
            }
        };
        let message = match (code, word) {
            (None, Some(word)) if !word.is_empty() => format!("{word}: {message}"),
            _ => message,
        };
        Self {
            code: code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode),
            message: message.into(),
            data: parts.data.map(RawJson::from_raw),
        }
    }

    /// Reads an error that is neither an object nor a text. An array of one element is that element.
    fn malformed(value: &RawValue) -> Self {
        if let Ok([error]) = serde_json::from_str::<[&RawValue; 1]>(value.get())
            && !error.get().starts_with('[')
        {
            return Self::from_raw(error);
        }
        let text = format!("the peer sent a malformed error: {}", value.get());
        Self::new(ErrorCode::INTERNAL_ERROR, text)
    }

    /// -32601 with the text that Orchestra has always used.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("method not found: {}", shown(method)),
        )
    }

    /// -32602.
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, message)
    }

    /// -32600.
    #[must_use]
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }
}

/// Returns whether an error has members that JSON-RPC does not know.
fn has_others(error: &RawValue) -> bool {
    let members = RawJson::from_raw(error);
    let mut members = members.members().into_iter().flatten();
    members.any(|member| !["code", "message", "data"].contains(&&*member.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_peer_is_read_in_each_form() {
        let read = |text: &str| {
            let error = RpcError::from_raw(serde_json::from_str(text).unwrap());
            (error.code.0, error.message.into_owned())
        };
        for (text, code, message) in [
            (r#"{"code":-32000,"message":"m"}"#, -32000, "m"),
            (r#"{"code":-32000.0,"message":"m","x":1}"#, -32000, "m"),
            (r#"{"code":"-32001","message":"m"}"#, -32001, "m"),
            (r#"{"code":"E_GONE","message":"m"}"#, -32603, "E_GONE: m"),
            (r#"{"message":"m"}"#, -32603, "m"),
            (r#"{"code":null,"message":{"a":1}}"#, -32603, "{\"a\":1}"),
            (
                r#"{"code":-1}"#,
                -1,
                "the peer sent an error without a message",
            ),
            (
                r#"{"code":-1,"message":null}"#,
                -1,
                "the peer sent an error without a message",
            ),
            (r#"{"code":-1,"message":"","data":"why"}"#, -1, "why"),
            (r#"{"code":"E_GONE","data":"why"}"#, -32603, "E_GONE: why"),
            (r#""it broke""#, -32603, "it broke"),
            (r#"["it broke"]"#, -32603, "it broke"),
            (r#"[{"code":-1,"message":"m"}]"#, -1, "m"),
            (
                r#"["a","b"]"#,
                -32603,
                "the peer sent a malformed error: [\"a\",\"b\"]",
            ),
            (
                r#"{"code":-1,"detail":"why"}"#,
                -1,
                "the peer sent an error without a message: {\"code\":-1,\"detail\":\"why\"}",
            ),
            ("[]", -32603, "the peer sent a malformed error: []"),
            ("true", -32603, "the peer sent a malformed error: true"),
        ] {
            assert_eq!(read(text), (code, message.to_owned()), "{text}");
        }
    }
}
