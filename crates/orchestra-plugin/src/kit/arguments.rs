//! Arguments: their JSON Schema, and how they are read from what was sent.
//!
//! The schema comes from the struct that a handler takes, with everything inlined. What a schema
//! says beyond the types of the struct is checked by the orchestrator, not here.

use bytes::Bytes;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, value::RawValue};

use super::answer::ToolError;

/// The integers that a double holds without loss lie between this and its negative.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The schema of a tool's arguments.
pub(super) fn input<T: JsonSchema>() -> Value {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_deserialize());
    if let Value::Object(fields) = &mut schema {
        fields.remove("description");
        fields.entry("type").or_insert_with(|| "object".into());
        // Some clients take an object schema without it for broken.
        fields
            .entry("properties")
            .or_insert_with(|| Value::Object(Map::new()));
    }
    schema
}

/// The schema of a tool's structured result.
pub(super) fn output<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// The JSON of arguments.
#[derive(Debug, Clone)]
pub(super) struct Json(Bytes);

impl Json {
    /// The object without members.
    pub(super) const EMPTY: Self = Self(Bytes::from_static(b"{}"));

    /// What is a part of what came, and not copied: arguments may have many megabytes.
    pub(super) fn part_of(whole: &Bytes, part: &RawValue) -> Self {
        Self(whole.slice_ref(part.get().as_bytes()))
    }
}

impl From<Vec<u8>> for Json {
    fn from(text: Vec<u8>) -> Self {
        Self(text.into())
    }
}

/// Reads arguments from the text of a JSON object.
///
/// An integer may be written as a double, `3.0` for 3: whoever sends it may have no integers.
pub(super) fn read<T: DeserializeOwned>(json: &Json) -> Result<T, ToolError> {
    let mut text = serde_json::Deserializer::from_slice(&json.0);
    let error = match serde_path_to_error::deserialize(&mut text) {
        Ok(arguments) => return Ok(arguments),
        Err(error) => error,
    };
    let integral = serde_json::from_slice(&json.0)
        .ok()
        .and_then(|mut value| make_integral(&mut value).then_some(value));
    match integral.map(serde_path_to_error::deserialize::<_, T>) {
        Some(Ok(arguments)) => Ok(arguments),
        Some(Err(error)) => Err(refusal(&error.path().to_string(), error.inner())),
        None => Err(refusal(&error.path().to_string(), error.inner())),
    }
}

/// What is wrong with arguments, and where.
fn refusal(path: &str, error: &serde_json::Error) -> ToolError {
    let mut message = error.to_string();
    // The place in a text that the caller has never seen says nothing.
    if let Some(at) = message.rfind(" at line ") {
        message.truncate(at);
    }
    let message = match path {
        "." | "?" => format!("invalid arguments: {message}"),
        path => format!("invalid argument {path}: {message}"),
    };
    ToolError::new("validation_error", message)
}

/// Turns integral doubles into integers; true if there were any.
fn make_integral(value: &mut Value) -> bool {
    match value {
        Value::Number(number) => {
            let Some(double) = number.as_f64().filter(|_| number.is_f64()) else {
                return false;
            };
            if double.fract() != 0.0 || double.abs() > EXACT {
                return false;
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is integral and within the exact integers"
            )]
            let integer = double as i64;
            *number = integer.into();
            true
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |found, item| make_integral(item) | found),
        Value::Object(members) => members
            .values_mut()
            .fold(false, |found, member| make_integral(member) | found),
        _ => false,
    }
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    strip(&mut schema);
    schema
}

/// Drops what says nothing to a model: names of types, formats of numbers, and the `null` that
/// stands for an argument which is left out.
fn strip(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    for name in ["title", "format", "$schema"] {
        fields.remove(name);
    }
    if fields.get("default") == Some(&Value::Null) {
        fields.remove("default");
    }
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(branches)) = fields.get_mut("anyOf") {
        branches.retain(|branch| branch.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = branches.as_slice() {
            let only = only.clone();
            fields.remove("anyOf");
            fields.extend(only);
        }
    }
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), value) {
            // The keys are names of arguments, whatever they are called.
            ("properties" | "$defs", Value::Object(inner)) => inner.values_mut().for_each(strip),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(inner)) => {
                inner.iter_mut().for_each(strip);
            }
            ("items" | "additionalProperties" | "not", inner) => strip(inner),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Arguments {
        /// How many.
        count: u32,
        inner: Option<Inner>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Inner {
        title: String,
        sizes: Vec<i64>,
    }

    fn json_of(text: &str) -> Json {
        text.as_bytes().to_vec().into()
    }

    #[test]
    fn schemas_are_inlined_and_stripped() {
        assert_eq!(
            input::<Arguments>(),
            json!({
                "type": "object",
                "properties": {
                    "count": {"type": "integer", "minimum": 0, "description": "How many."},
                    "inner": {
                        "type": "object",
                        "properties": {
                            "title": {"type": "string"},
                            "sizes": {"type": "array", "items": {"type": "integer"}}
                        },
                        "required": ["title", "sizes"]
                    }
                },
                "required": ["count"]
            })
        );
    }

    #[test]
    fn integral_doubles_are_integers() {
        let read = read::<Arguments>(&json_of(
            r#"{"count":3.0,"inner":{"title":"t","sizes":[1,-2.0,1e3]}}"#,
        ));
        let arguments = read.unwrap();
        assert_eq!(arguments.count, 3);
        assert_eq!(arguments.inner.unwrap().sizes, [1, -2, 1000]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_path() {
        for (json, message) in [
            ("{}", "invalid arguments: missing field `count`"),
            (
                r#"{"count":1.5}"#,
                "invalid argument count: invalid type: floating point `1.5`, expected u32",
            ),
            (
                r#"{"count":1.0,"inner":{"title":"t","sizes":[1,"x"]}}"#,
                "invalid argument inner.sizes[1]: invalid type: string \"x\", expected i64",
            ),
        ] {
            let error = read::<Arguments>(&json_of(json)).unwrap_err();
            assert_eq!(error.message(), message);
            assert_eq!(error.code(), "validation_error");
        }
    }
}
