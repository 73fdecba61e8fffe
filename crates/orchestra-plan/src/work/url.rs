//! Addresses that an agent may open.

use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::ids::{IdError, text_id};

/// An address that an agent may open, at most 500 characters: a URL of http or https without a user
/// in it, a domain, or `*.` and a domain for all that is below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllowedUrl(Arc<str>);

const MAX_CHARS: usize = 500;

impl AllowedUrl {
    /// Parses an address.
    ///
    /// # Errors
    /// When the text is none of what the type allows; addresses of any other scheme (`file:`,
    /// `javascript:`, `data:`, `vbscript:`, `about:`, `blob:` and the like) are none of it.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let expected = "an allowed address: an http or https URL, a domain, or *.domain";
        let plain = text.chars().nth(MAX_CHARS).is_none()
            && !text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\');
        let legal = plain
            && match text.split_once("://") {
                Some((scheme, rest)) => is_web(scheme) && is_authority(authority(rest)),
                None => match text.strip_prefix("*.") {
                    Some(domain) => is_host(domain) && !domain.starts_with('['),
                    None => is_authority(text),
                },
            };
        legal
            .then(|| Self(text.into()))
            .ok_or_else(|| IdError::new(text, expected))
    }
}

fn is_web(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// What stands before the path, the query and the fragment.
fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// A host and perhaps a port, and nobody's name.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    is_host(host) && port.is_none_or(is_port)
}

fn is_port(port: &str) -> bool {
    port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let label = |name: &str| {
        (1..=63).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && !name.starts_with('-')
            && !name.ends_with('-')
    };
    host.len() <= 253 && host.split('.').all(label)
}

text_id!(AllowedUrl);

#[cfg(feature = "schema")]
impl JsonSchema for AllowedUrl {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AllowedUrl".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": MAX_CHARS})
    }
}
