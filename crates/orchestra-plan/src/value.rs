//! Values with bounds: what their schemas show is what reading them enforces.
//!
//! Lengths, counts, ranges, choices and the letters that a text may have stand in the schema. What
//! spans several fields, or looks into a path, an address or a branch's name, is told in words.

mod env;
mod list;
mod number;
mod text;

use serde::{Deserialize, Deserializer};

pub use env::{Env, EnvName, EnvValue};
pub use list::List;
pub use number::{Money, Whole};
pub use text::{Line, Raw, Text, ValueError};
pub(crate) use text::{choice, text};

/// Reads a value; null is the default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests;
