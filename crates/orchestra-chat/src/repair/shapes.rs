//! The shapes in which models write a call as a value.

use serde_json::{Map, Value};

use super::{Said, lenient};

/// Members that name the tool.
const NAMES: [&str; 9] = [
    "name",
    "tool",
    "tool_name",
    "toolName",
    "function",
    "function_name",
    "action",
    "recipient_name",
    "method",
];
/// Members that hold its arguments.
const ARGUMENTS: [&str; 12] = [
    "arguments",
    "parameters",
    "args",
    "params",
    "input",
    "inputs",
    "tool_input",
    "toolInput",
    "action_input",
    "actionInput",
    "kwargs",
    "tool_args",
];
/// Members that hold several calls.
const SEVERAL: [&str; 4] = ["tool_calls", "toolCalls", "function_calls", "calls"];
/// Members that hold one.
const ONE: [&str; 4] = ["function", "function_call", "tool_call", "toolCall"];
/// Members beside these that are no arguments.
const BESIDE: [&str; 8] = [
    "id",
    "type",
    "call_id",
    "index",
    "thought",
    "thoughts",
    "reasoning",
    "explanation",
];

/// Most calls that are read of one value.
const MOST: usize = 64;

/// The calls that a value is.
pub(super) fn calls(value: &Value) -> Vec<Said> {
    let mut said = Vec::new();
    collect(value, &mut said, 4);
    said.truncate(MOST);
    said
}

fn collect(value: &Value, said: &mut Vec<Said>, depth: usize) {
    if depth == 0 || said.len() >= MOST {
        return;
    }
    match value {
        Value::Array(list) => list.iter().for_each(|one| collect(one, said, depth - 1)),
        Value::Object(object) => of_object(object, said, depth - 1),
        // A value that was written as a text.
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            if let Some(inner) = lenient::whole(text) {
                collect(&inner, said, depth - 1);
            }
        }
        _ => {}
    }
}

fn of_object(object: &Map<String, Value>, said: &mut Vec<Said>, depth: usize) {
    for several in SEVERAL {
        if let Some(list @ (Value::Array(_) | Value::String(_))) = object.get(several) {
            return collect(list, said, depth);
        }
    }
    for one in ONE {
        if let Some(inner @ Value::Object(_)) = object.get(one) {
            return collect(inner, said, depth);
        }
    }
    let name = NAMES.iter().find_map(|member| {
        let name = object.get(*member)?.as_str()?;
        Some((*member, name))
    });
    let Some((member, name)) = name else {
        return by_key(object, said);
    };
    let arguments = ARGUMENTS.iter().find_map(|member| object.get(*member));
    said.push(match arguments {
        Some(arguments) => Said::new(name, arguments.clone()),
        None => {
            let is_argument = |key: &String| key != member && !BESIDE.contains(&key.as_str());
            let rest = object.iter().filter(|(key, _)| is_argument(key));
            let rest = rest.map(|(key, value)| (key.clone(), value.clone()));
            Said {
                is_beside: true,
                ..Said::new(name, Value::Object(rest.collect()))
            }
        }
    });
}

/// `{"get_weather": {"city": "Rome"}}`.
fn by_key(object: &Map<String, Value>, said: &mut Vec<Said>) {
    let mut members = object.iter();
    if let (Some((name, arguments @ Value::Object(_))), None) = (members.next(), members.next()) {
        said.push(Said {
            by_key: true,
            ..Said::new(name, arguments.clone())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_usual_shapes_are_known() {
        let arguments = json!({"city": "Rome"});
        for shape in [
            json!({"name": "f", "arguments": arguments}),
            json!({"name": "f", "parameters": arguments}),
            json!({"type": "function", "function": {"name": "f", "arguments": arguments}}),
            json!({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": arguments}}]}),
            json!({"function_call": {"name": "f", "arguments": arguments}}),
            json!({"tool": "f", "tool_input": arguments}),
            json!({"action": "f", "action_input": arguments}),
            json!({"tool_name": "f", "parameters": arguments}),
            json!([{"function": "f", "args": arguments}]),
            json!({"name": "f", "city": "Rome"}),
            json!({"f": arguments}),
            json!("{\"name\": \"f\", \"arguments\": {\"city\": \"Rome\"}}"),
        ] {
            let found = calls(&shape);
            assert_eq!(found.len(), 1, "{shape}");
            assert_eq!(
                (found[0].name.as_str(), &found[0].named),
                ("f", &arguments),
                "{shape}"
            );
        }
        assert_eq!(calls(&json!([{"name": "f"}, {"name": "g"}])).len(), 2);
        for none in [
            json!(1),
            json!({}),
            json!({"a": 1}),
            json!({"a": {}, "b": {}}),
            json!("text"),
        ] {
            assert!(calls(&none).is_empty(), "{none}");
        }
    }
}
