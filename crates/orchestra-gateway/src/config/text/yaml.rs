//! YAML. The parser tells places only with errors, so that a place is found by reading the file
//! again up to it.

use std::fmt;

use serde::{
    Deserialize as _,
    de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_norway::{Error, Value as Yaml};

use super::{
    super::node::{Member, Node, Path, Step, Value},
    TextError, number,
};
use crate::config::Place;

pub(super) fn parse(text: &str) -> Result<Node, TextError> {
    let wrong = |error: Error| TextError {
        place: place(&error).unwrap_or(Place::START),
        message: error.to_string(),
    };
    orchestra_fs::check_yaml_depth(text).map_err(|error| wrong(Error::custom(error)))?;
    let value: Yaml = serde_norway::from_str(text).map_err(wrong)?;
    Ok(node(merged(value).map_err(wrong)?))
}

/// Deepest chain of mappings that merge one another.
const MAX_MERGES: usize = 16;

/// Key by which a mapping takes over the members of another one (YAML 1.1, merge key).
const MERGE: &str = "<<";

/// Puts the members that mappings merge in the place of their merge keys.
///
/// # Errors
/// When what is merged is no mapping.
pub fn merged(mut value: Yaml) -> Result<Yaml, Error> {
    // What is merged may merge others itself.
    for _ in 0..MAX_MERGES {
        if !merges(&value) {
            break;
        }
        value.apply_merge()?;
    }
    Ok(value)
}

fn merges(value: &Yaml) -> bool {
    match value {
        Yaml::Mapping(map) => map.contains_key(MERGE) || map.values().any(merges),
        Yaml::Sequence(list) => list.iter().any(merges),
        Yaml::Tagged(tagged) => merges(&tagged.value),
        _ => false,
    }
}

/// The parser ends nesting at 128.
fn node(value: Yaml) -> Node {
    let value = match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(flag) => Value::Bool(flag),
        Yaml::Number(number) => Value::Number(number.to_string()),
        Yaml::String(text) => Value::Text(text),
        Yaml::Sequence(list) => Value::List(list.into_iter().map(node).collect()),
        Yaml::Mapping(map) => {
            let members = map.into_iter().map(|(key, value)| Member {
                key: key_text(key),
                place: Place::START,
                node: node(value),
            });
            Value::Map(members.collect())
        }
        Yaml::Tagged(tagged) => return node(tagged.value),
    };
    Node {
        place: Place::START,
        value,
    }
}

fn key_text(key: Yaml) -> String {
    match key {
        Yaml::String(text) => text,
        Yaml::Bool(flag) => flag.to_string(),
        Yaml::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Where the last step of a path leads: to a name, or to an item of a list.
pub(super) fn locate(text: &str, path: &Path) -> Option<Place> {
    let seed = Seek(&path.0);
    let error = seed
        .deserialize(serde_norway::Deserializer::from_str(text))
        .err()?;
    place(&error)
}

fn place(error: &Error) -> Option<Place> {
    let location = error.location()?;
    Some(Place {
        line: number(location.line()),
        column: number(location.column()),
    })
}

/// Fails where the path ends, so that the error tells the place.
struct Seek<'a>(&'a [Step]);

/// The key to be found, and whether it is the end.
struct Key<'a>(&'a str, bool);

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.0.is_empty() {
            // Any value is another than this one.
            return deserializer.deserialize_any(Refuse);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what the path says")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((Step::Key(wanted), rest)) = self.0.split_first() else {
            return Err(A::Error::custom("no list here"));
        };
        while let Some(is_it) = map.next_key_seed(Key(wanted, rest.is_empty()))? {
            if is_it {
                map.next_value_seed(Seek(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Some((Step::Index(wanted), rest)) = self.0.split_first() else {
            return Err(A::Error::custom("a list here"));
        };
        for _ in 0..*wanted {
            if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
        }
        list.next_element_seed(Seek(rest))?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        let Self(wanted, is_end) = self;
        if !is_end {
            return Ok(key_text(Yaml::deserialize(deserializer)?) == wanted);
        }
        deserializer.deserialize_any(Wanted(wanted))
    }
}

/// Refuses one text.
struct Wanted<'a>(&'a str);

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another name")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<bool, E> {
        if text == self.0 {
            return Err(E::custom("here"));
        }
        Ok(false)
    }
}

/// Refuses everything.
struct Refuse;

impl<'de> Visitor<'de> for Refuse {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }
}
