//! Names and numbers of things in a plan, parsed at the edge: no value of these types breaks the
//! rule that its type tells, whoever wrote it.

mod branch;
mod given;
mod number;
mod uuid;

use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

pub use branch::{Branch, Commit};
#[cfg(feature = "schema")]
pub(crate) use given::Given;
pub(crate) use given::{given, given_list};
pub use number::{AttemptNumber, Millis};
pub use uuid::{JobId, PlanId};

/// Text that is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not {expected}")]
pub struct IdError {
    shown: String,
    expected: &'static str,
}

impl IdError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        Self {
            shown: shown(text),
            expected,
        }
    }
}

/// The front of a text that came from outside, fit to stand in a message.
pub(crate) fn shown(text: &str) -> String {
    const CHARS: usize = 64;
    let mut shown: String = text
        .chars()
        .take(CHARS)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// Everything that an id made of text has besides its rule: `parse`, `as_str`, display,
/// conversions, and serde as text that is parsed when it is read.
macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        $crate::ids::parsed_text!($name);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}
pub(crate) use text_id;

/// The conversions and the serde form of a type that has `parse` and is displayed as what it parses.
macro_rules! parsed_text {
    ($name:ident) => {
        impl std::str::FromStr for $name {
            type Err = $crate::ids::IdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $crate::ids::IdError;

            fn try_from(text: &str) -> Result<Self, Self::Error> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::ids::IdError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::value::text(deserializer, |text| Self::parse(text))
            }
        }
    };
}
pub(crate) use parsed_text;

/// The caller's name of a job, unique in its plan: 3 to 64 of `a-z0-9-`.
///
/// The one other value is [`ProducerId::snapshot_validation`], the job that every plan ends with. It
/// is read and looked up like any other, but no caller can define a job of that name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProducerId(Arc<str>);

impl ProducerId {
    /// What callers' producer ids match.
    pub const PATTERN: &str = "^[a-z0-9-]{3,64}$";
    /// The producer id of the job that validates the whole and merges it.
    pub const SNAPSHOT_VALIDATION: &str = "__snapshot-validation__";

    const EXPECTED: &str = "a producer id: 3 to 64 characters of a-z, 0-9 and -";

    /// Parses a producer id, that of the Snapshot Validation job included.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        match text {
            Self::SNAPSHOT_VALIDATION => Ok(Self::snapshot_validation()),
            _ => Self::of_caller(text),
        }
    }

    /// Parses the producer id of a job that a caller defines.
    ///
    /// # Errors
    /// When the text breaks the rule of the type, or is reserved.
    pub fn of_caller(text: &str) -> Result<Self, IdError> {
        let legal = (3..=64).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        legal
            .then(|| Self(text.into()))
            .ok_or_else(|| IdError::new(text, Self::EXPECTED))
    }

    /// The producer id of the job that validates the whole and merges it.
    #[must_use]
    pub fn snapshot_validation() -> Self {
        Self(Self::SNAPSHOT_VALIDATION.into())
    }

    /// Whether this names the Snapshot Validation job.
    #[must_use]
    pub fn is_snapshot_validation(&self) -> bool {
        &*self.0 == Self::SNAPSHOT_VALIDATION
    }
}

text_id!(ProducerId);

#[cfg(feature = "schema")]
impl JsonSchema for ProducerId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ProducerId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^([a-z0-9-]{3,64}|__snapshot-validation__)$",
        })
    }
}

/// Where a job is shown: 1 to 16 names with `/` between those that nest, at most 200 characters.
/// None of the names is empty, and none has control characters. It never decides what runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupPath(Arc<str>);

impl GroupPath {
    /// The most characters a path may have.
    pub const MAX_CHARS: usize = 200;
    /// The most names a path may have.
    pub const MAX_NAMES: usize = 16;

    /// Parses a path.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let legal = text.chars().nth(Self::MAX_CHARS).is_none()
            && !text.chars().any(char::is_control)
            && text.split('/').all(|name| !name.is_empty())
            && text.matches('/').count() < Self::MAX_NAMES;
        legal.then(|| Self(text.into())).ok_or_else(|| {
            IdError::new(
                text,
                "a group: at most 16 names with / between them, at most 200 characters, such as \
                    phase1/setup",
            )
        })
    }

    /// The last of the names.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The path that this one is in; `None` at the top.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0
            .rsplit_once('/')
            .map(|(parent, _)| Self(parent.into()))
    }

    /// How many names stand before the last.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.0.matches('/').count()
    }
}

text_id!(GroupPath);

#[cfg(feature = "schema")]
impl JsonSchema for GroupPath {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GroupPath".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": Self::MAX_CHARS,
            "pattern": r"^[^/\x00-\x1F\x7F-\x9F]+(/[^/\x00-\x1F\x7F-\x9F]+){0,15}$",
        })
    }
}

#[cfg(test)]
mod tests;
