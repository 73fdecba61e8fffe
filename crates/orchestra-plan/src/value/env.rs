//! Variables of the environment that a job's processes see. Their values may be secret, so nothing
//! here shows them by accident.

use std::{collections::BTreeMap, fmt, sync::Arc};

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{Raw, ValueError};
use crate::ids::{IdError, text_id};

/// The name of a variable: 1 to 256 characters, neither `=` nor control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnvName(Arc<str>);

/// The value of a variable: at most 32 768 characters, without NUL. Its debug form hides it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EnvValue(Raw<32_768>);

/// At most 256 variables, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Env(BTreeMap<EnvName, EnvValue>);

impl EnvName {
    const MAX_CHARS: usize = 256;

    /// Parses a name.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let legal = !text.is_empty()
            && text.chars().nth(Self::MAX_CHARS).is_none()
            && !text.contains(|c: char| c == '=' || c.is_control());
        let expected = "the name of an environment variable: 1 to 256 characters, no =";
        legal
            .then(|| Self(text.into()))
            .ok_or_else(|| IdError::new(text, expected))
    }
}

text_id!(EnvName);

impl EnvValue {
    /// Parses a value; it may be empty.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        Raw::parse(text).map(Self)
    }

    /// The value, for who starts the process.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for EnvValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Env {
    /// The most variables.
    pub const MAX: usize = 256;

    /// The variables as an environment; `None` when they are too many.
    #[must_use]
    pub fn new(variables: BTreeMap<EnvName, EnvValue>) -> Option<Self> {
        (variables.len() <= Self::MAX).then_some(Self(variables))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The same names with values that may be shown: what only names another variable stays, all else
    /// becomes `***`.
    #[must_use]
    pub fn masked(&self) -> Self {
        let hidden = EnvValue::parse("***").ok();
        let shown = |value: &EnvValue| match is_reference(value.as_str()) {
            true => Some(value.clone()),
            false => hidden.clone(),
        };
        let masked = self.0.iter();
        Self(
            masked
                .filter_map(|(name, value)| Some((name.clone(), shown(value)?)))
                .collect(),
        )
    }

    /// The variables in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of a variable.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let name = EnvName::parse(name).ok()?;
        self.0.get(&name).map(EnvValue::as_str)
    }
}

/// Whether a value is wholly the name of another variable: `$NAME`, `${NAME}` or `%NAME%`.
fn is_reference(value: &str) -> bool {
    let inner = |open: &str, close: &str| value.strip_prefix(open)?.strip_suffix(close);
    let name = inner("${", "}")
        .or_else(|| inner("%", "%"))
        .or_else(|| inner("$", ""));
    let plain = |name: &str| {
        let mut chars = name.bytes();
        let first = chars.next();
        first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && chars.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    name.is_some_and(plain)
}

impl<'de> Deserialize<'de> for Env {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Visitor)
    }
}

struct Visitor;

impl<'de> de::Visitor<'de> for Visitor {
    type Value = Env;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object whose values are strings")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Env, A::Error> {
        let mut variables = BTreeMap::new();
        while let Some(name) = map.next_key::<EnvName>()? {
            if variables.len() == Env::MAX && !variables.contains_key(&name) {
                let error = format!("is too long: at most {} variables", Env::MAX);
                return Err(de::Error::custom(error));
            }
            variables.insert(name, map.next_value()?);
        }
        Ok(Env(variables))
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Env {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Env".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = Raw::<32_768>::json_schema(generator);
        json_schema!({
            "type": "object",
            "maxProperties": Self::MAX,
            "propertyNames": {
                "maxLength": EnvName::MAX_CHARS,
                "pattern": r"^[^=\x00-\x1F\x7F-\x9F]+$",
            },
            "additionalProperties": value,
        })
    }
}
