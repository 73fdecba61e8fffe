//! Identity of issues and history lines: 128 bits that stay the same when an id changes.

use std::fmt;

use crate::digest::Digest;

/// The uid of an issue or of a line of its history, shown as 26 characters of `a-z2-7`, the first
/// one `a` to `h`. Uppercase letters are read as lowercase ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(u128);

/// Text that is not a uid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be 26 characters of a-z and 2-7, the first one a to h")]
pub struct UidError;

/// A letter first, so that no uid is taken for a number.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl Uid {
    /// Number of characters of a shown uid.
    pub const LENGTH: usize = 26;

    /// A uid made of 16 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Its 16 bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The uid that follows from these texts: the same on every machine.
    #[must_use]
    pub fn derived<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::from_bytes(Digest::of(texts).head())
    }

    /// Parses 26 characters of `a-z2-7`, in either case.
    ///
    /// # Errors
    /// When the text is nothing of that form.
    pub fn parse(text: &str) -> Result<Self, UidError> {
        if text.len() != Self::LENGTH {
            return Err(UidError);
        }
        let mut bits = 0_u128;
        for (index, byte) in text.bytes().enumerate() {
            let place = match byte.to_ascii_lowercase() {
                letter @ b'a'..=b'z' => letter - b'a',
                digit @ b'2'..=b'7' => digit - b'2' + 26,
                _ => return Err(UidError),
            };
            // 26 characters of 5 bits have two more than there is room for.
            if index == 0 && place > 7 {
                return Err(UidError);
            }
            bits = bits << 5 | u128::from(place);
        }
        Ok(Self(bits))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; Self::LENGTH];
        let mut bits = self.0;
        for place in text.iter_mut().rev() {
            *place = ALPHABET[usize::from(bits.to_be_bytes()[15] & 31)];
            bits >>= 5;
        }
        f.pad(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Uid, UidError};

    #[test]
    fn uids_are_read_back_in_either_case() {
        for bytes in [[0; 16], [255; 16], *b"0123456789abcdef"] {
            let uid = Uid::from_bytes(bytes);
            let text = uid.to_string();
            assert_eq!(text.len(), Uid::LENGTH);
            assert_eq!(Uid::parse(&text), Ok(uid), "{text}");
            assert_eq!(Uid::parse(&text.to_uppercase()), Ok(uid), "{text}");
            assert_eq!(uid.to_bytes(), bytes);
        }
        assert_eq!(
            Uid::from_bytes([255; 16]).to_string(),
            "h7777777777777777777777777"
        );
    }

    #[test]
    fn text_of_another_form_is_refused() {
        for text in [
            "",
            "a",
            "iaaaaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaaaaaaa1",
            "aaaaaaaaaaaaaaaaaaaaaaaaé",
        ] {
            assert_eq!(Uid::parse(text), Err(UidError), "{text}");
        }
    }

    #[test]
    fn derived_uids_depend_on_where_texts_end() {
        assert_eq!(Uid::derived(["a", "b"]), Uid::derived(["a", "b"]));
        assert_ne!(Uid::derived(["a", "b"]), Uid::derived(["ab", ""]));
    }
}
