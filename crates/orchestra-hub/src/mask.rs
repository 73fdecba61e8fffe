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
    mask_whole(&text[..text.floor_char_boundary(MAX_BYTES)])
}

/// As [`mask`], however long the text is.
#[must_use]
pub fn mask_whole(text: &str) -> Cow<'_, str> {
    let is_end =
        |c: char| c.is_whitespace() || matches!(c, '&' | '?' | '/' | '"' | '\'' | ',' | ';');
    let mut masked = String::new();
    let mut next_is_secret = false;
    for piece in text.split_inclusive(is_end) {
        let word = piece.trim_end_matches(is_end);
        let end = &piece[word.len()..];
        // Schemes of `Authorization` (RFC 9110); the first is looked for wherever it stands.
        let is_bearer = word.eq_ignore_ascii_case("bearer");
        let is_scheme = is_bearer || (next_is_secret && word.eq_ignore_ascii_case("basic"));
        let start = if next_is_secret && !word.is_empty() && !is_scheme {
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
        let stays = next_is_secret && word.is_empty();
        next_is_secret = is_scheme || stays || announces_secret(word);
    }
    if masked == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(masked)
    }
}

/// Whether what is called `key`, a member of an object or a variable, is a secret.
#[must_use]
pub fn names_secret(key: &str) -> bool {
    let letters = key.chars().filter(char::is_ascii_alphanumeric);
    let letters: String = letters.collect::<String>().to_ascii_lowercase();
    let mut keys = SECRET_KEYS.iter();
    keys.any(|secret| letters.ends_with(&secret.replace('_', "")))
}

/// Whether `word` is a key that names a secret, whose value is the next word.
fn announces_secret(word: &str) -> bool {
    let key = word.strip_suffix([':', '=']);
    key.is_some_and(names_secret)
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
            (
                "Authorization: Basic bWU6cHc= x",
                "Authorization: Basic *** x",
            ),
            (
                "Authorization: Bearer  abc x",
                "Authorization: Bearer  *** x",
            ),
            ("API-Key: abc, b", "API-Key: ***, b"),
            ("basic use", "basic use"),
            ("ghp_0123456789abcdef", "***"),
            ("task:ORC-1", "task:ORC-1"),
        ] {
            assert_eq!(mask(text), expected);
        }
        assert_eq!(mask(&"é".repeat(500)).len(), MAX_BYTES);
        let long = format!("{} token=abc", "é".repeat(500));
        assert!(mask_whole(&long).ends_with(" token=***"));
    }

    #[test]
    fn keys_name_secrets_however_they_are_written() {
        for key in [
            "token",
            "X-Api-Key",
            "apiKey",
            "GITHUB_TOKEN",
            "db.password",
        ] {
            assert!(names_secret(key), "{key}");
        }
        for key in ["tokens", "name", "keyboard"] {
            assert!(!names_secret(key), "{key}");
        }
    }
}
