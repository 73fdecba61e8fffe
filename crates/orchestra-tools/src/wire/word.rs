//! Values out of a few that have names, and counts by such a value.

use orchestra_board::{Kind, State};
use orchestra_store::Census;
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::args::Choice;
#[cfg(feature = "schema")]
use crate::args::{Arg, FromText};

/// A value that is answered by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word<T>(pub(crate) T);

impl<T: Choice> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

#[cfg(feature = "schema")]
impl<T: FromText> JsonSchema for Word<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Word".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Arg::<T>::json_schema(generator)
    }
}

/// How many there are of each; only those that occur, in the order of the workflow.
#[derive(Debug)]
pub(crate) struct Counts(Vec<(&'static str, u64)>);

impl Counts {
    /// Tasks, bugs and hotfixes by state.
    pub(crate) fn by_state(census: &Census) -> Self {
        Self::of(
            State::ALL
                .into_iter()
                .map(|state| (state.as_str(), census.leaves_in(state))),
        )
    }

    /// Tasks, bugs and hotfixes by kind.
    pub(crate) fn by_kind(census: &Census) -> Self {
        let leaves = Kind::ALL.into_iter().filter(|kind| kind.is_leaf());
        Self::of(leaves.map(|kind| (kind.as_str(), census.of_kind(kind))))
    }

    fn of(counts: impl Iterator<Item = (&'static str, u64)>) -> Self {
        Self(counts.filter(|(_, count)| *count > 0).collect())
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, count) in &self.0 {
            map.serialize_entry(name, count)?;
        }
        map.end()
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Counts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Counts".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": {"type": "integer"}})
    }
}
