//! Schemas of tools as a small model can read them: what it needs to make a call, and nothing else.

use serde_json::{Map, Value, json};

/// Words of a description that are kept.
const WORDS: usize = 25;
/// How deep a schema is shown; below, anything is an object.
const DEPTH: usize = 4;
/// Parts of a schema that are shown; one with more is no help to a small model.
const PARTS: usize = 400;
/// Choices that are listed.
const CHOICES: usize = 40;
/// Choices that are looked at.
const MAX_CHOICES: usize = 1_000;
/// Longest example of a choice.
const CHOICE_CHARS: usize = 80;

/// Members of a schema that tell a model how to make a value.
const KEPT: [&str; 6] = [
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
];

/// A schema of arguments as it is shown to a model: references are put in, `null` and what is the same of several
/// choices goes, descriptions are cut. It is an object schema whatever it was.
#[must_use]
pub(crate) fn simplified(schema: &Value) -> Value {
    let mut shower = Shower {
        root: schema,
        left: PARTS,
    };
    let mut shown = shower.shown(schema, DEPTH);
    let object = shown.as_object_mut();
    let Some(object) = object.filter(|object| object.get("type") == Some(&json!("object"))) else {
        return json!({"type": "object", "properties": {}});
    };
    object.remove("description");
    object.entry("properties").or_insert_with(|| json!({}));
    shown
}

/// A description in few words: its first sentence where that says enough.
#[must_use]
pub(crate) fn shortened(text: &str) -> String {
    let mut words = text.split_whitespace();
    let mut kept: Vec<&str> = Vec::new();
    for word in words.by_ref().take(WORDS) {
        kept.push(word);
        let ends = word.ends_with('.') && !word.ends_with("e.g.") && !word.ends_with("i.e.");
        if ends && kept.len() >= WORDS / 2 {
            return kept.join(" ");
        }
    }
    match words.next() {
        None => kept.join(" "),
        Some(_) => format!("{}…", kept.join(" ")),
    }
}

/// Shows the parts of one schema.
struct Shower<'s> {
    root: &'s Value,
    /// How many more parts are shown.
    left: usize,
}

impl Shower<'_> {
    fn shown(&mut self, schema: &Value, depth: usize) -> Value {
        let root = self.root;
        let schema = resolved(schema, root, DEPTH).as_object();
        let Some(schema) = schema.filter(|_| self.left > 0) else {
            return json!({});
        };
        self.left -= 1;
        let mut out = Map::new();
        let listed = choices(schema, root);
        let one = match listed {
            Some(_) => None,
            None => one_of_many(schema, root, &mut self.left),
        };
        let listed = listed.or_else(|| choices(one.as_ref()?, root));
        let schema = one.as_ref().unwrap_or(schema);
        if let Some(kind) = kind_of(schema) {
            out.insert("type".to_owned(), json!(kind));
        }
        if let Some(text) = schema.get("description").and_then(Value::as_str) {
            out.insert("description".to_owned(), json!(shortened(text)));
        }
        if let Some(listed) = listed {
            out.insert("enum".to_owned(), Value::Array(listed));
        }
        for member in KEPT {
            if let Some(bound) = schema.get(member).filter(|bound| bound.is_number()) {
                out.insert(member.to_owned(), bound.clone());
            }
        }
        if depth > 0 {
            self.below(schema, depth - 1, &mut out);
        }
        Value::Object(out)
    }

    fn below(&mut self, schema: &Map<String, Value>, depth: usize, out: &mut Map<String, Value>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let mut shown = Map::new();
            for (name, property) in properties {
                shown.insert(name.clone(), self.shown(property, depth));
            }
            out.insert("type".to_owned(), json!("object"));
            out.insert("properties".to_owned(), Value::Object(shown));
            if let Some(required) = schema.get("required").filter(|names| names.is_array()) {
                out.insert("required".to_owned(), required.clone());
            }
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            out.insert("items".to_owned(), self.shown(items, depth));
        }
    }
}

/// What a reference within the same schema leads to.
fn resolved<'s>(schema: &'s Value, root: &'s Value, steps: usize) -> &'s Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let Some(place) = reference.and_then(|reference| reference.strip_prefix('#')) else {
        return schema;
    };
    match root.pointer(place) {
        Some(found) if steps > 0 => resolved(found, root, steps - 1),
        _ => schema,
    }
}

/// The values that may be chosen from: of `enum`, or of choices that are one value each.
fn choices(schema: &Map<String, Value>, root: &Value) -> Option<Vec<Value>> {
    let is_short = |value: &Value| match value {
        Value::String(text) => text.chars().count() <= CHOICE_CHARS,
        value => !value.is_object() && !value.is_array() && !value.is_null(),
    };
    let several = |name: &str| schema.get(name).and_then(Value::as_array);
    let listed: Vec<&[Value]> = match several("enum") {
        Some(values) => vec![&values[..]],
        None => {
            let each = several("oneOf").or_else(|| several("anyOf"))?;
            let values = each.iter().map(|choice| {
                let choice = resolved(choice, root, DEPTH);
                match choice.get("enum").and_then(Value::as_array) {
                    Some(values) => Some(&values[..]),
                    None => choice.get("const").map(std::slice::from_ref),
                }
            });
            values.collect::<Option<_>>()?
        }
    };
    let listed = listed.into_iter().flatten().take(MAX_CHOICES);
    let shown = listed.filter(|value| is_short(value)).take(CHOICES);
    let shown: Vec<Value> = shown.cloned().collect();
    (!shown.is_empty()).then_some(shown)
}

/// Merges a choice between forms of a value into one schema: the first form that is not `null`, or all forms of
/// `allOf`. Keywords beside the choice apply too. Each merged form counts as a part.
fn one_of_many(
    schema: &Map<String, Value>,
    root: &Value,
    left: &mut usize,
) -> Option<Map<String, Value>> {
    let forms = ["anyOf", "oneOf", "allOf"];
    if !forms.iter().any(|name| schema.contains_key(*name)) {
        return None;
    }
    let mut out = schema.clone();
    let mut found = false;
    for name in forms {
        let Some(Value::Array(forms)) = schema.get(name) else {
            continue;
        };
        let forms = forms.iter().map(|form| resolved(form, root, DEPTH));
        let meant = forms.filter(|form| form.get("type") != Some(&json!("null")));
        // All of them hold at once, or any will do.
        let most = if name == "allOf" { usize::MAX } else { 1 };
        for form in meant.take(most.min(*left)).filter_map(Value::as_object) {
            found = true;
            *left -= 1;
            for (key, value) in form {
                merge(&mut out, key, value);
            }
        }
    }
    found.then_some(out)
}

fn merge(out: &mut Map<String, Value>, key: &str, value: &Value) {
    match (out.get_mut(key), value) {
        (Some(Value::Object(own)), Value::Object(more)) if key == "properties" => {
            own.extend(more.clone());
        }
        (Some(Value::Array(own)), Value::Array(more)) if key == "required" => {
            own.extend(more.clone());
        }
        (Some(_), _) => {}
        (None, _) => {
            out.insert(key.to_owned(), value.clone());
        }
    }
}

/// Its type; of several the first that is not `null`.
fn kind_of(schema: &Map<String, Value>) -> Option<String> {
    match schema.get("type")? {
        Value::String(kind) => Some(kind.clone()),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds.find(|kind| *kind != "null").map(str::to_owned)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, expected: Value) {
        assert_eq!(simplified(&schema), expected, "{schema}");
    }

    #[test]
    fn what_a_model_does_not_need_goes() {
        check(
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Args",
                "type": "object", "additionalProperties": false, "description": "All.",
                "properties": {
                    "city": {"type": "string", "title": "City", "minLength": 1, "pattern": "^.+$", "examples": ["x"]},
                    "days": {"type": ["integer", "null"], "default": 3, "minimum": 1, "format": "uint"},
                },
                "required": ["city"]
            }),
            json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string", "minLength": 1},
                    "days": {"type": "integer", "minimum": 1},
                },
                "required": ["city"]
            }),
        );
        for odd in [
            json!(true),
            json!({}),
            json!({"type": "string"}),
            json!(null),
        ] {
            check(odd, json!({"type": "object", "properties": {}}));
        }
    }

    #[test]
    fn references_and_choices_are_put_in() {
        check(
            json!({
                "type": "object",
                "$defs": {"Unit": {"enum": ["c", "f"], "type": "string"}, "Loop": {"$ref": "#/$defs/Loop"}},
                "properties": {
                    "unit": {"anyOf": [{"$ref": "#/$defs/Unit"}, {"type": "null"}], "description": "Which."},
                    "kind": {"oneOf": [{"const": "a", "description": "A"}, {"const": "b"}]},
                    "loop": {"$ref": "#/$defs/Loop"},
                    "list": {"type": "array", "items": {"$ref": "#/$defs/Unit"}},
                }
            }),
            json!({
                "type": "object",
                "properties": {
                    "unit": {"type": "string", "description": "Which.", "enum": ["c", "f"]},
                    "kind": {"enum": ["a", "b"]},
                    "loop": {},
                    "list": {"type": "array", "items": {"type": "string", "enum": ["c", "f"]}},
                }
            }),
        );
    }

    #[test]
    fn what_is_deep_is_any_object_and_what_is_long_is_cut() {
        let mut deep = json!({"type": "string"});
        for _ in 0..50 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        assert!(simplified(&deep).to_string().len() < 300);
        let wide = |inner: Value| {
            let properties = (0..30).map(|at| (format!("p{at}"), inner.clone()));
            json!({"type": "object", "properties": properties.collect::<Map<_, _>>()})
        };
        let wide = wide(wide(wide(json!({"type": "string", "description": "x"}))));
        assert!(simplified(&wide).to_string().len() < 40_000);
        let properties = (0..1_000).map(|at| (format!("p{at}"), json!({"type": "string"})));
        let large =
            json!({"properties": properties.collect::<Map<_, _>>(), "required": vec!["p0"; 1_000]});
        let forms = vec![json!({"$ref": "#/$defs/large"}); 1_000];
        let repeated = simplified(&json!({"$defs": {"large": large}, "allOf": forms}));
        let required = repeated["required"].as_array().unwrap();
        assert!(required.len() < 1_000 * PARTS, "{}", required.len());
        let long = "word ".repeat(100);
        assert_eq!(shortened(&long).split(' ').count(), WORDS);
        assert_eq!(shortened(" Two  words. "), "Two words.");
        let sentences = format!("{}end. More of it.", "a ".repeat(13));
        assert!(shortened(&sentences).ends_with("end."));
    }
}
