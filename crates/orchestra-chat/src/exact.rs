//! JSON as its specification has it, where no name occurs twice in an object.

use std::fmt;

use orchestra_wire::large_integer;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::repair::Fault;

/// Reads a text that is one JSON value. No value holds all digits of a larger integer than one of 64 bits.
///
/// # Errors
/// The fault of the text.
pub(crate) fn value(text: &str) -> Result<Value, Fault> {
    match serde_json::from_str::<Exact>(text) {
        Ok(Exact(value)) => match large_integer(text) {
            Some(integer) => Err(Fault::Unreadable(format!(
                "the integer {integer:.40} has more than 64 bits"
            ))),
            None => Ok(value),
        },
        Err(error) if error.is_eof() => Err(Fault::Incomplete),
        Err(error) => Err(Fault::Unreadable(error.to_string())),
    }
}

/// Arguments as a server sent them: the value, or the text where that is not JSON.
pub(crate) fn value_or_text(text: &str) -> Value {
    value(text).unwrap_or_else(|_| Value::from(text))
}

struct Exact(Value);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Exact;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Exact, E> {
        Ok(Exact(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Exact, E> {
        Ok(Exact(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Exact, E> {
        Ok(Exact(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Exact, E> {
        Ok(Exact(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Exact, E> {
        Ok(Exact(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Exact, E> {
        Ok(Exact(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Exact, E> {
        Ok(Exact(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Exact, A::Error> {
        let mut list = Vec::new();
        while let Some(Exact(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Exact(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Exact, A::Error> {
        let mut object = Map::new();
        while let Some((name, Exact(value))) = members.next_entry::<String, Exact>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("`{name}` occurs twice")));
            }
            object.insert(name, value);
        }
        Ok(Exact(object.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_as_serde_json_reads_it() {
        for text in [
            r#"{"a": [1, -2.5, 18446744073709551615, true, null, "x\n\u00e4"], "b": {}}"#,
            "[]",
            " null ",
            "\"text\"",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_text_has_a_fault() {
        for text in ["", "{", "{\"a\": \"b", "[1,"] {
            assert_eq!(value(text), Err(Fault::Incomplete), "{text}");
        }
        for (text, part) in [
            ("{\"a\": 1}}", "trailing characters"),
            ("{\"a\": 1}{\"b\": 2}", "trailing characters"),
            ("{'a': 1}", "key must be a string"),
            ("{\"a\": {\"b\": 1, \"b\": 2}}", "`b` occurs twice"),
            ("[18446744073709551616]", "18446744073709551616 has more"),
            ("-9223372036854775809", "has more than 64 bits"),
        ] {
            match value(text) {
                Err(Fault::Unreadable(why)) => assert!(why.contains(part), "{text}: {why}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
