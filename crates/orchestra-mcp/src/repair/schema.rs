//! JSON Schemas of tools. Clients check the root of each schema, and compile the one of results:
//! one keyword of the wrong form, or a reference that leads nowhere, and the tool cannot be used.

use std::collections::{HashMap, HashSet};

use orchestra_wire::RawJson;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::client::http::MirroredParams;

use super::{
    Fixed, Notes, Object, array, fix, items, object, pattern, quoted,
    shapes::{Member, Need, Shape},
    text,
};

const TYPES: [&str; 7] = [
    "object", "array", "string", "number", "integer", "boolean", "null",
];

/// Keywords whose values are data, in which nothing is a reference.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];

/// Keywords whose values are schemas by name.
const BY_NAME: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
];

/// Maximum number of references that lead to one another before a schema; more count as a cycle.
const MAX_CHAIN: usize = 64;

const fn keyword(name: &'static str, shape: Shape) -> Member {
    let need = Need::Optional;
    Member { name, shape, need }
}

/// Keywords that give a schema its structure.
static STRUCTURE: &[Member] = &[
    keyword("$schema", Shape::Text),
    keyword("$ref", Shape::By(reference)),
    keyword("$defs", Shape::Map(&NESTED)),
    keyword("definitions", Shape::Map(&NESTED)),
    keyword("type", Shape::By(types)),
    keyword("title", Shape::Text),
    keyword("description", Shape::Text),
    keyword("properties", Shape::Map(&NESTED)),
    keyword("patternProperties", Shape::By(by_pattern)),
    keyword("additionalProperties", Shape::By(nested)),
    keyword("required", Shape::By(required)),
    keyword("items", Shape::By(one_or_several)),
    keyword("prefixItems", Shape::By(several)),
    keyword("enum", Shape::By(filled)),
    keyword("allOf", Shape::By(several)),
    keyword("anyOf", Shape::By(several)),
    keyword("oneOf", Shape::By(several)),
    keyword("not", Shape::By(nested)),
    keyword("x-mcp-header", Shape::By(header)),
    keyword("id", Shape::By(old_id)),
];

/// Keywords that a validator compiles.
static COMPILED: &[Member] = &[
    keyword("$dynamicRef", Shape::By(reference)),
    keyword("$recursiveRef", Shape::By(reference)),
    keyword("$id", Shape::By(reference)),
    keyword("$anchor", Shape::By(anchor)),
    keyword("$dynamicAnchor", Shape::By(anchor)),
    keyword("format", Shape::Text),
    keyword("pattern", Shape::By(pattern)),
    keyword("minLength", Shape::By(count)),
    keyword("maxLength", Shape::By(count)),
    keyword("minItems", Shape::By(count)),
    keyword("maxItems", Shape::By(count)),
    keyword("minProperties", Shape::By(count)),
    keyword("maxProperties", Shape::By(count)),
    keyword("minContains", Shape::By(count)),
    keyword("maxContains", Shape::By(count)),
    keyword("minimum", Shape::Number),
    keyword("maximum", Shape::Number),
    keyword("exclusiveMinimum", Shape::Number),
    keyword("exclusiveMaximum", Shape::Number),
    keyword("multipleOf", Shape::By(positive)),
    keyword("uniqueItems", Shape::Flag),
    keyword("nullable", Shape::Flag),
    keyword("examples", Shape::List(&Shape::Any)),
    keyword("if", Shape::By(nested)),
    keyword("then", Shape::By(nested)),
    keyword("else", Shape::By(nested)),
    keyword("contains", Shape::By(nested)),
    keyword("additionalItems", Shape::By(nested)),
    keyword("propertyNames", Shape::By(nested)),
    keyword("unevaluatedItems", Shape::By(nested)),
    keyword("unevaluatedProperties", Shape::By(nested)),
    keyword("dependentSchemas", Shape::Map(&NESTED)),
    keyword("dependentRequired", Shape::Map(&REQUIRED)),
    keyword("dependencies", Shape::Map(&DEPENDENCY)),
];

static NESTED: Shape = Shape::By(nested);
static REQUIRED: Shape = Shape::By(required);
static DEPENDENCY: Shape = Shape::By(dependency);
static PROPERTY: Shape = Shape::By(property);

/// The properties of a root, whose schemas must be objects.
static ROOT: &[Member] = &[keyword("properties", Shape::Map(&PROPERTY))];

/// Schema of arguments: an object of type `object`.
pub(super) fn input(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let (value, changed) = match (value.members(), items(value)) {
        (Some(_), _) => (value.clone(), false),
        (None, Some(items)) if items.is_empty() => (RawJson::empty_object(), true),
        (None, _) => return Fixed::Gone,
    };
    let kind = value.member("type");
    let value = match kind.as_ref().map(RawJson::as_str) {
        Some("\"object\"") if !changed => return root(&value, notes, false),
        _ => {
            notes.within("type", |notes| notes.add("was not \"object\": replaced"));
            typed(&value)
        }
    };
    match root(&value, notes, false) {
        Fixed::Same => Fixed::Other(value),
        fixed => fixed,
    }
}

/// Schema of results, which clients compile.
pub(super) fn output(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match value.members() {
        Some(_) => root(value, notes, true),
        None => Fixed::Gone,
    }
}

/// A member that may be anything but null.
pub(super) fn not_null(value: &RawJson, _: &mut Notes<'_>) -> Fixed {
    match value.as_str() {
        "null" => Fixed::Gone,
        _ => Fixed::Same,
    }
}

fn root(value: &RawJson, notes: &mut Notes<'_>, is_compiled: bool) -> Fixed {
    notes.is_compiled = is_compiled;
    notes.unresolved = unresolved(value, is_compiled);
    notes.has_wrong_headers = !is_compiled && MirroredParams::of(value).is_err();
    let groups: &[&[Member]] = match is_compiled {
        true => &[ROOT, STRUCTURE, COMPILED],
        false => &[ROOT, STRUCTURE],
    };
    keywords(groups, value, notes)
}

/// Fits the keywords of a schema. Where it is compiled, `nullable` goes with a type, and is not `false` beside `null`.
fn keywords(groups: &[&[Member]], value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let fixed = object(groups, value, notes);
    let result = match &fixed {
        Fixed::Same => value,
        Fixed::Other(other) => other,
        Fixed::Gone => return fixed,
    };
    let Some(nullable) = result.member("nullable").filter(|_| notes.is_compiled) else {
        return fixed;
    };
    let allows_null = |kind: &RawJson| match items(kind) {
        Some(kinds) => kinds.iter().any(|kind| kind.as_str() == "\"null\""),
        None => kind.as_str() == "\"null\"",
    };
    let what = match result.member("type") {
        None => "has no type beside it: dropped",
        Some(kind) if nullable.as_str() == "false" && allows_null(&kind) => {
            "contradicts the type null: dropped"
        }
        Some(_) => return fixed,
    };
    notes.within("nullable", |notes| notes.add(what));
    let mut written = Object::default();
    let members = result.members().into_iter().flatten();
    for member in members.filter(|member| member.key != "nullable") {
        written.put(member.key, &member.value, Fixed::Same);
    }
    Fixed::Other(written.finish())
}

/// A schema within another one.
fn nested(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match value.as_str() {
        "true" | "false" => Fixed::Same,
        _ if value.members().is_some() => {
            let groups: &[&[Member]] = match notes.is_compiled {
                true => &[STRUCTURE, COMPILED],
                false => &[STRUCTURE],
            };
            keywords(groups, value, notes)
        }
        _ => {
            notes.add("was no schema: made one that permits everything");
            Fixed::Other(RawJson::empty_object())
        }
    }
}

/// The schema of a property of a root.
fn property(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match value.as_str() {
        "true" => {
            notes.add("was true: made an object");
            Fixed::Other(RawJson::empty_object())
        }
        "false" => {
            notes.add("was false: made an object");
            Fixed::Other(RawJson::from_static("{\"not\":{}}"))
        }
        _ => nested(value, notes),
    }
}

/// A schema whose type is `object`, with its other members as they were.
fn typed(value: &RawJson) -> RawJson {
    let mut written = Object::default().with("type", &quoted("object"));
    let members = value.members().into_iter().flatten();
    for member in members.filter(|member| member.key != "type") {
        written.put(member.key, &member.value, Fixed::Same);
    }
    written.finish()
}

/// One type, or several.
fn types(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let known = |value: &RawJson| {
        let word = text(value)?.to_ascii_lowercase();
        TYPES.into_iter().find(|known| *known == word)
    };
    let Some(all) = items(value) else {
        return match known(value) {
            Some(word) if text(value).is_some_and(|text| text == word) => Fixed::Same,
            Some(word) => {
                notes.add("was not in lower case: rewritten");
                Fixed::Other(quoted(word))
            }
            None => Fixed::Gone,
        };
    };
    let mut words: Vec<&str> = Vec::new();
    for word in all.iter().filter_map(known) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    let written: Vec<RawJson> = words.into_iter().map(quoted).collect();
    match () {
        () if written == all && !all.is_empty() => Fixed::Same,
        () if written.is_empty() => Fixed::Gone,
        () => {
            notes.add("had types that no schema knows: dropped");
            Fixed::Other(array(&written))
        }
    }
}

/// Names of properties, each once.
fn required(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let Some(all) = items(value) else {
        return Fixed::Gone;
    };
    let (mut seen, mut names) = (HashSet::new(), Vec::new());
    for name in &all {
        if text(name).is_some_and(|text| seen.insert(text)) {
            names.push(name.clone());
        }
    }
    if names.len() == all.len() {
        return Fixed::Same;
    }
    notes.add("had other values than names, or a name twice: dropped");
    Fixed::Other(array(&names))
}

/// Schemas in an array that has at least one.
fn several(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match items(value) {
        Some(all) if !all.is_empty() => fix(&Shape::List(&NESTED), value, notes),
        _ => Fixed::Gone,
    }
}

/// A schema, or several of them as before revision 2020-12 of JSON Schema.
fn one_or_several(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match items(value) {
        Some(_) => several(value, notes),
        None => nested(value, notes),
    }
}

/// An array that has at least one element.
fn filled(value: &RawJson, _: &mut Notes<'_>) -> Fixed {
    match items(value) {
        Some(all) if !all.is_empty() => Fixed::Same,
        _ => Fixed::Gone,
    }
}

fn count(value: &RawJson, _: &mut Notes<'_>) -> Fixed {
    match super::is_integer(value) && !value.as_str().starts_with('-') {
        true => Fixed::Same,
        false => Fixed::Gone,
    }
}

fn positive(value: &RawJson, _: &mut Notes<'_>) -> Fixed {
    match super::number(value).is_some_and(|number| number > 0.0) {
        true => Fixed::Same,
        false => Fixed::Gone,
    }
}

fn pattern(value: &RawJson, _: &mut Notes<'_>) -> Fixed {
    match text(value).is_some_and(|text| pattern::compiles(&text)) {
        true => Fixed::Same,
        false => Fixed::Gone,
    }
}

/// The annotation of an argument that is repeated in a header. Clients leave out a tool whose annotation is invalid.
fn header(_: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match notes.has_wrong_headers {
        true => Fixed::Gone,
        false => Fixed::Same,
    }
}

/// Schemas by patterns.
fn by_pattern(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let fits = |key: &str| !notes.is_compiled || pattern::compiles(key);
    let members = || value.members().into_iter().flatten();
    if members().all(|member| fits(&member.key)) {
        return fix(&Shape::Map(&NESTED), value, notes);
    }
    let mut written = Object::default();
    for member in members().filter(|member| fits(&member.key)) {
        written.put(member.key, &member.value, Fixed::Same);
    }
    notes.add("had a pattern that clients cannot compile: dropped");
    let value = written.finish();
    match fix(&Shape::Map(&NESTED), &value, notes) {
        Fixed::Same => Fixed::Other(value),
        fixed => fixed,
    }
}

/// A schema that applies where a property is present, or the names of the properties that are then required.
fn dependency(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match items(value) {
        Some(_) => required(value, notes),
        None => nested(value, notes),
    }
}

/// A reference to a schema, or the identifier of one.
fn reference(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match text(value) {
        Some(target) if !notes.unresolved.contains(&*target) => Fixed::Same,
        _ => Fixed::Gone,
    }
}

/// The identifier before draft 6 of JSON Schema. Ajv compiles no schema that has it.
fn old_id(_: &RawJson, _: &mut Notes<'_>) -> Fixed {
    Fixed::Gone
}

/// A name of a schema within its document.
fn anchor(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match text(value) {
        Some(name) if !notes.unresolved.contains(&to_anchor(&name)) => Fixed::Same,
        _ => Fixed::Gone,
    }
}

/// References of a schema that do not lead to one schema. Where the schema is compiled, names that validators refuse
/// count as such, and so do references to other documents: nothing is fetched for it. Identifiers that no reference
/// needs count too: a validator that compiles the schemas of all tools refuses an identifier of two of them.
fn unresolved(value: &RawJson, is_compiled: bool) -> HashSet<String> {
    let has = |part: &str| memchr::memmem::find(value.as_bytes(), part.as_bytes()).is_some();
    let has_names = is_compiled && (has("nchor\"") || has("\"$id\""));
    if !has("\"$ref\"") && !has("Ref\"") && !has_names {
        return HashSet::new();
    }
    let Ok(root) = value.parse_lossy::<Value>() else {
        return HashSet::new();
    };
    let mut names = Names {
        root: root["$id"].as_str().unwrap_or_default(),
        ..Names::default()
    };
    names.walk(&root, "");
    let mut unresolved = match is_compiled {
        true => names.refused,
        false => HashSet::new(),
    };
    for reference in names.references {
        let is_known = names.known.contains_key(reference) && !unresolved.contains(reference);
        let resolves = match reference.strip_prefix('#') {
            Some("") => true,
            Some(pointer) if pointer.starts_with('/') => leads_to_schema(&root, pointer),
            Some(_) => is_known,
            None => !is_compiled || is_known,
        };
        if !resolves {
            unresolved.insert(reference.to_owned());
        }
    }
    let mut needing = names.needing.into_iter();
    let has_need = needing.any(|(inner, reference)| {
        (inner.is_empty() || !unresolved.contains(inner)) && !unresolved.contains(reference)
    });
    if is_compiled && !has_need {
        unresolved.extend(names.ids.into_iter().map(str::to_owned));
    }
    unresolved
}

/// Returns whether a pointer leads to a schema that does not lead back to itself.
fn leads_to_schema(root: &Value, pointer: &str) -> bool {
    let mut pointer = pointer;
    for step in 0..MAX_CHAIN {
        let decoded = percent_decode_str(pointer).decode_utf8_lossy();
        let target = root.pointer(&decoded);
        if !target.is_some_and(|target| target.is_object() || target.is_boolean()) {
            // A later reference that leads nowhere is dropped itself.
            return step > 0;
        }
        let next = target.and_then(|target| target["$ref"].as_str()?.strip_prefix('#'));
        match next.filter(|next| next.starts_with('/')) {
            Some(next) => pointer = next,
            None => return true,
        }
    }
    false
}

/// References in a schema, and the names by which schemas in it can be referred to.
#[derive(Default)]
struct Names<'v> {
    references: HashSet<&'v str>,
    /// References that lead elsewhere without the identifiers, each after the identifier of the schema around it.
    needing: HashSet<(&'v str, &'v str)>,
    /// The identifier of the root.
    root: &'v str,
    /// Identifiers of schemas.
    ids: HashSet<&'v str>,
    /// Each name as a reference to it, and the identifiers of the schemas in which it is defined.
    known: HashMap<String, HashSet<&'v str>>,
    /// Names that are not valid, or defined twice.
    refused: HashSet<String>,
}

impl<'v> Names<'v> {
    /// Collects those of a schema within the schema `base`.
    fn walk(&mut self, value: &'v Value, base: &'v str) {
        let members = match value {
            Value::Array(all) => return all.iter().for_each(|one| self.walk(one, base)),
            Value::Object(members) => members,
            _ => return,
        };
        let id = members.get("$id").and_then(Value::as_str);
        let inner = id.filter(|id| !id.starts_with('#')).unwrap_or(base);
        for (key, value) in members {
            match (key.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                    self.references.insert(target);
                    let is_inner = !inner.is_empty() && inner != self.root;
                    if is_inner || !target.starts_with('#') {
                        self.needing.insert((inner, target.as_str()));
                    }
                }
                ("$id", Value::String(id)) => {
                    if !id.starts_with('#') {
                        self.ids.insert(id);
                    }
                    self.add(id.clone(), "", true);
                }
                ("$anchor" | "$dynamicAnchor", Value::String(name)) => {
                    self.add(to_anchor(name), inner, is_anchor(name));
                }
                (key, Value::Object(schemas)) if BY_NAME.contains(&key) => {
                    schemas.values().for_each(|schema| self.walk(schema, inner));
                }
                (key, _) if DATA.contains(&key) => {}
                _ => self.walk(value, inner),
            }
        }
    }

    fn add(&mut self, name: String, base: &'v str, is_valid: bool) {
        let is_new = { self.known.entry(name.clone()).or_default() }.insert(base);
        if !is_new || !is_valid {
            self.refused.insert(name);
        }
    }
}

/// A reference to an anchor, which some servers write as the reference.
fn to_anchor(name: &str) -> String {
    format!("#{}", name.trim_start_matches('#'))
}

/// Returns whether a text may be an anchor.
fn is_anchor(name: &str) -> bool {
    let is_rest = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let first = name.as_bytes().first();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && name.as_bytes().iter().all(is_rest)
}
