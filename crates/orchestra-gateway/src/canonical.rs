//! JSON in one form, whatever order its members came in: for hashes and keys.

use orchestra_wire::RawJson;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{names::hex, policy::Unique};

/// A value with the members of its objects in the order of their names. Numbers stay as they are
/// read.
pub(crate) fn text(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// The hash of a JSON text, whatever order the members of its objects came in.
pub(crate) fn hash(raw: &RawJson) -> String {
    let value = raw.parse::<Unique>().and_then(|_| raw.parse::<Value>());
    let digest = match value {
        Ok(value) => Sha256::digest(text(&value).as_bytes()),
        // Nested too deep to be read, or a name occurs twice, and clients differ in the value that counts: as it came.
        Err(_) => Sha256::digest(raw.as_bytes()),
    };
    hex(&digest)
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            orchestra_sort::sort_by_key(&mut members, |(key, _)| key.as_str());
            text.push('{');
            for (at, (key, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_members_is_no_difference() {
        let hash = |text: &'static str| hash(&RawJson::checked(text.as_bytes().into()).unwrap());
        assert_eq!(
            hash(r#"{"b":[1,{"d":2,"c":"é"}],"a":null}"#),
            hash("{ \"a\": null,\n\"b\": [1, {\"c\":\"é\",\"d\":2}]}")
        );
        assert_ne!(hash("[1,2]"), hash("[2,1]"));
        assert_ne!(hash(r#"{"a":1,"a":2}"#), hash(r#"{"a":2}"#));
    }
}
