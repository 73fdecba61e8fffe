//! Lists that are no longer than they may be.

use std::{fmt, marker::PhantomData, ops::Deref, slice, vec};

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A list of `MIN` to `MAX` values. One that is longer is refused before it is read to its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<T, const MIN: usize, const MAX: usize> List<T, MIN, MAX> {
    /// The values as a list; `None` when they are too few or too many.
    #[must_use]
    pub fn new(values: Vec<T>) -> Option<Self> {
        (MIN..=MAX).contains(&values.len()).then_some(Self(values))
    }

    /// The list of what each value becomes.
    #[must_use]
    pub fn map<U>(self, of: impl FnMut(T) -> U) -> List<U, MIN, MAX> {
        List(self.0.into_iter().map(of).collect())
    }

    /// The values.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MAX: usize> Default for List<T, 0, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MIN: usize, const MAX: usize> Deref for List<T, MIN, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MIN: usize, const MAX: usize> IntoIterator for List<T, MIN, MAX> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T, const MIN: usize, const MAX: usize> IntoIterator for &'a List<T, MIN, MAX> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Deserialize<'de>
    for List<T, MIN, MAX>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Visitor(PhantomData))
    }
}

struct Visitor<T, const MIN: usize, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> de::Visitor<'de>
    for Visitor<T, MIN, MAX>
{
    type Value = List<T, MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while values.len() < MAX {
            let Some(value) = list.next_element()? else {
                break;
            };
            values.push(value);
        }
        if values.len() == MAX && list.next_element::<de::IgnoredAny>()?.is_some() {
            let error = format!("is too long: at most {MAX} values");
            return Err(de::Error::custom(error));
        }
        if values.len() < MIN {
            let error = format!("is too short: at least {MIN}");
            return Err(de::Error::custom(error));
        }
        Ok(List(values))
    }
}

#[cfg(feature = "schema")]
impl<T: JsonSchema, const MIN: usize, const MAX: usize> JsonSchema for List<T, MIN, MAX> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("ListOf{}From{MIN}To{MAX}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        match MIN {
            0 => json_schema!({"type": "array", "items": items, "maxItems": MAX}),
            _ => json_schema!({
                "type": "array", "items": items, "minItems": MIN, "maxItems": MAX,
            }),
        }
    }
}
