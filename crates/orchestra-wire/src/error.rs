//! JSON-RPC errors and the codes that MCP gives a meaning.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::RawJson;

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

    /// Reads an error object of a peer; one that is malformed becomes an internal error.
    #[must_use]
    pub fn from_raw(value: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct Parts<'a> {
            code: i64,
            message: String,
            #[serde(borrow)]
            data: Option<&'a RawValue>,
        }
        match serde_json::from_str::<Parts<'_>>(value.get()) {
            Ok(Parts {
                code,
                message,
                data,
            }) => Self {
                code: ErrorCode(code),
                message: message.into(),
                data: data.map(RawJson::from_raw),
            },
            Err(_) => Self::new(ErrorCode::INTERNAL_ERROR, "the peer sent a malformed error"),
        }
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
