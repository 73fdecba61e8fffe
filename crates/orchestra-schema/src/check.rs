//! Validation of values by schemas of tools, in bounded time.

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

use crate::cost::{MAX_BACKTRACKS, SchemaCostError, bound_schema, bound_validation};

/// Largest schema that is compiled, in bytes of JSON.
const MAX_BYTES: usize = 128 * 1024;

/// Longest text of an error, in characters. It may quote the value.
const MAX_CHARS: usize = 300;

/// A schema that validates values in bounded time. It fetches nothing, and takes `format` as a comment.
#[derive(Debug)]
pub struct CompiledSchema {
    schema: Value,
    validator: Validator,
}

/// Reason why a schema is not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is too large.
    #[error("the schema has more than {MAX_BYTES} bytes")]
    Size,
    /// It takes too long.
    #[error(transparent)]
    Cost(#[from] SchemaCostError),
    /// It is not a schema.
    #[error("{0}")]
    Invalid(String),
}

/// A part of a value that its schema does not permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaViolation {
    /// The part, as a JSON pointer (RFC 6901).
    pub pointer: String,
    /// The error, in at most 300 characters.
    pub text: String,
}

impl CompiledSchema {
    /// Compiles a schema. Patterns are matched in linear time where they permit that.
    ///
    /// # Errors
    /// When it is no schema, or compiling it takes too long.
    pub fn new(schema: Value) -> Result<Self, SchemaError> {
        if schema.to_string().len() > MAX_BYTES {
            return Err(SchemaError::Size);
        }
        bound_schema(&schema)?;
        let options = || {
            let offline = jsonschema::options().offline();
            offline.should_validate_formats(false)
        };
        let linear = options().with_pattern_options(PatternOptions::regex());
        let bounded = PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS);
        let built = linear
            .build(&schema)
            .or_else(|_| options().with_pattern_options(bounded).build(&schema));
        let validator = built.map_err(|error| SchemaError::Invalid(text(&error)))?;
        Ok(Self { schema, validator })
    }

    /// Returns the first violations of a value, at most `most`. A pattern whose match exceeds the limit of steps causes
    /// no violation, because the value may be valid.
    ///
    /// # Errors
    /// When validating the value takes too long.
    pub fn violations(
        &self,
        value: &Value,
        most: usize,
    ) -> Result<Vec<SchemaViolation>, SchemaCostError> {
        bound_validation(&self.schema, value)?;
        if self.validator.is_valid(value) {
            return Ok(Vec::new());
        }
        let errors = self.validator.iter_errors(value);
        let decided = errors.filter(|error| !is_undecided(error));
        let violation = |error: ValidationError<'_>| SchemaViolation {
            pointer: error.instance_path().to_string(),
            text: text(&error),
        };
        Ok(decided.take(most).map(violation).collect())
    }
}

/// Returns whether an error is due to a pattern whose match exceeded the limit of steps.
fn is_undecided(error: &ValidationError<'_>) -> bool {
    use ValidationErrorKind as Kind;
    match error.kind() {
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => true,
        Kind::AnyOf { context }
        | Kind::OneOfNotValid { context }
        | Kind::OneOfMultipleValid { context } => context.iter().flatten().any(is_undecided),
        Kind::PropertyNames { error } => is_undecided(error),
        _ => false,
    }
}

fn text(error: &ValidationError<'_>) -> String {
    error.to_string().chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use proptest::prelude::*;
    use serde_json::json as object;

    use super::*;

    /// Pointers to the refused parts of a value. A value whose validation takes too long is not refused.
    fn violations(schema: Value, value: &Value) -> Vec<String> {
        let schema = CompiledSchema::new(schema).unwrap();
        let violations = schema.violations(value, 10).unwrap_or_default();
        violations.into_iter().map(|found| found.pointer).collect()
    }

    #[test]
    fn schema_that_is_too_large_or_refers_elsewhere_is_not_compiled() {
        let large = object!({"description": "x".repeat(MAX_BYTES)});
        assert_eq!(CompiledSchema::new(large).unwrap_err(), SchemaError::Size);
        for schema in [object!({"$ref": "http://x/y"}), object!({"type": "no"})] {
            assert!(CompiledSchema::new(schema.clone()).is_err(), "{schema}");
        }
    }

    #[test]
    fn pattern_that_was_given_up_refuses_nothing() {
        let pattern = || object!({"type": "string", "pattern": "^((?!b)a+)+$"});
        for length in [17, 25, 200] {
            let text = object!(format!("{}!", "a".repeat(length)));
            for schema in [
                pattern(),
                object!({"anyOf": [pattern(), {"type": "null"}]}),
                object!({"oneOf": [{"type": "null"}, {"allOf": [pattern()]}]}),
            ] {
                assert!(violations(schema.clone(), &text).is_empty(), "{schema}");
            }
        }
        let schema = object!({"properties": {"a": pattern(), "b": {"type": "integer"}}});
        let value = object!({"a": format!("{}!", "a".repeat(17)), "b": "c"});
        assert_eq!(violations(schema.clone(), &value), ["/b"]);
        assert_eq!(violations(schema, &object!({"a": "!"})), ["/a"]);
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
