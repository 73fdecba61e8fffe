//! Headers of Streamable HTTP, and how values are put into them.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::header::{HeaderName, HeaderValue};

/// The revision.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session, up to 2025-11-25.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Where an event stream is to go on.
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// The method, from 2026-07-28.
pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt or resource, from 2026-07-28.
pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// What a form of answer is called.
pub(super) const JSON: &str = "application/json";
/// The other form of answer.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// A value as it stands in `Mcp-Name` and `Mcp-Param-…`: as it is where a header can carry it and
/// nobody on the way changes it, as some do with tabs, else in Base64 between `=?base64?` and `?=` (MCP 2026-07-28, Streamable HTTP, value encoding).
#[must_use]
pub fn header_text(value: &str) -> Cow<'_, str> {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.trim_matches(' ').len() == value.len();
    let is_marked = value.starts_with("=?base64?") && value.ends_with("?=");
    if is_plain && !is_marked {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(value)))
}

/// The header of such a value.
pub(super) fn encoded(value: &str) -> HeaderValue {
    HeaderValue::try_from(&*header_text(value))
        .expect("only visible characters are left as they are")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the protocol's document.
    #[test]
    fn what_a_header_cannot_carry_is_encoded() {
        for (value, expected) in [
            ("us-west1", "us-west1"),
            (
                "file:///projects/my app/config.json",
                "file:///projects/my app/config.json",
            ),
            ("", ""),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(header_text(value), expected);
            assert_eq!(encoded(value), expected);
        }
    }
}
