//! The members of a JSON object that is kept as text, found in one pass without a tree: strings are
//! skipped by a vectorised search, everything else byte by byte. What the values hold is left to
//! whoever parses them.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;

use crate::{RawJson, readable::readable};

/// One member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its key, with escapes resolved. U+FFFD takes the place of half of a surrogate pair.
    pub key: Cow<'a, str>,
    /// Its value, which shares the text of the object.
    pub value: RawJson,
}

/// The members of an object, in the order in which they stand; the same key may come twice.
#[derive(Debug, Clone)]
pub struct Members<'a> {
    text: &'a Bytes,
    at: usize,
}

impl<'a> Members<'a> {
    /// Of a text that is one JSON value; `None` when it is no object.
    pub(crate) fn of(text: &'a Bytes) -> Option<Self> {
        let at = skip_space(text, 0);
        (text.get(at) == Some(&b'{')).then_some(Self { text, at: at + 1 })
    }

    fn str(&self, range: Range<usize>) -> &'a str {
        let bytes = &self.text[range];
        std::str::from_utf8(bytes).expect("cut out of valid UTF-8 at ASCII bytes")
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let mut at = skip_space(self.text, self.at);
        if self.text.get(at) == Some(&b',') {
            at = skip_space(self.text, at + 1);
        }
        if self.text.get(at) != Some(&b'"') {
            return None;
        }
        let key = at..skip_string(self.text, at);
        // Behind the colon.
        let value = skip_space(self.text, skip_space(self.text, key.end) + 1);
        let end = skip_value(self.text, value);
        if value >= end {
            return None;
        }
        self.at = end;
        Some(Member {
            key: decoded(self.str(key)),
            value: RawJson::part(self.text.slice(value..end)),
        })
    }
}

/// The text of a quoted key.
fn decoded(quoted: &str) -> Cow<'_, str> {
    let inner = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or_default();
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    serde_json::from_str(quoted)
        .or_else(|_| serde_json::from_str(&readable(quoted)))
        .map_or(Cow::Borrowed(inner), Cow::Owned)
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Behind the string that begins at `at`.
fn skip_string(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(rest) = text.get(at..) {
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(found) if rest[found] == b'"' => return at + found + 1,
            Some(found) => at += found + 2,
            None => break,
        }
    }
    text.len()
}

/// Behind the value that begins at `at`.
fn skip_value(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    loop {
        match text.get(at) {
            None => return text.len(),
            Some(b'"') => at = skip_string(text, at),
            Some(b'{' | b'[') => {
                depth += 1;
                at += 1;
            }
            Some(b'}' | b']') if depth == 0 => return at,
            Some(b'}' | b']') => {
                depth -= 1;
                at += 1;
            }
            Some(_) if depth > 0 => {
                at += 1;
                continue;
            }
            // A number or a word: up to what ends it.
            Some(_) => {
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
                let length = text[at..].iter().position(is_end);
                return length.map_or(text.len(), |length| at + length);
            }
        }
        if depth == 0 {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(text: &str) -> Option<Vec<(String, String)>> {
        let value: &serde_json::value::RawValue = serde_json::from_str(text).unwrap();
        let raw = RawJson::from_raw(value);
        let members = raw.members()?;
        Some(
            members
                .map(|member| (member.key.into_owned(), member.value.as_str().to_owned()))
                .collect(),
        )
    }

    #[test]
    fn members_stand_as_they_came() {
        let text = "{ \"a\" : 1 ,\n\"b\\u0063\":[ {\"x\":\"]}\\\"\"} ],\"a\":null,\"\":\"q\\\\\" , \"t\":true}";
        let expected = [
            ("a", "1"),
            ("bc", "[ {\"x\":\"]}\\\"\"} ]"),
            ("a", "null"),
            ("", "\"q\\\\\""),
            ("t", "true"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(members(text), Some(expected.to_vec()));
        let half = Some(vec![("a\u{fffd}b".to_owned(), "\"\\udc00\"".to_owned())]);
        assert_eq!(members(r#"{"a\ud800b":"\udc00"}"#), half);
        assert_eq!(members(" {} "), Some(Vec::new()));
        for text in ["[]", "1", "\"{}\"", "null"] {
            assert_eq!(members(text), None, "{text}");
        }
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_member_of_any_object_is_found(
            map in prop::collection::btree_map(any::<String>(), value(), 0..8),
            pretty in any::<bool>(),
        ) {
            let object = serde_json::Value::Object(map.into_iter().collect());
            let text = match pretty {
                true => serde_json::to_string_pretty(&object).unwrap(),
                false => object.to_string(),
            };
            let found = members(&text).unwrap().into_iter();
            let found = found.map(|(key, value)| (key, serde_json::from_str(&value).unwrap()));
            prop_assert_eq!(serde_json::Value::Object(found.collect()), object);
        }
    }
}
