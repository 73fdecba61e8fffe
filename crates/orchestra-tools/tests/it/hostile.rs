//! Ids that would leave the directory they name: refused wherever one is taken.

use orchestra_hub::{CompletionRef, Content, Outcome, Provider, ProviderError, Target};
use orchestra_wire::RawJson;
use serde_json::{Map, Value, json};

use crate::bench::Bench;

/// Arguments that are ids, whichever tool takes them.
const IDS: [&str; 11] = [
    "project",
    "epic_id",
    "story_id",
    "task_id",
    "issue_id",
    "parent_id",
    "depends_on",
    "session_id",
    "memory_id",
    "file",
    "cursor",
];

fn hostile() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        ".",
        "..",
        "../..",
        "../../etc",
        "/",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "a\0b",
        "\0",
        " ",
        "%2e%2e",
        "a\nb",
        "\u{202e}a",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push("a".repeat(1_000_000));
    texts.push("../".repeat(10_000));
    texts
}

/// Arguments that fit a schema: an id where one is asked for, some value elsewhere.
fn sample(schema: &Value) -> Map<String, Value> {
    let mut arguments = Map::new();
    for (name, property) in schema["properties"].as_object().unwrap() {
        let value = match name.as_str() {
            "project" => json!("my-app"),
            "epic_id" => json!("MA-1"),
            "story_id" => json!("MA-2"),
            "task_id" | "issue_id" | "parent_id" => json!("MA-3"),
            "memory_id" => json!("mem-1"),
            "session_id" => json!("s-1"),
            "file" => json!("plan.md"),
            "version" => json!("0000000000000000"),
            _ => match (property["type"].as_str(), property["enum"].get(0)) {
                (_, Some(first)) => first.clone(),
                (Some("string"), _) => json!("text"),
                (Some("integer" | "number"), _) => json!(1),
                (Some("boolean"), _) => json!(false),
                (Some("array"), _) => json!([]),
                _ => json!({}),
            },
        };
        arguments.insert(name.clone(), value);
    }
    arguments
}

#[tokio::test]
async fn scenario_10_hostile_ids_are_refused_by_every_tool() {
    let bench = Bench::with_story().await;
    bench.task("Untouched").await;
    let tools = bench.builtin.catalog().borrow().tools.clone();
    let mut tried = 0;
    for tool in &tools {
        let schema: Value = tool.input_schema.parse().unwrap();
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        // The session of a hook event is the agent's own affair: kept as text, never a path.
        let ids = names
            .iter()
            .filter(|name| IDS.contains(&name.as_str()) && tool.name != "receive_hook_event");
        for id in ids {
            // The empty cursor is that of the first page.
            for text in hostile()
                .into_iter()
                .filter(|text| *id != "cursor" || !text.is_empty())
            {
                let mut arguments = sample(&schema);
                let value = if schema["properties"][*id]["type"] == "array" {
                    json!([text])
                } else {
                    json!(text)
                };
                arguments.insert((*id).clone(), value);
                let answer = bench.refused(&tool.name, Value::Object(arguments)).await;
                assert!(
                    answer.contains(id.as_str()),
                    "{} {id} {text:.20}: {answer}",
                    tool.name
                );
                assert!(
                    answer.len() < 2_000,
                    "{} {id}: {} bytes",
                    tool.name,
                    answer.len()
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 1_000, "only {tried}");
    assert_eq!(bench.status("MA-3").await, "backlog");
}

#[tokio::test]
async fn scenario_10_hostile_ids_are_refused_by_every_resource_and_prompt() {
    let bench = Bench::with_story().await;
    bench.task("Untouched").await;
    for text in hostile() {
        for uri in [
            format!("toon://project/{text}/prd"),
            format!("toon://project/{text}/status"),
            format!("toon://project/{text}/task/MA-1/MA-2/MA-3"),
            format!("toon://project/my-app/task/{text}/MA-2/MA-3"),
            format!("toon://project/my-app/task/MA-1/{text}/MA-3"),
            format!("toon://project/my-app/task/MA-1/MA-2/{text}"),
        ] {
            let error = bench.resource(&uri).await.unwrap_err();
            assert!(
                matches!(
                    error,
                    ProviderError::Unknown { .. } | ProviderError::InvalidParams(_)
                ),
                "{uri:.80}"
            );
            assert!(error.to_string().len() < 2_000);
        }
        let good = [
            ("project", "my-app"),
            ("epic_id", "MA-1"),
            ("story_id", "MA-2"),
            ("task_id", "MA-3"),
        ];
        assert!(bench.prompt("review_task", &good).await.is_ok());
        for at in 0..good.len() {
            let mut arguments = good;
            arguments[at].1 = &text;
            let error = bench.prompt("review_task", &arguments).await.unwrap_err();
            assert!(
                matches!(&error, ProviderError::InvalidParams(why) if why.contains(good[at].0)),
                "{error}"
            );
        }
        assert!(matches!(
            bench.prompt("plan_sprint", &[("project", &text)]).await,
            Err(ProviderError::InvalidParams(_))
        ));
        let template = CompletionRef::Resource("toon://project/{slug}/status".to_owned());
        if text.trim().is_empty() {
            continue;
        }
        assert_eq!(
            bench
                .complete(template, "slug", &text, &[])
                .await
                .unwrap()
                .values,
            Vec::<String>::new()
        );
        let prompt = CompletionRef::Prompt("review_task".to_owned());
        let found = bench
            .complete(prompt, "task_id", "", &[("project", &text)])
            .await
            .unwrap();
        assert_eq!(found.values, Vec::<String>::new());
    }
}

#[tokio::test]
async fn strange_arguments_are_refused_and_harmless() {
    let bench = Bench::with_story().await;
    for tool in bench.builtin.catalog().borrow().tools.clone() {
        for arguments in [
            json!([]),
            json!("x"),
            json!(null),
            json!(1),
            json!({"no_such_argument": 1}),
            json!({"project": {}}),
        ] {
            let answer = bench.refused(&tool.name, arguments).await;
            assert!(answer.contains("argument"), "{}: {answer}", tool.name);
        }
    }
    let text = json!({"project": "my-app", "epic_id": "MA-1", "title": "\u{202e}RTL שלום 🚀", "user_story": "🚀"});
    assert_eq!(
        bench.ok("create_story", text).await["title"],
        "\u{202e}RTL שלום 🚀"
    );
}

#[tokio::test]
async fn a_duplicate_argument_is_refused() {
    let bench = Bench::with_story().await;
    let text = r#"{"project": "my-app", "project": "other"}"#;
    let arguments = RawJson::from_raw(serde_json::from_str(text).unwrap());
    let target = Target::Tool {
        name: "list_epics".to_owned(),
        arguments,
    };
    let Outcome::Tool(result) = bench.ask(target).await.unwrap() else {
        panic!()
    };
    assert!(result.is_error);
    assert!(
        matches!(&result.content[0], Content::Text(text) if text == "duplicate argument `project`")
    );
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_unknown() {
    let arguments = RawJson::empty_object();
    let target = Target::Tool {
        name: "drop_tables".to_owned(),
        arguments,
    };
    let error = Bench::new().ask(target).await.unwrap_err();
    assert!(matches!(error, ProviderError::Unknown { kind: "tool", .. }));
}
