//! What is told of servers: in one line, and without keys.

use std::{error, iter::successors};

use orchestra_secret::Masker;
use reqwest::Url;

/// So much of a refusal is shown.
pub(crate) const MAX_SAID: usize = 300;

/// An error with what caused it.
#[must_use]
pub fn with_causes(error: &(dyn error::Error + 'static)) -> String {
    let causes = successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

/// An address as it may be shown: without a user, password or query.
#[must_use]
pub fn shown(url: &str) -> String {
    match Url::parse(url) {
        Ok(url) => {
            let port = url.port().map(|port| format!(":{port}"));
            let host = url.host_str().unwrap_or_default();
            let port = port.unwrap_or_default();
            format!("{}://{host}{port}{}", url.scheme(), url.path())
        }
        Err(_) => "an address that is none".to_owned(),
    }
}

/// Maximum number of bytes of a masked text.
const MAX_MASKED: usize = 2 * 1024;

/// Returns the beginning of a text of a server, with its secrets and the key masked.
pub(crate) fn masked(text: &str, key: Option<&str>) -> String {
    Masker::new(key).excerpt(text, MAX_MASKED)
}

/// A refusal as it is shown: without the key, which some servers repeat that they refuse.
pub(crate) fn quoted(mut said: Vec<u8>, key: Option<&str>) -> String {
    let is_cut = said.len() > MAX_SAID;
    if let Some(key) = key.filter(|_| is_cut) {
        // A key may begin where the reading ended.
        let most = key.len().saturating_sub(1).min(said.len());
        let begun = (1..=most)
            .rev()
            .find(|len| said.ends_with(&key.as_bytes()[..*len]));
        said.truncate(said.len() - begun.unwrap_or(0));
    }
    let masker = Masker::new(key);
    let said = masker.text(&String::from_utf8_lossy(&said)).into_owned();
    // What was escaped there may be the key.
    let said = message(&said).map_or(said, |said| masker.text(&said).into_owned());
    in_a_line(beginning(&said, MAX_SAID))
}

/// What a refusal says to people, where it is JSON of a usual form.
fn message(said: &str) -> Option<String> {
    let said: serde_json::Value = serde_json::from_str(said).ok()?;
    let places = [&said["error"]["message"], &said["error"], &said["message"]];
    let text = places.into_iter().find_map(serde_json::Value::as_str)?;
    Some(text.to_owned())
}

/// The beginning of a text, of so many bytes at most.
fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Text of a server on one line: a character that is no sign of a script is escaped.
#[must_use]
pub fn in_a_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' => line.push(c),
            _ => line.extend(c.escape_debug()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_key_is_shown_wherever_a_refusal_is_cut() {
        let key = "sk-0123456789";
        for before in MAX_SAID - 40..MAX_SAID + 40 {
            for times in 1..4 {
                let whole = format!("{}{}", " ".repeat(before), key.repeat(times));
                let read = whole.len().min(MAX_SAID + key.len());
                let said = quoted(whole.as_bytes()[..read].to_vec(), Some(key));
                assert!(!said.contains("sk-0"), "{before}: {said}");
            }
        }
        let odd = quoted(b"bad \"sk-0123456789\"\n".to_vec(), Some(key));
        assert_eq!(odd, r#"bad "***"\n"#);
        let escaped = br#"{"error":{"message":"no \u0073k-0123456789"}}"#;
        assert_eq!(quoted(escaped.to_vec(), Some(key)), "no ***");
    }

    #[test]
    fn international_host_names_are_shown_in_ascii() {
        for (host, ascii) in [
            ("bücher.example", "xn--bcher-kva.example"),
            ("ＢÜＣＨＥＲ.example", "xn--bcher-kva.example"),
            ("faß.example", "xn--fa-hia.example"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            ("مثال.إختبار", "xn--mgbh0fb.xn--kgbechtv"),
        ] {
            assert_eq!(
                shown(&format!("https://{host}")),
                format!("https://{ascii}/")
            );
        }
        // Letters that run from left to right do not mix with right-to-left letters.
        assert_eq!(shown("https://aمثال.example"), "an address that is none");
    }

    #[test]
    fn a_refusal_in_json_is_shown_as_it_reads() {
        for (said, shown) in [
            (
                r#"{"error":"model \"x\" not found"}"#,
                r#"model "x" not found"#,
            ),
            (r#"{"error":{"message":"no key","code":1}}"#, "no key"),
            (r#"{"message":"a\nb"}"#, "a\\nb"),
            (r#"{"detail":1}"#, r#"{"detail":1}"#),
            ("<p>\u{1b}[2J", "<p>\\u{1b}[2J"),
        ] {
            assert_eq!(quoted(said.as_bytes().to_vec(), None), shown);
        }
    }

    #[test]
    fn text_of_a_server_with_the_key_or_a_known_token_is_masked() {
        for key in ["SECRETKEY12345", "sk-0123456789", "k1s7"] {
            let text = format!("bad key Authorization: Bearer {key} or {key}, not {key}x");
            let shown = masked(&text, Some(key));
            assert!(
                shown.starts_with("bad key") && !shown.contains(key),
                "{shown}"
            );
        }
        let token = "sk-proj-abcdefghijklmnopqrstuvwxyz012345";
        assert!(!masked(&format!("bad {token}"), None).contains("abcdefgh"));
        for before in MAX_MASKED - 20..MAX_MASKED {
            let text = format!("{}SECRETKEY12345", " ".repeat(before));
            assert!(
                !masked(&text, Some("SECRETKEY12345")).contains("SEC"),
                "{before}"
            );
        }
    }
}
