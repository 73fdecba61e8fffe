//! What a client's hook event is filed under. What of it is kept, and masked, is the store's.

use orchestra_board::Label;
use orchestra_store::NewHookEvent;
use orchestra_wire::without_mark;
use serde_json::Value;

/// What an event without a name is called.
const UNKNOWN: &str = "unknown";

/// Longest label that an event is filed under.
const MAX_LABEL_CHARS: usize = 50;

/// Understands an event.
///
/// # Errors
/// When it is not a JSON object.
pub(super) fn understand(bytes: &[u8]) -> anyhow::Result<NewHookEvent> {
    // PowerShell puts a byte-order mark before what it pipes.
    let value: Value = serde_json::from_slice(without_mark(bytes))
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
        data: Some(Value::Object(members)),
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
    fn a_byte_order_mark_before_an_event_is_skipped() {
        let text = "\u{feff}{\"hook_event_name\":\"Stop\"}\r\n";
        let event = understand(text.as_bytes()).unwrap();
        assert_eq!(event.event_type.as_str(), "Stop");
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
