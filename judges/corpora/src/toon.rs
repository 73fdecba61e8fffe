//! The fixtures of the TOON specification, through the library that our files are written with.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;
use toon_format::{DecodeOptions, Delimiter, EncodeOptions, Indent};

use crate::Score;

#[derive(Deserialize)]
struct Fixtures {
    tests: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    input: Value,
    #[serde(default)]
    expected: Value,
    #[serde(default)]
    should_error: bool,
    #[serde(default)]
    options: Options,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Options {
    strict: Option<bool>,
    indent: Option<usize>,
    delimiter: Option<String>,
}

/// Fixtures of features that our files do not use and the library does not have.
const LEFT_OUT: [&str; 2] = ["path-expansion.json", "key-folding.json"];

/// Fixtures that a later version of the specification has changed, which the library follows: it
/// writes a list of uniform nested objects as a table.
const CHANGED_SINCE: [&str; 1] = ["uses list format for objects with nested values"];

impl Case {
    /// Whether the fixture is about what our files are: strict TOON of the newest version.
    fn concerns_us(&self) -> bool {
        self.options.strict != Some(false) && !CHANGED_SINCE.contains(&self.name.as_str())
    }
}

pub(crate) fn play(packages: &Path) -> Result<Score> {
    let mut score = Score {
        passed: 0,
        failed: Vec::new(),
        left_out: 0,
    };
    for direction in ["decode", "encode"] {
        let directory = packages
            .join("@toon-format/spec/tests/fixtures")
            .join(direction);
        let listing = fs::read_dir(&directory);
        let listing = listing.with_context(|| format!("listing {}", directory.display()))?;
        for entry in listing {
            let path = entry.context("listing the fixtures")?.path();
            let file = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
            let fixtures: Fixtures =
                serde_json::from_str(&text).with_context(|| format!("reading {file}"))?;
            if LEFT_OUT.contains(&file.as_str()) {
                score.left_out += fixtures.tests.len();
                continue;
            }
            for case in fixtures.tests {
                if !case.concerns_us() {
                    score.left_out += 1;
                    continue;
                }
                match if direction == "decode" {
                    decode(&case)
                } else {
                    encode(&case)
                } {
                    Ok(()) => score.passed += 1,
                    Err(why) => score
                        .failed
                        .push(format!("{direction}/{file}: {}: {why}", case.name)),
                }
            }
        }
    }
    Ok(score)
}

fn decode(case: &Case) -> Result<(), String> {
    let text = case.input.as_str().ok_or("its input is no text")?;
    let mut options = DecodeOptions::new().with_strict(case.options.strict.unwrap_or(true));
    if let Some(indent) = case.options.indent {
        options = options.with_indent(Indent::Spaces(indent));
    }
    match (
        toon_format::decode::<Value>(text, &options),
        case.should_error,
    ) {
        (Err(_), true) => Ok(()),
        (Ok(value), false) if same(&value, &case.expected) => Ok(()),
        (got, _) => Err(format!("got {got:?}, expected {:?}", case.expected)),
    }
}

fn encode(case: &Case) -> Result<(), String> {
    let delimiter = match case.options.delimiter.as_deref() {
        Some("\t") => Delimiter::Tab,
        Some("|") => Delimiter::Pipe,
        _ => Delimiter::Comma,
    };
    let mut options = EncodeOptions::new().with_delimiter(delimiter);
    if let Some(indent) = case.options.indent {
        options = options.with_spaces(indent);
    }
    let expected = case.expected.as_str().ok_or("it expects no text")?;
    match toon_format::encode(&case.input, &options) {
        Ok(text) if text == expected => Ok(()),
        got => Err(format!("got {got:?}, expected {expected:?}")),
    }
}

/// Whether two values are the same, numbers compared by value.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        (left, right) => left == right,
    }
}
