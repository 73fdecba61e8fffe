//! Arguments as a tool takes them: what is clearly meant is put right, everything else is left for the tool's schema
//! to refuse.

use serde_json::{Map, Number, Value};

use super::{Fault, lenient};
use crate::{exact, tool::Tool};

/// How deep values are put right.
const DEPTH: usize = 6;

/// Digits that every number holds.
const EXACT_DIGITS: usize = 15;

/// How often arguments are written as a text within a text.
const LAYERS: usize = 2;

/// What models put all arguments into, where the tool has no such argument.
const WRAPPERS: [&str; 8] = [
    "arguments",
    "parameters",
    "args",
    "params",
    "input",
    "kwargs",
    "properties",
    "tool_input",
];

/// What was said as the arguments of a tool, put right.
///
/// # Errors
/// The fault of arguments that are not certainly one object.
pub(super) fn arguments(
    tool: &Tool,
    said: &Value,
    positional: &[Value],
) -> Result<Map<String, Value>, Fault> {
    let schema = tool.whole_schema();
    if let Value::Object(object) = said
        && positional.is_empty()
        && is_fit(tool, object)
    {
        return Ok(object.clone());
    }
    let mut given = of_value(tool, said, LAYERS)?;
    // `{"arguments": {"city": …}}`.
    for _ in 0..2 {
        let Some((name, inner)) = given.iter().next().filter(|_| given.len() == 1) else {
            break;
        };
        let is_wrapper =
            WRAPPERS.contains(&name.as_str()) && schema["properties"].get(name).is_none();
        let inner = match inner {
            Value::Object(inner) => Some(inner.clone()),
            Value::String(text) => exact::value(text)
                .ok()
                .and_then(|value| value.as_object().cloned()),
            _ => None,
        };
        match inner.filter(|_| is_wrapper) {
            Some(inner) => given = inner,
            None => break,
        }
    }
    let mut own = tool.arguments();
    for value in positional {
        let name = own.next().filter(|name| !given.contains_key(*name));
        let name = name.ok_or_else(|| {
            let value: String = value.to_string().chars().take(40).collect();
            Fault::Unreadable(format!("no argument can be meant by `{value}`: name it"))
        })?;
        given.insert(name.to_owned(), value.clone());
    }
    Ok(object(given, schema, schema, DEPTH))
}

/// Whether a tool takes arguments as they are: all of them are its own, and nothing is wrong with them.
fn is_fit(tool: &Tool, given: &Map<String, Value>) -> bool {
    let own = tool.whole_schema()["properties"].as_object();
    let is_own = |name: &String| own.is_none_or(|own| own.is_empty() || own.contains_key(name));
    // `3.0` is an integer, and not every server knows it.
    let has_point = given.values().any(Value::is_f64);
    !has_point && given.keys().all(is_own) && tool.mistakes(given).is_none()
}

/// An object, or the text of one; nothing for a tool that has no arguments.
fn of_value(tool: &Tool, said: &Value, layers: usize) -> Result<Map<String, Value>, Fault> {
    let is_nothing = match said {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        // Some servers write an empty object so.
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    match said {
        Value::Object(object) => Ok(object.clone()),
        _ if is_nothing => match tool.arguments().next() {
            None => Ok(Map::new()),
            Some(_) => Err(Fault::Missing),
        },
        Value::String(text) if layers > 0 => of_value(tool, &exact::value(text)?, layers - 1),
        _ => Err(Fault::NotAnObject),
    }
}

fn object(
    given: Map<String, Value>,
    schema: &Value,
    root: &Value,
    depth: usize,
) -> Map<String, Value> {
    let properties = schema["properties"].as_object();
    let required = schema["required"].as_array();
    let is_required = |name: &str| {
        let mut names = required.into_iter().flatten();
        names.any(|own| own.as_str() == Some(name))
    };
    let mut fitted = Map::new();
    let exact: Vec<String> = given.keys().cloned().collect();
    for (name, value) in given {
        let own = properties.and_then(|own| named(&name, own, &exact, &fitted));
        let name = own.unwrap_or(name);
        let schema = properties.and_then(|own| own.get(&name));
        let value = match schema {
            Some(schema) => put_right(value, schema, root, depth),
            None => value,
        };
        // What is not given is left out, whatever is written for it.
        if !value.is_null() || is_required(&name) {
            fitted.insert(name, value);
        }
    }
    fitted
}

/// The argument that is meant by a name which is none: the only one that is the same but for case and what separates
/// words, and that is not given by its own name.
fn named(
    name: &str,
    own: &Map<String, Value>,
    exact: &[String],
    taken: &Map<String, Value>,
) -> Option<String> {
    if own.contains_key(name) {
        return None;
    }
    let folded = |text: &str| {
        let letters = text.chars().filter(|c| !matches!(c, '_' | '-'));
        letters.flat_map(char::to_lowercase).collect::<String>()
    };
    let wanted = folded(name);
    let is_free = |own: &String| !exact.contains(own) && !taken.contains_key(own);
    let mut found = own
        .keys()
        .filter(|own| folded(own) == wanted && is_free(own));
    let first = found.next()?;
    found.next().is_none().then(|| first.clone())
}

/// A value in the form that its schema wants, where that is clear.
fn put_right(value: Value, schema: &Value, root: &Value, depth: usize) -> Value {
    let schema = resolved(schema, root);
    if depth == 0 {
        return value;
    }
    let wants = |kind: &str| takes(schema, root, kind);
    match value {
        Value::String(text) if !wants("string") => of_string(text, schema, root, depth),
        Value::String(text) => choice(text, schema, root),
        Value::Number(number) if wants("integer") && !wants("number") => whole_number(&number),
        Value::Number(number) if wants("string") && !wants("number") && !wants("integer") => {
            Value::String(number.to_string())
        }
        Value::Bool(is) if wants("string") && !wants("boolean") => Value::String(is.to_string()),
        Value::Object(object_value) if wants("object") => {
            let schema = object_of(schema, root);
            Value::Object(object(object_value, schema, root, depth - 1))
        }
        Value::Array(list) if wants("array") => {
            let items = &array_of(schema, root)["items"];
            let list = list
                .into_iter()
                .map(|item| put_right(item, items, root, depth - 1));
            Value::Array(list.collect())
        }
        // A list of one thing where that thing is wanted.
        Value::Array(mut list) if list.len() == 1 && !schema.is_null() && known(schema, root) => {
            put_right(list.remove(0), schema, root, depth - 1)
        }
        Value::Null => Value::Null,
        // One thing where a list of them is wanted.
        other if wants("array") && known(schema, root) && !accepts(&other, schema, root) => {
            let items = &array_of(schema, root)["items"];
            Value::Array(vec![put_right(other, items, root, depth - 1)])
        }
        other => other,
    }
}

/// A text that stands for something else.
fn of_string(text: String, schema: &Value, root: &Value, depth: usize) -> Value {
    let wants = |kind: &str| takes(schema, root, kind);
    let trimmed = text.trim();
    if wants("integer") || wants("number") {
        let plain = ungrouped(trimmed);
        if let Ok(number) = plain.parse::<i64>() {
            return Value::from(number);
        }
        if let Ok(number) = plain.parse::<u64>() {
            return Value::from(number);
        }
        // Digits that a number does not hold stay a text.
        let is_exact = plain.len() <= EXACT_DIGITS || plain.contains(['.', 'e', 'E']);
        if let Some(number) = plain
            .parse()
            .ok()
            .filter(|_| is_exact)
            .and_then(Number::from_f64)
        {
            return match wants("number") {
                true => Value::Number(number),
                false => whole_number(&number),
            };
        }
    }
    if wants("boolean") {
        match trimmed.to_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => return Value::Bool(true),
            "false" | "no" | "off" | "0" => return Value::Bool(false),
            _ => {}
        }
    }
    if is_nothing(trimmed)
        && (wants("integer")
            || wants("number")
            || wants("boolean")
            || wants("array")
            || wants("object"))
    {
        return Value::Null;
    }
    if (wants("array") || wants("object"))
        && let Some(inner @ (Value::Array(_) | Value::Object(_))) = lenient::whole(trimmed)
    {
        return put_right(inner, schema, root, depth - 1);
    }
    // The start of a list is not a list of names.
    let is_unreadable = trimmed.starts_with(['[', '{']);
    if wants("array") && known(schema, root) && !is_unreadable {
        let items = &array_of(schema, root)["items"];
        let parts: Vec<&str> = match trimmed.contains(['\n', ';']) {
            true => trimmed.split(['\n', ';']).collect(),
            false => trimmed.split(',').collect(),
        };
        let parts = parts
            .into_iter()
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let parts = parts.map(|part| put_right(Value::from(part), items, root, depth - 1));
        return Value::Array(parts.collect());
    }
    Value::String(text)
}

/// A number without what groups its thousands; what is otherwise stays as it is.
fn ungrouped(text: &str) -> String {
    for sign in [',', '_'] {
        let mut groups = text.trim_start_matches(['-', '+']).split(sign);
        let first = groups.next().unwrap_or_default();
        let is_digits = |group: &str| group.bytes().all(|b| b.is_ascii_digit());
        let mut rest = groups.peekable();
        let has_more = rest.peek().is_some();
        let last_whole = |group: &str| group.split('.').next().unwrap_or_default().len() == 3;
        if has_more
            && (1..=3).contains(&first.len())
            && is_digits(first)
            && rest.all(|group| last_whole(group) && is_digits(&group.replacen('.', "", 1)))
        {
            return text.replace(sign, "");
        }
    }
    text.to_owned()
}

/// Whether a text stands for no value.
fn is_nothing(text: &str) -> bool {
    matches!(
        text.trim().to_lowercase().as_str(),
        "" | "null" | "none" | "undefined"
    )
}

/// One of the texts that may be chosen from, where a text is the same but for signs and case.
fn choice(text: String, schema: &Value, root: &Value) -> Value {
    let folded = |text: &str| {
        let letters = text.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect::<String>()
    };
    let mut choices: Vec<&str> = Vec::new();
    for form in forms(schema, root) {
        let listed = form["enum"].as_array().into_iter().flatten();
        choices.extend(listed.filter_map(Value::as_str));
        choices.extend(form["const"].as_str());
    }
    if choices.is_empty() || choices.contains(&text.as_str()) {
        return Value::String(text);
    }
    // `'celsius'` within quotes.
    let bare = text.trim().trim_matches(['"', '\'', '`']);
    if choices.contains(&bare) {
        return Value::from(bare);
    }
    let wanted = folded(&text);
    let mut found = choices
        .into_iter()
        .filter(|choice| folded(choice) == wanted);
    match (found.next(), found.next()) {
        (Some(only), None) => Value::from(only),
        (None, _) if is_nothing(&text) => Value::Null,
        _ => Value::String(text),
    }
}

fn whole_number(number: &Number) -> Value {
    let float = number
        .as_f64()
        .filter(|float| float.fract() == 0.0 && float.abs() < 9e15);
    match (number.is_f64(), float) {
        (true, Some(float)) => Value::from(float as i64),
        _ => Value::Number(number.clone()),
    }
}

/// The forms that a value may have.
fn forms<'s>(schema: &'s Value, root: &'s Value) -> Vec<&'s Value> {
    let schema = resolved(schema, root);
    let mut forms = vec![schema];
    for name in ["anyOf", "oneOf", "allOf"] {
        let several = schema[name].as_array().into_iter().flatten();
        forms.extend(several.map(|form| resolved(form, root)));
    }
    forms
}

/// Whether a schema says of which types its values are.
fn known(schema: &Value, root: &Value) -> bool {
    let says = |form: &&Value| form.get("type").is_some();
    forms(schema, root).iter().any(says)
}

/// Whether values of a type are among those that a schema takes, by what it says of types.
fn takes(schema: &Value, root: &Value, kind: &str) -> bool {
    forms(schema, root).iter().any(|form| match &form["type"] {
        Value::String(own) => own == kind,
        Value::Array(own) => own.iter().any(|own| own == kind),
        // It says nothing of types: of choices, those of these.
        _ => {
            let choices = form["enum"].as_array().into_iter().flatten();
            let mut choices = choices.chain(form.get("const"));
            kind == "string" && choices.any(Value::is_string)
        }
    })
}

fn accepts(value: &Value, schema: &Value, root: &Value) -> bool {
    let kind = match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => return takes(schema, root, "integer") || takes(schema, root, "number"),
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null => "null",
    };
    takes(schema, root, kind)
}

fn object_of<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let has = |form: &&Value| form.get("properties").is_some();
    forms(schema, root).into_iter().find(has).unwrap_or(schema)
}

fn array_of<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let has = |form: &&Value| form.get("items").is_some();
    forms(schema, root).into_iter().find(has).unwrap_or(schema)
}

fn resolved<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let place = reference.and_then(|reference| reference.strip_prefix('#'));
    place
        .and_then(|place| root.pointer(place))
        .unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{Described, Nature, Tools};
    use serde_json::json;

    fn tool() -> Tools {
        let schema = json!({
            "type": "object",
            "$defs": {"Unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "ratio": {"type": ["number", "null"]},
                "deep": {"type": "boolean"},
                "unit": {"$ref": "#/$defs/Unit"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "numbers": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
                "place": {"type": "object", "properties": {"zipCode": {"type": "string"}}},
                "any": {},
            },
            "required": ["city"],
        });
        Tools::new([Described {
            name: "f".to_owned(),
            description: String::new(),
            schema,
            lean: None,
            server: None,
            nature: Nature::Reads,
        }])
    }

    fn check(said: Value, expected: Value) {
        let tools = tool();
        let fitted = Value::Object(arguments(&tools.all()[0], &said, &[]).unwrap());
        assert_eq!(fitted, expected, "{said}");
    }

    #[test]
    fn what_is_clearly_meant_is_put_right() {
        check(
            json!({"city": "Rome", "days": "3"}),
            json!({"city": "Rome", "days": 3}),
        );
        check(
            json!({"city": "Rome", "days": 3.0}),
            json!({"city": "Rome", "days": 3}),
        );
        check(
            json!({"City": 5, "DAYS": "1,000"}),
            json!({"city": "5", "days": 1000}),
        );
        check(
            json!({"ratio": "0.5", "deep": "True"}),
            json!({"ratio": 0.5, "deep": true}),
        );
        check(json!({"unit": "Celsius"}), json!({"unit": "celsius"}));
        check(json!({"tags": "a, b"}), json!({"tags": ["a", "b"]}));
        check(json!({"tags": "['a', 'b']"}), json!({"tags": ["a", "b"]}));
        check(json!({"tags": [1, "b"]}), json!({"tags": ["1", "b"]}));
        check(json!({"numbers": 5}), json!({"numbers": [5]}));
        check(json!({"numbers": "[1, 2]"}), json!({"numbers": [1, 2]}));
        check(
            json!({"place": "{\"zip_code\": 123}"}),
            json!({"place": {"zipCode": "123"}}),
        );
        check(json!({"city": ["Rome"]}), json!({"city": "Rome"}));
        check(
            json!({"city": "Rome", "days": null, "deep": "null"}),
            json!({"city": "Rome"}),
        );
        check(
            json!({"arguments": {"city": "Rome"}}),
            json!({"city": "Rome"}),
        );
        check(
            json!({"parameters": "{\"city\": \"Rome\"}"}),
            json!({"city": "Rome"}),
        );
        check(json!("{\"city\": \"Rome\"}"), json!({"city": "Rome"}));
    }

    #[test]
    fn what_is_not_clear_is_left_as_it_is() {
        for said in [
            json!({"city": "Rome", "days": "three"}),
            json!({"unit": "kelvin"}),
            json!({"deep": "maybe"}),
            json!({"town": "Rome"}),
            json!({"City": "Rome", "city": "Oslo"}),
            json!({"any": ["x"], "city": "a, b"}),
            json!({"place": "here"}),
            json!({"place": "{\"zipCode\": \"1"}),
            json!({"tags": "[\"a\", \"b"}),
            json!({"city": null}),
        ] {
            check(said.clone(), said);
        }
    }

    #[test]
    fn arguments_that_are_not_one_object_have_a_fault() {
        let tools = tool();
        for (said, fault) in [
            (json!("{\"city\": \"Rom"), Fault::Incomplete),
            (json!("\"{\\\"city\\\": \\\"Rom\""), Fault::Incomplete),
            (json!("\"Rome\""), Fault::Unreadable(String::new())),
            (json!("Rome"), Fault::Unreadable(String::new())),
            (
                json!("{\"city\": \"Rome\"}}"),
                Fault::Unreadable(String::new()),
            ),
            (json!(["Rome", 3]), Fault::NotAnObject),
            (json!(5), Fault::NotAnObject),
            (json!(""), Fault::Missing),
            (json!(null), Fault::Missing),
        ] {
            let found = arguments(&tools.all()[0], &said, &[]).unwrap_err();
            let found = match found {
                Fault::Unreadable(_) => Fault::Unreadable(String::new()),
                found => found,
            };
            assert_eq!(found, fault, "{said}");
        }
    }
}
