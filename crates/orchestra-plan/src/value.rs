//! Values with bounds: what their schemas show is what reading them enforces.
//!
//! Lengths, counts, ranges, choices and the letters that a text may have stand in the schema. What
//! spans several fields, or looks into a path, an address or a branch's name, is told in words.

mod env;
mod list;
mod number;
mod text;

pub use env::{Env, EnvName, EnvValue};
pub use list::List;
pub use number::{Money, Whole};
pub use text::{Line, Raw, Text, ValueError};
pub(crate) use text::{choice, text};

#[cfg(test)]
mod tests;
