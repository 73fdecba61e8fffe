//! Schemas of arguments and results: compiled once, and not enforced where they cannot be.

use std::{
    fmt::Write as _,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use jsonschema::{PatternOptions, Validator, error::ValidationErrorKind};
use orchestra_hub::{MAX_BACKTRACKS, MAX_SCHEMA_BYTES, bound_schema, bound_validation};
use orchestra_wire::RawJson;
use serde_json::Value;

/// Mistakes that are told at once.
const MAX_TOLD: usize = 5;

/// The most characters that are told of one mistake; it may quote its value.
const MAX_CHARS: usize = 300;

/// A schema and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    text: Option<RawJson>,
    compiled: OnceLock<Option<Box<Compiled>>>,
    /// A value that was not validated is logged.
    is_reported: AtomicBool,
}

/// A schema that is enforced.
#[derive(Debug)]
struct Compiled {
    schema: Value,
    validator: Validator,
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
        let Compiled { schema, validator } = &**compiled.as_ref()?;
        let value: Value = match value.parse_lossy() {
            Ok(value) => value,
            Err(_) => return Some("it is nested too deep".to_owned()),
        };
        if let Err(why) = bound_validation(schema, &value) {
            if !self.is_reported.swap(true, Ordering::Relaxed) {
                tracing::warn!(%whose, %why, "a value is not checked against its schema");
            }
            return None;
        }
        if validator.is_valid(&value) {
            return None;
        }
        // A pattern that was given up has not decided.
        let is_decided = |kind: &ValidationErrorKind| {
            !matches!(kind, ValidationErrorKind::BacktrackLimitExceeded { .. })
        };
        let errors = validator.iter_errors(&value);
        let mut told = String::new();
        for (at, error) in errors.filter(|error| is_decided(error.kind())).enumerate() {
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
        (!told.is_empty()).then_some(told)
    }
}

/// The reason why a schema is not enforced, where it is not.
pub(crate) fn unenforced(schema: &RawJson) -> Option<String> {
    compile(schema).err()
}

fn compile(schema: &RawJson) -> Result<Compiled, String> {
    if schema.as_bytes().len() > MAX_SCHEMA_BYTES {
        return Err(format!("it has more than {MAX_SCHEMA_BYTES} bytes"));
    }
    let schema: Value = schema.parse_lossy().map_err(|error| error.to_string())?;
    bound_schema(&schema).map_err(|why| why.to_string())?;
    // Nothing is fetched for a schema. Texts are matched in linear time, where the patterns permit.
    let offline = || jsonschema::options().offline();
    let linear = offline().with_pattern_options(PatternOptions::regex());
    let bounded = PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS);
    let built = linear
        .build(&schema)
        .or_else(|_| offline().with_pattern_options(bounded).build(&schema));
    let invalid = |error: jsonschema::ValidationError<'_>| {
        let text = error.to_string();
        text.chars().take(MAX_CHARS).collect::<String>()
    };
    let validator = built.map_err(invalid)?;
    Ok(Compiled { schema, validator })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicU64};

    use proptest::prelude::*;
    use serde_json::json as object;

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
        let large = format!(
            r#"{{"type":"array","x":"{}"}}"#,
            "x".repeat(MAX_SCHEMA_BYTES)
        );
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
    fn a_pattern_that_explodes_refuses_nothing() {
        let schema = Schema::new(Some(json(r#"{"pattern":"^(a+)+(?!b)$"}"#)));
        for length in [17, 25, 5_000] {
            let text = json(&format!("\"{}!\"", "a".repeat(length)));
            assert_eq!(schema.mistakes(&text, "t"), None, "{length}");
        }
    }

    /// Counts evaluations of a subschema.
    struct Counter(Arc<AtomicU64>);

    impl<'i> jsonschema::Keyword<'i> for Counter {
        fn validate(&self, _: &'i Value) -> Result<(), jsonschema::ValidationError<'i>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn is_valid(&self, _: &'i Value) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            true
        }
    }

    /// A subschema, with a reference to one of four definitions at its ends.
    fn subschema() -> impl Strategy<Value = Value> {
        let end = (0..4_u8).prop_map(|at| object!({"$ref": format!("#/$defs/d{at}"), "count": 1}));
        let any = prop_oneof![end, Just(object!({"type": "array", "count": 1}))];
        any.prop_recursive(3, 12, 3, |inner| {
            let many = proptest::collection::vec(inner.clone(), 1..3);
            let lists = prop_oneof![Just("allOf"), Just("anyOf"), Just("oneOf")];
            let single = prop_oneof![
                Just("not"),
                Just("items"),
                Just("contains"),
                Just("additionalProperties"),
                Just("unevaluatedProperties"),
                Just("unevaluatedItems"),
            ];
            prop_oneof![
                (lists, many).prop_map(|(key, all)| object!({key: all, "count": 1})),
                (single, inner.clone()).prop_map(|(key, one)| object!({key: one, "count": 1})),
                (inner.clone(), inner.clone(), inner)
                    .prop_map(|(a, b, c)| object!({"if": a, "then": b, "else": c, "count": 1})),
            ]
        })
    }

    fn value() -> impl Strategy<Value = Value> {
        let end = prop_oneof![Just(object!(1)), Just(object!([])), Just(object!({}))];
        end.prop_recursive(4, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                (inner.clone(), inner).prop_map(|(a, b)| object!({"a": a, "b": b})),
            ]
        })
    }

    proptest! {
        #[test]
        fn validator_takes_at_most_the_steps_of_the_bound(
            parts in proptest::collection::vec(subschema(), 4), value in value(),
        ) {
            let names = parts.into_iter().enumerate();
            let parts: Value = names.map(|(at, part)| (format!("d{at}"), part)).collect();
            let schema = object!({"$ref": "#/$defs/d0", "$defs": parts});
            let bound = bound_schema(&schema).and_then(|()| bound_validation(&schema, &value));
            let Ok(bound) = bound else {
                return Ok(());
            };
            let counted = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&counted);
            let options = jsonschema::options().offline().with_keyword("count", move |_, _, _| {
                Ok(Box::new(Counter(Arc::clone(&counter))) as Box<dyn for<'i> jsonschema::Keyword<'i>>)
            });
            let validator = options.build(&schema).unwrap();
            let _ = validator.is_valid(&value);
            let _ = validator.iter_errors(&value).count();
            let counted = counted.load(Ordering::Relaxed);
            prop_assert!(counted <= bound, "{counted} of {bound}: {schema} {value}");
        }
    }
}
