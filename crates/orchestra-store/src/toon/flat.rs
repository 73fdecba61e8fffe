//! A quick way through the plainest TOON: lines of `key: value` and `key[n]: a,b`, as nearly all
//! issue files are. Whatever is not that plain is left to the library.

use serde_json::{Map, Value};

/// Parses the text if it is plain enough. The result is what the library would give; `None` says
/// nothing about the text being right or wrong.
pub(super) fn parse(text: &str) -> Option<Map<String, Value>> {
    let mut fields = Map::new();
    for line in text.split('\n') {
        if line.is_empty() {
            continue;
        }
        let (key, value) = field(line)?;
        if fields.insert(key.to_owned(), value).is_some() {
            return None;
        }
    }
    (!fields.is_empty()).then_some(fields)
}

fn field(line: &str) -> Option<(&str, Value)> {
    let bytes = line.as_bytes();
    let end = bytes
        .iter()
        .position(|byte| !(byte.is_ascii_lowercase() || *byte == b'_'))?;
    if end == 0 {
        return None;
    }
    let (key, rest) = line.split_at(end);
    if let Some(value) = rest.strip_prefix(": ") {
        return scalar(value).map(|value| (key, value));
    }
    let (count, items) = rest.strip_prefix('[')?.split_once("]: ")?;
    let count: usize = whole_number(count)?.try_into().ok()?;
    if items.contains(['"', '\\']) {
        return None;
    }
    let items: Option<Vec<Value>> = items.split(',').map(plain_item).collect();
    let items = items.filter(|items| items.len() == count)?;
    Some((key, Value::Array(items)))
}

fn plain_item(item: &str) -> Option<Value> {
    if item.is_empty() || item.starts_with(' ') || item.ends_with([' ', '\r']) {
        None
    } else {
        scalar(item)
    }
}

fn scalar(text: &str) -> Option<Value> {
    let bytes = text.as_bytes();
    let (first, last) = (*bytes.first()?, *bytes.last()?);
    if first == b'"' {
        let inner = text.get(1..text.len().checked_sub(1)?)?;
        let plain = bytes.len() >= 2 && last == b'"' && !inner.contains(['"', '\\']);
        return plain.then(|| Value::String(inner.to_owned()));
    }
    if matches!(first, b' ' | b'[' | b'{' | b'-' | b'+') || matches!(last, b' ' | b'\r') {
        return None;
    }
    match text {
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        "null" => return None,
        _ => {}
    }
    if first.is_ascii_digit() {
        if let Some(number) = whole_number(text) {
            return Some(Value::from(number));
        }
        // A time, an id that begins with a digit, or a number of another form.
        let is_text = text
            .contains(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | 'E')));
        return is_text.then(|| Value::String(text.to_owned()));
    }
    Some(Value::String(text.to_owned()))
}

fn whole_number(text: &str) -> Option<u64> {
    let plain = text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = text == "0" || !text.starts_with('0');
    if plain && canonical {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    fn agrees(text: &str) {
        if let Some(fields) = super::parse(text) {
            let expected = toon_format::decode_default::<Value>(text);
            assert_eq!(expected, Ok(Value::Object(fields)), "{text:?}");
        }
    }

    #[test]
    fn takes_the_usual_issue_file() {
        let text = "schema: 1\nid: MA-1\ntitle: \"a: b\"\nlabels[2]: x,y z\ncreated_at: \"2026-01-01T00:00:00Z\"\nend: true\n";
        assert!(super::parse(text).is_some());
        agrees(text);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn agrees_with_the_library(text in "([a-b_]{0,2}(\\[[0-3]\\])?[: ]{0,3}[-+a0-9\"\\\\,:.# eE\\r\\[\\{}{}true]{0,8}\n?){0,4}") {
            agrees(&text);
        }

        #[test]
        fn agrees_with_the_library_on_any_text(value in "\\PC{0,20}") {
            agrees(&format!("a: {value}\nb: 1"));
            agrees(&format!("a[2]: {value},x\nb: 1"));
        }
    }
}
