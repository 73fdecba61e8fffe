//! Arguments of tools as they are given in a shell: `key=value`, understood by the tool's schema, or
//! one JSON object.

use std::{
    fs,
    io::{self, Read},
};

use orchestra_wire::{RawJson, RawJsonError, large_integer};
use serde_json::{Map, Value};

use crate::{exit::Failure, output::in_a_line};

/// The largest arguments that are read.
const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// Arguments as they were given.
#[derive(Debug, Clone)]
pub(crate) enum Given {
    /// Words of the form `key=value`.
    Pairs(Vec<String>),
    /// All of them.
    Object {
        values: Map<String, Value>,
        /// Their text, if the values do not hold all digits of its integers.
        exact: Option<RawJson>,
    },
}

impl Given {
    /// Those of a command line: words, of which one alone may be a JSON object; or `--args`, which is
    /// a JSON object, the name of a file that holds one, or `-` for stdin.
    ///
    /// # Errors
    /// When they are none, or cannot be read.
    pub(crate) fn read(words: Vec<String>, args: Option<String>) -> Result<Self, Failure> {
        if let Some(args) = args {
            return of_flag(&args);
        }
        match words.as_slice() {
            [only] if only.trim_start().starts_with('{') => object(only),
            _ => Ok(Self::Pairs(words)),
        }
    }

    /// The arguments, as the schema takes them.
    pub(crate) fn fit(&self, schema: &Value) -> Result<Map<String, Value>, ArgumentError> {
        match self {
            Self::Object { values, .. } => Ok(values.clone()),
            Self::Pairs(pairs) => of_pairs(pairs, schema),
        }
    }

    /// The JSON text to send of arguments that [`Self::fit`] returned, with all digits of integers.
    ///
    /// # Errors
    /// When they cannot be written as JSON.
    pub(crate) fn sent(&self, fitted: &Map<String, Value>) -> Result<RawJson, RawJsonError> {
        match self {
            Self::Object {
                exact: Some(exact), ..
            } => Ok(exact.clone()),
            _ => RawJson::of(fitted),
        }
    }
}

/// What `--args` says.
fn of_flag(args: &str) -> Result<Given, Failure> {
    if args.trim_start().starts_with(['{', '[']) {
        return object(args);
    }
    let mut text = String::new();
    if args == "-" {
        let stdin = io::stdin().lock();
        stdin.take(MAX_BYTES).read_to_string(&mut text)?;
    } else {
        let read = fs::File::open(args)
            .and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text).map(drop));
        read.map_err(|error| {
            Failure::usage_text(format!(
                "--args takes a JSON object, - for stdin, or a file that holds one; {args}: {error}"
            ))
        })?;
    }
    object(&text)
}

fn object(text: &str) -> Result<Given, Failure> {
    // Some editors and shells put a byte-order mark first.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match serde_json::from_str(text) {
        Ok(Value::Object(values)) => {
            let exact = large_integer(text).map(|_| {
                // A line break in JSON is white space between two tokens.
                let line = text.trim().replace(['\n', '\r'], " ");
                RawJson::checked(line.into())
            });
            Ok(Given::Object {
                values,
                exact: exact.transpose()?,
            })
        }
        Ok(_) => Err(Failure::usage_text("the arguments must be a JSON object")),
        Err(error) => Err(Failure::usage_text(format!(
            "the arguments are not valid JSON: {error}"
        ))),
    }
}

/// Why an argument was not understood. Names of a schema are on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
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
    /// Required arguments, each with its possible values if the schema lists them.
    #[error("missing argument{} {}", plural(.0), .0.join(", "))]
    Missing(Vec<String>),
    /// It was given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// It has an integer that no value holds.
    #[error(
        "`{0}` has an integer of more than 64 bits; pass it with `--args`, which does not change it"
    )]
    Large(String),
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
pub(crate) fn check(arguments: &Map<String, Value>, schema: &Value) -> Result<(), ArgumentError> {
    for (name, value) in arguments {
        let types = types_of(property(name, schema)?);
        if !types.is_empty() && !types.iter().any(|expected| is_of_type(value, expected)) {
            return Err(ArgumentError::Type {
                name: name.clone(),
                expected: in_a_line(&types.join(" or ")),
            });
        }
    }
    let required = schema["required"].as_array();
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    let missing: Vec<String> = required
        .filter(|name| !arguments.contains_key(*name))
        .map(|name| match possible_values(&schema["properties"][name]) {
            Some(values) => in_a_line(&format!("`{name}` (one of {values})")),
            None => in_a_line(&format!("`{name}`")),
        })
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(ArgumentError::Missing(missing)),
    }
}

/// Values that a schema lists; `None` where it lists none.
fn possible_values(property: &Value) -> Option<String> {
    let values = property["enum"].as_array()?;
    let shown = values.iter().map(|value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    Some(shown.collect::<Vec<_>>().join(", "))
}

fn plural(names: &[String]) -> &'static str {
    if names.len() == 1 { "" } else { "s" }
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
        _ => {
            let choices = ["anyOf", "oneOf"].into_iter();
            let mut choices = choices.filter_map(|key| property[key].as_array()).flatten();
            let mut types = Vec::new();
            // One that is not understood may allow everything.
            let all = choices.all(|choice| {
                let found = types_of(choice);
                let is_known = !found.is_empty();
                types.extend(found);
                is_known
            });
            if all { types } else { Vec::new() }
        }
    }
}

/// What a schema says of an argument. One that it does not name may still be taken, unless the schema
/// names all that are.
fn property<'s>(name: &str, schema: &'s Value) -> Result<&'s Value, ArgumentError> {
    /// What may let in others.
    const OPEN: [&str; 6] = [
        "additionalProperties",
        "patternProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
    ];
    let named = schema["properties"].as_object();
    if let Some(property) = named.and_then(|named| named.get(name)) {
        return Ok(property);
    }
    let says = |key: &&str| {
        schema
            .get(key)
            .is_some_and(|value| *value != Value::Bool(false))
    };
    match named.is_none() || OPEN.iter().any(says) {
        true => Ok(&Value::Null),
        false => Err(unknown(name, schema)),
    }
}

/// The arguments as a JSON object.
fn of_pairs(pairs: &[String], schema: &Value) -> Result<Map<String, Value>, ArgumentError> {
    let mut arguments = Map::new();
    for pair in pairs {
        let (name, text) = pair
            .split_once('=')
            .ok_or_else(|| ArgumentError::NoValue(pair.clone()))?;
        let value = understand(name, text, property(name, schema)?)?;
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
        .map(|(key, _)| in_a_line(key))
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
        return match large_integer(text) {
            Some(_) => Err(ArgumentError::Large(name.to_owned())),
            None => Ok(value),
        };
    }
    if types.contains(&"array") {
        return Ok(text.split(',').map(str::trim).collect());
    }
    if types.is_empty() {
        return Ok(text.into());
    }
    Err(ArgumentError::Type {
        name: name.to_owned(),
        expected: in_a_line(&types.join(" or ")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(pairs: &[&str]) -> Result<Value, ArgumentError> {
        let schema = json!({"type": "object", "properties": {
            "title": {"type": "string"},
            "limit": {"type": "integer"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "boolean"},
            "any": {},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        }, "required": ["title"]});
        let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        let arguments = of_pairs(&pairs, &schema)?;
        check(&arguments, &schema)?;
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
                "any=x",
                "maybe=7"
            ]),
            Ok(
                json!({"title": "12 = twelve", "limit": 5, "labels": ["a", "b"], "deep": true, "any": "x", "maybe": 7})
            )
        );
        assert_eq!(
            parsed(&["title=x", "labels=[\"a,b\"]"]),
            Ok(json!({"title": "x", "labels": ["a,b"]}))
        );
    }

    #[test]
    fn names_of_a_schema_are_on_one_line() {
        let schema = json!({
            "properties": {"x\ny": {"enum": ["a\nb"]}, "z": {"type": "c\nd"}},
            "required": ["x\ny"],
        });
        for error in [
            of_pairs(&["q=1".to_owned()], &schema).unwrap_err(),
            of_pairs(&["z=text".to_owned()], &schema).unwrap_err(),
            check(&Map::new(), &schema).unwrap_err(),
        ] {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (pair, text) in [
            ("title", "`title` is not of the form key=value"),
            ("limit=many", "`limit` takes integer as JSON"),
            ("limit=\"5\"", "`limit` takes integer as JSON"),
            (
                "any=[18446744073709551616]",
                "`any` has an integer of more than 64 bits; pass it with `--args`, which does not change it",
            ),
            ("maybe=soon", "`maybe` takes integer or null as JSON"),
            ("deep=true", "missing argument `title`"),
            (
                "nope=1",
                "the tool has no argument `nope`; it has any, deep, labels, limit, maybe, title",
            ),
        ] {
            assert_eq!(parsed(&[pair]).unwrap_err().to_string(), text);
        }
        assert!(parsed(&["limit=1", "limit=2"]).is_err());
    }

    #[test]
    fn all_missing_arguments_are_named_with_their_values() {
        let schema = json!({
            "properties": {"project": {}, "title": {}, "type": {"enum": ["bug", "task"]}},
            "required": ["project", "title", "type"],
        });
        let given = Map::from_iter([("title".to_owned(), json!("a"))]);
        let error = check(&given, &schema).unwrap_err();
        assert_eq!(
            error.to_string(),
            "missing arguments `project`, `type` (one of bug, task)"
        );
    }

    #[test]
    fn what_a_schema_leaves_open_is_passed() {
        for schema in [
            json!({"type": "object"}),
            json!({"properties": {"a": {"type": "string"}}, "additionalProperties": true}),
            json!({"properties": {}, "anyOf": [{}]}),
        ] {
            let pairs = ["x=1".to_owned(), "y=z".to_owned()];
            let arguments = of_pairs(&pairs, &schema).map(Value::Object);
            assert_eq!(arguments, Ok(json!({"x": 1, "y": "z"})), "{schema}");
        }
        let closed = json!({"properties": {}});
        assert!(of_pairs(&["x=1".to_owned()], &closed).is_err());
    }

    #[test]
    fn integer_of_more_than_64_bits_is_sent_as_it_is() {
        for (args, sent) in [
            ("{\"n\": 18446744073709551616,\r\n\"t\": \"a\"}\n", None),
            (
                "{\"n\":  18446744073709551615}",
                Some("{\"n\":18446744073709551615}"),
            ),
        ] {
            let given = Given::read(vec![args.to_owned()], None).unwrap();
            let fitted = given.fit(&Value::Null).unwrap();
            let expected = sent.unwrap_or("{\"n\": 18446744073709551616,  \"t\": \"a\"}");
            assert_eq!(given.sent(&fitted).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn one_word_may_be_all_of_them() {
        let read = |word: &str| Given::read(vec![word.to_owned()], None);
        assert!(matches!(read("{\"a\": 1}"), Ok(Given::Object { .. })));
        assert!(matches!(read("a={"), Ok(Given::Pairs(_))));
        assert!(read("{\"a\": ").is_err());
        assert!(Given::read(Vec::new(), Some("[1]".to_owned())).is_err());
        assert!(Given::read(Vec::new(), Some("/no/such/file".to_owned())).is_err());
    }
}
