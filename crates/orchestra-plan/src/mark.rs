//! What tells one request from another that came under the same key: a number of all that was asked.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A number that tells one request from another (FNV-1a, which stays the same over versions). Nobody gains
/// by two that have the same: they would be of one caller, under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mark(u64);

impl Default for Mark {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Mark {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Takes a text in.
    pub fn text(&mut self, text: &str) {
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text.as_bytes());
    }

    /// Takes fields in, whatever their order; one that is `null` is the same as none.
    pub fn fields<'a>(&mut self, fields: impl Iterator<Item = (&'a String, &'a Value)>) {
        let mut fields: Vec<_> = fields.filter(|(_, value)| !value.is_null()).collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        for (name, value) in fields {
            self.text(name);
            self.value(value);
        }
    }

    /// Takes a value in.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                self.bytes(b"{");
                self.fields(fields.iter());
                self.bytes(b"}");
            }
            Value::Array(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item));
                self.bytes(b"]");
            }
            Value::String(text) => self.text(text),
            other => self.text(&other.to_string()),
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<Mark> for String {
    fn from(mark: Mark) -> Self {
        mark.to_string()
    }
}

impl TryFrom<String> for Mark {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let read = u64::from_str_radix(&text, 16).ok().map(Self);
        let read = read.filter(|mark| mark.to_string() == text);
        read.ok_or_else(|| "a mark has 16 hexadecimal digits".to_owned())
    }
}
