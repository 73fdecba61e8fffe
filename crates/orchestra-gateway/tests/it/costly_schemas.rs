//! Schemas with which validation takes too long: their tools are called without validation.

use orchestra_gateway::review;
use orchestra_hub::ListKind;
use serde_json::{Map, Value, json};

use crate::{
    log::Lines,
    played::{Bench, Played, config, raw, text, tool},
};

/// Schemas, each with a value on which a validator spends seconds at least.
fn costly() -> Vec<(&'static str, Value, Value)> {
    let mut doubling: Map<String, Value> = (0..60)
        .map(|at| {
            let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
            (format!("a{at}"), json!({"allOf": [next, next]}))
        })
        .collect();
    doubling.insert("a60".to_owned(), json!({"type": "object"}));
    let twofold = json!({"type": "array", "items": {
        "anyOf": [{"$ref": "#/$defs/n", "maxItems": 0}, {"$ref": "#/$defs/n"}],
    }});
    let nested = (0..20).fold(json!([]), |inner, _| json!([inner]));
    let branches: Vec<Value> = (0..3_000)
        .map(|at| json!({"properties": {format!("k{at}"): true}}))
        .collect();
    let members: Map<String, Value> = (0..3_000).map(|at| (format!("k{at}"), json!(at))).collect();
    vec![
        (
            "doubling",
            json!({"type": "object", "$ref": "#/$defs/a0", "$defs": doubling}),
            json!({}),
        ),
        (
            "endless",
            json!({"type": "object", "allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
            json!({}),
        ),
        (
            "twofold",
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": twofold}}),
            json!({ "a": nested }),
        ),
        (
            "unevaluated",
            json!({"type": "object", "unevaluatedProperties": false, "anyOf": branches}),
            Value::Object(members),
        ),
    ]
}

#[tokio::test]
async fn calls_with_costly_schemas_are_answered_without_validation() {
    let log = Lines::default();
    let _listening = log.listen();
    let mut tools = vec![tool("plain")];
    for (name, schema, _) in costly() {
        let mut input = tool(&format!("{name}_in"));
        input["inputSchema"] = schema.clone();
        let mut output = tool(&format!("{name}_out"));
        output["outputSchema"] = schema;
        tools.extend([input, output]);
    }
    let server = Played::new(tools);
    server.say(|_, params| {
        let name = params["name"].as_str().unwrap().trim_end_matches("_out");
        let result = costly().into_iter().find(|(of, ..)| *of == name);
        let result = result.map_or_else(|| json!({}), |(.., value)| value);
        let content = json!([{"type": "text", "text": "done"}]);
        Ok(raw(
            &json!({"content": content, "structuredContent": result}),
        ))
    });
    let bench = Bench::new(&[("s", &server)]);
    bench.gateway.apply(vec![config("s")]);
    bench.tools().await;
    for (name, _, value) in costly() {
        for (tool, arguments) in [("in", value), ("out", json!({}))] {
            let tool = format!("s__{name}_{tool}");
            for _ in 0..2 {
                let answer = text(bench.call(&tool, arguments.clone()).await);
                assert_eq!(answer, ("done".to_owned(), false), "{tool}");
            }
            let plain = text(bench.call("s__plain", json!({})).await);
            assert_eq!(plain, ("done".to_owned(), false));
            let mut lines = log.take();
            lines.retain(|line| line.contains("not enforced") || line.contains("not checked"));
            assert!(lines.len() == 1 && lines[0].contains(&tool), "{lines:?}");
        }
    }
}

#[test]
fn unenforced_schemas_are_reported_by_review() {
    let mut tools = vec![tool("plain")];
    for (name, schema, _) in costly().into_iter().take(2) {
        let mut one = tool(name);
        one["inputSchema"] = schema.clone();
        one["outputSchema"] = schema;
        tools.push(one);
    }
    let tools: Vec<_> = tools.iter().map(raw).collect();
    let reviewed = review(&config("s"), ListKind::Tools, &tools);
    assert_eq!(reviewed.items.len(), 3);
    assert_eq!(
        reviewed.unenforced,
        [
            "doubling: the inputSchema is not enforced: validation takes too many steps",
            "doubling: the outputSchema is not enforced: validation takes too many steps",
            "endless: the inputSchema is not enforced: a reference leads back to itself",
            "endless: the outputSchema is not enforced: a reference leads back to itself",
        ]
    );
}
