//! The contents of a file as a resource: its media type, and text or base64.

use base64::{Engine as _, prelude::BASE64_STANDARD};

/// Media types by the end of the name; what is not here is told by the contents.
const BY_EXTENSION: [(&str, &str); 21] = [
    ("md", "text/markdown"),
    ("markdown", "text/markdown"),
    ("txt", "text/plain"),
    ("html", "text/html"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("ts", "text/x-typescript"),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("sh", "application/x-sh"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("xml", "application/xml"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("pdf", "application/pdf"),
];

/// The media type of a file.
pub(super) fn mime_type(name: &str, bytes: &[u8]) -> &'static str {
    let extension = name
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    let named = BY_EXTENSION
        .iter()
        .find(|(known, _)| extension.as_deref() == Some(known));
    match named {
        Some((_, mime_type)) => mime_type,
        None if std::str::from_utf8(bytes).is_ok() => "text/plain",
        None => "application/octet-stream",
    }
}

/// Text as it is, other bytes as base64; and whether it is that.
pub(super) fn data(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (BASE64_STANDARD.encode(error.as_bytes()), true),
    }
}
