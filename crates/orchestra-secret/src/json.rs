//! JSON values, masked by the names of their members and by their content.

use serde_json::{Map, Value};

use crate::{
    MASK, Masker,
    name::{Strength, strength},
    value::{is_code, is_identifier, is_random, is_reference},
};

/// Members that hold JSON Schema. Its properties are names without values.
const SCHEMAS: [&str; 4] = ["inputSchema", "outputSchema", "requestedSchema", "schema"];

/// Members whose value is the name of the value beside it.
const NAMES: [&str; 5] = ["name", "key", "header", "field", "variable"];

/// Minimum length of a token in a list of tokens, which may be those of a language.
const MIN_TOKEN: usize = 16;

/// Number of levels of JSON in strings of JSON.
const MAX_NESTING: usize = 4;

/// Position of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Open,
    /// Below a member whose name means a secret.
    Secret(Strength),
    Schema,
}

impl Masker {
    /// Masks the secrets in a JSON value. Returns whether there were any.
    pub fn json(&self, value: &mut Value) -> bool {
        self.clean(value, Place::Open, 0)
    }

    fn clean(&self, value: &mut Value, place: Place, nesting: usize) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(_) => {
                let is_secret = place == Place::Secret(Strength::Strong);
                if is_secret {
                    *value = MASK.into();
                }
                is_secret
            }
            Value::String(text) => match self.string(text, place, nesting) {
                Some(masked) => {
                    *text = masked;
                    true
                }
                None => false,
            },
            Value::Array(items) => self.items(items, place, nesting, false),
            Value::Object(members) => {
                let mut any = false;
                let is_named = members.iter().any(|(member, name)| {
                    let is_name = NAMES.iter().any(|name| member.eq_ignore_ascii_case(name));
                    is_name && name.as_str().is_some_and(|name| self.is_certain(name))
                });
                for (name, member) in &mut *members {
                    let below = match is_named && name.eq_ignore_ascii_case("value") {
                        true => Place::Secret(Strength::Strong),
                        false => self.below(name, place),
                    };
                    let is_description = matches!(below, Place::Secret(_))
                        && place == Place::Open
                        && is_description(name, member);
                    any |= self.clean(member, if is_description { place } else { below }, nesting);
                    if name.to_ascii_lowercase().ends_with("tokens") {
                        any |= mask_tokens(member);
                    }
                }
                any | self.clean_names(members)
            }
        }
    }

    fn items(&self, items: &mut [Value], place: Place, nesting: usize, is_row: bool) -> bool {
        let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
        let arguments = words
            .filter(|words| place == Place::Open && words.len() > 1)
            .map(|words| self.arguments(&words));
        let mut any = false;
        // A row of a table: `[["password", "…"]]`.
        if is_row
            && place == Place::Open
            && let [Value::String(name), Value::String(value)] = &mut *items
            && self.is_certain(name)
            && is_literal(value)
        {
            MASK.clone_into(value);
            any = true;
        }
        for (index, item) in items.iter_mut().enumerate() {
            any |= match &mut *item {
                Value::Array(row) => self.items(row, place, nesting, true),
                item => self.clean(item, place, nesting),
            };
            if let Some(argument) = arguments.as_ref().map(|arguments| &arguments[index])
                && let Value::String(text) = item
                && argument.ends_with(MASK)
                && !text.ends_with(MASK)
            {
                argument.clone_into(text);
                any = true;
            }
        }
        any
    }

    /// Returns whether a text that names the value beside it means a secret. `test-key` may be any key.
    fn is_certain(&self, name: &str) -> bool {
        let is_written = || name.contains(|char: char| char.is_ascii_uppercase());
        let is_secret = |strength| strength == Strength::Strong || is_written();
        self.members.contains(name) || strength(name).is_some_and(is_secret)
    }

    fn below(&self, name: &str, place: Place) -> Place {
        match place {
            Place::Open if self.members.contains(name) => Place::Secret(Strength::Strong),
            Place::Open if SCHEMAS.contains(&name) => Place::Schema,
            Place::Open => strength(name).map_or(Place::Open, Place::Secret),
            place => place,
        }
    }

    fn string(&self, text: &str, place: Place, nesting: usize) -> Option<String> {
        if matches!(place, Place::Secret(_)) {
            let masked = self.text(text);
            return match is_reference(text) {
                true => None,
                // The prefix of a token that is the whole value.
                false
                    if masked.ends_with(MASK)
                        && masked.matches(MASK).count() == 1
                        && text.starts_with(masked.trim_end_matches(MASK))
                        && is_reference(&masked) =>
                {
                    Some(masked.into_owned())
                }
                false => Some(MASK.to_owned()),
            };
        }
        // Tools often answer with JSON as text.
        let is_json = nesting < MAX_NESTING && text.trim_start().starts_with(['{', '[']);
        if let Some(mut inner) = is_json.then(|| serde_json::from_str(text).ok()).flatten()
            && self.clean(&mut inner, place, nesting + 1)
        {
            return Some(self.text(&inner.to_string()).into_owned());
        }
        match self.text(text) {
            std::borrow::Cow::Owned(masked) => Some(masked),
            std::borrow::Cow::Borrowed(_) => None,
        }
    }

    /// Masks secrets in the names of members.
    fn clean_names(&self, members: &mut Map<String, Value>) -> bool {
        let secret: Vec<String> = members
            .keys()
            .filter(|name| matches!(self.text(name), std::borrow::Cow::Owned(_)))
            .cloned()
            .collect();
        for name in &secret {
            if let Some(member) = members.remove(name) {
                members.insert(self.text(name).into_owned(), member);
            }
        }
        !secret.is_empty()
    }
}

/// Masks the tokens in a list of tokens. Returns whether there were any.
fn mask_tokens(list: &mut Value) -> bool {
    let mut any = false;
    for item in list.as_array_mut().into_iter().flatten() {
        if let Value::String(text) = item
            && text.len() >= MIN_TOKEN
            && is_literal(text)
        {
            MASK.clone_into(text);
            any = true;
        }
    }
    any
}

/// Returns whether a text is a secret and no name, path or reference.
fn is_literal(text: &str) -> bool {
    is_random(text) && !is_identifier(text) && !is_code(text) && !is_reference(text)
}

/// Returns whether a member with the name of a secret describes one: `"auth": {"type": "bearer"}`.
fn is_description(name: &str, member: &Value) -> bool {
    let name = name.to_ascii_lowercase();
    (name.ends_with("auth") || name.ends_with("authentication")) && member.is_object()
}
