//! Questions of servers, as the SDKs check them.

use serde_json::{Value, json};

use super::super::*;
use super::{all, block, integer, meta, one_of, opt, repaired, tool};

pub(super) fn elicitation(value: &Value) -> bool {
    let is_asked = match value.get("mode").and_then(Value::as_str) {
        Some("url") => value["url"].is_string() && value["elicitationId"].is_string(),
        Some("form") => form(&value["requestedSchema"]),
        Some(_) => false,
        None => value.get("mode").is_none() && form(&value["requestedSchema"]),
    };
    is_asked && meta(value) && value["message"].is_string() && opt(value, "task", Value::is_object)
}

fn form(schema: &Value) -> bool {
    let fields = schema["properties"].as_object();
    schema["type"] == "object"
        && fields.is_some_and(|fields| fields.values().all(field))
        && opt(schema, "required", |names| all(names, Value::is_string))
        && opt(schema, "$schema", Value::is_string)
}

fn field(value: &Value) -> bool {
    let texts = |key: &str| opt(value, key, |texts| all(texts, Value::is_string));
    let is_known = match value["type"].as_str() {
        Some("string") => {
            let formats = ["email", "uri", "date", "date-time", "password"];
            texts("enum")
                && texts("enumNames")
                && opt(value, "default", Value::is_string)
                && opt(value, "format", |format| one_of(format, &formats))
                && opt(value, "minLength", integer)
                && opt(value, "maxLength", integer)
        }
        Some("number" | "integer") => ["minimum", "maximum", "default"]
            .iter()
            .all(|key| opt(value, key, Value::is_number)),
        Some("boolean") => opt(value, "default", Value::is_boolean),
        Some("array") => {
            texts("default") && opt(value, "minItems", integer) && opt(value, "maxItems", integer)
        }
        _ => return value.is_object(),
    };
    is_known && opt(value, "title", Value::is_string) && opt(value, "description", Value::is_string)
}

pub(super) fn sampling(value: &Value) -> bool {
    let messages = all(&value["messages"], |message| {
        let content = &message["content"];
        one_of(&message["role"], &["user", "assistant"])
            && (sampled(content) || all(content, sampled))
    });
    let preferences = opt(value, "modelPreferences", |preferences| {
        let priorities = ["costPriority", "speedPriority", "intelligencePriority"];
        preferences.is_object()
            && opt(preferences, "hints", |hints| {
                all(hints, |hint| {
                    hint.is_object() && opt(hint, "name", Value::is_string)
                })
            })
            && priorities
                .iter()
                .all(|key| opt(preferences, key, Value::is_number))
    });
    let contexts = ["none", "thisServer", "allServers"];
    messages
        && preferences
        && meta(value)
        && integer(&value["maxTokens"])
        && opt(value, "systemPrompt", Value::is_string)
        && opt(value, "includeContext", |context| {
            one_of(context, &contexts)
        })
        && opt(value, "temperature", Value::is_number)
        && opt(value, "stopSequences", |all_of| {
            all(all_of, Value::is_string)
        })
        && opt(value, "metadata", Value::is_object)
        && opt(value, "task", Value::is_object)
        && opt(value, "tools", |tools| {
            *tools != json!([]) && all(tools, tool)
        })
        && opt(value, "toolChoice", |choice| {
            let modes = ["auto", "required", "none"];
            choice.is_object() && opt(choice, "mode", |mode| one_of(mode, &modes))
        })
}

fn sampled(value: &Value) -> bool {
    let resources = ["resource", "resource_link"];
    one_of(&value["type"], &["tool_use", "tool_result"])
        || (block(value) && !one_of(&value["type"], &resources))
}

pub(super) fn whole_elicitation() -> Value {
    json!({
        "mode": "form", "message": "m", "_meta": {"progressToken": 1}, "task": {"ttl": 1},
        "requestedSchema": {
            "$schema": "s", "type": "object", "required": ["a"],
            "properties": {
                "a": {
                    "type": "string", "title": "A", "description": "d", "minLength": 1, "maxLength": 2,
                    "format": "email", "default": "x", "enum": ["x"], "enumNames": ["X"],
                },
                "b": {"type": "integer", "minimum": 1, "maximum": 2, "default": 1},
                "c": {"type": "boolean", "default": true},
                "d": {"type": "array", "minItems": 1, "maxItems": 2, "default": ["x"], "items": {"enum": ["x"]}},
            },
        },
    })
}

pub(super) fn whole_sampling() -> Value {
    json!({
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "t"}},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]},
        ],
        "maxTokens": 10, "systemPrompt": "s", "includeContext": "none", "temperature": 0.5,
        "stopSequences": ["x"], "metadata": {"a": 1}, "task": {"ttl": 1}, "_meta": {"progressToken": 1},
        "modelPreferences": {
            "hints": [{"name": "n"}], "costPriority": 0.5, "speedPriority": 0, "intelligencePriority": 1,
        },
        "tools": [{"name": "t", "inputSchema": {"type": "object"}}], "toolChoice": {"mode": "auto"},
    })
}

#[test]
fn question_loses_what_clients_refuse_and_the_rest_stays() {
    let fields = json!({"a": {"type": "string", "title": "A"}});
    let schema = json!({"type": "object", "properties": fields});
    for (given, expected) in [
        (
            json!({"mode": null, "message": "m", "requestedSchema": schema, "x": 1}),
            json!({"message": "m", "requestedSchema": schema, "x": 1}),
        ),
        (
            json!({"message": "m", "requestedSchema": {"type": "object", "properties": [], "required": null}}),
            json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}}),
        ),
        (
            json!({"message": "m", "requestedSchema": {
                "type": "object",
                "properties": {"a": {"type": "string", "title": "A", "default": null, "format": "phone"}, "b": null},
            }}),
            json!({"message": "m", "requestedSchema": schema}),
        ),
        (
            json!({"mode": "URL", "url": "https://a.example/", "elicitationId": 7, "message": null}),
            json!({"mode": "url", "url": "https://a.example/", "elicitationId": "7", "message": ""}),
        ),
    ] {
        let (value, repairs) = repaired(Repairable::Elicitation, &given).unwrap();
        assert_eq!(value, expected, "{given}");
        assert!(!repairs.is_empty());
    }
    let block = json!({"type": "text", "text": "hi"});
    let messages = json!([{"role": "user", "content": block}]);
    let plain = json!({"messages": messages, "maxTokens": 10});
    for members in [
        json!({"temperature": null, "stopSequences": null, "modelPreferences": null, "systemPrompt": null}),
        json!({"maxTokens": "10", "tools": [], "toolChoice": {}}),
        json!({"maxTokens": 10.0, "tools": null, "toolChoice": {"mode": "auto"}}),
        json!({"messages": [{"role": "user", "content": "hi"}]}),
        json!({"messages": ["hi"]}),
    ] {
        let mut given = plain.clone();
        let members = members.as_object().unwrap().clone();
        given.as_object_mut().unwrap().extend(members);
        let (value, repairs) = repaired(Repairable::Sampling, &given).unwrap();
        assert_eq!(value, plain, "{given}");
        assert!(!repairs.is_empty());
    }
    let (value, _) = repaired(
        Repairable::Sampling,
        &json!({"messages": messages, "maxTokens": 10, "temperature": "0.5", "stopSequences": "END",
            "modelPreferences": {"hints": null, "speedPriority": 1}}),
    )
    .unwrap();
    assert_eq!(
        value,
        json!({"messages": messages, "maxTokens": 10, "temperature": 0.5, "stopSequences": ["END"],
            "modelPreferences": {"speedPriority": 1}})
    );
}
