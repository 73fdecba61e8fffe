//! Masks what looks like a secret in text that is about to be recorded.

use std::borrow::Cow;

/// What stands in place of a secret.
const MASK: &str = "***";

/// Longest text that is recorded; more is cut off.
const MAX_BYTES: usize = 256;

/// Names after which a value is a secret.
const SECRET_KEYS: [&str; 8] = [
    "token",
    "secret",
    "password",
    "passwd",
    "api_key",
    "apikey",
    "authorization",
    "access_key",
];

/// Beginnings of well-known tokens.
const SECRET_STARTS: [&str; 7] = ["sk-", "ghp_", "gho_", "github_pat_", "xoxb-", "AKIA", "eyJ"];

/// `text` with secrets replaced by `***` and cut to 256 bytes. Covered are `key=value` and
/// `key:value` with a key that names a secret, the user part of URIs, and well-known tokens.
#[must_use]
pub fn mask(text: &str) -> Cow<'_, str> {
    let cut = text.floor_char_boundary(MAX_BYTES);
    let text = &text[..cut];
    let is_end =
        |c: char| c.is_whitespace() || matches!(c, '&' | '?' | '/' | '"' | '\'' | ',' | ';');
    let mut masked = String::new();
    let mut after_bearer = false;
    for piece in text.split_inclusive(is_end) {
        let word = piece.trim_end_matches(is_end);
        let end = &piece[word.len()..];
        let start = if after_bearer && !word.is_empty() {
            Some(0)
        } else {
            secret_start(word)
        };
        match start {
            Some(start) => {
                masked.push_str(&word[..start]);
                masked.push_str(MASK);
                if let Some(host) = word[start..].split_once('@') {
                    masked.push('@');
                    masked.push_str(host.1);
                }
            }
            None => masked.push_str(word),
        }
        masked.push_str(end);
        after_bearer = word.eq_ignore_ascii_case("bearer") || (after_bearer && word.is_empty());
    }
    if masked == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(masked)
    }
}

/// Where in `word` a secret starts.
fn secret_start(word: &str) -> Option<usize> {
    if let Some(at) = word.find(['=', ':']) {
        let key = word[..at].to_ascii_lowercase();
        let has_value = word.len() > at + 1;
        if has_value && SECRET_KEYS.iter().any(|secret| key.ends_with(secret)) {
            return Some(at + 1);
        }
        // `user:password@host` of a URI.
        if word.contains('@') && word[..at].chars().all(|c| c.is_ascii_alphanumeric()) {
            return Some(at + 1);
        }
    }
    SECRET_STARTS
        .iter()
        .any(|start| word.starts_with(start) && word.len() > 12)
        .then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_the_rest_is_kept() {
        for (text, expected) in [
            ("get_task", "get_task"),
            ("file:///a/b c.txt", "file:///a/b c.txt"),
            ("https://h/p?token=abc&x=1", "https://h/p?token=***&x=1"),
            ("https://h/p?x=1&API_KEY=abc", "https://h/p?x=1&API_KEY=***"),
            ("https://me:pw@host/x", "https://me:***@host/x"),
            ("Bearer abc.def", "Bearer ***"),
            ("ghp_0123456789abcdef", "***"),
            ("task:ORC-1", "task:ORC-1"),
        ] {
            assert_eq!(mask(text), expected);
        }
        assert_eq!(mask(&"é".repeat(500)).len(), MAX_BYTES);
    }
}
