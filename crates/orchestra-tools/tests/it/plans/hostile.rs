//! Arguments that nobody means: refused, and harmless.

use orchestra_hub::Provider;
use serde_json::{Value, json};

use super::{Plans, job, plan, with};

/// Names that lead elsewhere, or nowhere.
fn hostile() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        " ",
        "..",
        "../..",
        "/etc/passwd",
        "a\\b",
        "a\0b",
        "%2e%2e",
        "a\nb",
        "\u{202e}a",
        "'; DROP TABLE event",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push("a".repeat(100_000));
    texts.push("../".repeat(10_000));
    texts
}

#[tokio::test]
async fn names_that_name_nothing_are_refused_by_every_tool() {
    let plans = Plans::new();
    let id = plans.create(plan(&[job("one", &[])])).await;
    let version = plans.model.of(&id).version();
    let tools = plans.bench.builtin.catalog().borrow().tools.clone();
    let mut tried = 0;
    for tool in tools.iter().filter(|tool| tool.group == "plans") {
        let schema: Value = tool.input_schema.parse().unwrap();
        let names = ["planId", "sourcePlanId", "jobId"];
        for name in names
            .iter()
            .filter(|name| schema["properties"][**name].is_object())
        {
            for text in hostile() {
                let rest = json!({"producerId": "new", "task": "t", "work": "true", "operations": [
                    {"type": "remove_job", "jobId": "one"}], "updates": {"model": "m"}, "jobs": [job("new", &[])],
                    "planId": id, "jobId": "one"});
                let mut arguments = json!({});
                for required in schema["required"].as_array().unwrap() {
                    let required = required.as_str().unwrap();
                    arguments[required] = rest[required].clone();
                }
                if tool.name == "update_copilot_plan_job" {
                    arguments["work"] = json!("true");
                }
                arguments[*name] = json!(text);
                let (code, error) = plans.refused(&tool.name, arguments).await;
                assert!(
                    ["plan-unknown", "job-unknown"].contains(&code.as_str()),
                    "{} {name}: {code}",
                    tool.name
                );
                assert!(error.len() < 2_000, "{}: {} bytes", tool.name, error.len());
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "only {tried}");
    assert_eq!(plans.model.of(&id).version(), version);
}

#[tokio::test]
async fn strange_arguments_are_refused_and_harmless() {
    let plans = Plans::new();
    let tools = plans.bench.builtin.catalog().borrow().tools.clone();
    for tool in tools.iter().filter(|tool| tool.group == "plans") {
        for arguments in [
            json!([]),
            json!("x"),
            json!(null),
            json!(1),
            json!({"planId": {}}),
            json!({"x": 1}),
        ] {
            let (code, error) = plans.refused(&tool.name, arguments).await;
            assert_eq!(code, "invalid-arguments", "{}: {error}", tool.name);
        }
    }
}

#[tokio::test]
async fn what_has_no_end_is_refused_before_it_is_read_to_it() {
    let plans = Plans::new();
    let many: Vec<Value> = (0..501)
        .map(|number| job(&format!("job-{number}"), &[]))
        .collect();
    let (code, error) = plans.refused("create_copilot_plan", plan(&many)).await;
    assert!(
        code == "invalid-arguments" && error.contains("at most 500"),
        "{error}"
    );
    let most: Vec<Value> = many.into_iter().take(500).collect();
    let made = plans.ok("create_copilot_plan", plan(&most)).await;
    assert_eq!(made["status"]["nodes"], 501);
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let deep: Value = serde_json::from_str(&deep).unwrap();
    let odd = with(
        &job("one", &[]),
        json!({"work": {"type": "shell", "command": deep}}),
    );
    let (code, _) = plans.refused("create_copilot_plan", plan(&[odd])).await;
    assert_eq!(code, "invalid-arguments");
    let long = with(&job("one", &[]), json!({"work": "x".repeat(60_000)}));
    let (_, error) = plans.refused("create_copilot_plan", plan(&[long])).await;
    assert!(
        error.contains("at most 50000") && error.len() < 2_000,
        "{error}"
    );
}

/// What stands in a plan's names cannot be more than text where it is drawn.
#[tokio::test]
async fn names_are_text_wherever_they_are_shown() {
    let plans = Plans::new();
    let named = with(
        &job("one", &[]),
        json!({"name": "a\"] --> b; click <script>"}),
    );
    let id = plans.create(plan(&[named])).await;
    let graph = plans
        .ok("get_copilot_plan_graph", json!({"planId": id}))
        .await;
    let mermaid = graph["mermaid"].as_str().unwrap();
    assert!(
        !mermaid.contains("<script>") && !mermaid.contains("a\"]"),
        "{mermaid}"
    );
}
