//! Calls as Python would make them: `get_weather(city="Rome", days=3)`.

use serde_json::{Map, Value};

use super::{Fault, lenient::Reader};

/// How deep arguments may be nested.
const DEPTH: usize = 32;

/// A call that was read.
#[derive(Debug, PartialEq)]
pub(super) struct Written {
    /// What is called, dots included.
    pub(super) name: String,
    /// Arguments without a name, in order.
    pub(super) positional: Vec<Value>,
    /// Those with one.
    pub(super) named: Map<String, Value>,
    /// The fault of the text that it is from.
    pub(super) fault: Option<Fault>,
}

/// The calls that a text is, one or a list of them; nothing but calls. `None` where it is anything else.
pub(super) fn calls(text: &str) -> Option<Vec<Written>> {
    let mut reader = Reader::new(text.trim());
    reader.blanks();
    let in_list = reader.take('[');
    let mut calls = Vec::new();
    loop {
        reader.blanks();
        while reader.take(',') || reader.take(';') {
            reader.blanks();
        }
        if in_list && reader.take(']') {
            reader.blanks();
            break;
        }
        if reader.rest().is_empty() {
            if in_list {
                reader.is_cut();
            }
            break;
        }
        calls.push(call(&mut reader)?);
    }
    for call in &mut calls {
        call.fault.clone_from(&reader.fault);
    }
    (reader.rest().trim().is_empty() && !calls.is_empty()).then_some(calls)
}

/// What may stand around a call: `print(await …)`.
const AROUND: usize = 2;

/// The call that a reader stands at.
pub(super) fn call(reader: &mut Reader<'_>) -> Option<Written> {
    within(reader, AROUND)
}

fn within(reader: &mut Reader<'_>, around: usize) -> Option<Written> {
    let mut name = word(reader)?;
    reader.blanks();
    // `result = get_weather(…)`, and what prints it.
    if reader.rest().starts_with('=') && !reader.rest().starts_with("==") {
        reader.take('=');
        reader.blanks();
        name = word(reader)?;
    }
    if name == "print" || name == "await" {
        let is_print = reader.take('(');
        reader.blanks();
        let inner = within(reader, around.checked_sub(1)?)?;
        reader.blanks();
        (!is_print || reader.take(')')).then_some(())?;
        return Some(inner);
    }
    reader.take('(').then_some(())?;
    let (mut positional, mut named) = (Vec::new(), Map::new());
    loop {
        reader.commas(positional.is_empty() && named.is_empty(), ')');
        let is_cut = reader.rest().is_empty();
        if is_cut {
            reader.is_cut();
        }
        if is_cut || reader.take(')') {
            return Some(Written {
                name,
                positional,
                named,
                fault: None,
            });
        }
        match key(reader) {
            Some(key) => {
                let value = reader.value(DEPTH)?;
                if named.contains_key(&key) {
                    reader.guess(&format!("`{key}` occurs twice"));
                }
                named.insert(key, value);
            }
            None => positional.push(reader.value(DEPTH)?),
        }
        reader.blanks();
        let goes_on = reader.peek().is_none_or(|c| matches!(c, ',' | ')'));
        goes_on.then_some(())?;
    }
}

/// A name, with dots.
fn word(reader: &mut Reader<'_>) -> Option<String> {
    let rest = reader.rest();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let word = &rest[..length];
    let begins = word.chars().next();
    begins.filter(|c| c.is_alphabetic() || *c == '_')?;
    reader.at += length;
    Some(word.to_owned())
}

/// The name of an argument, with what stands between it and its value.
fn key(reader: &mut Reader<'_>) -> Option<String> {
    let before = reader.at;
    let key = word(reader);
    reader.blanks();
    let is_key = key.is_some() && (reader.take('=') || reader.take(':'));
    if !is_key || reader.rest().starts_with('=') {
        reader.at = before;
        return None;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: &[(&str, Value, Value)]) {
        let found = calls(text).unwrap_or_else(|| panic!("{text}"));
        let found: Vec<_> = found
            .into_iter()
            .map(|call| {
                (
                    call.name,
                    Value::Array(call.positional),
                    Value::Object(call.named),
                )
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, positional, named)| {
                ((*name).to_owned(), positional.clone(), named.clone())
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn calls_are_read() {
        check("f()", &[("f", json!([]), json!({}))]);
        check(
            "[get_weather(city='Rome', days=3), a.b(\"x\", [1, 2], y={'z': None})]",
            &[
                ("get_weather", json!([]), json!({"city": "Rome", "days": 3})),
                ("a.b", json!(["x", [1, 2]]), json!({"y": {"z": null}})),
            ],
        );
        check("print(f(a=1))", &[("f", json!([]), json!({"a": 1}))]);
        check(
            "result = f(a = True)",
            &[("f", json!([]), json!({"a": true}))],
        );
        check(
            "f(a=1)\ng(b=2)",
            &[
                ("f", json!([]), json!({"a": 1})),
                ("g", json!([]), json!({"b": 2})),
            ],
        );
    }

    #[test]
    fn call_that_is_cut_off_or_takes_a_guess_has_a_fault() {
        for text in ["f(a='cut", "f(a=1", "f(", "[f(a=1)", "[f(a=1), g("] {
            let found = calls(text).unwrap_or_else(|| panic!("{text}"));
            let is_cut = |call: &Written| call.fault == Some(Fault::Incomplete);
            assert!(found.iter().all(is_cut), "{text}");
        }
        for text in ["f(a=1,, b=2)", "f(a=1, a=2)", "f(a='it's here')"] {
            let found = calls(text).unwrap_or_else(|| panic!("{text}"));
            assert!(
                matches!(found[0].fault, Some(Fault::Unreadable(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_call_is_refused() {
        for text in [
            "",
            "hello",
            "f",
            "f(a=b)",
            "f(1) + 2",
            "if f(1): g()",
            "the f(1) call",
            "[1, 2]",
            "f(a==1)",
        ] {
            assert_eq!(calls(text), None, "{text}");
        }
    }
}
