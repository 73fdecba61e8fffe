//! Names of tools and prompts as models see them, and the way back to the server's own.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use sha2::{Digest as _, Sha256};

use crate::config::ServerName;

/// The longest name that clients of models take.
const MAX_CHARS: usize = 64;

/// Digits of a hash that tells names apart which were cut.
const HASH_DIGITS: usize = 8;

/// The names that are shown for those of a server, in their order; `None` for one that came
/// before, or whose shown name is that of another one.
///
/// With `prefix` a name is `server__name`, of `A`–`Z`, `a`–`z`, `0`–`9`, `_` and `-`, at most 64
/// characters; one that had to be changed and is taken, or is too long, ends in a part of its hash.
/// Without, names pass unchanged.
pub(crate) fn shown<'n>(
    server: &ServerName,
    prefix: bool,
    names: impl Iterator<Item = &'n str>,
) -> Vec<Option<String>> {
    let names: Vec<&str> = names.collect();
    let mut seen = HashSet::new();
    let firsts: Vec<bool> = names.iter().map(|name| seen.insert(*name)).collect();
    if !prefix {
        let kept = names.iter().zip(firsts);
        return kept
            .map(|(name, first)| first.then(|| (*name).to_owned()))
            .collect();
    }
    // Those that fit as they are come first, so that the order of a list decides nothing.
    let plain: Vec<Option<String>> = names.iter().map(|name| fitting(server, name)).collect();
    let taken: HashSet<String> = plain.iter().flatten().cloned().collect();
    let mut wanted: HashMap<String, usize> = HashMap::new();
    for ((name, plain), first) in names.iter().zip(&plain).zip(&firsts) {
        if plain.is_none() && *first {
            *wanted.entry(changed(server, name)).or_default() += 1;
        }
    }
    let all = names.iter().zip(plain).zip(firsts);
    let mut all: Vec<Option<String>> = all
        .map(|((name, plain), first)| {
            let unique = || {
                let changed = changed(server, name);
                let is_free = changed.len() <= MAX_CHARS && !taken.contains(&changed);
                match is_free && wanted.get(&changed) == Some(&1) {
                    true => Some(changed),
                    false => Some(hashed(&changed, name)).filter(|hashed| !taken.contains(hashed)),
                }
            };
            first.then(|| plain.or_else(unique)).flatten()
        })
        .collect();
    // Hashes of two names may be equal; the order of a list does not decide that either.
    let mut owners: HashMap<String, &str> = HashMap::new();
    for (&name, shown) in names.iter().zip(&all) {
        if let Some(shown) = shown {
            let owner = owners.entry(shown.clone()).or_insert(name);
            *owner = (*owner).min(name);
        }
    }
    for (&name, shown) in names.iter().zip(&mut all) {
        let owner = shown.as_ref().and_then(|shown| owners.get(shown).copied());
        if owner != Some(name) {
            *shown = None;
        }
    }
    all
}

/// All names by which a name may be shown beside any other names of its server. `prefix` is the server whose name begins
/// them; `None` if its names pass unchanged.
pub(crate) fn forms(prefix: Option<&ServerName>, name: &str) -> Vec<String> {
    let Some(server) = prefix else {
        return vec![name.to_owned()];
    };
    if let Some(plain) = fitting(server, name) {
        return vec![plain];
    }
    let changed = changed(server, name);
    let hashed = hashed(&changed, name);
    let mut forms = vec![changed, hashed];
    forms.retain(|form| form.len() <= MAX_CHARS);
    forms
}

/// A name or pattern of names in the characters of shown names. `*` and `?` remain.
pub(crate) fn spelled(name: &str) -> String {
    let legal = |c: char| match is_permitted(c) || matches!(c, '*' | '?') {
        true => c,
        false => '_',
    };
    name.chars().map(legal).collect()
}

/// Returns the name of a tool for a question to the user. A name with other characters than letters, digits and `_-./:`
/// is quoted as in JSON, so that it cannot be read as a part of the question.
#[must_use]
pub fn in_question(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(serde_json::Value::from(name).to_string()),
    }
}

/// The prefixed name, where it needs no change.
fn fitting(server: &ServerName, name: &str) -> Option<String> {
    let is_legal = !name.is_empty() && name.chars().all(is_permitted);
    let shown = format!("{server}__{name}");
    (is_legal && shown.len() <= MAX_CHARS).then_some(shown)
}

fn changed(server: &ServerName, name: &str) -> String {
    let legal = |c: char| if is_permitted(c) { c } else { '_' };
    let name: String = name.chars().map(legal).collect();
    format!("{server}__{name}")
}

/// Cut, with a part of the hash of what it stands for.
fn hashed(changed: &str, name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let hash = hex(&digest[..HASH_DIGITS / 2]);
    // Only ASCII is left in it.
    let kept = &changed[..changed.len().min(MAX_CHARS - 1 - HASH_DIGITS)];
    format!("{kept}_{hash}")
}

fn is_permitted(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(server: &str, names: &[&str]) -> Vec<Option<String>> {
        shown(&server.parse().unwrap(), true, names.iter().copied())
    }

    #[test]
    fn names_are_prefixed_cut_and_told_apart() {
        let long = "x".repeat(80);
        let names = all("s", &["get", "a.b", "a_b", "a/b", "get", "ü", &long]);
        let names: Vec<&str> = names
            .iter()
            .map(|name| name.as_deref().unwrap_or("-"))
            .collect();
        assert_eq!(names[0], "s__get");
        assert_eq!(names[2], "s__a_b", "it fits as it is");
        assert!(names[1].starts_with("s__a_b_") && names[3].starts_with("s__a_b_"));
        assert_ne!(names[1], names[3]);
        assert_eq!(names[4], "-", "it came before");
        assert_eq!(names[5], "s___");
        assert_eq!(names[6].len(), MAX_CHARS);
        assert!(names.iter().all(|name| name.chars().all(is_permitted)));
        // Whatever the order.
        let again = all("s", &["a/b", "a_b", "a.b"]);
        assert_eq!(again[0].as_deref(), Some(names[3]));
        assert_eq!(again[2].as_deref(), Some(names[1]));
    }

    #[test]
    fn each_shown_name_is_of_one_name_whatever_the_order() {
        let hashed = all("s", &["a.b", "a_b"])[0].clone().unwrap();
        let own = hashed.strip_prefix("s__").unwrap().to_owned();
        let mut names = ["a.b", "a_b", own.as_str()];
        assert_eq!(
            all("s", &names),
            [None, Some("s__a_b".into()), Some(hashed.clone())]
        );
        names.reverse();
        assert_eq!(
            all("s", &names),
            [Some(hashed.clone()), Some("s__a_b".into()), None]
        );
        // Every shown name is one of the forms.
        let server = "s".parse().unwrap();
        let long = "x y".repeat(30);
        for name in ["get", "a.b", "ü", long.as_str()] {
            let forms = forms(Some(&server), name);
            for names in [vec![name], vec![name, "a_b", "a/b", "ö"]] {
                let shown = all("s", &names)[0].clone().unwrap();
                assert!(forms.contains(&shown), "{shown}: {forms:?}");
            }
        }
        assert_eq!(forms(None, "a.b"), ["a.b"]);
    }

    #[test]
    fn a_long_server_still_has_names_of_its_own() {
        let server = "s".repeat(64);
        let names = all(&server, &["a", "b"]);
        assert_ne!(names[0], names[1]);
        assert!(names.iter().flatten().all(|name| name.len() == MAX_CHARS));
    }

    #[test]
    fn without_a_prefix_names_pass_unchanged() {
        let server = "s".parse().unwrap();
        let names = shown(&server, false, ["a.b", "a.b", "ü"].into_iter());
        assert_eq!(names, [Some("a.b".to_owned()), None, Some("ü".to_owned())]);
    }
}
