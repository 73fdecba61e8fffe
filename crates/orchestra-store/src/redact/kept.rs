//! Which members of a hook's event are kept as they are.

use serde_json::{Map, Value};

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

/// The members of an event, those that are not kept replaced by their sizes.
pub(super) fn members(members: &Map<String, Value>) -> Map<String, Value> {
    members
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Value::Object(inner) if TOOL_MEMBERS.contains(&key.as_str()) => Value::Object(
                    inner
                        .iter()
                        .map(|(key, value)| (key.clone(), pick(key, value, &KEPT_OF_TOOLS)))
                        .collect(),
                ),
                value => pick(key, value, &KEPT),
            };
            (key.clone(), value)
        })
        .collect()
}

/// A plain value under a name that is kept, else its size.
fn pick(key: &str, value: &Value, kept: &[&str]) -> Value {
    let plain = !matches!(value, Value::Object(_) | Value::Array(_));
    let small = matches!(value, Value::Null | Value::Bool(_));
    if small || (plain && kept.contains(&key)) {
        value.clone()
    } else {
        size(value)
    }
}

fn size(value: &Value) -> Value {
    Value::from(match value {
        Value::String(text) => format!("({} bytes of text)", text.len()),
        Value::Array(items) => format!("({} items)", items.len()),
        Value::Object(members) => format!("({} members)", members.len()),
        _ => "(a number)".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::members;

    #[test]
    fn contents_are_replaced_by_their_size() {
        let event = json!({
            "hook_event_name": "PostToolUse",
            "session_id": "s",
            "tool_name": "Write",
            "transcript_path": "/home/me/transcript",
            "tool_input": {"file_path": "a.rs", "content": "secret text", "edits": [1, 2], "replace_all": true},
            "tool_response": {"success": true, "stdout": "more text"},
            "stop_hook_active": false,
        });
        assert_eq!(
            Value::Object(members(event.as_object().unwrap())),
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
}
