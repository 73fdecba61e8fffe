//! Which texts of a server may hold secrets, and where in them: the same that are masked where a
//! configuration is shown.

use orchestra_secret::{MASK, is_secret_name};

use crate::{
    config::Template,
    expand::{Part, Parts, reference},
};

/// What is written before a secret in a header, in small letters.
const SCHEMES: [&str; 5] = ["bearer", "basic", "token", "apikey", "bot"];

/// Values that are never secrets, under any variable name, in lower case. Other words may be passwords.
const PLAIN: [&str; 16] = [
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "none",
    "trace",
    "debug",
    "info",
    "warn",
    "warning",
    "error",
    "development",
    "production",
    "application/json",
];

/// A longer number may be a secret.
const MAX_DIGITS: usize = 5;

/// A text that may hold a secret.
pub(super) struct Slot {
    /// What it is called.
    pub(super) name: String,
    kind: Kind,
    /// Without values of variables that are not set, where these may be secrets.
    pub(super) text: String,
    /// The variables that had one.
    pub(super) bare: Vec<String>,
}

enum Kind {
    /// Of a variable or a header: a secret unless it plainly is none.
    Value,
    /// An argument of a program, and whether the one before says that it is a secret.
    Word { is_announced: bool },
    /// An address.
    Address,
    /// The name of a secret.
    Name,
}

impl Slot {
    fn new(name: &str, kind: Kind, written: &str) -> Self {
        let (text, bare) = without_defaults(written);
        let name = name.to_owned();
        Self {
            name,
            kind,
            text,
            bare,
        }
    }

    pub(super) fn value(name: &str, value: &Template) -> Self {
        Self::new(name, Kind::Value, value.written())
    }

    pub(super) fn address(url: &Template) -> Self {
        Self::new("URL", Kind::Address, url.written())
    }

    pub(super) fn named(secret: &Template) -> Self {
        Self::new("SECRET", Kind::Name, secret.written())
    }

    pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a Template>) -> Vec<Self> {
        let mut before = None;
        let words = words.into_iter().map(|word| {
            let word = word.written();
            let announced = before.take();
            if word.starts_with('-') && !word.contains('=') && is_secret_name(word) {
                before = Some(word);
            }
            let name = announced.or(key(word)).unwrap_or("SECRET");
            let is_announced = announced.is_some();
            Self::new(
                name.trim_start_matches('-'),
                Kind::Word { is_announced },
                word,
            )
        });
        words.collect()
    }

    /// What stands before a secret, and the secret; `None` for what is none.
    pub(super) fn parts(&self) -> Option<(&str, &str)> {
        let text = &*self.text;
        if !has_own(text) {
            return None;
        }
        let start = match self.kind {
            Kind::Name => None,
            Kind::Value => value(&self.name, text),
            Kind::Word { is_announced: true } => Some(0),
            Kind::Word {
                is_announced: false,
            } => word(text),
            Kind::Address => address(text),
        };
        start.map(|start| text.split_at(start))
    }
}

/// The key of `KEY=VALUE`.
fn key(word: &str) -> Option<&str> {
    let (key, _) = word.split_once('=')?;
    let permitted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!key.is_empty() && key.chars().all(permitted)).then_some(key)
}

/// Where the secret of an argument begins.
fn word(text: &str) -> Option<usize> {
    let key = key(text);
    let behind = key.map_or(0, |key| key.len() + 1);
    let is_secret = match key {
        Some(key) if is_secret_name(key) => has_own(&text[behind..]),
        _ => is_masked(text),
    };
    is_secret.then_some(behind)
}

/// Where the secret of an address begins: with its user, or its query.
fn address(text: &str) -> Option<usize> {
    let (before, query) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let host = before.find("://").map_or(0, |at| at + 3);
    let authority = before[host..].split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    if has_own(user) || is_masked(before) {
        return Some(host);
    }
    let is_open = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or(("", pair));
        !has_own(value) || is_plain(key, value)
    };
    let is_secret = !query.split(['?', '#', '&']).all(is_open);
    is_secret.then_some(before.len() + 1)
}

/// Where the secret of a value begins.
fn value(name: &str, text: &str) -> Option<usize> {
    if refers(text) {
        let own: String = own(text).collect();
        let mut words = own.split(|c: char| !c.is_alphanumeric());
        let is_open = words.all(|word| word.is_empty() || is_plain(name, word));
        let is_scheme = SCHEMES.contains(&own.trim().to_ascii_lowercase().as_str());
        return (!is_open && !is_scheme && !is_path(text)).then_some(0);
    }
    if is_plain(name, text) {
        return None;
    }
    let scheme = text.find(' ').map_or(0, |end| end + 1);
    let is_scheme = SCHEMES.contains(&text[..scheme].trim_end().to_ascii_lowercase().as_str());
    Some(match is_scheme && scheme < text.len() {
        true => scheme,
        false => 0,
    })
}

/// Whether a text is one path, or several, in the workspace or the directory of the user.
fn is_path(text: &str) -> bool {
    let starts = [
        "${workspaceFolder}",
        "${workspaceRoot}",
        "${userHome}",
        "${HOME}",
    ];
    let is_rest = |own: &str| own.starts_with('/') || own.starts_with(':');
    starts.iter().any(|start| text.starts_with(start)) && own(text).all(is_rest) && !is_masked(text)
}

/// What a text says itself, beside what it refers to.
fn own(text: &str) -> impl Iterator<Item = &str> {
    Parts(text)
        .map(|part| match part {
            Ok(Part::Text(own)) => own,
            Ok(Part::Reference(_)) => "",
            // An opening without an end: all of it.
            Err(_) => text,
        })
        .filter(|own| !own.is_empty())
}

/// Whether a text has words of its own, rather than references alone.
fn has_own(text: &str) -> bool {
    own(text).any(|own| own.contains(char::is_alphanumeric))
}

fn refers(text: &str) -> bool {
    Parts(text).any(|part| matches!(part, Ok(Part::Reference(_))))
}

/// Whether something of a text, beside what it refers to, is masked where it is shown.
fn is_masked(text: &str) -> bool {
    let parts = Parts(text).map(|part| match part {
        Ok(Part::Text(own)) => own,
        Ok(Part::Reference(_)) => MASK,
        Err(_) => text,
    });
    let text: String = parts.collect();
    orchestra_secret::text(&text) != text
}

/// A text without the values of variables that are not set, but for plain ones; and these variables.
fn without_defaults(text: &str) -> (String, Vec<String>) {
    let (mut kept, mut bare) = (String::with_capacity(text.len()), Vec::new());
    for part in Parts(text) {
        match part {
            Ok(Part::Text("$")) => kept.push_str("$$"),
            Ok(Part::Text(own)) => kept.push_str(own),
            Ok(Part::Reference(inner)) => match inner.split_once(":-") {
                Some((name, default)) if !default.is_empty() && !is_plain(name, default) => {
                    bare.extend(reference(name).and_then(|reference| reference.variable()));
                    kept.push_str(&format!("${{{name}}}"));
                }
                _ => kept.push_str(&format!("${{{inner}}}")),
            },
            Err(_) => return (text.to_owned(), Vec::new()),
        }
    }
    (kept, bare)
}

fn is_plain(name: &str, value: &str) -> bool {
    let is_number = value.len() <= MAX_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = PLAIN.contains(&value.to_ascii_lowercase().as_str());
    (is_number || is_word) && !is_secret_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(slot: &Slot) -> Option<&str> {
        slot.parts().map(|(_, secret)| secret)
    }

    #[test]
    fn arguments_are_judged_as_they_are_shown() {
        for (words, expected) in [
            (
                &["-y", "server", "--root", "/srv"][..],
                &[None, None, None, None][..],
            ),
            (&["--api-key", "abc"], &[None, Some("abc")]),
            (&["--api-key", "${KEY}"], &[None, None]),
            (&["--api-key=abc", "TOKEN=${T}"], &[Some("abc"), None]),
            (
                &["DB=postgres://u:hunter2@${HOST}/db"],
                &[Some("postgres://u:hunter2@${HOST}/db")],
            ),
            (&["sk-0123456789abc"], &[Some("sk-0123456789abc")]),
            (
                &["Authorization: Bearer abc"],
                &[Some("Authorization: Bearer abc")],
            ),
            (&["Authorization: Bearer ${T}"], &[None]),
        ] {
            let words: Vec<Template> = words.iter().map(|word| Template::new(*word)).collect();
            let slots = Slot::words(&words);
            let got: Vec<_> = slots.iter().map(secret).collect();
            assert_eq!(got, expected, "{words:?}");
        }
    }

    #[test]
    fn addresses_keep_what_is_no_secret() {
        for (url, expected) in [
            ("https://h.example/mcp", None),
            ("https://h.example:8080/mcp?readonly=true", None),
            ("https://h.example/mcp?token=${T}&x=1", None),
            ("https://h.example/mcp?token=abc", Some("token=abc")),
            ("https://u:p@h.example/mcp", Some("u:p@h.example/mcp")),
            ("https://${U}:${P}@h.example/mcp", None),
            (
                "https://h.example/sk-0123456789abc",
                Some("h.example/sk-0123456789abc"),
            ),
        ] {
            assert_eq!(
                secret(&Slot::address(&Template::new(url))),
                expected,
                "{url}"
            );
        }
    }

    #[test]
    fn what_refers_to_something_may_hold_a_secret_as_well() {
        for (value, expected) in [
            ("${TOKEN}", None),
            ("Bearer ${TOKEN}", None),
            ("${HOST}:8080", None),
            ("${HOME}/bin:${PATH}", None),
            ("${workspaceFolder}/a.db", None),
            ("s3cret${A}", Some("s3cret${A}")),
            ("$${s3cret}", Some("$${s3cret}")),
            (
                "postgres://u:hunter2@${HOST}/db",
                Some("postgres://u:hunter2@${HOST}/db"),
            ),
        ] {
            let slot = Slot::value("X", &Template::new(value));
            assert_eq!(secret(&slot), expected, "{value}");
        }
        for (written, text, bare) in [
            ("${TOKEN:-sk-literal}", "${TOKEN}", &["TOKEN"][..]),
            ("${PORT:-8080}", "${PORT:-8080}", &[]),
            (
                "a$$b${input:i:-x}",
                "a$$b${input:i}",
                &["ORCHESTRA_INPUT_I"],
            ),
            ("${A", "${A", &[]),
        ] {
            assert_eq!(
                without_defaults(written),
                (
                    text.to_owned(),
                    bare.iter().map(|name| (*name).to_owned()).collect()
                )
            );
        }
    }
}
