//! Ids of requests, kept as the text they arrived in.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use serde_json::value::RawValue;

/// A JSON-RPC request id: a string or an integer of any size, echoed byte for byte. An integer that
/// is written with a fraction or an exponent (`1.0`, `1e0`) is the same id as without.
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

/// Largest id that is read from a number with a fraction or an exponent: beyond, floats are not
/// exact.
const MAX_FLOAT_ID: f64 = 9_007_199_254_740_991.0;

/// An id that is neither a string nor an integer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("id must be a string or an integer")]
pub struct InvalidId;

impl RequestId {
    /// Takes an id from a JSON value.
    ///
    /// # Errors
    /// [`InvalidId`] for `null`, booleans, arrays, objects and numbers that are no integers.
    pub fn from_raw(value: &RawValue) -> Result<Self, InvalidId> {
        let text = value.get();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if integer || text.starts_with('"') {
            return Ok(Self::of(text));
        }
        // Programs whose only numbers are floats write integers like that.
        match text.parse::<f64>() {
            Ok(number) if number.fract() == 0.0 && number.abs() <= MAX_FLOAT_ID => {
                Ok(Self::of(&(number as i64).to_string()))
            }
            _ => Err(InvalidId),
        }
    }

    /// The id that a peer may have sent in the other form: `"1"` for `1`, and `1` for `"1"`.
    #[must_use]
    pub fn other_form(&self) -> Option<Self> {
        let text = self.as_json();
        let inner = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        match inner {
            None => Some(Self::of(&format!("\"{text}\""))),
            Some(inner) => {
                let value: &RawValue = serde_json::from_str(inner.trim()).ok()?;
                Self::from_raw(value)
                    .ok()
                    .filter(|id| !id.as_json().starts_with('"'))
            }
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
        for text in ["null", "true", "1.5", "1e400", "1e17", "[]", "{}"] {
            assert_eq!(id(text), Err(InvalidId), "{text}");
        }
    }

    /// Gson, Lua and Godot write the integers that they received as floats.
    #[test]
    fn an_integer_written_as_a_float_is_the_same_id() {
        for (text, expected) in [("1.0", "1"), ("1e0", "1"), ("1e3", "1000"), ("-7.00", "-7")] {
            assert_eq!(id(text).unwrap().as_json(), expected, "{text}");
        }
    }

    #[test]
    fn the_other_form_of_an_id_is_text_for_a_number_and_a_number_for_text() {
        for (text, expected) in [
            ("1", Some("\"1\"")),
            ("\"1\"", Some("1")),
            ("\"1.0\"", Some("1")),
            ("\"a\"", None),
            ("\"\"", None),
        ] {
            let other = id(text).unwrap().other_form();
            assert_eq!(other.as_ref().map(RequestId::as_json), expected, "{text}");
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
