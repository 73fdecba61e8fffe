//! JSON Schemas of tools. Clients check the root of each schema, and compile the one of results:
//! one keyword of the wrong form, or a reference that leads nowhere, and the tool cannot be used.

use std::collections::HashSet;

use orchestra_wire::RawJson;
use percent_encoding::percent_decode_str;
use serde_json::Value;

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
];

/// Keywords that a validator compiles.
static COMPILED: &[Member] = &[
    keyword("$dynamicRef", Shape::By(reference)),
    keyword("$recursiveRef", Shape::By(reference)),
    keyword("$id", Shape::Text),
    keyword("$anchor", Shape::Text),
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
];

static NESTED: Shape = Shape::By(nested);
static REQUIRED: Shape = Shape::By(required);
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
    notes.dangling = dangling(value, is_compiled);
    let groups: &[&[Member]] = match is_compiled {
        true => &[ROOT, STRUCTURE, COMPILED],
        false => &[ROOT, STRUCTURE],
    };
    object(groups, value, notes)
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
            object(groups, value, notes)
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

/// A reference that leads somewhere.
fn reference(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    match text(value) {
        Some(target) if !notes.dangling.contains(&*target) => Fixed::Same,
        _ => Fixed::Gone,
    }
}

/// References that lead nowhere within a schema. Those to other documents count where the schema
/// is compiled: nothing is fetched for it.
fn dangling(value: &RawJson, is_compiled: bool) -> HashSet<String> {
    if memchr::memmem::find(value.as_bytes(), b"Ref\"").is_none()
        && memchr::memmem::find(value.as_bytes(), b"$ref").is_none()
    {
        return HashSet::new();
    }
    let Ok(root) = value.parse_lossy::<Value>() else {
        return HashSet::new();
    };
    let (mut references, mut names) = (HashSet::new(), HashSet::new());
    walk(&root, &mut references, &mut names);
    references.retain(|reference| {
        let resolves = match reference.strip_prefix('#') {
            Some("") => true,
            Some(pointer) if pointer.starts_with('/') => {
                let decoded = percent_decode_str(pointer).decode_utf8_lossy();
                let target = root.pointer(&decoded);
                target.is_some_and(|target| target.is_object() || target.is_boolean())
            }
            Some(anchor) => names.contains(anchor),
            None => !is_compiled || names.contains(reference),
        };
        !resolves
    });
    references
}

/// Collects references, and names by which schemas can be referred to.
fn walk(value: &Value, references: &mut HashSet<String>, names: &mut HashSet<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| walk(one, references, names)),
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                        references.insert(target.clone());
                    }
                    ("$id" | "id" | "$anchor" | "$dynamicAnchor", Value::String(name)) => {
                        names.insert(name.trim_start_matches('#').to_owned());
                    }
                    (key, _) if DATA.contains(&key) => {}
                    _ => walk(value, references, names),
                }
            }
        }
        _ => {}
    }
}
