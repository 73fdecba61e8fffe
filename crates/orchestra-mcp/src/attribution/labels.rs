//! Labels of a form of a server, on one line and without hidden characters, as its message is.

use std::borrow::Cow;

use orchestra_wire::{RawJson, Rope, write};
use serde_json::value::RawValue;

use super::{in_a_line, string};
use crate::translation::object;

/// Members of a schema that are shown to the user and that no answer repeats.
const LABELS: [&str; 3] = ["title", "description", "enumNames"];

/// Levels of a form that are read; one of MCP has fewer.
const MAX_DEPTH: usize = 8;

/// Returns a form with its labels on one line each; `None` where they are already.
pub(super) fn in_lines_of_form(form: &RawJson) -> Option<RawJson> {
    rewritten(form, false, MAX_DEPTH)
}

fn rewritten(value: &RawJson, is_label: bool, depth: usize) -> Option<RawJson> {
    let depth = depth.checked_sub(1)?;
    match value.as_bytes().first()? {
        b'"' if is_label => {
            let text: String = value.parse_lossy().ok()?;
            let line = in_a_line(&text);
            (line != text).then(|| string(&line))
        }
        b'{' => {
            let mut is_other = false;
            let members: Vec<(Cow<'_, str>, RawJson)> = value
                .members()?
                .map(|member| {
                    let is_label = LABELS.contains(&&*member.key);
                    let other = rewritten(&member.value, is_label, depth);
                    is_other |= other.is_some();
                    (member.key, other.unwrap_or(member.value))
                })
                .collect();
            is_other.then(|| object(members))
        }
        b'[' => {
            let items: Vec<&RawValue> = value.parse().ok()?;
            let mut is_other = false;
            let mut rope = Rope::new();
            rope.push_byte(b'[');
            for (at, item) in items.into_iter().enumerate() {
                if at > 0 {
                    rope.push_byte(b',');
                }
                let item = RawJson::from_raw(item);
                let other = rewritten(&item, is_label, depth);
                is_other |= other.is_some();
                write::raw(&mut rope, &other.unwrap_or(item));
            }
            rope.push_byte(b']');
            if !is_other {
                return None;
            }
            RawJson::checked(rope.into_vec().into()).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn labels_have_no_hidden_characters_and_values_remain() {
        let form = json!({"type": "object", "title": "a\nb", "properties": {
            "title": {"type": "string", "title": "x\u{202e}y", "default": "d\n"},
            "n": {"type": "string", "enum": ["v\n"], "enumNames": ["e\u{200b}"], "description": "\u{1b}[2J"},
            "o": {"oneOf": [{"const": "c\n", "title": "t\r"}]},
        }});
        let plain: Value = in_lines_of_form(&RawJson::of(&form).unwrap())
            .unwrap()
            .parse()
            .unwrap();
        let expected = json!({"type": "object", "title": r"a\nb", "properties": {
            "title": {"type": "string", "title": r"x\u{202e}y", "default": "d\n"},
            "n": {"type": "string", "enum": ["v\n"], "enumNames": [r"e\u{200b}"], "description": r"\u{1b}[2J"},
            "o": {"oneOf": [{"const": "c\n", "title": "t"}]},
        }});
        assert_eq!(plain, expected);
        assert_eq!(in_lines_of_form(&RawJson::of(&expected).unwrap()), None);
    }
}
