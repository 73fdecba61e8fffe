//! Arguments that are more than text or numbers: parsed by the types of the board, with the board's
//! own words for what is wrong.

use std::{fmt, marker::PhantomData};

use orchestra_board::{
    AgentName, Body, IssueId, Kind, Label, PlanId, Priority, RequestKind, SessionId, Slug, State,
    Timestamp, Title, Version,
};
use orchestra_store::{ChunkId, Cursor};
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, Unexpected, Visitor},
};

/// A value that is text in a call.
pub(crate) trait FromText: Sized {
    /// Parses the text; the error says what was expected.
    fn from_text(text: &str) -> Result<Self, String>;

    /// The values it can have, if they are few.
    fn choices() -> Vec<&'static str> {
        Vec::new()
    }
}

/// A value out of a few that have names.
pub(crate) trait Choice: Copy + 'static {
    /// The name on the wire.
    fn name(self) -> &'static str;
}

/// An argument of type `T`, written as text.
#[derive(Debug, Clone)]
pub(crate) struct Arg<T>(pub(crate) T);

/// The values of a list, each once, in the order in which they were given. One of more than `MAX` is
/// refused before it is read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Many<T, const MAX: usize = MANY>(pub(crate) Vec<T>);

/// More than anything has of anything, for lists whose own bounds are told by whoever keeps them.
const MANY: usize = 256;

impl<T, const MAX: usize> Default for Many<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A whole number in a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number<const MIN: u32, const MAX: u32>(u32);

/// How many items of a list are wanted.
pub(crate) type Limit = Number<1, 500>;

/// A number of tokens; a fraction is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub(crate) f64);

/// An amount of money.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Money(pub(crate) f64);

impl<const MIN: u32, const MAX: u32> Number<MIN, MAX> {
    /// The number.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

macro_rules! from_text {
    ($($name:ty),* $(,)?) => {$(
        impl FromText for $name {
            fn from_text(text: &str) -> Result<Self, String> {
                Self::parse(text).map_err(|error| error.to_string())
            }
        }
    )*};
}
from_text!(
    Slug, IssueId, AgentName, Label, SessionId, PlanId, Title, Body, Cursor, ChunkId, Timestamp
);

/// A text of at most `MAX` bytes, which is less than any other text may have.
#[derive(Debug, Clone)]
pub(crate) struct Short<const MAX: usize>(pub(crate) Body);

impl<const MAX: usize> FromText for Short<MAX> {
    fn from_text(text: &str) -> Result<Self, String> {
        if text.len() > MAX {
            return Err(format!(
                "is too long: at most {MAX} bytes; save it in parts, or shorten it"
            ));
        }
        Body::from_text(text).map(Self)
    }
}

macro_rules! choice {
    ($($name:ty),* $(,)?) => {$(
        impl Choice for $name {
            fn name(self) -> &'static str {
                self.as_str()
            }
        }

        impl FromText for $name {
            fn from_text(text: &str) -> Result<Self, String> {
                Self::parse(text).ok_or_else(|| not_one_of(text, &Self::choices()))
            }

            fn choices() -> Vec<&'static str> {
                Self::ALL.iter().map(|choice| choice.as_str()).collect()
            }
        }
    )*};
}
choice!(State, Kind, Priority, RequestKind);

pub(crate) fn not_one_of(text: &str, choices: &[&str]) -> String {
    let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    format!("`{shown}` is not one of {}", choices.join(", "))
}

impl FromText for Version {
    fn from_text(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| {
            "expected the 16 hexadecimal digits of a version, as it was read".to_owned()
        })
    }
}

impl<'de, T: FromText> Deserialize<'de> for Arg<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_str(TextVisitor(PhantomData))
            .map(Self)
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: FromText> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match T::choices().as_slice() {
            [] => f.write_str("a string"),
            choices => write!(f, "one of {}", choices.join(", ")),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).map_err(E::custom)
    }
}

#[cfg(feature = "schema")]
impl<T: FromText> JsonSchema for Arg<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Arg".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match T::choices().as_slice() {
            [] => json_schema!({"type": "string"}),
            choices => json_schema!({"type": "string", "enum": choices}),
        }
    }
}

impl<'de, T: FromText + PartialEq, const MAX: usize> Deserialize<'de> for Many<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ManyVisitor(PhantomData))
    }
}

struct ManyVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: FromText + PartialEq, const MAX: usize> Visitor<'de> for ManyVisitor<T, MAX> {
    type Value = Many<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Arg(value)) = list.next_element()? {
            if values.contains(&value) {
                continue;
            }
            if values.len() == MAX {
                let error = format!("is too long: at most {MAX} values");
                return Err(de::Error::custom(error));
            }
            values.push(value);
        }
        Ok(Many(values))
    }
}

#[cfg(feature = "schema")]
impl<T: FromText, const MAX: usize> JsonSchema for Many<T, MAX> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Many".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let of = Arg::<T>::json_schema(generator);
        json_schema!({"type": "array", "items": of})
    }
}

struct NumberVisitor {
    expected: &'static str,
}

impl Visitor<'_> for NumberVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers that large are refused anyway"
    )]
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers that large are refused anyway"
    )]
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Number<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = deserializer.deserialize_any(NumberVisitor {
            expected: "a whole number",
        })?;
        if number.fract() == 0.0 && (f64::from(MIN)..=f64::from(MAX)).contains(&number) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be in range"
            )]
            return Ok(Self(number as u32));
        }
        let expected = format!("a whole number from {MIN} to {MAX}");
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number, shown only"
        )]
        let unexpected = match number.fract() == 0.0 {
            true => Unexpected::Signed(number as i64),
            false => Unexpected::Float(number),
        };
        Err(de::Error::invalid_value(unexpected, &expected.as_str()))
    }
}

#[cfg(feature = "schema")]
impl<const MIN: u32, const MAX: u32> JsonSchema for Number<MIN, MAX> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer"})
    }
}

macro_rules! plain_number {
    ($($name:ident expects $expected:literal),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(NumberVisitor { expected: $expected }).map(Self)
            }
        }

        #[cfg(feature = "schema")]
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "number"})
            }
        }
    )*};
}
plain_number!(Count expects "a number of tokens", Money expects "an amount");
