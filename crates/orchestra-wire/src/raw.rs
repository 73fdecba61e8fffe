//! One JSON value kept as the text it arrived in, so that what we do not understand is passed on
//! byte for byte. Parsing it into types is left to whoever needs the inside.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One complete JSON value as its text: valid UTF-8, valid JSON, no line break outside a string.
///
/// Cloning is cheap (the bytes are shared).
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Bytes);

/// Text that is not one JSON value, or a value that cannot be written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("not one JSON value")]
pub struct RawJsonError(#[source] serde_json::Error);

impl RawJson {
    /// Serialises `value`.
    ///
    /// # Errors
    /// When `value` has no JSON form (a map with keys that are not strings).
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, RawJsonError> {
        serde_json::to_vec(value).map(|text| Self(text.into())).map_err(RawJsonError)
    }

    /// The empty object `{}`.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// Takes the text of a value that serde_json has already validated.
    #[must_use]
    pub fn from_raw(value: &serde_json::value::RawValue) -> Self {
        Self(Bytes::copy_from_slice(value.get().as_bytes()))
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

    /// Parses the value into a type.
    ///
    /// # Errors
    /// When the value does not have the shape of `T`.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
