//! Headers that repeat arguments of a call (MCP 2026-07-28, Streamable HTTP, `x-mcp-header`): the
//! schema of a tool names them, the caller's arguments fill them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use orchestra_wire::RawJson;
use serde_json::Value;

/// The member of a parameter's schema that names its header.
const ANNOTATION: &str = "x-mcp-header";

/// What the names of the headers begin with.
const PREFIX: &str = "Mcp-Param-";

/// Headers that a tool wants, and how deep they are looked for.
const MAX_HEADERS: usize = 64;
const MAX_DEPTH: usize = 16;

/// The headers that a tool wants: the name of each, and the way to its argument.
#[derive(Debug, Default)]
pub(super) struct Headers(Vec<(String, Vec<String>)>);

impl Headers {
    pub(super) fn of(schema: &RawJson) -> Self {
        let mut found = Vec::new();
        if memchr::memmem::find(schema.as_bytes(), ANNOTATION.as_bytes()).is_some()
            && let Ok(schema) = schema.parse::<Value>()
        {
            search(&schema, &mut Vec::new(), &mut found);
        }
        Self(found)
    }

    /// The headers of a call with these arguments.
    pub(super) fn fill(&self, arguments: &RawJson) -> Vec<(String, String)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let Ok(arguments) = arguments.parse::<Value>() else {
            return Vec::new();
        };
        let filled = self.0.iter().filter_map(|(name, path)| {
            let value = path
                .iter()
                .try_fold(&arguments, |value, key| value.get(key))?;
            let text = match value {
                Value::String(text) => encoded(text),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                _ => return None,
            };
            Some((format!("{PREFIX}{name}"), text))
        });
        filled.collect()
    }
}

fn search(schema: &Value, path: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        if found.len() >= MAX_HEADERS || path.len() >= MAX_DEPTH {
            return;
        }
        path.push(key.clone());
        if let Some(name) = property.get(ANNOTATION).and_then(Value::as_str)
            && is_token(name)
        {
            found.push((name.to_owned(), path.clone()));
        }
        search(property, path, found);
        path.pop();
    }
}

/// Whether a text can be part of the name of a header (RFC 9110, section 5.6.2).
fn is_token(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= 128 && name.bytes().all(legal)
}

/// A text as the value of a header: as it is where that comes back the same, else as Base64.
fn encoded(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    match is_plain {
        true => text.to_owned(),
        false => format!("=?base64?{}?=", STANDARD.encode(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_the_headers_that_a_schema_names() {
        let json = |text: &'static str| RawJson::checked(text.as_bytes().into()).unwrap();
        let headers = Headers::of(&json(
            r#"{"properties":{"a":{"x-mcp-header":"Region"},"b":{"properties":{"c":{"x-mcp-header":"Deep"}}},
                "d":{"x-mcp-header":"bad name"},"e":{"x-mcp-header":"Gone"}}}"#,
        ));
        let filled = headers.fill(&json(r#"{"a":"zürich","b":{"c":7},"d":"x","e":null}"#));
        let expected = [
            ("Mcp-Param-Region", "=?base64?esO8cmljaA==?="),
            ("Mcp-Param-Deep", "7"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(filled, expected);
    }
}
