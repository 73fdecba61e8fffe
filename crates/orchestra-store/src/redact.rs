//! Masks secrets in what hooks report, and cuts it to a size that can be kept.

use serde_json::{Map, Value};

/// What stands in place of a secret.
const MASK: &str = "***";
/// The most bytes that are kept of one event.
pub(crate) const MAX_BYTES: usize = 8 * 1024;
/// Lengths to which texts are cut, one after the other, until the whole fits.
const TEXT_CHARS: [usize; 4] = [2_000, 500, 100, 20];
/// Numbers of items to which lists and objects are cut, likewise.
const ITEMS: [usize; 4] = [100, 40, 15, 5];
/// How deep is looked.
const MAX_DEPTH: usize = 12;

/// Names after which a value is a secret.
const SECRET_NAMES: [&str; 14] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "api_key",
    "api-key",
    "authorization",
    "access_key",
    "private_key",
    "privatekey",
    "cookie",
    "credential",
];
/// Beginnings of well-known tokens.
const SECRET_STARTS: [&str; 14] = [
    "sk-",
    "sk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
];
/// The fewest bytes of a well-known token.
const MIN_TOKEN_BYTES: usize = 12;

/// The value with its secrets masked, cut until it has at most [`MAX_BYTES`] as JSON.
pub(crate) fn bounded(value: &Value) -> Value {
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
            Value::String(text) => Value::String(self.text(&masked(text))),
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
            let value = match value {
                Value::Null | Value::Bool(_) => value.clone(),
                _ if is_secret_name(name) => Value::String(MASK.to_owned()),
                other => self.value(other, depth + 1),
            };
            kept.insert(self.text(&masked(name)), value);
        }
        if fields.len() > self.items {
            kept.insert(
                "…".to_owned(),
                Value::String(format!("{} more", fields.len() - self.items)),
            );
        }
        kept
    }

    fn text(self, text: &str) -> String {
        match text.char_indices().nth(self.chars) {
            None => text.to_owned(),
            Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        }
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // A count of tokens is no token.
    let counts = name.ends_with("tokens") || name.ends_with("token_count");
    !counts && SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// The text with what looks like a secret masked: values behind names of secrets (`password=…`,
/// `--token …`, `Authorization: …`), passwords in addresses, well-known tokens, private keys.
fn masked(text: &str) -> String {
    let text = without_private_keys(text);
    let mut out = String::with_capacity(text.len());
    let mut next_is_secret = false;
    for piece in text.split_inclusive(|c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&' | '|')
    }) {
        let end = piece
            .char_indices()
            .next_back()
            .filter(|(_, c)| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&' | '|'));
        let (word, end) = end.map_or((piece, ""), |(at, _)| piece.split_at(at));
        if word.is_empty() {
            out.push_str(end);
            continue;
        }
        let scheme = ["bearer", "basic", "digest"]
            .iter()
            .any(|scheme| word.eq_ignore_ascii_case(scheme));
        if next_is_secret && !scheme && word.chars().any(char::is_alphanumeric) {
            out.push_str(MASK);
            next_is_secret = false;
        } else {
            let bare = word.trim_end_matches([':', '=']);
            let names = word.starts_with('-') || bare.len() < word.len();
            next_is_secret = scheme || (names && is_secret_name(bare));
            out.push_str(&masked_word(word));
        }
        out.push_str(end);
    }
    out
}

fn masked_word(word: &str) -> String {
    if let Some(at) = word.find(['=', ':'])
        && word.len() > at + 1
        && is_secret_name(&word[..at])
    {
        return format!("{}{MASK}", &word[..=at]);
    }
    if let Some((scheme, rest)) = word.split_once("://")
        && let Some((user, host)) = rest.split_once('@')
        && user.contains(':')
        && !user.contains('/')
    {
        return format!("{scheme}://{MASK}@{}", masked_word(host));
    }
    for start in SECRET_STARTS {
        if let Some(at) = word.find(start) {
            let opens = word[..at]
                .chars()
                .next_back()
                .is_none_or(|c| !c.is_alphanumeric());
            let length = word[at..]
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
            let end = length.map_or(word.len(), |length| at + length);
            if opens && end - at >= MIN_TOKEN_BYTES {
                return format!("{}{MASK}{}", &word[..at], masked_word(&word[end..]));
            }
        }
    }
    word.to_owned()
}

fn without_private_keys(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let end = rest[at + BEGIN.len()..]
            .find("-----END")
            .map(|end| at + BEGIN.len() + end);
        out.push_str(&rest[..at]);
        out.push_str(MASK);
        let Some(end) = end else { return out };
        let line = rest[end..].find('\n').map_or(rest.len(), |line| end + line);
        rest = &rest[line..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MAX_BYTES, bounded, masked};

    #[test]
    fn secrets_are_masked_in_texts() {
        let check = |text: &str, expected: &str| assert_eq!(masked(text), expected, "{text}");
        check(
            "curl -H 'Authorization: Bearer abc.def'",
            "curl -H 'Authorization: Bearer ***'",
        );
        check("export API_KEY=12345 && run", "export API_KEY=*** && run");
        check("login --password hunter2 now", "login --password *** now");
        check(
            "git clone https://me:pw@host/x.git",
            "git clone https://***@host/x.git",
        );
        check("key sk-abcdefghijklmnop.", "key ***");
        check("(ghp_0123456789abcdef)", "(***)");
        check(
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nok",
            "***\nok",
        );
        check("the token was lost", "the token was lost");
        check("cargo test -p wire", "cargo test -p wire");
        check("Überraschung: 12 €", "Überraschung: 12 €");
    }

    #[test]
    fn secrets_are_masked_in_objects() {
        let data = json!({"tool_input": {"command": "ls", "env": {"GITHUB_TOKEN": "x", "n": 1}}, "cookies": ["a"],
            "output_tokens": 12, "password": null});
        let expected = json!({"tool_input": {"command": "ls", "env": {"GITHUB_TOKEN": "***", "n": 1}},
            "cookies": "***", "output_tokens": 12, "password": null});
        assert_eq!(bounded(&data), expected);
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
