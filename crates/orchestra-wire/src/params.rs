//! The parameters of MCP requests, found but not yet parsed: each known member of `params` and of
//! `_meta` as raw JSON. Which of them a method needs is left to the engine.

use std::borrow::Cow;

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Why members cannot be found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// The value is not an object.
    #[error("{0} must be an object")]
    NotAnObject(&'static str),
    /// A member occurs twice.
    #[error("duplicate key {0}")]
    Duplicate(&'static str),
}

macro_rules! fields {
    ($(#[$type_doc:meta])* $type:ident { $($(#[$doc:meta])* $field:ident = $key:literal;)* }) => {
        $(#[$type_doc])*
        #[derive(Debug, Default, Clone, Copy)]
        pub struct $type<'a> {
            $($(#[$doc])* pub $field: Option<&'a RawValue>,)*
            duplicate: Option<&'static str>,
            others: bool,
        }

        impl<'a> $type<'a> {
            /// No members.
            pub const NONE: Self = Self { $($field: None,)* duplicate: None, others: false };

            /// Whether there are members that MCP does not know.
            #[must_use]
            pub const fn has_others(&self) -> bool {
                self.others
            }

            /// Finds the members of `value`; an absent or `null` value and an empty array, which some
            /// languages write for an empty object, have none. `what` names the value in errors.
            ///
            /// # Errors
            /// When the value is not an object, or a known member occurs twice.
            pub fn find(
                value: Option<&'a RawValue>,
                what: &'static str,
            ) -> Result<Self, FieldsError> {
                let is_empty = |value: &&RawValue| matches!(value.get(), "null" | "[]");
                let Some(value) = value.filter(|value| !is_empty(value)) else {
                    return Ok(Self::default());
                };
                if !value.get().starts_with('{') {
                    return Err(FieldsError::NotAnObject(what));
                }
                let fields: Self = serde_json::from_str(value.get())
                    .map_err(|_| FieldsError::NotAnObject(what))?;
                fields.check()
            }

            fn check(self) -> Result<Self, FieldsError> {
                match self.duplicate {
                    Some(key) => Err(FieldsError::Duplicate(key)),
                    None => Ok(self),
                }
            }
        }

        const _: () = {
            #[allow(non_camel_case_types, reason = "variants are named as the fields are")]
            enum Key { $($field,)* Other }

            struct KeyVisitor;

            impl Visitor<'_> for KeyVisitor {
                type Value = Key;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("a key")
                }

                fn visit_bytes<E: de::Error>(self, key: &[u8]) -> Result<Key, E> {
                    Ok(match std::str::from_utf8(key) {
                        $(Ok($key) => Key::$field,)*
                        _ => Key::Other,
                    })
                }
            }

            impl<'de> Deserialize<'de> for Key {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    // A key may be no Unicode.
                    deserializer.deserialize_bytes(KeyVisitor)
                }
            }

            struct FieldsVisitor;

            impl<'de> Visitor<'de> for FieldsVisitor {
                type Value = $type<'de>;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$type<'de>, A::Error> {
                    $type::from_map(map)
                }
            }

            impl<'de> $type<'de> {
                fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
                    let mut fields = Self::default();
                    while let Some(key) = map.next_key::<Key>()? {
                        match key {
                            $(Key::$field => {
                                if fields.$field.replace(map.next_value()?).is_some() {
                                    fields.duplicate = Some($key);
                                }
                            })*
                            Key::Other => {
                                map.next_value::<IgnoredAny>()?;
                                fields.others = true;
                            }
                        }
                    }
                    Ok(fields)
                }
            }

            impl<'de> Deserialize<'de> for $type<'de> {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_map(FieldsVisitor)
                }
            }
        };
    };
}

fields! {
    /// Members of `params` that MCP knows; all others are ignored.
    Fields {
        /// Name of a tool or prompt.
        name = "name";
        /// Arguments of a tool or prompt.
        arguments = "arguments";
        /// Metadata of the request.
        meta = "_meta";
        /// URI of a resource.
        uri = "uri";
        /// Where a list goes on.
        cursor = "cursor";
        /// What a completion refers to.
        reference = "ref";
        /// The argument to complete.
        argument = "argument";
        /// Arguments already known to a completion.
        context = "context";
        /// A log level.
        level = "level";
        /// What a listener wants to hear.
        notifications = "notifications";
        /// The request that is cancelled.
        request_id = "requestId";
        /// Why it is cancelled.
        reason = "reason";
        /// Answers to an input-required result.
        input_responses = "inputResponses";
        /// State of an input-required result.
        request_state = "requestState";
        /// The task that is meant.
        task_id = "taskId";
        /// The revision that `initialize` asks for.
        protocol_version = "protocolVersion";
        /// What the client can do (`initialize`).
        capabilities = "capabilities";
        /// Who the client is (`initialize`).
        client_info = "clientInfo";
    }
}

fields! {
    /// Members of `_meta` that are known; all others are ignored.
    MetaFields {
        /// The token for progress.
        progress_token = "progressToken";
        /// W3C trace context.
        traceparent = "traceparent";
        /// The revision of a stateless request.
        protocol_version = "io.modelcontextprotocol/protocolVersion";
        /// Who the client is.
        client_info = "io.modelcontextprotocol/clientInfo";
        /// What the client can do.
        client_capabilities = "io.modelcontextprotocol/clientCapabilities";
        /// The log level that the request asks for.
        log_level = "io.modelcontextprotocol/logLevel";
        /// What the caller of a session's request can do, where the session is of several.
        caller_capabilities = "orchestra/clientCapabilities";
    }
}

/// The `params` of a message, their members found in the same pass as the envelope's.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all parameters are objects, and none is stored"
)]
#[derive(Debug, Default, Clone, Copy)]
pub enum Params<'a> {
    /// There are none, or they are `null` or an empty array.
    #[default]
    Absent,
    /// An object.
    Object(Fields<'a>),
    /// Something that no method of MCP takes.
    Other,
}

impl<'a> Params<'a> {
    /// The members.
    ///
    /// # Errors
    /// When the parameters are not an object, or a known member occurs twice.
    pub fn fields(&self) -> Result<&Fields<'a>, FieldsError> {
        match self {
            Self::Absent => Ok(const { &Fields::NONE }),
            Self::Object(fields) => match fields.duplicate {
                Some(key) => Err(FieldsError::Duplicate(key)),
                None => Ok(fields),
            },
            Self::Other => Err(FieldsError::NotAnObject("params")),
        }
    }
}

impl<'de> Deserialize<'de> for Params<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParamsVisitor)
    }
}

/// Parameters that no type of Rust holds: a number beyond the range of floats, a text that is no Unicode.
pub(crate) struct Odd;

impl<'de> Deserialize<'de> for Odd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl From<Odd> for Params<'_> {
    fn from(_: Odd) -> Self {
        Self::Other
    }
}

struct ParamsVisitor;

impl<'de> Visitor<'de> for ParamsVisitor {
    type Value = Params<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Fields::from_map(map).map(Params::Object)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        if seq.next_element::<IgnoredAny>()?.is_none() {
            return Ok(Params::Absent);
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Params::Other)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Params::Absent)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Params::Other)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Params::Other)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Params::Other)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Params::Other)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Params::Other)
    }
}

/// The text of a raw string; `None` when the value is something else or not valid Unicode.
#[must_use]
pub fn text_of(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(value.get())
        .ok()
        .map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn known_members_are_found_raw_and_unknown_ones_ignored() {
        let params = raw(r#"{"name":"a\"b","arguments":{"x": 1e5},"other":[[]],"_meta":{}}"#);
        let fields = Fields::find(Some(params), "params").unwrap();
        assert_eq!(fields.arguments.unwrap().get(), r#"{"x": 1e5}"#);
        assert_eq!(text_of(fields.name.unwrap()).unwrap(), "a\"b");
        assert!(fields.uri.is_none());
        assert!(fields.has_others());
        let fields = Fields::find(Some(raw(r#"{"name":"a"}"#)), "params").unwrap();
        assert!(!fields.has_others());
    }

    #[test]
    fn parameters_that_are_no_object_have_no_fields() {
        let fields = |text| {
            let params = serde_json::from_str::<Params<'_>>(text).unwrap();
            params.fields().map(|fields| fields.name.is_some())
        };
        assert_eq!(fields(r#"{"name":1}"#), Ok(true));
        assert_eq!(fields("null"), Ok(false));
        assert_eq!(fields("[]"), Ok(false));
        for text in ["[{}]", "1", "-1", "1.5", "\"x\"", "true"] {
            assert!(fields(text).is_err(), "{text}");
        }
    }

    #[test]
    fn absent_and_null_have_no_members_and_other_values_are_refused() {
        assert!(Fields::find(None, "params").unwrap().name.is_none());
        assert!(
            Fields::find(Some(raw("null")), "params")
                .unwrap()
                .name
                .is_none()
        );
        // Languages whose empty map is an empty array send one for an object without members.
        assert!(Fields::find(Some(raw("[]")), "params").is_ok());
        for text in ["[1]", "1", "\"x\""] {
            let error = Fields::find(Some(raw(text)), "params").unwrap_err();
            assert_eq!(error.to_string(), "params must be an object");
        }
        let error = Fields::find(Some(raw(r#"{"uri":"a","uri":"b"}"#)), "params").unwrap_err();
        assert_eq!(error.to_string(), "duplicate key uri");
    }

    #[test]
    fn text_with_lone_surrogates_is_no_text() {
        assert_eq!(text_of(raw(r#""\ud800""#)), None);
        assert_eq!(text_of(raw("12")), None);
        assert_eq!(text_of(raw(r#""plain""#)).unwrap(), "plain");
    }
}
