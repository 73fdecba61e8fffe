//! The YAML front matter of a `SKILL.md`, as the JSON object that it means, every field of it.

use serde_json::{Map, Number, Value};
use serde_norway::Value as Yaml;

/// How long front matter may be, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Why a file has no front matter that could be told.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrontError {
    /// It does not begin with a line `---`, or there is no second one.
    #[error(
        "SKILL.md must begin with front matter between two lines of ---, of at most {MAX_BYTES} bytes"
    )]
    Missing,
    /// What stands there is no YAML, has a key twice, or is no mapping.
    #[error("the front matter of SKILL.md is not a YAML mapping: {0}")]
    Yaml(String),
    /// JSON has no form for a value.
    #[error("`{0}` in the front matter of SKILL.md cannot be represented in JSON")]
    NoJson(String),
}

/// The front matter of a file.
///
/// # Errors
/// When there is none, or it has no form in JSON.
pub(super) fn parse(file: &[u8]) -> Result<Map<String, Value>, FrontError> {
    let yaml = between_lines(file).ok_or(FrontError::Missing)?;
    orchestra_fs::check_yaml_depth(yaml).map_err(|error| FrontError::Yaml(error.to_string()))?;
    let value: Yaml = serde_norway::from_str(yaml).map_err(|error| {
        let text = error.to_string();
        FrontError::Yaml(text.chars().take(200).collect())
    })?;
    match value {
        Yaml::Mapping(mapping) => object(mapping),
        _ => Err(FrontError::Yaml("it is something else".to_owned())),
    }
}

/// The text between the first line, which must be `---`, and the next such line.
fn between_lines(file: &[u8]) -> Option<&str> {
    let start = &file[..file.len().min(MAX_BYTES)];
    // The cut may go through a character, which does not matter behind the front matter.
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&start[..error.valid_up_to()]).ok()?,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let opening = lines.next()?;
    if opening.trim_end() != "---" {
        return None;
    }
    let mut end = opening.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Some(&text[opening.len()..end]);
        }
        end += line.len();
    }
    None
}

fn object(mapping: serde_norway::Mapping) -> Result<Map<String, Value>, FrontError> {
    mapping
        .into_iter()
        .map(|(key, value)| match key {
            Yaml::String(key) => Ok((key, json(value)?)),
            other => Err(no_json(&other)),
        })
        .collect()
}

fn json(value: Yaml) -> Result<Value, FrontError> {
    Ok(match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(value),
        Yaml::String(text) => Value::String(text),
        Yaml::Number(number) => {
            let whole = number.as_u64().map(Number::from);
            let whole = whole.or_else(|| number.as_i64().map(Number::from));
            let exact = whole.or_else(|| number.as_f64().and_then(Number::from_f64));
            Value::Number(exact.ok_or_else(|| FrontError::NoJson(number.to_string()))?)
        }
        Yaml::Sequence(items) => {
            let items: Result<Vec<Value>, FrontError> = items.into_iter().map(json).collect();
            Value::Array(items?)
        }
        Yaml::Mapping(mapping) => Value::Object(object(mapping)?),
        Yaml::Tagged(tagged) => return Err(FrontError::NoJson(tagged.tag.to_string())),
    })
}

fn no_json(value: &Yaml) -> FrontError {
    let text = serde_norway::to_string(value).unwrap_or_default();
    FrontError::NoJson(text.trim().chars().take(100).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(front: &str, expected: &Value) {
        for end in ["\n", "\r\n"] {
            let file = format!("---\n{front}\n---\n# Body\n---\n").replace('\n', end);
            let found = parse(file.as_bytes()).unwrap_or_else(|error| panic!("{front}: {error}"));
            assert_eq!(Value::Object(found), *expected, "{front}");
        }
    }

    #[test]
    fn every_field_is_told_as_it_was_written() {
        check(
            "name: a\ndescription: b",
            &json!({"name": "a", "description": "b"}),
        );
        check(
            "name: a\nmetadata:\n  version: \"1.0\"\n  number: 1.5\n  big: 18446744073709551615\nallowed-tools:\n  - Read\n  - Bash(git:*)\nx: ~\ny: yes\nz: true",
            &json!({
                "name": "a",
                "metadata": {"version": "1.0", "number": 1.5, "big": 18_446_744_073_709_551_615_u64},
                "allowed-tools": ["Read", "Bash(git:*)"],
                "x": null,
                "y": "yes",
                "z": true,
            }),
        );
        check(
            "a: |\n  one\n  two\nb: >-\n  one\n  two",
            &json!({"a": "one\ntwo\n", "b": "one two"}),
        );
        check("date: 2026-01-02", &json!({"date": "2026-01-02"}));
    }

    #[test]
    fn what_has_no_form_in_json_is_refused_and_not_guessed() {
        for front in [
            "a: .nan",
            "a: .inf",
            "1: a",
            "a: {2: b}",
            "a: !tag b",
            "a: 1\na: 2",
            "- a",
            "just text",
            "a: [",
            "a: &x [1]\nb: *y",
            "",
        ] {
            let file = format!("---\n{front}\n---\n");
            assert!(parse(file.as_bytes()).is_err(), "{front}");
        }
    }

    #[test]
    fn a_file_without_both_lines_has_no_front_matter() {
        for file in [
            "",
            "# Title\n",
            "---\nname: a\n",
            " ---\nname: a\n---\n",
            "---\nname: a\n--- \u{80}",
        ] {
            assert!(
                matches!(parse(file.as_bytes()), Err(FrontError::Missing)),
                "{file}"
            );
        }
        let long = format!("---\na: {}\n---\n", "x".repeat(MAX_BYTES));
        assert!(matches!(parse(long.as_bytes()), Err(FrontError::Missing)));
        assert!(parse(b"\xef\xbb\xbf---\na: 1\n---\n\xff").is_ok());
    }

    #[test]
    fn nested_collections_are_refused_before_they_are_read() {
        let file = format!("---\na: {}\n---\n", "[{b: ".repeat(1_000));
        let error = parse(file.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("line 1 opens more than 128"), "{error}");
    }

    #[test]
    fn aliases_do_not_multiply_without_bound() {
        let mut front = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let below = format!("*a{}, ", level - 1).repeat(10);
            front.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        let file = format!("---\n{front}---\n");
        assert!(matches!(parse(file.as_bytes()), Err(FrontError::Yaml(_))));
    }
}
