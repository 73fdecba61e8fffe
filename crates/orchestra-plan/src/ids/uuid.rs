//! Ids that are made, not chosen: UUIDs, written in lower case.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{IdError, parsed_text};

/// The id of a plan: a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlanId(u128);

/// The id of a job: a UUID, unique over all plans.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(u128);

macro_rules! uuid {
    ($name:ident, $expected:literal) => {
        impl $name {
            /// Makes an id of 16 random bytes: a UUID of version 4.
            #[must_use]
            pub const fn of_random(bytes: [u8; 16]) -> Self {
                Self(version_4(bytes))
            }

            /// Parses an id; capitals are taken too.
            ///
            /// # Errors
            /// When the text is no UUID.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                read(text)
                    .map(Self)
                    .ok_or_else(|| IdError::new(text, $expected))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(self.0, f)
            }
        }

        parsed_text!($name);

        #[cfg(feature = "schema")]
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "pattern": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
                })
            }
        }
    };
}

uuid!(PlanId, "the id of a plan: a UUID");
uuid!(JobId, "the id of a job: a UUID");

/// How many digits stand between the dashes.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

const fn version_4(mut bytes: [u8; 16]) -> u128 {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    u128::from_be_bytes(bytes)
}

fn read(text: &str) -> Option<u128> {
    let mut number = 0;
    let mut groups = text.split('-');
    for digits in GROUPS {
        let group = groups.next()?;
        if group.len() != digits {
            return None;
        }
        for digit in group.chars() {
            number = number << 4 | u128::from(digit.to_digit(16)?);
        }
    }
    groups.next().is_none().then_some(number)
}

fn write(number: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let digits = format!("{number:032x}");
    let mut rest = digits.as_str();
    for (at, count) in GROUPS.into_iter().enumerate() {
        let (group, tail) = rest.split_at(count);
        if at > 0 {
            f.write_str("-")?;
        }
        f.write_str(group)?;
        rest = tail;
    }
    Ok(())
}
