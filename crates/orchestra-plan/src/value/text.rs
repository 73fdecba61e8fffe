//! Bounded texts, and how a value that is written as text is read.

use std::{fmt, sync::Arc};

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A value that is out of the bounds of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Nothing but blanks.
    #[error("must not be empty; if it is optional, omit it")]
    Empty,
    /// More characters than allowed.
    #[error("is too long: at most {limit} characters")]
    TooLong {
        /// The most characters.
        limit: usize,
    },
    /// A character that cannot stand in such a text.
    #[error("contains the control character U+{code:04X}; remove it")]
    Control {
        /// Its code point.
        code: u32,
    },
}

/// Reads a text and parses it; the error says what was expected.
pub(crate) fn text<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    struct Visitor<F>(F);

    impl<T, E: fmt::Display, F: Fn(&str) -> Result<T, E>> de::Visitor<'_> for Visitor<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<D: de::Error>(self, text: &str) -> Result<T, D> {
            (self.0)(text).map_err(D::custom)
        }
    }

    deserializer.deserialize_str(Visitor(parse))
}

/// A text of any number of lines: 1 to `MAX` characters, not only blanks, without NUL.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<const MAX: usize>(Arc<str>);

/// A text of one line: 1 to `MAX` characters, not only blanks, without control characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line<const MAX: usize>(Arc<str>);

/// A text that stands as it is: at most `MAX` characters, without NUL; it may be empty.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Raw<const MAX: usize>(Arc<str>);

/// What a text that is not empty has one of: neither blank nor line end.
fn is_ink(c: char) -> bool {
    !c.is_control() && c != ' '
}

fn short(text: &str, limit: usize) -> Result<(), ValueError> {
    match text.chars().nth(limit) {
        Some(_) => Err(ValueError::TooLong { limit }),
        None => Ok(()),
    }
}

fn written(text: &str) -> Result<(), ValueError> {
    if !text.contains(is_ink) {
        return Err(ValueError::Empty);
    }
    Ok(())
}

fn free_of(text: &str, forbidden: impl Fn(char) -> bool) -> Result<(), ValueError> {
    match text.chars().find(|c| forbidden(*c)) {
        Some(control) => Err(ValueError::Control {
            code: control.into(),
        }),
        None => Ok(()),
    }
}

impl<const MAX: usize> Text<MAX> {
    /// Parses a text.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        short(text, MAX)?;
        written(text)?;
        free_of(text, |c| c == '\0')?;
        Ok(Self(text.into()))
    }
}

impl<const MAX: usize> Line<MAX> {
    /// Parses a line.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        short(text, MAX)?;
        written(text)?;
        free_of(text, char::is_control)?;
        Ok(Self(text.into()))
    }
}

impl<const MAX: usize> Raw<MAX> {
    /// Parses a text.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        short(text, MAX)?;
        free_of(text, |c| c == '\0')?;
        Ok(Self(text.into()))
    }
}

macro_rules! bounded_text {
    ($name:ident, $least:literal, $pattern:literal) => {
        impl<const MAX: usize> $name<MAX> {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<const MAX: usize> fmt::Display for $name<MAX> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<const MAX: usize> fmt::Debug for $name<MAX> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<const MAX: usize> AsRef<str> for $name<MAX> {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl<const MAX: usize> std::str::FromStr for $name<MAX> {
            type Err = ValueError;

            fn from_str(text: &str) -> Result<Self, ValueError> {
                Self::parse(text)
            }
        }

        impl<const MAX: usize> Serialize for $name<MAX> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de, const MAX: usize> Deserialize<'de> for $name<MAX> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text(deserializer, Self::parse)
            }
        }

        #[cfg(feature = "schema")]
        impl<const MAX: usize> JsonSchema for $name<MAX> {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                format!("{}{MAX}", stringify!($name)).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "minLength": $least,
                    "maxLength": MAX,
                    "pattern": $pattern,
                })
            }
        }
    };
}

bounded_text!(Raw, 0, r"^[^\x00]*$");
bounded_text!(Text, 1, r"^[^\x00]*[^\x00-\x20\x7F-\x9F][^\x00]*$");
bounded_text!(
    Line,
    1,
    r"^[^\x00-\x1F\x7F-\x9F]*[^\x00-\x20\x7F-\x9F][^\x00-\x1F\x7F-\x9F]*$"
);

/// An enum of few values that have names: `ALL`, `as_str`, `parse`, serde as text, and a schema that
/// lists them.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident: $expected:literal {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// Parses a name.
            ///
            /// # Errors
            /// When nothing has that name.
            pub fn parse(text: &str) -> Result<Self, $crate::ids::IdError> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err($crate::ids::IdError::new(text, $expected)),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        $crate::ids::parsed_text!($name);

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "enum": [$($text,)*]})
            }
        }
    };
}
pub(crate) use choice;
