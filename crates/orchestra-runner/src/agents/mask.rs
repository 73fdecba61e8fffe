//! Secrets of the environment, masked wherever an agent prints them.
//!
//! Values are known here only as what is to be hidden; nothing prints them. What looks like a secret
//! without being one of them (a token of a well-known form) is masked as well.

use std::{borrow::Cow, fmt};

use crate::{logs::MASK, secret::is_worth_hiding};

/// The longest value, and the most of them.
const MAX_BYTES: usize = 16 * 1024;
const MAX_VALUES: usize = 256;

/// Beginnings of tokens of well-known forms, and how long the rest is at least.
const SECRET_STARTS: [(&str, usize); 10] = [
    ("sk-", 16),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("github_pat_", 16),
    ("xoxb-", 10),
    ("AKIA", 12),
    ("AIza", 20),
    ("glpat-", 10),
];

/// Values that are to be hidden. Its `Debug` says only how many.
#[derive(Clone, Default)]
pub struct Mask {
    /// Longest first, so that no secret is masked by half because another is its beginning.
    values: Vec<String>,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} values)", self.values.len())
    }
}

impl Mask {
    /// For these values; of those of several lines, each line. Very short ones are passed over.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut values: Vec<String> = secrets
            .into_iter()
            .flat_map(|value| value.lines().map(str::trim))
            .filter(|value| is_worth_hiding(value) && value.len() <= MAX_BYTES)
            .take(MAX_VALUES)
            .map(str::to_owned)
            .collect();
        values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        values.dedup();
        Self { values }
    }

    /// One line, or any text, without them.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for value in &self.values {
            if masked.contains(value.as_str()) {
                masked = Cow::Owned(masked.replace(value.as_str(), MASK));
            }
        }
        for (start, rest) in SECRET_STARTS {
            if masked.contains(start) {
                masked = Cow::Owned(without_tokens(&masked, start, rest));
            }
        }
        masked
    }
}

/// `text` without words that begin like a token.
fn without_tokens(text: &str, start: &str, at_least: usize) -> String {
    let is_token = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(start) {
        let is_inside = rest[..at]
            .chars()
            .next_back()
            .is_some_and(char::is_alphanumeric);
        let from = &rest[at..];
        let end = from.find(|char| !is_token(char)).unwrap_or(from.len());
        masked.push_str(&rest[..at]);
        if is_inside || end < start.len() + at_least {
            masked.push_str(start);
            rest = &from[start.len()..];
        } else {
            masked.push_str(MASK);
            rest = &from[end..];
        }
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_of_the_environment_are_masked_whole() {
        let secrets = ["abc-123456", "abc-123456-longer", "12345", "also-hidden"];
        let mask = Mask::new(secrets);
        let text = "k=abc-123456-longer, abc-123456; /home/somebody 12345 also-hidden";
        assert_eq!(mask.text(text), "k=***, ***; /home/somebody 12345 ***");
        assert_eq!(format!("{mask:?}"), "Mask(3 values)");
    }

    #[test]
    fn tokens_of_well_known_forms_are_masked() {
        let mask = Mask::default();
        let masked = |text: &str| mask.text(text).into_owned();
        assert_eq!(masked("use ghp_0123456789abcdefghij now"), "use *** now");
        assert_eq!(masked("\"sk-ant-0123456789abcdef\""), "\"***\"");
        assert_eq!(
            masked("task-sk-ant-0123456789abcdefgh sk-1"),
            "task-*** sk-1"
        );
        assert_eq!(
            masked("risk-averse-and-other-long-words"),
            "risk-averse-and-other-long-words"
        );
    }

    proptest! {
        #[test]
        fn no_secret_is_left(secret in "[a-zA-Z0-9+/=_.é-]{6,30}", around in "\\PC{0,60}") {
            let mask = Mask::new([secret.as_str()]);
            let text = format!("{around}{secret}{around}{secret}");
            let left = mask.text(&text).replace(MASK, "#");
            prop_assert!(!left.contains(&secret));
        }
    }
}
