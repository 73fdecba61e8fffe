//! Values of JSON that a server may take for the same: numbers by their value, objects in any order of their members.

use serde_json::{Number, Value};

use super::matches;
use crate::{canonical, config::Effect};

/// Returns whether a value that is no text fits a pattern: as JSON, or by its text in any of its forms.
pub(super) fn fits(value: &Value, pattern: &str, effect: Effect) -> bool {
    matches(pattern, &value.to_string())
        || matches(pattern, &canonical::text(&plain(value)))
        || serde_json::from_str(pattern).is_ok_and(|wanted: Value| is_same(&wanted, value, effect))
}

fn is_same(wanted: &Value, value: &Value, effect: Effect) -> bool {
    match (wanted, value) {
        (Value::Number(wanted), Value::Number(number)) => is_same_number(wanted, number, effect),
        (Value::Array(wanted), Value::Array(items)) => {
            let mut pairs = wanted.iter().zip(items);
            wanted.len() == items.len() && pairs.all(|(wanted, item)| is_same(wanted, item, effect))
        }
        (Value::Object(wanted), Value::Object(members)) => {
            let is_in = |(name, wanted): (&String, &Value)| {
                let member = members.get(name);
                member.is_some_and(|member| is_same(wanted, member, effect))
            };
            wanted.len() == members.len() && wanted.iter().all(is_in)
        }
        (wanted, value) => wanted == value,
    }
}

/// Compares two numbers by their values. Many servers read integers as floats, which makes neighbours of large ones
/// equal: a rule that permits a call takes these for different, any other rule for the same.
fn is_same_number(wanted: &Number, number: &Number, effect: Effect) -> bool {
    let is_near = || wanted.as_f64().is_some() && wanted.as_f64() == number.as_f64();
    match (integer(wanted), integer(number)) {
        (Some(wanted), Some(number)) => wanted == number || (effect != Effect::Allow && is_near()),
        (None, None) => is_near(),
        _ => false,
    }
}

/// The value of a number that is an integer in any spelling.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float without a fraction below 2^100 is an i128"
)]
fn integer(number: &Number) -> Option<i128> {
    let whole = number.as_i64().map(i128::from);
    whole
        .or_else(|| number.as_u64().map(i128::from))
        .or_else(|| {
            let float = number.as_f64()?;
            let is_whole = float.fract() == 0.0 && float.abs() < 2_f64.powi(100);
            is_whole.then_some(float as i128)
        })
}

/// The same value with integers in their usual spelling.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            let whole = integer(number).and_then(|whole| i64::try_from(whole).ok());
            whole.map_or_else(|| value.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(members) => {
            let members = members.iter();
            let plain = members.map(|(name, member)| (name.clone(), plain(member)));
            Value::Object(plain.collect())
        }
        value => value.clone(),
    }
}
