//! What lets the pages of an allowed origin call and read the answers (the Fetch standard, CORS).
//! Tokens travel in a header of the page's own making, so credentials of the browser stay out.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};

/// How long a browser need not ask again, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");

/// The headers of requests that pages may set, besides those that carry parameters.
const ALLOWED: [&str; 9] = [
    "accept",
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "cache-control",
];

/// What the names of headers that carry parameters begin with (MCP 2026-07-28).
const PARAMETER: &str = "mcp-param-";

/// The headers of answers that pages may read.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After");

/// Asked before a page of the public network reaches into a private one.
const ASKS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Whether a browser asks what a page may do.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Says what a page may do.
pub(super) fn preflight(page: &HeaderValue, asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    headers.insert(
        header::VARY,
        HeaderValue::from_static(
            "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
        ),
    );
    if let Some(allowed) = allowed(asked) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    if asked.contains_key(ASKS_PRIVATE) {
        headers.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
    }
    response
}

/// Lets a page read an answer.
pub(super) fn allow(headers: &mut HeaderMap, page: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

/// Of the headers that a page wants to set, those that it may.
fn allowed(asked: &HeaderMap) -> Option<HeaderValue> {
    let mut names: Vec<String> = Vec::new();
    for value in asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        for name in value.to_str().ok()?.split(',') {
            let name = name.trim().to_ascii_lowercase();
            let is_header = HeaderName::from_bytes(name.as_bytes()).is_ok();
            if is_header && (ALLOWED.contains(&name.as_str()) || name.starts_with(PARAMETER)) {
                names.push(name);
            }
        }
    }
    HeaderValue::from_str(&names.join(", "))
        .ok()
        .filter(|value| !value.is_empty())
}
