//! Two objects that are answered as one.

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer, ser};
#[cfg(feature = "schema")]
use serde_json::Value;
use serde_json::value::RawValue;

/// The fields of both, those of the first before those of the second. Both have to be objects, of which no
/// field is in both.
#[derive(Debug, Clone)]
pub(crate) struct Joined<A, B>(pub(crate) A, pub(crate) B);

impl<A: Serialize, B: Serialize> Serialize for Joined<A, B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |text: serde_json::Result<String>| text.map_err(ser::Error::custom);
        let first = text(serde_json::to_string(&self.0))?;
        let second = text(serde_json::to_string(&self.1))?;
        let no_object = || ser::Error::custom("only objects can be joined");
        let inner = |text: &str| text.strip_prefix('{')?.strip_suffix('}').map(str::to_owned);
        let first = inner(&first).ok_or_else(no_object)?;
        let second = inner(&second).ok_or_else(no_object)?;
        let comma = match first.is_empty() || second.is_empty() {
            true => "",
            false => ",",
        };
        let whole = RawValue::from_string(format!("{{{first}{comma}{second}}}"));
        whole.map_err(ser::Error::custom)?.serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl<A: JsonSchema, B: JsonSchema> JsonSchema for Joined<A, B> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}And{}", A::schema_name(), B::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut whole = A::json_schema(generator).to_value();
        let second = B::json_schema(generator).to_value();
        let properties = second["properties"].as_object().cloned();
        if let Some(all) = whole["properties"].as_object_mut() {
            all.extend(properties.into_iter().flatten());
        }
        let required = second["required"].as_array().cloned();
        if let (Some(more), Some(fields)) = (required, whole.as_object_mut()) {
            let all = fields
                .entry("required")
                .or_insert_with(|| Value::Array(Vec::new()));
            all.as_array_mut()
                .into_iter()
                .for_each(|all| all.extend(more.clone()));
        }
        Schema::try_from(whole).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Serialize;

    use super::Joined;
    use crate::schema::derive;

    #[derive(Serialize, JsonSchema)]
    struct First {
        a: u32,
    }

    #[derive(Serialize, JsonSchema)]
    struct Second {
        #[serde(skip_serializing_if = "Option::is_none")]
        b: Option<u32>,
    }

    #[test]
    fn two_objects_become_one_and_so_do_their_schemas() {
        let text = |b| serde_json::to_string(&Joined(First { a: 1 }, Second { b })).unwrap();
        assert_eq!(
            (text(Some(2)).as_str(), text(None).as_str()),
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#)
        );
        let value = serde_json::to_value(Joined(First { a: 1 }, Second { b: Some(2) })).unwrap();
        assert_eq!(value, serde_json::json!({"a": 1, "b": 2}));
        assert_eq!(
            derive::output::<Joined<First, Second>>(),
            r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a"]}"#
        );
        assert!(serde_json::to_string(&Joined(1, First { a: 1 })).is_err());
    }
}
