//! Rules of strict clients, written a second time: as the TypeScript SDK's zod schemas, the Python SDK's models
//! and the types of the other official SDKs check it.

mod questions;
mod strict;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn opt(value: &Value, key: &str, fits: impl Fn(&Value) -> bool) -> bool {
    value.get(key).is_none_or(fits)
}

fn all(value: &Value, fits: impl Fn(&Value) -> bool) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(fits))
}

fn one_of(value: &Value, words: &[&str]) -> bool {
    value.as_str().is_some_and(|text| words.contains(&text))
}

fn filled(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// An integer that is written as one.
fn integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

fn size(value: &Value) -> bool {
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    value.as_str().is_some_and(|size| {
        let sides = size.split_once('x');
        size == "any" || sides.is_some_and(|(one, other)| is_number(one) && is_number(other))
    })
}

fn source(value: &Value) -> bool {
    let schemes = ["http://", "https://", "data:"];
    let text = value.as_str();
    text.is_some_and(|text| schemes.iter().any(|scheme| text.starts_with(scheme)))
}

fn icons(value: &Value) -> bool {
    opt(value, "icons", |icons| {
        all(icons, |icon| {
            source(&icon["src"])
                && opt(icon, "mimeType", Value::is_string)
                && opt(icon, "sizes", |sizes| all(sizes, size))
                && opt(icon, "theme", |theme| one_of(theme, &["light", "dark"]))
        })
    })
}

fn shown(value: &Value) -> bool {
    value.is_object()
        && opt(value, "title", Value::is_string)
        && opt(value, "description", Value::is_string)
        && opt(value, "_meta", Value::is_object)
        && icons(value)
}

fn annotations(value: &Value) -> bool {
    opt(value, "annotations", |annotations| {
        annotations.is_object()
            && opt(annotations, "audience", |roles| {
                all(roles, |role| one_of(role, &["user", "assistant"]))
            })
            && opt(annotations, "priority", |priority| {
                priority.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n))
            })
            && opt(annotations, "lastModified", |time| {
                time.as_str().is_some_and(is_time)
            })
    })
}

fn schema(value: &Value) -> bool {
    value["type"] == "object"
        && opt(value, "$schema", Value::is_string)
        && opt(value, "properties", |properties| {
            let all = properties.as_object();
            all.is_some_and(|all| all.values().all(Value::is_object))
        })
        && opt(value, "required", |names| all(names, Value::is_string))
}

fn tool(value: &Value) -> bool {
    let hints = [
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
    ];
    shown(value)
        && value["name"].is_string()
        && schema(&value["inputSchema"])
        && opt(value, "outputSchema", |output| {
            // The session era shows those of type `object` alone.
            output.is_object() && (output["type"] != "object" || schema(output))
        })
        && opt(value, "annotations", |given| {
            given.is_object()
                && opt(given, "title", Value::is_string)
                && hints.iter().all(|hint| opt(given, hint, Value::is_boolean))
        })
        && opt(value, "execution", |given| {
            given.is_object()
                && opt(given, "taskSupport", |support| {
                    one_of(support, &["required", "optional", "forbidden"])
                })
        })
}

fn prompt(value: &Value) -> bool {
    shown(value)
        && value["name"].is_string()
        && opt(value, "arguments", |given| {
            all(given, |argument| {
                filled(&argument["name"])
                    && opt(argument, "description", Value::is_string)
                    && opt(argument, "required", Value::is_boolean)
            })
        })
}

fn resource(value: &Value, key: &str) -> bool {
    shown(value)
        && filled(&value["name"])
        && value[key].is_string()
        && opt(value, "mimeType", Value::is_string)
        && opt(value, "size", integer)
        && annotations(value)
}

fn is_base64(value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    // Go: padding must be there, and white space must not.
    let digits = text.strip_suffix("==").or(text.strip_suffix('='));
    let is_digit = |one: u8| one.is_ascii_alphanumeric() || matches!(one, b'+' | b'/');
    text.len().is_multiple_of(4) && digits.unwrap_or(text).bytes().all(is_digit)
}

fn contents(value: &Value) -> bool {
    let is_absolute = value["uri"].as_str().is_some_and(is_absolute);
    is_absolute
        && opt(value, "mimeType", Value::is_string)
        && opt(value, "_meta", Value::is_object)
        && (value["text"].is_string() || is_base64(&value["blob"]))
}

fn block(value: &Value) -> bool {
    let form = match value["type"].as_str() {
        Some("text") => value["text"].is_string(),
        Some("image" | "audio") => is_base64(&value["data"]) && value["mimeType"].is_string(),
        Some("resource") => contents(&value["resource"]),
        Some("resource_link") => resource(value, "uri"),
        _ => false,
    };
    // Go: one type for all blocks.
    let is_text = |key: &str| opt(value, key, Value::is_string);
    form && annotations(value)
        && opt(value, "_meta", Value::is_object)
        && ["text", "mimeType", "uri", "name", "title", "description"]
            .into_iter()
            .all(is_text)
        && opt(value, "data", is_base64)
        && opt(value, "resource", contents)
        && opt(value, "size", integer)
        && icons(value)
}

fn meta(value: &Value) -> bool {
    opt(value, "_meta", |meta| {
        meta.is_object()
            && opt(meta, "progressToken", |token| {
                token.is_string() || token.is_number()
            })
            && opt(meta, "io.modelcontextprotocol/related-task", |task| {
                task["taskId"].is_string()
            })
    })
}

fn result(value: &Value) -> bool {
    value.is_object()
        && meta(value)
        && opt(value, "ttlMs", |ttl| {
            integer(ttl) && ttl.as_f64().is_some_and(|ttl| ttl >= 0.0)
        })
        && opt(value, "cacheScope", |scope| {
            one_of(scope, &["public", "private"])
        })
}

/// A client's check of a whole value.
fn accepts(kind: Repairable, value: &Value) -> bool {
    match kind {
        Repairable::Tool => tool(value),
        Repairable::Prompt => prompt(value),
        Repairable::Resource => {
            resource(value, "uri") && value["uri"].as_str().is_some_and(is_absolute)
        }
        Repairable::Template => {
            let template = value["uriTemplate"].as_str();
            resource(value, "uriTemplate") && template.is_some_and(|text| text.contains(':'))
        }
        Repairable::ToolResult => {
            result(value)
                && all(&value["content"], block)
                && opt(value, "structuredContent", |given| !given.is_null())
                && opt(value, "isError", Value::is_boolean)
        }
        Repairable::PromptResult => {
            result(value)
                && opt(value, "description", Value::is_string)
                && all(&value["messages"], |message| {
                    one_of(&message["role"], &["user", "assistant"]) && block(&message["content"])
                })
        }
        Repairable::ResourceResult => result(value) && all(&value["contents"], contents),
        Repairable::Completion => {
            let completion = &value["completion"];
            result(value)
                && all(&completion["values"], Value::is_string)
                && completion["values"]
                    .as_array()
                    .is_some_and(|all| all.len() <= 100)
                && opt(completion, "total", integer)
                && opt(completion, "hasMore", Value::is_boolean)
        }
        Repairable::Elicitation => questions::elicitation(value),
        Repairable::Sampling => questions::sampling(value),
    }
}

const KINDS: [Repairable; 10] = [
    Repairable::Tool,
    Repairable::Prompt,
    Repairable::Resource,
    Repairable::Template,
    Repairable::ToolResult,
    Repairable::PromptResult,
    Repairable::ResourceResult,
    Repairable::Completion,
    Repairable::Elicitation,
    Repairable::Sampling,
];

const CONTEXT: Context<'_> = Context {
    uri: Some("file:///read"),
    base: Some("orchestra:"),
};

fn repaired(kind: Repairable, value: &Value) -> Option<(Value, Vec<String>)> {
    let raw = RawJson::of(value).unwrap();
    let repaired = repair(kind, &raw, CONTEXT)?;
    assert_eq!(
        repaired.repairs.is_empty(),
        repaired.value == raw,
        "{value}"
    );
    Some((repaired.value.parse().unwrap(), repaired.repairs))
}

/// A whole value of each kind, with each member that clients check.
fn whole(kind: Repairable) -> Value {
    let meta = json!({"progressToken": 1, "x": null});
    let annotations =
        json!({"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"});
    let block = json!({"type": "text", "text": "t", "annotations": annotations, "_meta": {}});
    let embedded = json!({"type": "resource", "resource": {"uri": "a:b", "mimeType": "t/p", "text": "t", "_meta": {}}});
    let link = json!({"type": "resource_link", "name": "n", "uri": "a:b", "size": 1, "icons": []});
    let image = json!({"type": "image", "data": "QUI=", "mimeType": "image/png"});
    let icons = json!([{"src": "data:,", "mimeType": "image/png", "sizes": ["1x1", "any"], "theme": "dark"}]);
    match kind {
        Repairable::Tool => json!({
            "name": "t", "title": "T", "description": "d", "icons": icons, "_meta": {"x": 1},
            "inputSchema": {
                "$schema": "s", "type": "object", "required": ["a"], "additionalProperties": false,
                "properties": {"a": {"type": ["string", "null"], "enum": ["x"]}, "b": {"$ref": "#/$defs/b"}},
                "$defs": {"b": {"anyOf": [true, {"items": {"not": {}}}]}},
            },
            "outputSchema": {
                "type": "object", "required": [],
                "properties": {"a": {"pattern": "^a$", "minLength": 1, "maximum": 2, "uniqueItems": true}},
            },
            "annotations": {"title": "T", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false},
            "execution": {"taskSupport": "optional"},
        }),
        Repairable::Prompt => json!({
            "name": "p", "title": "T", "description": "d", "icons": icons, "_meta": {},
            "arguments": [{"name": "a", "title": "A", "description": "d", "required": true}],
        }),
        Repairable::Resource => json!({
            "uri": "a:b", "name": "r", "title": "T", "description": "d", "icons": icons, "_meta": {},
            "mimeType": "t/p", "size": 1, "annotations": annotations,
        }),
        Repairable::Template => json!({
            "uriTemplate": "a:{b}", "name": "r", "title": "T", "description": "d", "icons": icons,
            "mimeType": "t/p", "annotations": annotations, "_meta": {},
        }),
        Repairable::ToolResult => json!({
            "content": [block, embedded, link, image], "structuredContent": {"a": 1}, "isError": false,
            "_meta": meta, "ttlMs": 1, "cacheScope": "public",
        }),
        Repairable::PromptResult => json!({
            "description": "d", "_meta": meta,
            "messages": [{"role": "user", "content": block}, {"role": "assistant", "content": image}],
        }),
        Repairable::ResourceResult => json!({
            "contents": [{"uri": "a:b", "text": "t"}, {"uri": "a:c", "mimeType": "t/p", "blob": "QQ=="}],
            "_meta": meta, "ttlMs": 0, "cacheScope": "private",
        }),
        Repairable::Completion => json!({
            "completion": {"values": ["a"], "total": 1, "hasMore": false}, "_meta": meta,
        }),
        Repairable::Elicitation => questions::whole_elicitation(),
        Repairable::Sampling => questions::whole_sampling(),
    }
}

/// Values of the wrong form, as servers send them.
fn odd() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!("true"),
        json!("yes"),
        json!("x"),
        json!(""),
        json!(1),
        json!(-1),
        json!(1.5),
        json!([]),
        json!([null]),
        json!(["a", "a", 1]),
        json!([[]]),
        json!({}),
        json!({"type": "OBJECT", "properties": []}),
        json!({"$ref": "#/nope"}),
        json!([{"url": "x"}]),
        json!([{"src": "icon.png"}, {"src": "https://a.example/i", "sizes": ["1", "2x2"]}]),
        json!("QQ"),
        json!("Q Q=="),
        json!(2.0),
        json!([{"name": 7}]),
        json!([{"type": "text"}, {"type": "new", "x": 1}, "t", null]),
        json!([{"type": "image", "data": "%"}, {"type": "resource", "resource": {"uri": "b"}}]),
        json!([{"role": "system", "content": ["a", {"type": "text", "text": 1}]}]),
    ]
}

/// Each place in a value, as the path to it.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(all) => all
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(all) => {
            let all = all.iter().enumerate();
            all.map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (key, value) in inner {
        let key = key.replace('~', "~0").replace('/', "~1");
        places(value, &format!("{path}/{key}"), found);
    }
}

#[test]
fn a_valid_value_passes_unchanged() {
    for kind in KINDS {
        let whole = whole(kind);
        assert!(accepts(kind, &whole), "{whole}");
        assert_eq!(repaired(kind, &whole), Some((whole, Vec::new())));
    }
}

#[test]
fn a_value_with_any_member_of_a_wrong_form_is_accepted_after_repair() {
    for kind in KINDS {
        let whole = whole(kind);
        let mut found = Vec::new();
        places(&whole, "", &mut found);
        for place in &found {
            for odd in odd() {
                let mut value = whole.clone();
                *value.pointer_mut(place).unwrap() = odd.clone();
                let repaired = repaired(kind, &value);
                let identity = ["", "/name", "/uri", "/uriTemplate"];
                match repaired {
                    Some((value, _)) => assert!(accepts(kind, &value), "{place} {odd}: {value}"),
                    None => assert!(
                        identity.contains(&&**place),
                        "{place} {odd} is not repaired"
                    ),
                }
            }
            let Some((parent, key)) = place.rsplit_once('/') else {
                continue;
            };
            let mut value = whole.clone();
            if let Some(parent) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
                parent.remove(&key.replace("~1", "/"));
                if let Some((value, _)) = repaired(kind, &value) {
                    assert!(accepts(kind, &value), "without {place}: {value}");
                }
            }
        }
    }
}

#[test]
fn a_repair_preserves_the_members_that_fit() {
    let (value, mut repairs) = repaired(
        Repairable::Tool,
        &json!({
            "name": "t", "x": {"y": [1.50]}, "title": 7,
            "inputSchema": {"type": "object", "properties": {"a": true, "b": {"type": "STRING"}}, "required": ["a", 1, "a"]},
            "annotations": {"readOnlyHint": "yes", "openWorldHint": false, "mine": 1},
            "outputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/Nope", "description": "d"}}},
        }),
    )
    .unwrap();
    assert_eq!(
        value,
        json!({
            "name": "t", "x": {"y": [1.50]},
            "inputSchema": {"type": "object", "properties": {"a": {}, "b": {"type": "string"}}, "required": ["a"]},
            "annotations": {"openWorldHint": false, "mine": 1},
            "outputSchema": {"type": "object", "properties": {"a": {"description": "d"}}},
        })
    );
    repairs.sort();
    assert_eq!(
        repairs,
        [
            "annotations.readOnlyHint is not true or false: dropped",
            "inputSchema.properties.a was true: made an object",
            "inputSchema.properties.b.type was not in lower case: rewritten",
            "inputSchema.required had other values than names, or a name twice: dropped",
            "outputSchema.properties.a.$ref is not of a form that clients accept: dropped",
            "title is not text: dropped",
        ]
    );
}

#[test]
fn unclear_flag_of_a_failure_reports_one() {
    for (flag, is_error) in [
        (json!("yes"), json!(true)),
        (json!("error"), json!(true)),
        (json!("TRUE"), json!(true)),
        (json!(2), json!(true)),
        (json!(-0.5), json!(true)),
        (json!("False"), json!(false)),
        (json!(0), json!(false)),
        (json!(null), json!(null)),
        (json!(""), json!(null)),
    ] {
        let result = json!({"content": [], "isError": flag});
        let (value, _) = repaired(Repairable::ToolResult, &result).unwrap();
        assert_eq!(value["isError"], is_error, "{flag}");
    }
}

#[test]
fn contents_that_no_client_knows_become_text() {
    let (value, _) = repaired(
        Repairable::ToolResult,
        &json!({"content": [
            {"type": "text", "text": null}, "plain", {"rows": [1], "type": "table"},
            {"type": "image", "data": "data:image/png;base64,QUI="}, {"type": "audio", "data": "?"},
            {"type": "resource", "resource": {"uri": "notes", "text": "n"}},
            {"type": "resource_link", "uri": "notes"},
        ], "isError": "true", "structuredContent": null}),
    )
    .unwrap();
    assert_eq!(
        value,
        json!({"content": [
            {"type": "text", "text": ""}, {"type": "text", "text": "plain"},
            {"type": "text", "text": "{\"rows\":[1],\"type\":\"table\"}"},
            {"type": "image", "data": "QUI=", "mimeType": "application/octet-stream"},
            {"type": "text", "text": "(an audio was left out: its data is not Base64)"},
            {"type": "resource", "resource": {"uri": "orchestra:notes", "text": "n"}},
            {"type": "resource_link", "uri": "orchestra:notes", "name": "notes"},
        ], "isError": true})
    );
    let (value, _) = repaired(
        Repairable::ToolResult,
        &json!({"structuredContent": {"a": 1}}),
    )
    .unwrap();
    assert_eq!(
        value["content"],
        json!([{"type": "text", "text": "{\"a\":1}"}])
    );
    let (value, _) = repaired(
        Repairable::PromptResult,
        &json!({"messages": [{"role": "system", "content": "a"}, {"role": "model", "content": ["b", "c"]}]}),
    )
    .unwrap();
    assert_eq!(
        value,
        json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "a"}},
            {"role": "assistant", "content": {"type": "text", "text": "b"}},
            {"role": "assistant", "content": {"type": "text", "text": "c"}},
        ]})
    );
}

#[test]
fn media_type_under_another_name_is_taken() {
    let image = json!({"type": "image", "data": "QUI=", "mime_type": "image/png"});
    let untyped = json!({"data": "QUI=", "mime_type": "audio/wav"});
    let resource =
        json!({"type": "resource", "resource": {"uri": "a:b", "blob": "QUI=", "mime_type": "x/y"}});
    let result = json!({"content": [image, untyped, resource]});
    let (value, _) = repaired(Repairable::ToolResult, &result).unwrap();
    assert_eq!(
        value["content"],
        json!([
            {"type": "image", "data": "QUI=", "mimeType": "image/png"},
            {"type": "audio", "data": "QUI=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a:b", "blob": "QUI=", "mimeType": "x/y"}},
        ])
    );
}

fn value() -> impl Strategy<Value = Value> {
    let words = [
        "type",
        "name",
        "uri",
        "uriTemplate",
        "text",
        "blob",
        "data",
        "resource",
        "content",
        "messages",
        "contents",
        "completion",
        "values",
        "role",
        "inputSchema",
        "outputSchema",
        "properties",
        "required",
        "annotations",
        "icons",
        "src",
        "_meta",
        "object",
        "text",
        "image",
        "$ref",
        "#/a",
        "a:b",
        "items",
        "anyOf",
        "mimeType",
        "resource_link",
        "structuredContent",
    ];
    let word = prop::sample::select(words.to_vec());
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i32>().prop_map(Into::into),
        any::<f32>().prop_map(|number| json!(number)),
        word.clone().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(word.clone(), inner, 0..6).prop_map(|map| {
                let members = map.into_iter();
                Value::Object(
                    members
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_accepted_after_repair_and_a_second_one_changes_nothing(value in value()) {
        for kind in KINDS {
            let is_accepted = accepts(kind, &value);
            match repaired(kind, &value) {
                Some((once, _)) => {
                    prop_assert!(accepts(kind, &once), "{:?} {}: {}", kind, value, once);
                    let (twice, repairs) = repaired(kind, &once).unwrap();
                    prop_assert_eq!(twice, once);
                    prop_assert_eq!(repairs, Vec::<String>::new());
                }
                None => prop_assert!(!is_accepted),
            }
        }
    }
}

/// Comparing each element with each other one would take minutes.
#[test]
fn a_schema_of_many_names_and_references_is_repaired() {
    const MANY: usize = 100_000;
    let names: Vec<String> = (0..MANY).map(|at| format!("n{at}")).collect();
    let twice: Vec<&String> = names.iter().chain(&names).collect();
    let schemas = |keyword: &str| -> Vec<Value> {
        let schema = |name| json!({ keyword: format!("#{name}") });
        names.iter().map(schema).collect()
    };
    let references: Vec<Value> = names
        .iter()
        .map(|name| json!({"$ref": format!("#no{name}")}))
        .chain(schemas("$ref"))
        .collect();
    let schema = json!({
        "type": "object", "required": twice,
        "anyOf": references, "allOf": schemas("$anchor"),
    });
    let tool = json!({"name": "t", "inputSchema": schema});
    let (tool, _) = repaired(Repairable::Tool, &tool).unwrap();
    let schema = &tool["inputSchema"];
    assert_eq!(schema["required"], json!(names));
    assert_eq!(schema["anyOf"][0], json!({}));
    assert_eq!(schema["anyOf"][MANY], json!({"$ref": "#n0"}));
    let any_of = schema["anyOf"].as_array().unwrap();
    let resolved = any_of.iter().filter(|schema| schema.get("$ref").is_some());
    assert_eq!(resolved.count(), MANY);
}

#[test]
fn a_message_of_many_contents_is_not_copied_into_each() {
    let contents: Vec<Value> = (0..20_000).map(|at| json!(format!("text {at}"))).collect();
    let message = json!({"role": "model", "content": contents, "_meta": {"a": "x".repeat(1_000)}});
    let messages = json!({"messages": [message]});
    let (value, _) = repaired(Repairable::PromptResult, &messages).unwrap();
    let messages = value["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 10_000);
    assert_eq!(
        messages[9_999],
        json!({"role": "assistant", "content": {"type": "text", "text": "text 9999"}})
    );
    let one = json!({"messages": [{"role": "user", "content": ["a"], "_meta": {"x": 1}}]});
    let (value, _) = repaired(Repairable::PromptResult, &one).unwrap();
    assert_eq!(value["messages"][0]["_meta"], json!({"x": 1}));
}

#[test]
fn a_member_that_is_replaced_is_not_reported_as_missing() {
    let tool = json!({"name": "t", "inputSchema": 7});
    let (value, repairs) = repaired(Repairable::Tool, &tool).unwrap();
    assert_eq!(value["inputSchema"], json!({"type": "object"}));
    assert_eq!(
        repairs,
        ["inputSchema is not of a form that clients accept: replaced"]
    );
}

#[test]
fn output_schema_loses_the_keywords_that_validators_refuse() {
    let schema = |properties: Value| json!({"type": "object", "properties": properties});
    for (given, expected) in [
        (
            json!({"a": {"nullable": true}, "b": {"nullable": false, "anyOf": [{}]}}),
            json!({"a": {}, "b": {"anyOf": [{}]}}),
        ),
        (
            json!({"a": {"nullable": true, "type": "any"}, "b": {"nullable": true, "type": "STRING"}}),
            json!({"a": {}, "b": {"nullable": true, "type": "string"}}),
        ),
        (
            json!({"a": {"nullable": false, "type": ["null", "string"]}, "b": {"nullable": false, "type": "string"}}),
            json!({"a": {"type": ["null", "string"]}, "b": {"nullable": false, "type": "string"}}),
        ),
        (
            json!({"a": {"$anchor": "#bad"}, "b": {"$dynamicAnchor": "1"}, "c": {"$ref": "#bad"}}),
            json!({"a": {}, "b": {}, "c": {}}),
        ),
        (
            json!({"a": {"$anchor": "m"}, "b": {"$anchor": "m"}, "c": {"$ref": "#m"}, "d": {"$anchor": "n"}}),
            json!({"a": {}, "b": {}, "c": {}, "d": {"$anchor": "n"}}),
        ),
        (
            json!({"a": {"$anchor": "m"}, "b": {"$id": "#m"}, "c": {"$id": "u"}, "d": {"$id": "u"}, "e": {"$ref": "u"}}),
            json!({"a": {}, "b": {}, "c": {}, "d": {}, "e": {}}),
        ),
        (
            json!({"a": {"$ref": "#/properties/a"}, "b": {"$ref": "#/properties/c"}, "c": {"$ref": "#/properties/b"}}),
            json!({"a": {}, "b": {}, "c": {}}),
        ),
        (
            json!({"default": {"$ref": "#/nowhere"}, "b": {"default": {"$ref": "#/nowhere"}}}),
            json!({"default": {}, "b": {"default": {"$ref": "#/nowhere"}}}),
        ),
        (
            json!({"a": {"$id": "u", "$defs": {"b": {}}}, "b": {"$ref": "#/properties/a"}, "c": {"id": "u"}}),
            json!({"a": {"$defs": {"b": {}}}, "b": {"$ref": "#/properties/a"}, "c": {}}),
        ),
        (
            json!({"id": {"type": "string", "id": 7}, "$id": {"$id": "u"}, "b": {"$ref": "gone"}}),
            json!({"id": {"type": "string"}, "$id": {}, "b": {}}),
        ),
        (
            json!({"a": {"dependencies": {"x": {"type": "any"}, "y": ["z", "z"]}}}),
            json!({"a": {"dependencies": {"x": {}, "y": ["z"]}}}),
        ),
    ] {
        let given =
            json!({"name": "t", "inputSchema": schema(json!({})), "outputSchema": schema(given)});
        let (tool, repairs) = repaired(Repairable::Tool, &given).unwrap();
        assert_eq!(tool["outputSchema"], schema(expected), "{given}");
        assert!(!repairs.is_empty());
    }
}

#[test]
fn output_schema_with_names_that_validators_know_is_unchanged() {
    let schema = json!({
        "$id": "https://a.example/s", "type": "object", "nullable": false,
        "properties": {
            "a": {"$ref": "#/$defs/A%20B"}, "b": {"$ref": "#m"}, "c": {"$ref": "inner"},
            "d": {"type": "string", "nullable": true}, "$anchor": {"type": "string"},
            "e": {"$dynamicRef": "#n"}, "f": {"$ref": "#/$defs/Chain"},
        },
        "$defs": {
            "A B": {"$anchor": "m", "type": "string"}, "Chain": {"$ref": "#/$defs/A%20B"},
            "I": {"$id": "inner", "$anchor": "m", "properties": {"x": {"$ref": "#m"}}},
            "N": {"$dynamicAnchor": "n", "properties": {"next": {"$ref": "#/$defs/N"}}},
        },
    });
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema});
    assert_eq!(repaired(Repairable::Tool, &tool), Some((tool, Vec::new())));
}

#[test]
fn schema_loses_the_identifier_of_early_drafts() {
    for id in [
        json!(null),
        json!("u"),
        json!("#a"),
        json!(7),
        json!({}),
        json!([]),
    ] {
        let schema = |schema: Value, property: Value| {
            let mut schema = schema;
            schema["type"] = json!("object");
            schema["properties"] = json!({"id": property});
            schema
        };
        let given = schema(json!({"id": id}), json!({"type": "string", "id": id}));
        let expected = schema(json!({}), json!({"type": "string"}));
        let tool = json!({"name": "t", "inputSchema": given, "outputSchema": given});
        let (tool, _) = repaired(Repairable::Tool, &tool).unwrap();
        assert_eq!(tool["inputSchema"], expected, "{id}");
        assert_eq!(tool["outputSchema"], expected, "{id}");
    }
}
