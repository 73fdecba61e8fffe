//! The fingerprint of a model.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// What is changed when the same files give other vectors than before, because we cut, pool or
/// scale otherwise.
const METHOD: &[u8] = b"1";

/// The fingerprint of all that a vector depends on: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelId(String);

/// A text that is no fingerprint of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a model's fingerprint must have 32 hexadecimal digits")]
pub struct ModelIdError;

impl ModelId {
    const DIGITS: usize = 32;

    /// Of parts that are each named; the order counts.
    pub fn of(parts: &[(&str, &[u8])]) -> Self {
        let mut hash = Sha256::new();
        for (name, content) in [("method", METHOD)].iter().chain(parts) {
            for bytes in [name.as_bytes(), content] {
                hash.update((bytes.len() as u64).to_le_bytes());
                hash.update(bytes);
            }
        }
        let digits = hash
            .finalize()
            .into_iter()
            .map(|byte| format!("{byte:02x}"));
        let mut text: String = digits.collect();
        text.truncate(Self::DIGITS);
        Self(text)
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ModelId {
    type Err = ModelIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == Self::DIGITS && text.bytes().all(hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ModelIdError)
        }
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart_by_their_ends() {
        let one = ModelId::of(&[("a", b"bc"), ("d", b"")]);
        assert_ne!(one, ModelId::of(&[("ab", b"c"), ("d", b"")]));
        assert_ne!(one, ModelId::of(&[("d", b""), ("a", b"bc")]));
        assert_eq!(one.as_str().parse(), Ok(one));
        assert_eq!("../../etc".parse::<ModelId>(), Err(ModelIdError));
    }
}
