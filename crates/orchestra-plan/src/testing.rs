//! What the tests of this crate share: values read from JSON, and the question whether a schema and
//! the reading of a value say the same.

use jsonschema::Validator;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a value, or says where it is wrong and how.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    let text = value.to_string();
    let mut reader = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let inner = error.inner().to_string();
        let (message, _) = inner.rsplit_once(" at line").unwrap_or((&inner, ""));
        format!("{}: {message}", error.path())
    })
}

/// What a type shows of itself to who writes it.
pub(crate) fn schema<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// A type, and the schema that it shows.
pub(crate) struct Advertised {
    validator: Validator,
}

impl Advertised {
    pub(crate) fn of<T: JsonSchema>() -> Self {
        let validator = jsonschema::validator_for(&schema::<T>()).unwrap();
        Self { validator }
    }

    /// Holds what is shown against what is enforced.
    pub(crate) fn agrees<T: DeserializeOwned>(&self, value: &Value) -> Result<(), String> {
        let shown = self.validator.validate(value).map_err(|e| e.to_string());
        let enforced = read::<T>(value).map(|_| ());
        match shown.is_ok() == enforced.is_ok() {
            true => Ok(()),
            false => Err(format!(
                "{value:.300}: the schema says {shown:?}, reading says {enforced:?}"
            )),
        }
    }
}
