//! Costs of schemas: what is refused, and what is validated.

use super::*;
use serde_json::json;

/// `first` applies to a value twice what the next definition does, and so on.
fn doubling(count: usize) -> Value {
    let mut definitions = Map::new();
    for at in 0..count {
        let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
        definitions.insert(format!("a{at}"), json!({"allOf": [next, next]}));
    }
    definitions.insert(format!("a{count}"), json!({"type": "object"}));
    json!({"$ref": "#/$defs/a0", "$defs": definitions})
}

/// Two alternatives of the same elements.
fn twofold() -> Value {
    json!({
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "array", "items": {
            "anyOf": [{"$ref": "#/$defs/n", "maxItems": 0}, {"$ref": "#/$defs/n"}],
        }}},
    })
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!([]), |inner, _| json!([inner]))
}

/// A tree whose nodes have ten forms.
fn forms() -> Value {
    let form = |at: usize| {
        json!({
            "type": "object", "required": ["kind"], "additionalProperties": false,
            "properties": {
                "kind": {"const": format!("k{at}")}, "text": {"type": "string", "maxLength": 100},
                format!("below{at}"): {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        })
    };
    let forms: Vec<Value> = (0..10).map(form).collect();
    json!({"properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"oneOf": forms}}})
}

#[test]
fn references_that_lead_back_to_themselves_are_endless() {
    let cycle = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "properties": {"x": {"$ref": "#/$defs/a"}}});
    let anchor = json!({"$dynamicAnchor": "me", "allOf": [{"$dynamicRef": "#me"}]});
    let own = json!({"$id": "http://x/s", "if": {"$ref": "http://x/s#"}});
    for schema in [json!({"$ref": "#"}), cycle, anchor, own] {
        assert_eq!(
            bound_schema(&schema),
            Err(SchemaCostError::Endless),
            "{schema}"
        );
    }
    let tree = json!({"properties": {"below": {"items": {"$ref": "#"}}}});
    assert_eq!(bound_schema(&tree), Ok(()));
}

#[test]
fn doubling_references_take_too_many_steps() {
    assert_eq!(bound_schema(&doubling(60)), Err(SchemaCostError::Steps));
    assert_eq!(bound_schema(&doubling(10)), Ok(()));
    assert!(bound_validation(&doubling(10), &json!({})).is_ok());
}

#[test]
fn alternatives_of_deep_values_take_too_many_steps() {
    assert_eq!(bound_schema(&twofold()), Ok(()));
    let of = |depth| bound_validation(&twofold(), &json!({"a": nested(depth)}));
    assert!(of(5).is_ok());
    assert_eq!(of(20), Err(SchemaCostError::Steps));
    let tree = json!({"items": {"$ref": "#"}, "type": "array"});
    assert!(bound_validation(&tree, &nested(100)).is_ok());
}

#[test]
fn ordinary_schemas_are_bounded() {
    let tree = (0..4).fold(
        json!({"kind": "k1", "text": "x"}),
        |below, _| json!({"kind": "k1", "text": "x", "below1": [below, {"kind": "k2"}]}),
    );
    assert_eq!(bound_schema(&forms()), Ok(()));
    assert!(bound_validation(&forms(), &json!({ "tree": tree })).is_ok());
    let uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    let list = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://x/y.json",
        "items": {"pattern": uuid}, "uniqueItems": true,
    });
    let id = "00000000-0000-0000-0000-000000000000";
    let ids: Vec<String> = (0..200).map(|at| format!("{id}{at}")).collect();
    assert_eq!(bound_schema(&list), Ok(()));
    assert!(bound_validation(&list, &json!(ids)).is_ok());
    let text = json!({"content": "x".repeat(1024 * 1024)});
    let write = json!({"properties": {"content": {"type": "string"}}, "required": ["content"]});
    assert!(bound_validation(&write, &text).is_ok());
}

#[test]
fn many_members_with_many_parts_take_too_many_steps() {
    let members = |count: usize| -> Value {
        let members = (0..count).map(|at| (format!("k{at}"), json!(at)));
        Value::Object(members.collect())
    };
    let branches: Vec<Value> = (0..3_000)
        .map(|at| json!({"properties": {format!("k{at}"): true}}))
        .collect();
    let patterns = (0..1_000).map(|at| (format!("^x{at}"), json!(true)));
    let patterns: Map<String, Value> = patterns.collect();
    let dependents = (0..1_000).map(|at| (format!("k{at}"), json!({"minProperties": 1_000})));
    let dependents: Map<String, Value> = dependents.collect();
    let items = json!({"contains": {"enum": (0..1_000).collect::<Vec<_>>()}, "minContains": 900});
    let names = json!({"propertyNames": {"allOf": vec![json!({"pattern": "^(a|b){1,99}$"}); 500]}});
    let large = json!((0..100_000).collect::<Vec<_>>());
    for (schema, value) in [
        (
            json!({"unevaluatedProperties": false, "anyOf": branches}),
            members(3_000),
        ),
        (json!({ "patternProperties": patterns }), members(3_000)),
        (
            json!({"dependentSchemas": dependents, "additionalProperties": {"allOf": vec![json!({}); 500]}}),
            members(1_000),
        ),
        (items, json!((0..1_000).rev().collect::<Vec<_>>())),
        (names, members(1_000)),
        (json!({"uniqueItems": true}), large),
    ] {
        let value = bound_schema(&schema).and_then(|()| bound_validation(&schema, &value));
        assert_eq!(value, Err(SchemaCostError::Steps));
    }
}

#[test]
fn what_is_costly_to_compile_is_refused() {
    let chain = (0..2_000).map(|at| {
        let next = json!({"items": {"$ref": format!("#/$defs/a{}", (at + 1) % 2_000)}});
        (format!("a{at}"), next)
    });
    let chain: Map<String, Value> = chain.collect();
    assert!(bound_schema(&json!({"$ref": "#/$defs/a0", "$defs": chain})).is_err());
    let mut unevaluated = doubling(18);
    unevaluated["unevaluatedProperties"] = json!(false);
    assert_eq!(bound_schema(&unevaluated), Err(SchemaCostError::Steps));
    let pattern = json!({"pattern": "((a{1,99}){1,99}){1,99}"});
    assert_eq!(bound_schema(&pattern), Err(SchemaCostError::Steps));
}

#[test]
fn schemas_of_several_documents_are_refused() {
    for schema in [
        json!({"$ref": "http://x/y"}),
        json!({"$ref": "#/$defs/none"}),
        json!({"$defs": {"a": {"$id": "http://x/y", "$ref": "#"}}, "$ref": "#/$defs/a"}),
        json!({"$schema": "http://x/y", "$id": "http://x/y"}),
        json!({"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n"}}, "$ref": "#n"}),
    ] {
        assert_eq!(
            bound_schema(&schema),
            Err(SchemaCostError::Reference),
            "{schema}"
        );
    }
    let escaped = json!({"$defs": {"a<b>/c": {}}, "$ref": "#/$defs/a%3Cb%3E~1c"});
    assert_eq!(bound_schema(&escaped), Ok(()));
}
