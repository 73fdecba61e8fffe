//! Subschemas of a schema, and the references between them.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
};

use serde_json::{Map, Value};

use super::{SchemaCostError, pattern::Pattern};

/// Keywords that need to know which members are evaluated.
pub(super) const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// Keywords with a list of subschemas.
const LISTS: [(&str, Use); 3] = [
    ("allOf", Use::Asserted),
    ("anyOf", Use::Tested),
    ("oneOf", Use::Tested),
];

/// Keywords with one subschema for the same value.
const SINGLE: [(&str, Use); 4] = [
    ("not", Use::Tested),
    ("if", Use::Tested),
    ("then", Use::Asserted),
    ("else", Use::Asserted),
];

/// Keywords with a subschema per member of the value.
const DEPENDENT: [&str; 2] = ["dependentSchemas", "dependencies"];

/// Keywords whose value is a reference to a subschema.
pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords with subschemas for members of the value, by name.
const MEMBERS: [&str; 2] = ["properties", "patternProperties"];

/// Keywords with a subschema, or a list of them, for members of the value.
const BELOW: [&str; 8] = [
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "unevaluatedItems",
];

/// Keywords that are not evaluated.
const IGNORED: [&str; 8] = [
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "$comment",
    "$schema",
];

/// How the result of a subschema is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Its errors are those of its parent.
    Asserted,
    /// It is one of several, or a condition.
    Tested,
}

/// Subschema that is applied to the same value as its parent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'s> {
    pub(super) schema: &'s Value,
    pub(super) usage: Use,
}

/// A schema document in which references are resolved.
pub(super) struct Graph<'s> {
    root: &'s Value,
    /// `None` for a name that is given twice.
    anchors: OnceCell<HashMap<&'s str, Option<&'s Value>>>,
}

impl<'s> Graph<'s> {
    pub(super) const fn new(root: &'s Value) -> Self {
        Self {
            root,
            anchors: OnceCell::new(),
        }
    }

    /// Subschemas that are applied to the same value: to `value`, or to any.
    pub(super) fn in_place(
        &self,
        parts: &'s Map<String, Value>,
        value: Option<&Value>,
    ) -> Result<Vec<Part<'s>>, SchemaCostError> {
        let mut found = Vec::new();
        for (key, usage) in LISTS {
            let list = parts.get(key).and_then(Value::as_array);
            let list = list.into_iter().flatten();
            found.extend(list.map(|schema| Part { schema, usage }));
        }
        for (key, usage) in SINGLE {
            found.extend(parts.get(key).map(|schema| Part { schema, usage }));
        }
        let usage = Use::Asserted;
        for key in DEPENDENT {
            let all = parts.get(key).and_then(Value::as_object);
            for (name, schema) in all.into_iter().flatten() {
                let is_applied = value.is_none_or(|value| value.get(name).is_some());
                found.extend(is_applied.then_some(Part { schema, usage }));
            }
        }
        for key in REFERENCES {
            if let Some(Value::String(reference)) = parts.get(key) {
                let schema = self.resolved(reference)?;
                found.push(Part { schema, usage });
            }
        }
        Ok(found)
    }

    fn resolved(&self, reference: &str) -> Result<&'s Value, SchemaCostError> {
        let root = self.root;
        let own = root.get("$id").and_then(Value::as_str).unwrap_or_default();
        let rest = reference.strip_prefix(own.trim_end_matches('#'));
        let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('#'));
        let fragment = rest.unwrap_or(reference).strip_prefix('#');
        let fragment = match (fragment, rest) {
            (Some(fragment), _) => fragment,
            (None, Some("")) => "",
            (None, _) => return Err(SchemaCostError::Reference),
        };
        let decoded = percent_encoding::percent_decode_str(fragment);
        let decoded = decoded.decode_utf8_lossy();
        let found = match decoded.is_empty() || decoded.starts_with('/') {
            true => root.pointer(&decoded),
            false => self.anchors().get(&*decoded).copied().flatten(),
        };
        found.ok_or(SchemaCostError::Reference)
    }

    fn anchors(&self) -> &HashMap<&'s str, Option<&'s Value>> {
        self.anchors.get_or_init(|| {
            let mut anchors = HashMap::new();
            name_anchors(self.root, &mut anchors);
            anchors
        })
    }
}

fn name_anchors<'s>(value: &'s Value, anchors: &mut HashMap<&'s str, Option<&'s Value>>) {
    if let Value::Object(members) = value {
        let names = ["$anchor", "$dynamicAnchor"];
        let names = names.iter().filter_map(|key| members.get(*key)?.as_str());
        for name in names {
            let one = anchors.entry(name).or_insert(Some(value));
            *one = one.filter(|one| std::ptr::eq(*one, value));
        }
    }
    for below in within(value) {
        name_anchors(below, anchors);
    }
}

/// Subschemas that are applied to members of the value.
pub(super) fn below(parts: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let named = MEMBERS
        .iter()
        .filter_map(move |key| parts.get(*key)?.as_object());
    let others = BELOW.iter().filter_map(move |key| parts.get(*key));
    named.flat_map(Map::values).chain(others.flat_map(|other| {
        let list = other.as_array().map_or(&[][..], Vec::as_slice);
        let single = (!other.is_array()).then_some(other);
        single.into_iter().chain(list)
    }))
}

/// Whether the value of a keyword is compared with the validated value.
pub(super) fn is_assertion(key: &str) -> bool {
    !(IGNORED.contains(&key)
        || MEMBERS.contains(&key)
        || BELOW.contains(&key)
        || REFERENCES.contains(&key)
        || DEPENDENT.contains(&key)
        || LISTS.iter().any(|(list, _)| *list == key)
        || SINGLE.iter().any(|(single, _)| *single == key))
}

/// Number of values in a value, itself included.
pub(super) fn nodes(value: &Value) -> u64 {
    let below = within(value).map(nodes);
    below.fold(1, u64::saturating_add)
}

fn within(value: &Value) -> impl Iterator<Item = &Value> {
    let members = value.as_object().into_iter().flat_map(Map::values);
    members.chain(value.as_array().into_iter().flatten())
}

/// Figures of a whole document, without a look at which parts are subschemas.
#[derive(Debug, Default)]
pub(super) struct Totals<'s> {
    pub(super) objects: u64,
    pub(super) references: u64,
    /// The validator compiles each of them once, however often it is used.
    patterns: HashSet<&'s str>,
    pub(super) has_unevaluated: bool,
}

/// Measures a document.
///
/// # Errors
/// When the document consists of several schemas, or has a metaschema that is not a known one:
/// references may not mean then what they seem to.
pub(super) fn totals(root: &Value) -> Result<Totals<'_>, SchemaCostError> {
    let text = |key: &str| root.get(key).and_then(Value::as_str);
    let schema = text("$schema");
    let is_known = schema.is_none_or(|schema| schema.contains("://json-schema.org/"));
    let mut ids = [text("$id"), text("id")].into_iter().flatten();
    if !is_known || ids.any(|id| id.contains("json-schema.org")) {
        return Err(SchemaCostError::Reference);
    }
    // Draft 4 names schemas by `id`, which is an ordinary member elsewhere.
    let has_id = schema.is_some_and(|schema| schema.contains("draft-04"));
    let mut totals = Totals::default();
    for below in within(root) {
        totals.add(below, has_id)?;
    }
    totals.add_members(root);
    Ok(totals)
}

impl<'s> Totals<'s> {
    /// Total size of the patterns, in states of their automatons.
    pub(super) fn states(&self) -> u64 {
        let states = self.patterns.iter().map(|found| Pattern::of(found).states);
        states.fold(0, u64::saturating_add)
    }

    fn add(&mut self, value: &'s Value, has_id: bool) -> Result<(), SchemaCostError> {
        let is_text = |key: &str| value.get(key).is_some_and(Value::is_string);
        if is_text("$id") || (has_id && is_text("id")) {
            return Err(SchemaCostError::Reference);
        }
        self.add_members(value);
        for below in within(value) {
            self.add(below, has_id)?;
        }
        Ok(())
    }

    fn add_members(&mut self, value: &'s Value) {
        let Value::Object(members) = value else {
            return;
        };
        self.objects += 1;
        for (key, member) in members {
            match (key.as_str(), member) {
                ("pattern", Value::String(found)) => {
                    self.patterns.insert(found);
                }
                ("patternProperties", Value::Object(patterns)) => {
                    self.patterns.extend(patterns.keys().map(String::as_str));
                }
                (key, Value::String(_)) if REFERENCES.contains(&key) => self.references += 1,
                (key, _) if UNEVALUATED.contains(&key) => self.has_unevaluated = true,
                _ => {}
            }
        }
    }
}
