//! Members of answers of model servers, read for what is of interest: one of another form is as if it were not
//! there, and never costs the answer.

use orchestra_remote::in_a_line;
use serde::{Deserialize as _, Deserializer, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use super::is_transient;
use crate::request::Trouble;

/// Parts of errors, in lower case, of requests that may succeed later.
const TRANSIENT: [&str; 18] = [
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "overload",
    "busy",
    "unavailable",
    "timeout",
    "timed out",
    "try again",
    "temporar",
    "server_error",
    "server error",
    "capacity",
    "not ready",
    "not_ready",
    "loading",
    "resource_exhausted",
];

/// Returns the text of an object, also where it is the first element of a list; `None` for any other JSON value.
pub(super) fn object_of(text: &str) -> serde_json::Result<Option<&str>> {
    if text.starts_with('{') {
        return Ok(Some(text));
    }
    let value = serde_json::from_str::<&RawValue>(text)?.get();
    if !value.starts_with('[') {
        return Ok(None);
    }
    let items: Vec<&RawValue> = serde_json::from_str(value)?;
    let first = items.first().copied().map(RawValue::get);
    Ok(first.filter(|first| first.starts_with('{')))
}

/// Reads a member; `None` where it has another form.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

/// Reads a list, or the only element of one; elements of another form are left out.
pub(super) fn several<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    let parts = match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
        Ok(parts) => parts,
        Err(_) => vec![&*raw],
    };
    let parts = parts
        .into_iter()
        .filter_map(|part| serde_json::from_str(part.get()).ok());
    Ok(parts.collect())
}

/// Reads an id, which may be a number.
pub(super) fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Reads a count of tokens. A value of another form is 0.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = number(&Value::deserialize(deserializer)?);
    Ok(number.map_or(0, |number| number as u64))
}

/// Reads an index: a whole number. A value of another form is `None`.
pub(super) fn index<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let number = number(&Value::deserialize(deserializer)?);
    let whole = number.filter(|number| number.fract() == 0.0);
    Ok(whole.map(|number| number as usize))
}

/// Returns a number that is not negative, also from a float or a text.
fn number(value: &Value) -> Option<f64> {
    /// Largest number that is believed.
    const MOST: f64 = 1e12;
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| (0.0..=MOST).contains(number))
}

/// Reads an error; `None` where it is null or empty, as some servers write it beside an answer.
pub(super) fn failure<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    let error = Value::deserialize(deserializer)?;
    let is_empty = match &error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    };
    Ok((!is_empty).then_some(error))
}

/// Returns the trouble of an error that a server reports within its answer.
pub(super) fn reported(error: &Value) -> Trouble {
    let status = [&error["code"], &error["status"], &error["type"]];
    let mut status = status.into_iter().filter_map(number);
    let status = status.find(|status| (400.0..600.0).contains(status));
    let status = status.map(|status| status as u16);
    let text = error.to_string().to_lowercase();
    let is_transient = match status {
        Some(status) => is_transient(status),
        None => TRANSIENT.iter().any(|part| text.contains(part)),
    };
    match (is_transient, in_a_line(&words(error))) {
        (true, what) => Trouble::Busy { what },
        (false, said) => Trouble::Refused {
            status: status.unwrap_or(200),
            said,
        },
    }
}

/// The words of an error: a text, an object with a message, or any other value as JSON.
fn words(error: &Value) -> String {
    let word = |key: &str| match &error[key] {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match error {
        Value::String(text) => text.clone(),
        Value::Array(errors) if errors.len() == 1 => words(&errors[0]),
        _ => word("message")
            .or_else(|| word("detail"))
            .or_else(|| word("error"))
            .or_else(|| word("type"))
            .or_else(|| word("code"))
            .unwrap_or_else(|| error.to_string()),
    }
}
