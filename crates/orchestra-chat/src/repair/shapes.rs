//! The shapes in which models write a call as a value.

use serde_json::{Map, Value};

use super::{Fault, Said, lenient};

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
const BESIDE: [&str; 9] = [
    "id",
    "type",
    "call_id",
    "tool_call_id",
    "index",
    "thought",
    "thoughts",
    "reasoning",
    "explanation",
];

/// Most calls that are read of one value.
const MOST: usize = 64;

/// The calls in a value. If the value contains anything else, the calls have a fault.
pub(super) fn calls(value: &Value) -> Vec<Said> {
    let mut said = Vec::new();
    let is_alone = collect(value, &mut said, 4);
    said.truncate(MOST);
    let fault = (!is_alone).then_some(Fault::Surrounded);
    let said = said.into_iter().map(|said| said.with(fault.clone()));
    said.collect()
}

/// Adds the calls of a value. Returns whether the value contains nothing but calls.
fn collect(value: &Value, said: &mut Vec<Said>, depth: usize) -> bool {
    if depth == 0 || said.len() >= MOST {
        return false;
    }
    match value {
        Value::Array(list) => {
            let mut is_alone = !list.is_empty();
            for one in list {
                is_alone &= collect(one, said, depth - 1);
            }
            is_alone
        }
        Value::Object(object) => of_object(object, said, depth - 1),
        // A value that was written as a text.
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            lenient::whole(text).is_some_and(|inner| collect(&inner, said, depth - 1))
        }
        _ => false,
    }
}

/// Adds the calls of an object. Returns whether the object contains nothing but calls.
fn of_object(object: &Map<String, Value>, said: &mut Vec<Said>, depth: usize) -> bool {
    for several in SEVERAL {
        if let Some(list @ (Value::Array(_) | Value::String(_))) = object.get(several) {
            return collect(list, said, depth) && has_only(object, &[several]);
        }
    }
    for one in ONE {
        if let Some(inner @ Value::Object(_)) = object.get(one) {
            return collect(inner, said, depth) && has_only(object, &[one]);
        }
    }
    let name = NAMES.iter().find_map(|member| {
        let name = object.get(*member)?.as_str()?;
        Some((*member, name))
    });
    let Some((member, name)) = name else {
        return by_key(object, said);
    };
    let arguments = ARGUMENTS.iter().find_map(|member| {
        let arguments = object.get(*member)?;
        Some((*member, arguments))
    });
    match arguments {
        Some((own, arguments)) => {
            said.push(Said::new(name, arguments.clone()));
            has_only(object, &[member, own])
        }
        None => {
            let is_argument = |key: &String| key != member && !BESIDE.contains(&key.as_str());
            let rest = object.iter().filter(|(key, _)| is_argument(key));
            let rest = rest.map(|(key, value)| (key.clone(), value.clone()));
            said.push(Said {
                is_beside: true,
                ..Said::new(name, Value::Object(rest.collect()))
            });
            true
        }
    }
}

/// `{"get_weather": {"city": "Rome"}}`.
fn by_key(object: &Map<String, Value>, said: &mut Vec<Said>) -> bool {
    let mut members = object.iter();
    let (Some((name, arguments @ Value::Object(_))), None) = (members.next(), members.next())
    else {
        return false;
    };
    said.push(Said {
        by_key: true,
        ..Said::new(name, arguments.clone())
    });
    true
}

/// Returns whether an object has only these members, and members that may be beside a call.
fn has_only(object: &Map<String, Value>, own: &[&str]) -> bool {
    object.iter().all(|(key, value)| {
        let key = key.as_str();
        own.contains(&key) || BESIDE.contains(&key) || is_of_message(key, value)
    })
}

/// Returns whether a member is that of an assistant's message without text.
fn is_of_message(key: &str, value: &Value) -> bool {
    match (key, value) {
        ("role", Value::String(role)) => role == "assistant",
        ("content" | "refusal", Value::String(text)) => text.trim().is_empty(),
        ("content" | "refusal", value) => value.is_null(),
        _ => false,
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
            json!({"tool_call_id": "0", "tool_name": "f", "parameters": arguments}),
            json!({"type": "tool_use", "id": "1", "name": "f", "input": arguments}),
            json!({"role": "assistant", "content": null, "refusal": null,
                "tool_calls": [{"index": 0, "function": {"name": "f", "arguments": arguments}}]}),
            json!([{"function": "f", "args": arguments}]),
            json!({"name": "f", "city": "Rome"}),
            json!({"f": arguments}),
            json!("{\"name\": \"f\", \"arguments\": {\"city\": \"Rome\"}}"),
        ] {
            let found = calls(&shape);
            assert_eq!(found.len(), 1, "{shape}");
            assert_eq!(
                (found[0].name.as_str(), &found[0].named, &found[0].fault),
                ("f", &arguments, &None),
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
