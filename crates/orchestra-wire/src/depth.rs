//! Measures how deep a JSON text nests, without parsing it. Raw values are skipped by the JSON
//! parser without a limit, so the limit is enforced here.

/// Whether arrays and objects nest deeper than `limit` anywhere in `text`. For text that is not
/// JSON the answer means nothing.
pub(crate) fn exceeds(text: &[u8], limit: usize) -> bool {
    // `[` and `{` differ from each other in one bit only. Nearly every message ends here, after
    // a pass that the compiler vectorises.
    let openers = text.iter().filter(|byte| **byte | 0x20 == b'{').count();
    openers > limit && exceeds_exactly(text, limit)
}

fn exceeds_exactly(text: &[u8], limit: usize) -> bool {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => at = after_string(text, at),
            _ => {}
        }
    }
    false
}

/// Position after the end of a JSON string whose opening quote is before `at`.
pub(crate) fn after_string(text: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', &text[at..]) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        at = (at + 1).min(text.len());
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_outside_of_strings_only() {
        assert!(!exceeds(br#"{"a":"[[[[[[\"[[[["}"#, 3));
        assert!(exceeds(b"[[[[]]]]", 3));
        assert!(!exceeds(b"[[[]],[[]],[[]]]", 3));
        assert!(!exceeds(br#"["\\",["]]]]","[[[["]]"#, 2));
        assert!(!exceeds(br#"["unterminated \"#, 0x7fff));
    }
}
