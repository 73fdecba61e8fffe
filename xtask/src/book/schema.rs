//! JSON Schema as tables: the properties of an object, a row for each.

use std::collections::BTreeSet;

use serde_json::Value;

use super::markdown::{cell, code};

/// How deep objects in objects are shown.
const DEPTH: usize = 4;

/// The head of a table of properties.
pub(super) const HEAD: &str = "| name | type | required | meaning |\n|---|---|---|---|\n";

/// The rows of an object's properties and of those of objects in it, or nothing if it has none.
/// `reference` says how a schema that is referred to by name is written.
pub(super) fn rows(schema: &Value, reference: &dyn Fn(&str) -> String) -> String {
    let mut rows = String::new();
    add_rows("", schema, reference, DEPTH, &mut rows);
    rows
}

fn add_rows(
    above: &str,
    schema: &Value,
    reference: &dyn Fn(&str) -> String,
    depth: usize,
    rows: &mut String,
) {
    let required = names(&schema["required"]);
    for (name, property) in properties(schema) {
        let place = format!("{above}{name}");
        let must = if required.contains(&name) { "yes" } else { "" };
        let meaning = [description(property), bounds(property)].concat();
        rows.push_str(&format!(
            "| {} | {} | {must} | {} |\n",
            code(&place),
            type_of(property, reference),
            meaning.join("; ")
        ));
        if depth > 1 {
            add_rows(&format!("{place}."), property, reference, depth - 1, rows);
            let items = format!("{place}[].");
            add_rows(&items, &property["items"], reference, depth - 1, rows);
        }
    }
}

/// The properties: those that must be given in the order in which the schema says so, then the
/// others by name, since the order of an object's members is no promise.
fn properties(schema: &Value) -> Vec<(&str, &Value)> {
    let Some(all) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let required = names(&schema["required"]);
    let first = required.iter().filter_map(|name| all.get_key_value(*name));
    let rest: BTreeSet<&String> = all.keys().collect();
    let rest = rest
        .into_iter()
        .filter(|name| !required.contains(&name.as_str()));
    let rest = rest.filter_map(|name| all.get_key_value(name));
    first
        .chain(rest)
        .map(|(name, property)| (name.as_str(), property))
        .collect()
}

/// The names of all properties, those that must be there first.
pub(super) fn property_names(schema: &Value) -> (Vec<&str>, Vec<&str>) {
    let required = names(&schema["required"]);
    let all = properties(schema).into_iter().map(|(name, _)| name);
    all.partition(|name| required.contains(name))
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

/// A schema's type in a few words.
pub(super) fn type_of(schema: &Value, reference: &dyn Fn(&str) -> String) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return reference(name.rsplit('/').next().unwrap_or(name));
    }
    for choice in ["anyOf", "oneOf"] {
        if let (None, Some(choices)) = (schema.get("type"), schema[choice].as_array()) {
            let mut types: Vec<String> = Vec::new();
            for one in choices.iter().map(|choice| type_of(choice, reference)) {
                if !types.contains(&one) {
                    types.push(one);
                }
            }
            return types.join(" or ");
        }
    }
    if let Some(value) = schema.get("const") {
        return code(&value.to_string());
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().map(|value| match value.as_str() {
            Some(text) => code(text),
            None => code(&value.to_string()),
        });
        return values.collect::<Vec<_>>().join(", ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match schema.get("items") {
            Some(items) => format!("array of {}", type_of(items, reference)),
            None => name.clone(),
        },
        Value::String(name) => name.clone(),
        Value::Array(_) => names(&schema["type"]).join(" or "),
        _ => "anything".to_owned(),
    }
}

/// What a schema says of itself, as the first of several parts of a sentence.
fn description(schema: &Value) -> Vec<String> {
    let said = schema["description"].as_str();
    let said = said.map(|said| cell(said.trim_end().trim_end_matches('.')));
    said.into_iter().collect()
}

/// What else a value must keep to.
fn bounds(schema: &Value) -> Vec<String> {
    let mut said = Vec::new();
    for (least, most, unit) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " members"),
    ] {
        match (schema[least].as_i64(), schema[most].as_i64()) {
            (Some(least), Some(most)) => said.push(format!("{least} to {most}{unit}")),
            // That something is not negative goes without saying.
            (Some(0), None) => {}
            (Some(least), None) => said.push(format!("at least {least}{unit}")),
            (None, Some(most)) => said.push(format!("at most {most}{unit}")),
            (None, None) => {}
        }
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        said.push(format!("as {}", code(pattern)));
    }
    if let Some(value) = schema.get("default") {
        said.push(format!("{} unless given", code(&value.to_string())));
    }
    said
}

/// The same value with the members of each object in the order of their names.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let names: BTreeSet<&String> = members.keys().collect();
            let pairs = names
                .into_iter()
                .map(|name| (name.clone(), sorted(&members[name])));
            Value::Object(pairs.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_in_lists_have_rows_of_their_own() {
        let schema = json!({"type": "object", "required": ["z"], "properties": {
            "b": {"type": "array", "items": {"properties": {"c": {"enum": ["x|y"]}}}, "maxItems": 3},
            "z": {"type": "string", "description": "a | b", "minLength": 1},
        }});
        let expected = "| `z` | string | yes | a \\| b; at least 1 characters |\n\
                        | `b` | array of anything |  | at most 3 items |\n\
                        | `b[].c` | `x\\|y` |  |  |\n";
        assert_eq!(rows(&schema, &code), expected);
    }
}
