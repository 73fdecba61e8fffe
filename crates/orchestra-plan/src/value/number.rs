//! Numbers in a range, and amounts of money.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Unexpected},
};

/// A whole number from `MIN` to `MAX`. It may be written as `10.0`, as JSON Schema has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Whole<const MIN: u64, const MAX: u64>(u64);

/// An amount of money above nothing, at most a million, in the currency that agents' costs are
/// told in; exact to a millionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Money {
    micros: u64,
}

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// The number, if it is in the range.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number >= MIN && number <= MAX {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Display for Whole<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Whole<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor)
    }
}

struct WholeVisitor<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> WholeVisitor<MIN, MAX> {
    fn checked<E: de::Error>(self, number: u64) -> Result<Whole<MIN, MAX>, E> {
        Whole::new(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

impl<const MIN: u64, const MAX: u64> de::Visitor<'_> for WholeVisitor<MIN, MAX> {
    type Value = Whole<MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {MIN} to {MAX}")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        self.checked(number)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        match u64::try_from(number) {
            Ok(number) => self.checked(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        /// Doubles are whole numbers without gaps up to here.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if number.fract() != 0.0 || !(0.0..=EXACT).contains(&number) {
            return Err(E::invalid_value(Unexpected::Float(number), &self));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be whole and in range"
        )]
        self.checked(number as u64)
    }
}

#[cfg(feature = "schema")]
impl<const MIN: u64, const MAX: u64> JsonSchema for Whole<MIN, MAX> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("WholeFrom{MIN}To{MAX}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX})
    }
}

impl Money {
    const MAX_MICROS: u64 = 1_000_000 * Self::ONE;
    const ONE: u64 = 1_000_000;

    /// The amount of this many millionths; `None` when that is nothing, or more than a million.
    #[must_use]
    pub fn of_micros(micros: u64) -> Option<Self> {
        (1..=Self::MAX_MICROS)
            .contains(&micros)
            .then_some(Self { micros })
    }

    /// How many millionths it is.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.micros
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be in range"
    )]
    fn of_number(number: f64) -> Option<Self> {
        (0.000_001..=1_000_000.0)
            .contains(&number)
            .then(|| (number * 1e6).round() as u64)
            .and_then(Self::of_micros)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "at most 10^12, which a double holds exactly"
    )]
    fn number(self) -> f64 {
        self.micros as f64 / 1e6
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.number())
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        Self::of_number(number).ok_or_else(|| {
            de::Error::invalid_value(
                Unexpected::Float(number),
                &"an amount from 0.000001 to 1000000",
            )
        })
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Money {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Money".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0.000_001, "maximum": 1_000_000})
    }
}
