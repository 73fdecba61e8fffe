//! Parameters of a tool that its server wants repeated in headers (MCP 2026-07-28, Streamable HTTP,
//! custom headers from tool parameters).

use std::collections::HashSet;

use orchestra_wire::RawJson;
use serde_json::{Map, Value};

use super::names::header_text;

/// The member of a schema that names a header.
const ANNOTATION: &str = "x-mcp-header";

/// Integers beyond this are not the same for all who read them.
const MAX_SAFE: i64 = (1 << 53) - 1;

/// How deep schemas are looked into; deeper ones are refused where they are annotated.
const MAX_DEPTH: usize = 64;

/// Which parameters of a tool stand in headers as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirroredParams(Vec<Mirrored>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mirrored {
    /// The header's name.
    header: String,
    /// The members that lead to the value.
    path: Vec<String>,
}

/// Why a tool cannot be called over HTTP; it is to be left out of what is offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parameter `{place}` has an invalid `{ANNOTATION}` annotation: {what}")]
pub struct InvalidAnnotation {
    /// Which parameter.
    place: String,
    /// What is wrong.
    what: &'static str,
}

impl MirroredParams {
    /// Reads the input schema of a tool.
    ///
    /// # Errors
    /// When an annotation breaks the rules; such a tool must not be used over HTTP.
    pub fn of(schema: &RawJson) -> Result<Self, InvalidAnnotation> {
        // Nearly no schema has any.
        if memchr::memmem::find(schema.as_bytes(), ANNOTATION.as_bytes()).is_none() {
            return Ok(Self::default());
        }
        let Ok(schema) = schema.parse_lossy::<Value>() else {
            return Ok(Self::default());
        };
        let mut found = Self::default();
        found.collect(&schema, &mut Vec::new(), true)?;
        let mut names = HashSet::new();
        for mirrored in &found.0 {
            if !names.insert(mirrored.header.to_ascii_lowercase()) {
                return Err(invalid(
                    &mirrored.path,
                    "another parameter names the same header",
                ));
            }
        }
        Ok(found)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers of a call with these arguments, values as they are sent.
    #[must_use]
    pub fn headers(&self, arguments: Option<&RawJson>) -> Vec<(String, String)> {
        if self.is_empty() {
            return Vec::new();
        }
        let arguments: Option<Value> = arguments.and_then(|arguments| arguments.parse_lossy().ok());
        let value_at = |path: &[String]| {
            let mut value = arguments.as_ref()?;
            for member in path {
                value = value.get(member)?;
            }
            text(value)
        };
        let headers = self.0.iter().filter_map(|mirrored| {
            let value = value_at(&mirrored.path)?;
            Some((mirrored.header.clone(), header_text(&value).into_owned()))
        });
        headers.collect()
    }

    /// Looks into a schema; `reachable` as long as nothing but `properties` led there.
    fn collect(
        &mut self,
        schema: &Value,
        path: &mut Vec<String>,
        reachable: bool,
    ) -> Result<(), InvalidAnnotation> {
        let Some(schema) = schema.as_object() else {
            return Ok(());
        };
        if path.len() > MAX_DEPTH {
            return Err(invalid(path, "the schema is nested too deeply"));
        }
        if let Some(name) = schema.get(ANNOTATION) {
            if !reachable || path.is_empty() {
                return Err(invalid(
                    path,
                    "only a property that no other keyword of the schema encloses may have this annotation",
                ));
            }
            self.0.push(annotated(name, schema, path)?);
        }
        for (keyword, inner) in schema {
            match keyword.as_str() {
                "properties" => self.each(inner, path, reachable, true)?,
                "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
                    self.each(inner, path, false, true)?;
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" | "items" => {
                    self.each(inner, path, false, false)?;
                }
                "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "additionalProperties"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties" => {
                    path.push(keyword.clone());
                    self.collect(inner, path, false)?;
                    path.pop();
                }
                // Everything else is data.
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks into schemas that stand in an object or a list, or one that stands alone.
    fn each(
        &mut self,
        schemas: &Value,
        path: &mut Vec<String>,
        reachable: bool,
        named: bool,
    ) -> Result<(), InvalidAnnotation> {
        match schemas {
            Value::Object(schemas) if named => {
                for (name, schema) in schemas {
                    path.push(name.clone());
                    self.collect(schema, path, reachable)?;
                    path.pop();
                }
            }
            Value::Array(schemas) => {
                for (number, schema) in schemas.iter().enumerate() {
                    path.push(number.to_string());
                    self.collect(schema, path, false)?;
                    path.pop();
                }
            }
            other => {
                path.push("items".to_owned());
                self.collect(other, path, false)?;
                path.pop();
            }
        }
        Ok(())
    }
}

fn annotated(
    name: &Value,
    schema: &Map<String, Value>,
    path: &[String],
) -> Result<Mirrored, InvalidAnnotation> {
    let name = name
        .as_str()
        .ok_or_else(|| invalid(path, "its value must be a string"))?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(invalid(
            path,
            "its value contains characters that no header name can contain",
        ));
    }
    let kind = schema.get("type").and_then(Value::as_str);
    if !matches!(kind, Some("string" | "integer" | "boolean")) {
        return Err(invalid(
            path,
            "only parameters of type string, integer or boolean may have this annotation",
        ));
    }
    Ok(Mirrored {
        header: format!("Mcp-Param-{name}"),
        path: path.to_vec(),
    })
}

/// A value as text; `None` for what stands in no header.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => {
            let whole = number.as_i64().or_else(|| {
                let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "its bounds are checked next"
                )]
                Some(number as i64)
            })?;
            (-MAX_SAFE..=MAX_SAFE)
                .contains(&whole)
                .then(|| whole.to_string())
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn invalid(path: &[String], what: &'static str) -> InvalidAnnotation {
    InvalidAnnotation {
        place: orchestra_wire::shown(&path.join(".")).into_owned(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: &Value) -> Result<MirroredParams, InvalidAnnotation> {
        MirroredParams::of(&RawJson::of(schema).unwrap())
    }

    #[test]
    fn values_stand_in_the_headers_that_their_parameters_name() {
        let named = |kind: &str, name: &str| json!({"type": kind, ANNOTATION: name});
        let schema = json!({"type": "object", "properties": {
            "region": named("string", "Region"),
            "count": named("integer", "Count"),
            "dry": named("boolean", "Dry"),
            "gone": named("string", "Gone"),
            "inner": {"type": "object", "properties": {"deep": named("string", "Deep")}},
            "plain": {"type": "string", "default": {ANNOTATION: "data, and no annotation"}},
        }});
        let mirrored = of(&schema).unwrap();
        let arguments = json!({
            "region": "Hello, 世界", "count": 42.0, "dry": false, "gone": null,
            "inner": {"deep": " x"}, "plain": "p",
        });
        let arguments = RawJson::of(&arguments).unwrap();
        let mut headers = mirrored.headers(Some(&arguments));
        headers.sort();
        let expected = [
            ("Mcp-Param-Count", "42"),
            ("Mcp-Param-Deep", "=?base64?IHg=?="),
            ("Mcp-Param-Dry", "false"),
            ("Mcp-Param-Region", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(headers, expected);
        assert!(mirrored.headers(None).is_empty());
        assert!(of(&json!({"type": "object"})).unwrap().is_empty());
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        let with = |property: Value| json!({"type": "object", "properties": {"a": property}});
        let named = |name: &str| json!({"type": "string", ANNOTATION: name});
        for (schema, told) in [
            (with(named("")), "no header name"),
            (with(named("My Region")), "no header name"),
            (with(named("Région")), "no header name"),
            (with(named("a:b")), "no header name"),
            (with(named("a\r\nb")), "no header name"),
            (
                with(json!({"type": "string", ANNOTATION: 1})),
                "must be a string",
            ),
            (
                with(json!({"type": "number", ANNOTATION: "N"})),
                "string, integer or boolean",
            ),
            (
                with(json!({"type": "object", ANNOTATION: "N"})),
                "string, integer or boolean",
            ),
            (
                with(json!({"type": ["string", "null"], ANNOTATION: "N"})),
                "string, integer or boolean",
            ),
            (with(json!({ANNOTATION: "N"})), "string, integer or boolean"),
            (
                with(json!({"type": "array", "items": named("N")})),
                "no other keyword",
            ),
            (with(json!({"anyOf": [named("N")]})), "no other keyword"),
            (json!({"$defs": {"d": named("N")}}), "no other keyword"),
            (
                json!({"if": {"properties": {"a": named("N")}}}),
                "no other keyword",
            ),
            (
                json!({"properties": {"a": named("Same"), "b": named("sAME")}}),
                "the same header",
            ),
        ] {
            let error = of(&schema).unwrap_err().to_string();
            assert!(error.contains(told), "{schema}: {error}");
        }
    }
}
