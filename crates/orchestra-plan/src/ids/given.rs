//! Producer ids that a caller gives to jobs: all but the reserved one.

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::ProducerId;
use crate::value::{List, or_default, text};

/// A producer id that a caller gives.
pub(crate) struct Given(ProducerId);

/// Reads a producer id that a caller gives.
pub(crate) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ProducerId, D::Error> {
    Given::deserialize(deserializer).map(|Given(id)| id)
}

/// Reads a list of producer ids that a caller gives.
pub(crate) fn given_list<'de, D: Deserializer<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<List<ProducerId, 0, MAX>, D::Error> {
    let given: List<Given, 0, MAX> = or_default(deserializer)?;
    Ok(given.map(|Given(id)| id))
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, ProducerId::of_caller).map(Self)
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Given {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CallersProducerId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": ProducerId::PATTERN})
    }
}
