//! The metadata of a document: a JSON object, in one form for one meaning.

use serde_json::{Map, Number, Value};

/// The fields in front of a document, as JSON whose keys are sorted and whose integers have no
/// fraction; never without any.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Metadata(String);

/// Why metadata cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// It is no JSON.
    #[error("the metadata is not valid JSON: {0}")]
    Syntax(String),
    /// It is no object.
    #[error("the metadata is not a JSON object; pass an object with named fields")]
    NoObject,
    /// There is too much of it.
    #[error(
        "the metadata has more than {} bytes; move long values into the document",
        Metadata::MAX_BYTES
    )]
    TooLarge,
    /// Objects and lists in it stand in one another too often.
    #[error("the metadata is nested more than {} deep", Metadata::MAX_DEPTH)]
    TooDeep,
    /// The name of a field is too long.
    #[error(
        "the name of a field in the metadata has more than {} characters",
        Metadata::MAX_KEY_CHARS
    )]
    KeyTooLong,
}

/// Below this, doubles hold every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Metadata {
    /// The most bytes of its JSON.
    pub const MAX_BYTES: usize = 1024 * 1024;
    /// How deep objects and lists may stand in one another.
    pub const MAX_DEPTH: usize = 64;
    /// The most characters of a field's name: with each of them escaped YAML still takes it.
    pub const MAX_KEY_CHARS: usize = 100;

    /// Reads a JSON object; one without fields is as good as none.
    ///
    /// # Errors
    /// When it is none or too large.
    pub fn parse(json: &str) -> Result<Option<Self>, MetadataError> {
        if json.len() > Self::MAX_BYTES {
            return Err(MetadataError::TooLarge);
        }
        let value: Value =
            serde_json::from_str(json).map_err(|error| MetadataError::Syntax(error.to_string()))?;
        Self::of(value)
    }

    pub(super) fn of(value: Value) -> Result<Option<Self>, MetadataError> {
        let Value::Object(fields) = value else {
            return Err(MetadataError::NoObject);
        };
        if fields.is_empty() {
            return Ok(None);
        }
        let json = canonical(Value::Object(fields), 0)?.to_string();
        if json.len() > Self::MAX_BYTES {
            return Err(MetadataError::TooLarge);
        }
        Ok(Some(Self(json)))
    }

    /// Takes back what [`Metadata::as_json`] gave.
    pub(crate) fn kept(json: String) -> Self {
        Self(json)
    }

    /// The fields as a JSON object.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The fields.
    pub(super) fn fields(&self) -> Map<String, Value> {
        // It was written by us; should the database have been tampered with, it says nothing.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

fn canonical(value: Value, depth: usize) -> Result<Value, MetadataError> {
    if depth > Metadata::MAX_DEPTH {
        return Err(MetadataError::TooDeep);
    }
    Ok(match value {
        Value::Number(number) => Value::Number(canonical_number(number)),
        Value::Array(items) => {
            let items = items.into_iter().map(|item| canonical(item, depth + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            orchestra_sort::sort_by(&mut fields, |a, b| a.0.cmp(&b.0));
            let mut sorted = Map::new();
            for (key, value) in fields {
                if key.chars().count() > Metadata::MAX_KEY_CHARS {
                    return Err(MetadataError::KeyTooLong);
                }
                sorted.insert(key, canonical(value, depth + 1)?);
            }
            Value::Object(sorted)
        }
        other => other,
    })
}

/// Integers without a fraction, as far as doubles hold them.
fn canonical_number(number: Number) -> Number {
    match number.as_f64() {
        Some(double) if number.is_f64() && double.fract() == 0.0 && double.abs() < EXACT =>
        {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is an integer that an i64 holds"
            )]
            Number::from(double as i64)
        }
        _ => number,
    }
}

#[cfg(test)]
mod tests {
    use super::{Metadata, MetadataError};

    fn json(text: &str) -> Result<Option<String>, MetadataError> {
        Ok(Metadata::parse(text)?.map(|metadata| metadata.as_json().to_owned()))
    }

    #[test]
    fn one_meaning_has_one_form() {
        let text = r#"{"b": 1.0, "a": {"y": -0.0, "x": [1e6, 0.5, 9007199254740993, 1e300]}}"#;
        let expected = r#"{"a":{"x":[1000000,0.5,9007199254740993,1e+300],"y":0},"b":1}"#;
        assert_eq!(json(text), Ok(Some(expected.to_owned())));
        assert_eq!(json("{}"), Ok(None));
        assert_eq!(json("[1]"), Err(MetadataError::NoObject));
        assert!(matches!(json("{"), Err(MetadataError::Syntax(_))));
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(json(&nested(64)).is_ok());
        assert_eq!(json(&nested(65)), Err(MetadataError::TooDeep));
        assert!(matches!(
            json(&nested(100_000)),
            Err(MetadataError::Syntax(_))
        ));
        let long = format!("{{\"{}\":1}}", "k".repeat(101));
        assert_eq!(json(&long), Err(MetadataError::KeyTooLong));
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(Metadata::MAX_BYTES));
        assert_eq!(json(&large), Err(MetadataError::TooLarge));
    }
}
