//! Events of hooks as they are stored: names and numbers of what happened, without the contents that were
//! read or written. Secrets are masked, and the rest is cut to a bounded size. Every event is stored through
//! this module.

mod kept;

use orchestra_secret::Masker;
use serde_json::{Map, Value};

/// The most bytes that are kept of one event.
pub(crate) const MAX_BYTES: usize = 8 * 1024;
/// Lengths to which texts are cut, one after the other, until the whole fits.
const TEXT_CHARS: [usize; 4] = [2_000, 500, 100, 20];
/// Numbers of items to which lists and objects are cut, likewise.
const ITEMS: [usize; 4] = [100, 40, 15, 5];
/// How deep is looked.
const MAX_DEPTH: usize = 12;

/// Event as it is stored: contents replaced by their sizes, secrets masked, and cut to [`MAX_BYTES`].
pub(crate) fn event(data: &Value) -> Value {
    let mut event = match data {
        Value::Object(members) => Value::Object(kept::members(members)),
        other => other.clone(),
    };
    Masker::default().json(&mut event);
    bounded(&event)
}

/// Value cut until it has at most [`MAX_BYTES`] as JSON.
fn bounded(value: &Value) -> Value {
    for (chars, items) in TEXT_CHARS.into_iter().zip(ITEMS) {
        let cut = Cut { chars, items }.value(value, 0);
        if cut.to_string().len() <= MAX_BYTES {
            return cut;
        }
    }
    Value::String(format!("left out: more than {MAX_BYTES} bytes"))
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
struct Cut {
    chars: usize,
    items: usize,
}

impl Cut {
    fn value(self, value: &Value, depth: usize) -> Value {
        match value {
            Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => {
                Value::String("…".to_owned())
            }
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => {
                let mut kept: Vec<Value> = items
                    .iter()
                    .take(self.items)
                    .map(|item| self.value(item, depth + 1))
                    .collect();
                if items.len() > self.items {
                    kept.push(Value::String(format!(
                        "… {} more",
                        items.len() - self.items
                    )));
                }
                Value::Array(kept)
            }
            Value::Object(fields) => Value::Object(self.object(fields, depth)),
            other => other.clone(),
        }
    }

    fn object(self, fields: &Map<String, Value>, depth: usize) -> Map<String, Value> {
        let mut kept = Map::new();
        for (name, value) in fields.iter().take(self.items) {
            kept.insert(self.text(name), self.value(value, depth + 1));
        }
        if fields.len() > self.items {
            kept.insert(
                "…".to_owned(),
                Value::String(format!("{} more", fields.len() - self.items)),
            );
        }
        kept
    }

    /// Text, cut.
    fn text(self, text: &str) -> String {
        match text.char_indices().nth(self.chars) {
            Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MAX_BYTES, bounded, event};

    #[test]
    fn secrets_of_an_event_are_masked() {
        let data = json!({"tool_input": {"command": "mysql -phunter2 shop", "url": "https://h/?token=abc"},
            "message": "DB_PASSPHRASE=hunter2222"});
        let expected = json!({"tool_input": {"command": "mysql -p*** shop", "url": "https://h/?token=***"},
            "message": "DB_PASSPHRASE=***"});
        assert_eq!(event(&data), expected);
    }

    #[test]
    fn secret_across_the_cut_is_masked() {
        let kept = event(
            &json!({"message": format!("{}password={}", "word ".repeat(398), "LEAK".repeat(4_000))}),
        );
        assert!(!kept.to_string().contains("LEAK"), "{kept}");
    }

    #[test]
    fn contents_of_events_become_sizes() {
        let kept =
            event(&json!({"tool_input": {"content": "short", "command": "ls"}, "other": "text"}));
        let expected = json!({
            "tool_input": {"content": "(5 bytes of text)", "command": "ls"},
            "other": "(4 bytes of text)",
        });
        assert_eq!(kept, expected);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let many: Vec<String> = (0..10_000)
            .map(|n| format!("word {n} ").repeat(20))
            .collect();
        for data in [
            json!("x".repeat(1_000_000)),
            json!("🚀".repeat(100_000)),
            json!(many),
            deep,
            json!({"a": many}),
        ] {
            assert!(bounded(&data).to_string().len() <= MAX_BYTES);
        }
        let keys: serde_json::Map<String, serde_json::Value> = (0..10_000)
            .map(|n| (format!("{n}").repeat(1_000), json!(n)))
            .collect();
        assert!(bounded(&keys.into()).to_string().len() <= MAX_BYTES);
    }
}
