//! Ids of requests, kept as the text they arrived in.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use serde_json::value::RawValue;

/// A JSON-RPC request id: a string or an integer of any size, echoed byte for byte.
///
/// Two ids are equal when their JSON text is equal. Cloning is cheap.
#[derive(Clone)]
pub struct RequestId(Text);

/// Nearly every id is short, and then needs no allocation.
#[derive(Clone)]
enum Text {
    Short { len: u8, bytes: [u8; SHORT_BYTES] },
    Long(Arc<str>),
}

/// Fills the enum up to the size of three words.
const SHORT_BYTES: usize = 22;

/// An id that is neither a string nor an integer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("id must be a string or an integer")]
pub struct InvalidId;

impl RequestId {
    /// Takes an id from a JSON value.
    ///
    /// # Errors
    /// [`InvalidId`] for `null`, booleans, arrays, objects and numbers that are written with a
    /// fraction or an exponent.
    pub fn from_raw(value: &RawValue) -> Result<Self, InvalidId> {
        let text = value.get();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if integer || text.starts_with('"') {
            Ok(Self::of(text))
        } else {
            Err(InvalidId)
        }
    }

    /// An id that is this number.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self::of(&number.to_string())
    }

    fn of(text: &str) -> Self {
        let mut bytes = [0; SHORT_BYTES];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(short), Ok(len)) => {
                short.copy_from_slice(text.as_bytes());
                Self(Text::Short { len, bytes })
            }
            _ => Self(Text::Long(text.into())),
        }
    }

    /// The id as JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("copied whole from text")
    }

    /// The id as the bytes of its JSON text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short { len, bytes } => &bytes[..usize::from(*len)],
            Text::Long(text) => text.as_bytes(),
        }
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.as_bytes());
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_json())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Result<RequestId, InvalidId> {
        RequestId::from_raw(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn strings_and_integers_of_any_size_are_ids_and_nothing_else_is() {
        let huge = "9".repeat(60);
        for text in [
            "0",
            "-1",
            "9007199254740993",
            huge.as_str(),
            "\"\"",
            "\"a\\u0062\"",
            "\"é\"",
        ] {
            assert_eq!(id(text).unwrap().as_json(), text);
        }
        for text in ["null", "true", "1.5", "1.0", "1e3", "[]", "{}"] {
            assert_eq!(id(text), Err(InvalidId), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn ids_round_trip(text in ".*", number in proptest::num::i128::ANY) {
            for json in [serde_json::to_string(&text).unwrap(), number.to_string()] {
                let id = id(&json).unwrap();
                proptest::prop_assert_eq!(id.as_json(), json.as_str());
            }
        }
    }
}
