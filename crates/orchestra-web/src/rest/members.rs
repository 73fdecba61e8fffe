//! Which members the body of a call may have. What is misspelt would be left out without a word, and
//! the call made without it.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use crate::refusal::{Reason, Refusal};

/// The most characters of a name that are told.
const MOST_TOLD: usize = 64;

/// The names of the members of an object, in its order.
struct Names<'a>(Vec<Cow<'a, str>>);

#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Names<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Names<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Names<'de>, M::Error> {
                let mut names = Vec::new();
                while let Some((Name(name), IgnoredAny)) = map.next_entry()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Refuses a body with a member that is none of `known`. One that is no object is left to whoever
/// reads it.
pub(super) fn check(body: &[u8], known: &[&str]) -> Result<(), Refusal> {
    let Ok(Names(names)) = serde_json::from_slice(body) else {
        return Ok(());
    };
    match names.iter().find(|name| !known.contains(&&***name)) {
        None => Ok(()),
        Some(name) => {
            let name: String = name.chars().take(MOST_TOLD).collect();
            let known = known.join(" or ");
            let text = format!("unknown member {}, expected {known}", name.escape_debug());
            Err(Refusal::new(Reason::Malformed, text))
        }
    }
}
