//! Arguments that several tools of plans take.

use orchestra_plan::ids::ProducerId;
use orchestra_plan::spec::IdempotencyKey;
use orchestra_plan::value::Whole;
use orchestra_plan::work::WorkSpec;
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::keys::key_of;
use crate::failure::Failure;
use crate::plan_service::Asking;
use crate::tool::PlanCx;

/// How a caller names something: any text. What it names is looked up, so that the answer to one that
/// names nothing says what there is.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct Named(pub(super) String);

#[cfg(feature = "schema")]
impl JsonSchema for Named {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Named".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// The cursor of a page. An empty one means the first page.
pub(super) fn cursor_of(given: Option<&Named>) -> Option<&str> {
    let cursor = given.map(|cursor| cursor.0.as_str());
    cursor.filter(|cursor| !cursor.is_empty())
}

/// The version of a plan that a caller has seen.
pub(super) type Seen = Whole<0, { u64::MAX }>;

/// Something that is changed on conditions.
pub(super) trait OnConditions {
    /// The plan, as the caller names it.
    fn plan(&self) -> &str;

    /// The conditions, and for the log of the plan, who asks.
    ///
    /// # Errors
    /// When the key is none.
    fn asking(&self, cx: &PlanCx) -> Result<Asking, Failure>;
}

/// The key under which a plan is made, and who asks.
pub(super) fn making(cx: &PlanCx, key: Option<&IdempotencyKey>) -> Asking {
    Asking {
        by: Some(cx.by()),
        key: key.map(|key| key.as_str().to_owned()),
        expected_version: None,
    }
}

/// Conditions of a change and who asks, as they go to whoever runs the plans.
///
/// # Errors
/// When the key is none.
pub(super) fn changed(
    cx: &PlanCx,
    version: Option<Seen>,
    key: Option<&str>,
) -> Result<Asking, Failure> {
    let key = key.map(|key| key_of(cx.tool, &cx.arguments, key));
    Ok(Asking {
        by: Some(cx.by()),
        key: key.transpose()?,
        expected_version: version.map(Whole::get),
    })
}

/// Arguments of a tool that changes a plan: behind its own come those that every such tool takes.
macro_rules! changing {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $of:ty,)* }) => {
        $(#[$meta])*
        #[derive(serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(super) struct $name {
            plan_id: $crate::groups::plans::args::Named,
            $($(#[$field_meta])* $field: $of,)*
            version: Option<$crate::groups::plans::args::Seen>,
            idempotency_key: Option<$crate::groups::plans::args::Named>,
        }

        impl $crate::groups::plans::args::OnConditions for $name {
            fn plan(&self) -> &str {
                &self.plan_id.0
            }

            fn asking(
                &self,
                cx: &$crate::tool::PlanCx,
            ) -> Result<$crate::plan_service::Asking, $crate::failure::Failure> {
                let key = self.idempotency_key.as_ref().map(|key| key.0.as_str());
                $crate::groups::plans::args::changed(cx, self.version, key)
            }
        }
    };
}
pub(super) use changing;

/// A value, or `null` for that there is none from now on.
#[derive(Debug, Clone)]
pub(super) struct OrNone<T>(pub(super) Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrNone<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self)
    }
}

/// Reads an argument whose `null` is not the same as its absence.
pub(super) fn given<'de, D, T>(deserializer: D) -> Result<Option<OrNone<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    OrNone::deserialize(deserializer).map(Some)
}

/// Work where a model is not told its form again: any text, and any object. What it is not is told when it
/// is read, as that of a branch or of a name of a job.
#[derive(Debug, Clone)]
pub(super) struct AnyWork(Value);

impl AnyWork {
    /// The work.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn read(self, argument: &str) -> Result<WorkSpec, Failure> {
        let read = serde_json::from_value(self.0);
        read.map_err(|error| {
            let error: String = error.to_string().chars().take(600).collect();
            Failure::coded("invalid-work", format!("argument `{argument}`: {error}"))
        })
    }

    /// Work that may not be there.
    pub(super) fn maybe(work: Option<Self>, argument: &str) -> Result<Option<WorkSpec>, Failure> {
        work.map(|work| work.read(argument)).transpose()
    }

    /// A check that may be taken away, or not be there.
    pub(super) fn check(
        check: NewCheck,
        argument: &str,
    ) -> Result<Option<Option<WorkSpec>>, Failure> {
        let read = |OrNone(work): OrNone<Self>| Self::maybe(work, argument);
        check.map(read).transpose()
    }
}

impl<'de> Deserialize<'de> for AnyWork {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value {
            Value::String(_) | Value::Object(_) => Ok(Self(value)),
            _ => Err(de::Error::custom(
                "expected a command line, `@agent` and a task, or an object with a `type`",
            )),
        }
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for AnyWork {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnyWork".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "object"]})
    }
}

#[cfg(feature = "schema")]
impl AnyWork {
    /// The schema of work that may be taken away.
    pub(super) fn or_none(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "object", "null"], "x-null": true})
    }
}

/// A check that is replaced, or taken away.
pub(super) type NewCheck = Option<OrNone<AnyWork>>;

/// A producer id that a caller gives to a job: any but the reserved one.
#[derive(Debug, Clone)]
pub(super) struct OwnId(pub(super) ProducerId);

impl<'de> Deserialize<'de> for OwnId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let id = ProducerId::of_caller(&text);
        id.map(Self).map_err(de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for OwnId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OwnId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": ProducerId::PATTERN})
    }
}
