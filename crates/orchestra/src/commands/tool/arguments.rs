//! Arguments given as `key=value`, understood by the tool's schema.

use orchestra_hub::ToolDescriptor;
use serde_json::{Map, Value};

/// Why an argument was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentError {
    /// It has no `=`.
    #[error("`{0}` is not of the form key=value")]
    NoValue(String),
    /// The tool has none of this name.
    #[error("the tool has no argument `{name}`; it has {}", known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The tool needs it.
    #[error("missing argument `{0}`")]
    Missing(String),
    /// It was given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// It is not what the tool takes.
    #[error("`{name}` takes {expected} as JSON")]
    Type {
        /// The name.
        name: String,
        /// What the schema says.
        expected: String,
    },
}

/// Checks that arguments have the names and the types that the tool takes. What values they may have
/// is the tool's to say.
pub(super) fn check(
    arguments: &Map<String, Value>,
    tool: &ToolDescriptor,
) -> Result<(), ArgumentError> {
    let schema: Value = tool.input_schema.parse().unwrap_or_default();
    for (name, value) in arguments {
        let property = schema["properties"]
            .get(name)
            .ok_or_else(|| unknown(name, &schema))?;
        let types = types_of(property);
        if !types.is_empty() && !types.iter().any(|expected| is_of_type(value, expected)) {
            return Err(ArgumentError::Type {
                name: name.clone(),
                expected: types.join(" or "),
            });
        }
    }
    let required = schema["required"].as_array();
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    match required.find(|name| !arguments.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(ArgumentError::Missing(name.to_owned())),
    }
}

fn is_of_type(value: &Value, expected: &str) -> bool {
    match expected {
        "string" => value.is_string(),
        "integer" | "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// The types that a schema allows; none where it allows every one.
fn types_of(property: &Value) -> Vec<&str> {
    match &property["type"] {
        Value::String(only) => vec![only],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The arguments as a JSON object.
pub(super) fn of_pairs(
    pairs: &[String],
    tool: &ToolDescriptor,
) -> Result<Map<String, Value>, ArgumentError> {
    let schema: Value = tool.input_schema.parse().unwrap_or_default();
    let mut arguments = Map::new();
    for pair in pairs {
        let (name, text) = pair
            .split_once('=')
            .ok_or_else(|| ArgumentError::NoValue(pair.clone()))?;
        let property = schema["properties"]
            .get(name)
            .ok_or_else(|| unknown(name, &schema))?;
        let value = understand(name, text, property)?;
        if arguments.insert(name.to_owned(), value).is_some() {
            return Err(ArgumentError::Twice(name.to_owned()));
        }
    }
    Ok(arguments)
}

fn unknown(name: &str, schema: &Value) -> ArgumentError {
    let properties = schema["properties"].as_object();
    let mut known: Vec<String> = properties
        .into_iter()
        .flatten()
        .map(|(key, _)| key.clone())
        .collect();
    known.sort_unstable();
    ArgumentError::Unknown {
        name: name.to_owned(),
        known,
    }
}

/// The value that `text` stands for: text where the schema says so, else JSON.
fn understand(name: &str, text: &str, property: &Value) -> Result<Value, ArgumentError> {
    let types = types_of(property);
    if types.contains(&"string") || property.get("enum").is_some() {
        return Ok(text.into());
    }
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    if types.contains(&"array") {
        return Ok(text.split(',').map(str::trim).collect());
    }
    if types.is_empty() {
        return Ok(text.into());
    }
    Err(ArgumentError::Type {
        name: name.to_owned(),
        expected: types.join(" or "),
    })
}

#[cfg(test)]
mod tests {
    use orchestra_hub::{Annotations, Cost, LongWork};
    use orchestra_wire::RawJson;
    use serde_json::json;

    use super::*;

    fn parsed(pairs: &[&str]) -> Result<Value, ArgumentError> {
        let schema = json!({"type": "object", "properties": {
            "title": {"type": "string"},
            "limit": {"type": "integer"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "boolean"},
            "any": {},
        }, "required": ["title"]});
        let tool = ToolDescriptor {
            name: "t".into(),
            title: None,
            description: None,
            input_schema: RawJson::of(&schema).unwrap(),
            output_schema: None,
            annotations: Annotations::default(),
            group: "g".into(),
            definition: None,
            cost: Cost::Quick,
            long: LongWork::Never,
        };
        let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        let arguments = of_pairs(&pairs, &tool)?;
        check(&arguments, &tool)?;
        Ok(Value::Object(arguments))
    }

    #[test]
    fn values_follow_the_schema() {
        assert_eq!(
            parsed(&[
                "title=12 = twelve",
                "limit=5",
                "labels=a, b",
                "deep=true",
                "any=x"
            ]),
            Ok(
                json!({"title": "12 = twelve", "limit": 5, "labels": ["a", "b"], "deep": true, "any": "x"})
            )
        );
        assert_eq!(
            parsed(&["title=x", "labels=[\"a,b\"]"]),
            Ok(json!({"title": "x", "labels": ["a,b"]}))
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (pair, text) in [
            ("title", "`title` is not of the form key=value"),
            ("limit=many", "`limit` takes integer as JSON"),
            ("limit=\"5\"", "`limit` takes integer as JSON"),
            ("deep=true", "missing argument `title`"),
            (
                "nope=1",
                "the tool has no argument `nope`; it has any, deep, labels, limit, title",
            ),
        ] {
            assert_eq!(parsed(&[pair]).unwrap_err().to_string(), text);
        }
        assert!(parsed(&["limit=1", "limit=2"]).is_err());
    }
}
