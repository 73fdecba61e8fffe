//! Values that the SDKs for TypeScript accept, and some other SDK refuses.

use serde_json::{Value, json};

use super::super::*;
use super::{CONTEXT, repaired};

#[test]
fn json_that_some_parser_refuses_is_replaced() {
    let deep =
        |inner: &str, depth: usize| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
    for (given, expected) in [
        (r#""a\ud800""#.to_owned(), r#""a\ufffd""#.to_owned()),
        (r#"{"\udfff":1}"#.to_owned(), r#"{"\ufffd":1}"#.to_owned()),
        (
            "[1e999,-1e999]".to_owned(),
            "[1.7976931348623157e308,-1.7976931348623157e308]".to_owned(),
        ),
        (deep(r#"{"a":1},[2]"#, 55), deep("{},[]", 55)),
        (deep(r#""\"[[\"",[],1"#, 55), deep(r#""\"[[\"",[],1"#, 55)),
    ] {
        let tool =
            |meta: &str| format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},"x":{meta}}}"#);
        let raw = RawJson::checked(tool(&given).into()).unwrap();
        let repaired = repair(Repairable::Tool, &raw, CONTEXT).unwrap();
        assert_eq!(repaired.value.as_str(), tool(&expected));
        assert_eq!(repaired.repairs.is_empty(), given == expected);
        let again = repair(Repairable::Tool, &repaired.value, CONTEXT).unwrap();
        assert_eq!(again.repairs, Vec::<String>::new());
    }
    // A result keeps its depth: what is cut from it is lost.
    let result = format!(r#"{{"content":[],"structuredContent":{}}}"#, deep("1", 90));
    let raw = RawJson::checked(result.into()).unwrap();
    let repaired = repair(Repairable::ToolResult, &raw, CONTEXT).unwrap();
    assert_eq!(repaired.value, raw);
}

#[test]
fn member_that_occurs_twice_is_the_last_one() {
    let tool = r#"{"name":"t","title":7,"x":1,"title":"T","inputSchema":{"type":"string","type":"object"},"x":2}"#;
    let raw = RawJson::checked(tool.into()).unwrap();
    let repaired = repair(Repairable::Tool, &raw, CONTEXT).unwrap();
    assert_eq!(
        repaired.value.as_str(),
        r#"{"name":"t","x":1,"title":"T","inputSchema":{"type":"object"},"x":2}"#
    );
    assert_eq!(
        repaired.repairs,
        [
            "title occurs again: dropped",
            "inputSchema.type occurs again: dropped"
        ]
    );
}

#[test]
fn values_that_some_client_alone_refuses_are_rewritten() {
    let result = json!({"content": [
        {"type": "image", "data": "Q Q", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "a:b", "name": "", "size": 12.0},
        {"type": "text", "text": "t", "data": 5, "size": 1.5, "mine": 2.5},
    ]});
    let (value, _) = repaired(Repairable::ToolResult, &result).unwrap();
    assert_eq!(
        value["content"],
        json!([
            {"type": "image", "data": "QQ==", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "a:b", "name": "a:b", "size": 12},
            {"type": "text", "text": "t", "mine": 2.5},
        ])
    );
    for (template, expected) in [
        ("a:{b}", Some("a:{b}")),
        ("a:b", Some("a:b")),
        ("b/{c}", Some("orchestra:b/{c}")),
        ("{+b}", Some("orchestra:{+b}")),
        ("{b}:c", Some("orchestra:{b}:c")),
        ("a:{b", None),
        ("a:b}", None),
        ("a:{}", None),
        ("a:{{b}}", None),
    ] {
        let template = json!({"uriTemplate": template, "name": "n"});
        let (value, _) = repaired(Repairable::Template, &template).unzip();
        assert_eq!(
            value
                .as_ref()
                .and_then(|value| value["uriTemplate"].as_str()),
            expected
        );
    }
}

#[test]
fn values_of_a_completion_are_taken_in_each_form() {
    for given in [
        json!({"completion": {"values": ["a"]}}),
        json!({"completion": ["a"]}),
        json!({"completion": "a"}),
        json!({"values": ["a"]}),
        json!(["a"]),
        json!("a"),
    ] {
        let (value, _) = repaired(Repairable::Completion, &given).unwrap();
        assert_eq!(value, json!({"completion": {"values": ["a"]}}), "{given}");
    }
    for given in [json!({"completion": []}), json!({"completion": null})] {
        let (value, _) = repaired(Repairable::Completion, &given).unwrap();
        assert_eq!(value, json!({"completion": {"values": []}}), "{given}");
    }
}

#[test]
fn annotations_for_headers_that_break_the_rules_are_dropped() {
    let named = |name: Value| json!({"type": "string", "x-mcp-header": name});
    for properties in [
        json!({"a": named(json!(7))}),
        json!({"a": named(json!("a b")), "b": named(json!("B"))}),
        json!({"a": named(json!("A")), "b": named(json!("a"))}),
        json!({"a": {"type": "array", "items": named(json!("A"))}}),
    ] {
        let tool =
            json!({"name": "t", "inputSchema": {"type": "object", "properties": properties}});
        let (value, repairs) = repaired(Repairable::Tool, &tool).unwrap();
        assert!(!value.to_string().contains("x-mcp-header"), "{value}");
        assert!(!repairs.is_empty());
    }
    let properties = json!({"a": named(json!("A")), "x-mcp-header": {"type": "string"}});
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": properties}});
    assert_eq!(repaired(Repairable::Tool, &tool), Some((tool, Vec::new())));
}
