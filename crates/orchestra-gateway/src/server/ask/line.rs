//! JSON and names as one line of a question: every character of the call is visible, and none ends the line, turns the
//! direction of what follows or hides.

use std::borrow::Cow;

use orchestra_mcp::client::is_hidden;

/// Returns JSON on one line. Strings are written with the characters that their escapes mean, so that a text cannot be
/// disguised by escapes. All members of an object remain, also those of one name.
pub(super) fn of_json(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let (text, after) = rest.split_at(end_of_string(rest));
            string(text, &mut line);
            rest = after;
            continue;
        }
        // Space between values has no meaning.
        if !c.is_ascii_whitespace() {
            push(c, &mut line);
        }
        rest = &rest[c.len_utf8()..];
    }
    line
}

/// Returns a name on one line.
pub(super) fn of_text(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    text.chars().for_each(|c| push(c, &mut line));
    line
}

/// Offset behind the string at the beginning of a JSON text.
fn end_of_string(json: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

/// Writes a string of JSON.
fn string(json: &str, line: &mut String) {
    // A string with half of a surrogate pair has no other form than its own.
    let text = match serde_json::from_str::<String>(json) {
        Ok(text) => Cow::Owned(serde_json::Value::from(text).to_string()),
        Err(_) => Cow::Borrowed(json),
    };
    text.chars().for_each(|c| push(c, line));
}

/// Writes a character, escaped as in JSON if it is not seen as what it is. Of several blanks in a row, all but the first
/// are escaped: many of them would move what follows out of sight.
fn push(c: char, line: &mut String) {
    let is_behind_blank = line.ends_with(' ') || line.ends_with(r"\u0020");
    let is_plain = match c {
        ' ' => !is_behind_blank,
        c => !is_hidden(c),
    };
    if is_plain {
        line.push(c);
        return;
    }
    for unit in c.encode_utf16(&mut [0; 2]) {
        line.push_str(&format!("\\u{unit:04x}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_shown_whole_on_one_line_with_hidden_characters_escaped() {
        for (json, expected) in [
            (
                r#"{"a":1,"a":[true,"é 🦀"]}"#,
                r#"{"a":1,"a":[true,"é 🦀"]}"#,
            ),
            ("{\"a\": 1,\r\n\n\t\"b\" : 2}", r#"{"a":1,"b":2}"#),
            (
                "[\"\u{202e}\u{200b}\u{2028}\u{ad}\u{fe0f}\u{a0}\u{1d173}\u{1bca0}\u{e0041}\u{7f}\"]",
                r#"["\u202e\u200b\u2028\u00ad\ufe0f\u00a0\ud834\udd73\ud82f\udca0\udb40\udc41\u007f"]"#,
            ),
            (
                r#"{"\u0063md":"\u0072m -rf \/\n\"\\"}"#,
                r#"{"cmd":"rm -rf /\n\"\\"}"#,
            ),
            (r#"["a    b"]"#, r#"["a \u0020\u0020\u0020b"]"#),
            (r#"["\ud800"]"#, r#"["\ud800"]"#),
        ] {
            assert_eq!(of_json(json), expected);
        }
        assert_eq!(of_text("a\nb\u{202e}"), r"a\u000ab\u202e");
    }
}
