//! What a change of a plan is known by when it is asked for again.

use orchestra_plan::mark::Mark;
use orchestra_wire::RawJson;
use serde_json::Value;

use crate::failure::Failure;

/// The longest key of a caller, in bytes: a plan keeps it with the mark of what was asked.
const MAX: usize = 180;

/// Arguments that are not what is asked: which plan, under which key, and what the caller has seen of it.
const CONDITIONS: [&str; 3] = ["planId", "version", "idempotencyKey"];

/// The key under which a plan remembers a change: that of its caller with a mark of what was asked for. So
/// one key names one request, and never keeps another from being done.
///
/// # Errors
/// When the caller's is empty or too long.
pub(super) fn key_of(tool: &str, arguments: &RawJson, key: &str) -> Result<String, Failure> {
    if key.is_empty() || key.len() > MAX {
        let text = format!("an idempotency key has 1 to {MAX} bytes");
        return Err(Failure::coded("bad-key", text));
    }
    let mut mark = Mark::default();
    mark.text(tool);
    if let Ok(Value::Object(asked)) = arguments.parse::<Value>() {
        let asked = asked
            .iter()
            .filter(|(name, _)| !CONDITIONS.contains(&name.as_str()));
        mark.fields(asked);
    }
    Ok(format!("{mark}:{key}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(tool: &str, arguments: Value, key: &str) -> String {
        key_of(tool, &RawJson::of(&arguments).unwrap(), key).unwrap()
    }

    #[test]
    fn one_key_names_one_request_however_it_is_written() {
        let one =
            json!({"planId": "p", "idempotencyKey": "k", "version": 1, "a": {"x": 1, "y": [2]}});
        let other = json!({"a": {"y": [2], "x": 1}, "b": null, "planId": "q", "version": 2});
        let known = of("tool", one, "k");
        assert_eq!(of("tool", other.clone(), "k"), known);
        assert!(known.ends_with(":k"), "{known}");
        assert_ne!(of("tool", other.clone(), "l"), known);
        assert_ne!(of("other", other, "k"), known);
        for more in [
            json!({"a": {"x": 1, "y": [3]}}),
            json!({"a": {"x": 1}, "y": [2]}),
            json!({}),
        ] {
            assert_ne!(of("tool", more, "k"), known);
        }
        // It stays the same over versions.
        assert_eq!(of("pause", json!({}), "k"), "13967219eb0822b2:k");
    }

    #[test]
    fn keys_have_a_length() {
        let arguments = RawJson::empty_object();
        for key in ["", &"k".repeat(MAX + 1)] {
            let failure = key_of("tool", &arguments, key).unwrap_err();
            assert_eq!(failure.code(), Some("bad-key"));
        }
        let longest = key_of("tool", &arguments, &"k".repeat(MAX)).unwrap();
        assert!(longest.len() <= orchestra_plan::decide::KEY_MAX);
    }
}
