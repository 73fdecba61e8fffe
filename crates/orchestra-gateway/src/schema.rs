//! Schemas of arguments and results: compiled once, and not enforced where they cannot be.

use std::{
    fmt::Write as _,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use orchestra_schema::CompiledSchema;
use orchestra_wire::RawJson;
use serde_json::Value;

/// Mistakes that are told at once.
const MAX_TOLD: usize = 5;

/// A schema and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    text: Option<RawJson>,
    compiled: OnceLock<Option<Box<CompiledSchema>>>,
    /// A value that was not validated is logged.
    is_reported: AtomicBool,
}

impl Schema {
    /// A schema, where there is one that permits not everything.
    pub(crate) fn new(text: Option<RawJson>) -> Self {
        let is_trivial = |text: &RawJson| matches!(text.as_str(), "{}" | "{\"type\":\"object\"}");
        Self {
            text: text.filter(|text| !is_trivial(text)),
            compiled: OnceLock::new(),
            is_reported: AtomicBool::new(false),
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
        let compiled = self.compiled.get_or_init(|| {
            let compiled = compile(schema).map(Box::new);
            let log = |why: &String| tracing::warn!(%whose, %why, "a schema is not enforced");
            compiled.inspect_err(log).ok()
        });
        let compiled = compiled.as_ref()?;
        let value: Value = match value.parse_lossy() {
            Ok(value) => value,
            Err(_) => return Some("it is nested too deep".to_owned()),
        };
        let violations = match compiled.violations(&value, MAX_TOLD + 1) {
            Ok(violations) => violations,
            Err(why) => {
                if !self.is_reported.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%whose, %why, "a value is not checked against its schema");
                }
                return None;
            }
        };
        let mut told = String::new();
        for (at, violation) in violations.iter().enumerate() {
            if at == MAX_TOLD {
                told.push_str("; and more");
                break;
            }
            if at > 0 {
                told.push_str("; ");
            }
            let text = &violation.text;
            let _ = match violation.pointer.as_str() {
                "" => write!(told, "{text}"),
                path => write!(told, "`{}`: {text}", path.trim_start_matches('/')),
            };
        }
        (!told.is_empty()).then_some(told)
    }
}

/// The reason why a schema is not enforced, where it is not.
pub(crate) fn unenforced(schema: &RawJson) -> Option<String> {
    compile(schema).err()
}

fn compile(schema: &RawJson) -> Result<CompiledSchema, String> {
    let schema: Value = schema.parse_lossy().map_err(|error| error.to_string())?;
    CompiledSchema::new(schema).map_err(|error| error.to_string())
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
        let large = format!(r#"{{"type":"array","x":"{}"}}"#, "x".repeat(128 * 1024));
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
}
