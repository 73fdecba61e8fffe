//! What is kept of a hook event: the names and numbers that tell what happened, not the contents
//! that were read or written. Masking of secrets in what is kept is the store's.

use orchestra_board::Label;
use orchestra_store::NewHookEvent;
use serde_json::{Map, Value};

/// What an event without a name is called.
const UNKNOWN: &str = "unknown";

/// Members of an event that are kept as they are; others are replaced by their size.
const KEPT: [&str; 19] = [
    "hook_event_name",
    "session_id",
    "cwd",
    "permission_mode",
    "tool_name",
    "tool_use_id",
    "agent_id",
    "agent_type",
    "agent_name",
    "message",
    "title",
    "notification_type",
    "stop_hook_active",
    "source",
    "reason",
    "trigger",
    "model",
    "error",
    "duration_ms",
];

/// Members of a tool's arguments and answer that are kept; others are replaced by their size.
const KEPT_OF_TOOLS: [&str; 22] = [
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "command",
    "description",
    "pattern",
    "glob",
    "query",
    "url",
    "subagent_type",
    "skill",
    "name",
    "offset",
    "limit",
    "timeout",
    "success",
    "interrupted",
    "is_error",
    "exit_code",
    "type",
    "status",
];

/// The members that hold a tool's arguments and its answer.
const TOOL_MEMBERS: [&str; 2] = ["tool_input", "tool_response"];

/// Longest label that an event is filed under.
const MAX_LABEL_CHARS: usize = 50;

/// Understands an event.
///
/// # Errors
/// When it is not a JSON object.
pub(super) fn understand(bytes: &[u8]) -> anyhow::Result<NewHookEvent> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| anyhow::anyhow!("it is not valid JSON: {error}"))?;
    let Value::Object(members) = value else {
        anyhow::bail!("it is not a JSON object")
    };
    let named = |key: &str| members.get(key).and_then(Value::as_str).and_then(label);
    Ok(NewHookEvent {
        event_type: named("hook_event_name")
            .or_else(|| label(UNKNOWN))
            .expect("`unknown` is a label"),
        session_id: named("session_id"),
        tool_name: named("tool_name"),
        agent_type: named("agent_type"),
        data: Some(Value::Object(kept(&members))),
    })
}

/// The members that are kept, and the sizes of those that are not.
fn kept(members: &Map<String, Value>) -> Map<String, Value> {
    members
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Value::Object(inner) if TOOL_MEMBERS.contains(&key.as_str()) => Value::Object(
                    inner
                        .iter()
                        .map(|(key, value)| pick(key, value, &KEPT_OF_TOOLS))
                        .collect(),
                ),
                value => pick(key, value, &KEPT).1,
            };
            (key.clone(), value)
        })
        .collect()
}

/// A plain value under a name that is kept, else its size.
fn pick(key: &str, value: &Value, kept: &[&str]) -> (String, Value) {
    let plain = !matches!(value, Value::Object(_) | Value::Array(_));
    let small = matches!(value, Value::Null | Value::Bool(_));
    let value = if small || (plain && kept.contains(&key)) {
        value.clone()
    } else {
        size(value)
    };
    (key.to_owned(), value)
}

fn size(value: &Value) -> Value {
    Value::from(match value {
        Value::String(text) => format!("({} bytes of text)", text.len()),
        Value::Array(items) => format!("({} items)", items.len()),
        Value::Object(members) => format!("({} members)", members.len()),
        _ => "(a number)".to_owned(),
    })
}

/// A text as a label: what cannot be printed is dropped, what is too long is cut.
fn label(text: &str) -> Option<Label> {
    let printable: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_LABEL_CHARS)
        .collect();
    Label::parse(&printable).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(value: &Value) -> NewHookEvent {
        understand(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn contents_are_replaced_by_their_size() {
        let event = event(&json!({
            "hook_event_name": "PostToolUse",
            "session_id": "s",
            "tool_name": "Write",
            "transcript_path": "/home/me/transcript",
            "tool_input": {"file_path": "a.rs", "content": "secret text", "edits": [1, 2], "replace_all": true},
            "tool_response": {"success": true, "stdout": "more text"},
            "stop_hook_active": false,
        }));
        assert_eq!(event.event_type.as_str(), "PostToolUse");
        assert_eq!(event.tool_name.as_ref().map(Label::as_str), Some("Write"));
        assert_eq!(
            event.data.unwrap(),
            json!({
                "hook_event_name": "PostToolUse",
                "session_id": "s",
                "tool_name": "Write",
                "transcript_path": "(19 bytes of text)",
                "tool_input": {
                    "file_path": "a.rs",
                    "content": "(11 bytes of text)",
                    "edits": "(2 items)",
                    "replace_all": true,
                },
                "tool_response": {"success": true, "stdout": "(9 bytes of text)"},
                "stop_hook_active": false,
            })
        );
    }

    #[test]
    fn an_event_without_a_proper_name_is_unknown() {
        for value in [
            json!({}),
            json!({"hook_event_name": 3}),
            json!({"hook_event_name": " \n"}),
        ] {
            assert_eq!(event(&value).event_type.as_str(), "unknown", "{value}");
        }
    }

    #[test]
    fn names_are_made_to_fit() {
        let event = event(&json!({"hook_event_name": "A\u{0}B", "tool_name": "é".repeat(400)}));
        assert_eq!(event.event_type.as_str(), "AB");
        assert_eq!(
            event.tool_name.unwrap().as_str().chars().count(),
            MAX_LABEL_CHARS
        );
    }

    #[test]
    fn what_is_no_event_is_said() {
        for bytes in [&b"[]"[..], b"null", b"", b"\xff", b"{"] {
            assert!(understand(bytes).is_err());
        }
    }
}
