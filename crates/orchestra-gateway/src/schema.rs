//! Schemas of arguments and results: compiled once, and not enforced where they cannot be.

use std::{fmt::Write as _, sync::OnceLock};

use jsonschema::{PatternOptions, Validator};
use orchestra_wire::RawJson;
use serde_json::Value;

/// A larger schema is not enforced: compiling it would hold up other calls.
const MAX_BYTES: usize = 128 * 1024;

/// Steps that a pattern may take on a text, where it needs an engine that goes back.
const BACKTRACKS: usize = 20_000;

/// Mistakes that are told at once.
const MAX_TOLD: usize = 5;

/// The most characters that are told of one mistake; it may quote its value.
const MAX_CHARS: usize = 300;

/// A schema and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    text: Option<RawJson>,
    compiled: OnceLock<Option<Box<Validator>>>,
}

impl Schema {
    /// A schema, where there is one that permits not everything.
    pub(crate) fn new(text: Option<RawJson>) -> Self {
        let is_trivial = |text: &RawJson| matches!(text.as_str(), "{}" | "{\"type\":\"object\"}");
        Self {
            text: text.filter(|text| !is_trivial(text)),
            compiled: OnceLock::new(),
        }
    }

    /// Whether there is anything to hold a value against.
    pub(crate) const fn is_there(&self) -> bool {
        self.text.is_some()
    }

    /// What is wrong with a value, in words for a model; `None` when nothing is, or the schema
    /// cannot be enforced. `whose` names it in the log, where that is told once.
    pub(crate) fn mistakes(&self, value: &RawJson, whose: &str) -> Option<String> {
        let schema = self.text.as_ref()?;
        let compiled = self.compiled.get_or_init(|| compile(schema, whose));
        let validator = compiled.as_ref()?;
        let value: Value = match value.parse_lossy() {
            Ok(value) => value,
            Err(_) => return Some("it is nested too deep".to_owned()),
        };
        if validator.is_valid(&value) {
            return None;
        }
        let mut told = String::new();
        for (at, error) in validator.iter_errors(&value).enumerate() {
            if at == MAX_TOLD {
                told.push_str("; and more");
                break;
            }
            if at > 0 {
                told.push_str("; ");
            }
            let path = error.instance_path().to_string();
            let text = error.to_string();
            let end = text.char_indices().nth(MAX_CHARS);
            let text = end.map_or(&*text, |(end, _)| &text[..end]);
            let _ = match path.as_str() {
                "" => write!(told, "{text}"),
                path => write!(told, "`{}`: {text}", path.trim_start_matches('/')),
            };
        }
        Some(told)
    }
}

fn compile(schema: &RawJson, whose: &str) -> Option<Box<Validator>> {
    if schema.as_bytes().len() > MAX_BYTES {
        tracing::warn!(%whose, "schema has more than {MAX_BYTES} bytes and is not enforced");
        return None;
    }
    let value: Value = schema.parse_lossy().ok()?;
    // Nothing is fetched for a schema. Texts are matched in linear time, where the patterns permit.
    let offline = || jsonschema::options().offline();
    let linear = offline().with_pattern_options(PatternOptions::regex());
    let bounded = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS);
    let built = linear
        .build(&value)
        .or_else(|_| offline().with_pattern_options(bounded).build(&value));
    match built {
        Ok(validator) => Some(Box::new(validator)),
        Err(error) => {
            tracing::warn!(%whose, %error, "schema is invalid and is not enforced");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> RawJson {
        RawJson::checked(text.to_owned().into()).unwrap()
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let schema = Schema::new(Some(json(
            r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"pattern":"^x+$"}},"required":["a"]}"#,
        )));
        assert_eq!(schema.mistakes(&json(r#"{"a":1,"c":2}"#), "t"), None);
        let told = schema.mistakes(&json(r#"{"b":"y"}"#), "t").unwrap();
        assert!(told.contains("\"a\" is a required property"), "{told}");
        assert!(told.contains("`b`: "), "{told}");
    }

    #[test]
    fn value_that_no_type_of_rust_holds_is_held_against_its_schema() {
        let schema = Schema::new(Some(json(
            r#"{"properties":{"a":{"type":"string","default":"\ud800"},"b":{"maximum":1e400}}}"#,
        )));
        for fits in [
            r#"{"a":"\ud800"}"#,
            r#"{"b":1e400}"#,
            r#"{"\udc00":-1e400}"#,
        ] {
            assert_eq!(schema.mistakes(&json(fits), "t"), None, "{fits}");
        }
        for misfits in [r#"{"a":1e400}"#, r#"{"a":1,"\ud800":"\ud800"}"#] {
            let told = schema.mistakes(&json(misfits), "t").unwrap();
            assert!(told.contains("`a`: "), "{told}");
        }
    }

    #[test]
    fn a_schema_that_lies_or_is_too_large_is_not_enforced() {
        let large = format!(r#"{{"type":"array","x":"{}"}}"#, "x".repeat(MAX_BYTES));
        for schema in [
            r#"{"type":"nonsense"}"#,
            r#"{"$ref":"http://x/y"}"#,
            &large,
            "{}",
        ] {
            let schema = Schema::new(Some(json(schema)));
            assert_eq!(schema.mistakes(&json("{}"), "t"), None);
        }
    }

    #[test]
    fn a_pattern_that_explodes_ends() {
        let schema = Schema::new(Some(json(r#"{"pattern":"^(a+)+(?!b)$"}"#)));
        let text = json(&format!("\"{}!\"", "a".repeat(5_000)));
        let began = std::time::Instant::now();
        let _ = schema.mistakes(&text, "t");
        assert!(began.elapsed().as_secs() < 5);
    }
}
