//! Schemas in which what stands in several places is written once, for tools whose arguments would cost a
//! model too much otherwise.
//!
//! What a definition is used for more than once stays among `$defs`; the rest is inlined as everywhere.
//! A client that resolves no `$ref` shows the model the definition beside its uses, and checks less than
//! the tool does. Nothing that is refused is lost: what a pattern would say of control characters alone is
//! told when it happens.

use serde_json::{Map, Value};

/// What stands before the name of a definition where it is used.
const LOCAL: &str = "#/$defs/";
/// A definition that is no longer than this is cheaper where it is used.
const SHORT: usize = 60;
/// How the patterns begin that say no more than which control characters a text may not have.
const CONTROL_PATTERNS: [&str; 2] = [r"^[^\x00", r"^[^=\x00"];
/// Numbers beyond this are no bound: no caller writes them exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// A definition in a definition, and no further.
const DEPTH: usize = 8;
/// What is longer than this and stands in several places becomes a definition of its own.
const LONG: usize = 100;

/// Writes what is used once where it is used.
pub(super) fn share(schema: &mut Value) {
    let Some(mut defs) = schema.get_mut("$defs").map(Value::take) else {
        return;
    };
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    fields.remove("$defs");
    for _ in 0..DEPTH {
        let names: Vec<String> = defs
            .as_object()
            .map(|defs| defs.keys().cloned().collect())
            .unwrap_or_default();
        let mut inlined = false;
        for name in names {
            let uses = uses(schema, &name) + uses(&defs, &name);
            let short = defs[&name].to_string().len() <= SHORT;
            if uses > 1 && !short {
                continue;
            }
            let Some(definition) = defs.as_object_mut().and_then(|defs| defs.remove(&name)) else {
                continue;
            };
            put(schema, &name, &definition);
            put(&mut defs, &name, &definition);
            inlined = true;
        }
        if !inlined {
            break;
        }
    }
    if let (Some(fields), false) = (schema.as_object_mut(), defs == Value::Object(Map::new())) {
        fields.insert("$defs".to_owned(), defs);
    }
}

/// Makes definitions of what stands in several places word for word, called as the first argument that it
/// is the schema of.
pub(super) fn define(schema: &mut Value) {
    let mut found = Vec::new();
    repeated(schema, &mut found);
    let mut defs = Map::new();
    for (name, definition) in found {
        let is_taken = defs.contains_key(&name) || schema["$defs"].get(&name).is_some();
        let uses = same(schema, &definition);
        if uses < 2 || is_taken {
            continue;
        }
        let reference = serde_json::json!({"$ref": format!("{LOCAL}{name}")});
        replace(schema, &definition, &reference);
        defs.insert(name, definition);
    }
    if let (Some(fields), false) = (schema.as_object_mut(), defs.is_empty()) {
        let all = fields
            .entry("$defs")
            .or_insert_with(|| Value::Object(Map::new()));
        all.as_object_mut()
            .into_iter()
            .for_each(|all| all.extend(defs.clone()));
    }
}

/// The schemas of arguments that are long, the longest first.
fn repeated(value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            let properties = fields.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                if schema.to_string().len() > LONG
                    && !found.iter().any(|(_, known)| known == schema)
                {
                    found.push((name.clone(), schema.clone()));
                }
            }
            fields.values().for_each(|value| repeated(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| repeated(item, found)),
        _ => {}
    }
    orchestra_sort::sort_by_key(found, |(_, schema)| {
        std::cmp::Reverse(schema.to_string().len())
    });
}

fn same(value: &Value, wanted: &Value) -> usize {
    if value == wanted {
        return 1;
    }
    match value {
        Value::Object(fields) => fields.values().map(|value| same(value, wanted)).sum(),
        Value::Array(items) => items.iter().map(|item| same(item, wanted)).sum(),
        _ => 0,
    }
}

fn replace(value: &mut Value, wanted: &Value, by: &Value) {
    if value == wanted {
        value.clone_from(by);
        return;
    }
    match value {
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|value| replace(value, wanted, by)),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, wanted, by)),
        _ => {}
    }
}

fn uses(value: &Value, name: &str) -> usize {
    match value {
        Value::Object(fields) => {
            let own = usize::from(refers(fields, name));
            own + fields
                .values()
                .map(|value| uses(value, name))
                .sum::<usize>()
        }
        Value::Array(items) => items.iter().map(|item| uses(item, name)).sum(),
        _ => 0,
    }
}

fn refers(fields: &Map<String, Value>, name: &str) -> bool {
    let target = fields.get("$ref").and_then(Value::as_str);
    target.and_then(|target| target.strip_prefix(LOCAL)) == Some(name)
}

/// Puts a definition in place of each of its uses. What is said at the use wins.
fn put(value: &mut Value, name: &str, definition: &Value) {
    match value {
        Value::Object(fields) => {
            if refers(fields, name)
                && let Value::Object(definition) = definition
            {
                fields.remove("$ref");
                for (key, value) in definition {
                    fields.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            fields
                .values_mut()
                .for_each(|value| put(value, name, definition));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| put(item, name, definition)),
        _ => {}
    }
}

/// Says the same in fewer words.
pub(super) fn shorten(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(shorten);
            drop_what_is_told_later(fields);
            list_words(fields);
            hoist(fields);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        _ => {}
    }
}

fn drop_what_is_told_later(fields: &mut Map<String, Value>) {
    let control = |pattern: &str| {
        CONTROL_PATTERNS
            .iter()
            .any(|start| pattern.starts_with(start))
    };
    if fields
        .get("pattern")
        .and_then(Value::as_str)
        .is_some_and(control)
    {
        fields.remove("pattern");
    }
    if fields.get("minLength").and_then(Value::as_u64) == Some(0) {
        fields.remove("minLength");
    }
    if fields.contains_key("enum") || fields.contains_key("const") {
        // Its values say it.
        fields.remove("type");
    }
    if fields
        .get("maximum")
        .and_then(Value::as_f64)
        .is_some_and(|most| most >= EXACT)
    {
        fields.remove("maximum");
    }
}

/// `oneOf` of words, each with its description, becomes a list of them.
fn list_words(fields: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = fields.get("oneOf") else {
        return;
    };
    let words = branches.iter().map(|branch| {
        let values = branch.get("enum").and_then(Value::as_array);
        let word = branch.get("const").filter(|word| word.is_string());
        values.cloned().or_else(|| Some(vec![word?.clone()]))
    });
    let Some(words) = words.collect::<Option<Vec<_>>>() else {
        return;
    };
    fields.remove("oneOf");
    fields.remove("type");
    fields.insert("enum".to_owned(), words.into_iter().flatten().collect());
}

/// Of closed objects that are alternatives, what is the same in all of them is said once. That it is
/// closed is said once, too, for what is evaluated in any way.
fn hoist(fields: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = fields.get_mut("anyOf") else {
        return;
    };
    let is_closed = |branch: &Value| branch["additionalProperties"] == Value::Bool(false);
    let (mut objects, rest): (Vec<Value>, Vec<Value>) =
        std::mem::take(branches).into_iter().partition(is_closed);
    let [first, others @ ..] = objects.as_slice() else {
        *branches = rest;
        return;
    };
    if others.is_empty() {
        *branches = rest.into_iter().chain(objects).collect();
        return;
    }
    let properties = first["properties"].as_object().cloned().unwrap_or_default();
    let is_common = |name: &str, schema: &Value| {
        others
            .iter()
            .all(|other| other["properties"].get(name) == Some(schema))
    };
    let common: Map<String, Value> = properties
        .into_iter()
        .filter(|(name, schema)| is_common(name, schema))
        .collect();
    for object in objects.iter_mut().filter_map(Value::as_object_mut) {
        object.remove("additionalProperties");
        object.remove("type");
        if let Some(own) = object.get_mut("properties").and_then(Value::as_object_mut) {
            own.retain(|name, _| !common.contains_key(name));
        }
    }
    let mut one = Map::new();
    one.insert("type".to_owned(), Value::from("object"));
    one.insert("properties".to_owned(), Value::Object(common));
    one.insert("anyOf".to_owned(), Value::Array(objects));
    one.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    *branches = rest;
    branches.push(Value::Object(one));
}
