//! The random id of a database.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Random id of a database of private state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DatabaseId([u8; 16]);

impl DatabaseId {
    /// Creates a random id.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the id of these bytes; `None` unless there are 16 of them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl From<DatabaseId> for String {
    fn from(id: DatabaseId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for DatabaseId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(&text, 16).ok());
        let number = number.flatten().ok_or("an id has 32 hexadecimal digits")?;
        Ok(Self(number.to_be_bytes()))
    }
}
