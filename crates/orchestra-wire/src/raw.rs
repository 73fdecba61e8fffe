//! One JSON value kept as the text it arrived in, so that what we do not understand is passed on
//! byte for byte. Parsing it into types is left to whoever needs the inside.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned, de::IgnoredAny};

use crate::{Members, readable::readable};

/// Values of up to this size are copied rather than sharing the frame they arrived in, which
/// would keep the whole frame alive.
const COPY_BYTES: usize = 16 * 1024;

/// One complete JSON value as its text: valid UTF-8, valid JSON, no line break outside a string.
///
/// Cloning is cheap (the bytes are shared).
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Bytes);

/// Text that is not one JSON value, or a value that cannot be written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("not a single JSON value")]
pub struct RawJsonError(#[source] serde_json::Error);

impl RawJson {
    /// Serialises `value`.
    ///
    /// # Errors
    /// When `value` has no JSON form (a map with keys that are not strings).
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, RawJsonError> {
        serde_json::to_vec(value)
            .map(|text| Self(text.into()))
            .map_err(RawJsonError)
    }

    /// Takes a text that is checked to be one JSON value.
    ///
    /// # Errors
    /// When it is none.
    pub fn checked(text: Bytes) -> Result<Self, RawJsonError> {
        serde_json::from_slice::<IgnoredAny>(&text).map_err(RawJsonError)?;
        // What is skipped is not looked at closely enough to be UTF-8.
        match std::str::from_utf8(&text) {
            Ok(_) => Ok(Self(text)),
            Err(error) => Err(RawJsonError(serde::de::Error::custom(error))),
        }
    }

    /// A part of the text of another value that is a value itself.
    pub(crate) const fn part(text: Bytes) -> Self {
        Self(text)
    }

    /// The empty object `{}`.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// Takes a text of the program itself. It is not checked: a test of the caller does that.
    #[must_use]
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// Takes the text of a value that serde_json has already validated.
    #[must_use]
    pub fn from_raw(value: &serde_json::value::RawValue) -> Self {
        Self(Bytes::copy_from_slice(value.get().as_bytes()))
    }

    /// Takes the text of a value that serde_json has already validated; a large value shares
    /// `frame` when it lies inside of it, a small one is copied.
    #[must_use]
    pub fn from_frame(value: &serde_json::value::RawValue, frame: Option<&Bytes>) -> Self {
        let text = value.get().as_bytes();
        match frame {
            Some(frame) if text.len() > COPY_BYTES && contains(frame, text) => {
                Self(frame.slice_ref(text))
            }
            _ => Self::from_raw(value),
        }
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("built only from text that is valid UTF-8")
    }

    /// The JSON text as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The JSON text, shared.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// The members of the value; `None` when it is no object.
    #[must_use]
    pub fn members(&self) -> Option<Members<'_>> {
        Members::of(&self.0)
    }

    /// The last member of that name, as JSON parsers have it; `None` also when the value is no
    /// object.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<Self> {
        let found = self.members()?.filter(|member| member.key == key).last();
        found.map(|member| member.value)
    }

    /// Parses the value into a type.
    ///
    /// # Errors
    /// When the value does not have the shape of `T`.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// Parses the value for a look at it. U+FFFD takes the place of half of a surrogate pair, and the largest float
    /// that of a number beyond it: both are JSON, and no type of Rust holds them.
    ///
    /// # Errors
    /// When the value does not have the shape of `T`.
    pub fn parse_lossy<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.parse()
            .or_else(|_| serde_json::from_str(&readable(self.as_str())))
    }

    /// The value that every JSON parser reads: U+FFFD takes the place of half of a surrogate pair, and the largest float
    /// that of a number beyond it. `None` where there is neither.
    #[must_use]
    pub fn made_readable(&self) -> Option<Self> {
        match readable(self.as_str()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Self::checked(text.into()).ok(),
        }
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn contains(frame: &Bytes, part: &[u8]) -> bool {
    let (outer, inner) = (frame.as_ptr_range(), part.as_ptr_range());
    outer.start <= inner.start && inner.end <= outer.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_value_shares_its_frame_and_a_small_one_does_not() {
        for (len, shares) in [(COPY_BYTES + 1, true), (10, false)] {
            let frame = Bytes::from(format!("[\"{}\"]", "x".repeat(len)));
            let items: Vec<&serde_json::value::RawValue> = serde_json::from_slice(&frame).unwrap();
            let value = RawJson::from_frame(items[0], Some(&frame));
            assert_eq!(contains(&frame, value.as_bytes()), shares);
            assert_eq!(value.as_str(), items[0].get());
        }
    }

    #[test]
    fn a_value_from_elsewhere_is_copied() {
        let text = format!("\"{}\"", "x".repeat(COPY_BYTES + 1));
        let value: &serde_json::value::RawValue = serde_json::from_str(&text).unwrap();
        let frame = Bytes::from_static(b"something else");
        assert_eq!(RawJson::from_frame(value, Some(&frame)).as_str(), text);
    }
}
