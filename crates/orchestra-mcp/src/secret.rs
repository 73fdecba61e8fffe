//! Ids that nobody guesses.

use std::fmt;

/// Bytes of an id.
const BYTES: usize = 16;

/// An id that was drawn at random: 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretId(u128);

impl SecretId {
    /// A new id; `None` when the system has no secret to give.
    pub(crate) fn draw() -> Option<Self> {
        let mut secret = [0; BYTES];
        getrandom::fill(&mut secret).ok()?;
        Some(Self(u128::from_be_bytes(secret)))
    }

    /// Parses an id; `None` when it cannot be one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 2 * BYTES || !text.bytes().all(is_digit) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_as_they_are_written() {
        let id = SecretId::draw().unwrap();
        assert_eq!(SecretId::parse(&id.to_string()), Some(id));
        assert_ne!(SecretId::draw(), Some(id));
        let small = "0".repeat(31) + "f";
        assert_eq!(SecretId::parse(&small).unwrap().to_string(), small);
        for bad in ["", "f", &"F".repeat(32), &"0".repeat(33), &"+".repeat(32)] {
            assert_eq!(SecretId::parse(bad), None, "{bad:?}");
        }
    }
}
