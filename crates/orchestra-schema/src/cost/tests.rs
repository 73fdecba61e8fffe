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
    for pattern in ["((a{1,99}){1,99}){1,99}", "\\p{L}{1,2000}"] {
        let schema = json!({ "pattern": pattern });
        assert_eq!(
            bound_schema(&schema),
            Err(SchemaCostError::Steps),
            "{pattern}"
        );
    }
}

#[test]
fn pattern_with_many_uses_is_compiled_once_and_has_a_budget_of_its_own() {
    let name = json!({"pattern": "^[\\p{L}\\p{N} _-]{1,64}$"});
    let uses = (0..1_000).map(|at| (format!("k{at}"), name.clone()));
    let schema = json!({"properties": uses.collect::<Map<_, _>>()});
    let value = (0..1_000).map(|at| (format!("k{at}"), json!("x")));
    let value = Value::Object(value.collect());
    assert_eq!(bound_schema(&schema), Ok(()));
    assert!(bound_validation(&schema, &value).is_ok());
    let uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    let list = json!({"items": {"pattern": uuid}});
    let ids = |count: usize| json!(vec!["00000000-0000-0000-0000-000000000000"; count]);
    assert!(bound_validation(&list, &ids(8_000)).is_ok());
    let many = bound_validation(&list, &ids(80_000));
    assert_eq!(many, Err(SchemaCostError::Steps));
}

#[test]
fn analysis_measures_a_subschema_once_and_ends_with_its_budget() {
    let schema = json!({"items": {"propertyNames": {"pattern": "^a+$"}}});
    let value = json!(vec![json!({"a": 1}); 100]);
    let graph = Graph::new(&schema);
    let mut steps = Steps::new(&graph);
    assert!(steps.cost(&schema, &value, 0).is_ok());
    assert_eq!(steps.assertions.len(), 3);
    let dependents = (0..10_000).map(|at| (format!("k{at}"), json!(true)));
    let schema = json!({"items": {"dependentSchemas": dependents.collect::<Map<_, _>>()}});
    let value = json!(vec![1; 10_000]);
    let graph = Graph::new(&schema);
    let mut steps = Steps::new(&graph);
    assert!(steps.cost(&schema, &value, 0).is_err());
    assert!(steps.known.len() < 100, "{}", steps.known.len());
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

#[test]
fn patterns_are_measured_by_their_engine() {
    let steps = |pattern: &str, bytes| Pattern::of(pattern).steps(bytes);
    // Linear: twice the text, twice the steps.
    for pattern in [
        "^[a-z]+$",
        "^(?!\\s*$).+$",
        "^(?=.*[A-Z])(?=.*\\d)[a-z]{8,}$",
        "^(?<year>\\d{4})-(?:a|b)*?$",
        "(?i)^\\p{L}{1,9}$",
    ] {
        let (short, long) = (steps(pattern, 10_000), steps(pattern, 20_000));
        assert!(long <= 2 * short, "{pattern}: {short} {long}");
    }
    // A look-around reads the text from each of its places.
    for pattern in [
        "(?=(a+)+$)b",
        "^(?:a(?=[ab]*$))+$",
        "^(?=a)+b*$",
        "^(?=a)b|[ab]*c",
        "(?<=a)b*",
        "(\\w+)\\1$",
        "(?>a*)*b",
        "^a++(?:b|c)",
    ] {
        assert!(steps(pattern, 100_000) > MAX_PATTERN_STEPS, "{pattern}");
        assert!(steps(pattern, 2) < MAX_PATTERN_STEPS, "{pattern}");
    }
    let nested = "(?:(?=(?:a(?=[ab]*))*)a)*c";
    assert!(steps(nested, 200) > MAX_PATTERN_STEPS);
    let tempered = "^(?:(?!\\.\\.).)*$";
    assert!(steps(tempered, 40) * 20 < MAX_PATTERN_STEPS);
}
