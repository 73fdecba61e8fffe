//! What the results of a day's work cost a model, beside the earlier program's.

use serde_json::{Map, Value, json};

use crate::bench::Bench;

const TITLE: &str = "Stream the rows of an export";
const DESCRIPTION: &str =
    "Rows are collected in memory first.\nWrite them as they come, and keep the order of columns.";
const EVIDENCE: &str = "cargo test: 214 passed, 0 failed; reviewed by hand";
const TASKS: usize = 20;

/// A task as the earlier program answered it: the whole record, whatever was asked.
fn record(id: &str, status: &str) -> Value {
    json!({
        "id": id, "title": TITLE, "type": "task", "status": status, "description": DESCRIPTION,
        "priority": "medium", "created_at": "2026-02-14T13:55:45Z", "updated_at": "2026-02-14T13:55:45Z",
    })
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

struct Tally {
    ours: usize,
    earlier: usize,
}

impl Tally {
    async fn call(
        &mut self,
        bench: &Bench,
        tool: &str,
        arguments: Value,
        earlier: &Value,
    ) -> Value {
        let answer = bench.call(tool, arguments).await;
        assert!(!answer.is_error, "{tool}: {}", answer.text);
        let count = |text: &str| {
            tiktoken_rs::o200k_base_singleton()
                .encode_ordinary(text)
                .len()
        };
        self.ours += count(&answer.text);
        self.earlier += count(&pretty(earlier));
        answer.value
    }
}

async fn work(bench: &Bench) -> Tally {
    bench.ok("create_project", json!({"name": "My App"})).await;
    bench
        .ok("create_epic", json!({"project": "my-app", "title": "Epic"}))
        .await;
    let story = json!({"project": "my-app", "epic_id": "MA-1", "title": "Story", "user_story": "As a user"});
    bench.ok("create_story", story).await;
    let mut tally = Tally {
        ours: 0,
        earlier: 0,
    };
    for number in 3..3 + TASKS {
        let id = format!("MA-{number}");
        let create = json!({
            "project": "my-app", "epic_id": "MA-1", "story_id": "MA-2", "title": TITLE, "description": DESCRIPTION,
            "type": "task", "priority": "medium",
        });
        tally
            .call(bench, "create_task", create, &record(&id, "backlog"))
            .await;
        let address =
            json!({"project": "my-app", "epic_id": "MA-1", "story_id": "MA-2", "task_id": id});
        let mut update = address.clone();
        update["status"] = json!("todo");
        tally
            .call(bench, "update_task", update, &record(&id, "todo"))
            .await;
        tally
            .call(
                bench,
                "set_current_task",
                address.clone(),
                &record(&id, "in-progress"),
            )
            .await;
        tally
            .call(
                bench,
                "get_task",
                address.clone(),
                &record(&id, "in-progress"),
            )
            .await;
        let path = [
            "in-progress",
            "ready-for-testing",
            "in-testing",
            "ready-for-docs",
            "in-docs",
            "documented",
            "in-review",
            "done",
        ];
        for step in path.windows(2) {
            let mut earlier = Map::new();
            let mut advance = address.clone();
            if !["ready-for-testing", "ready-for-docs", "documented"].contains(&step[0]) {
                advance["evidence"] = json!(EVIDENCE);
                earlier.insert("evidence".to_owned(), json!(EVIDENCE));
            }
            earlier.insert("from".to_owned(), json!(step[0]));
            if step[1] != "done" {
                earlier.insert(
                    "gate".to_owned(),
                    json!("Say what was done before you go on to the next state."),
                );
            }
            earlier.insert("task".to_owned(), record(&id, step[1]));
            earlier.insert("to".to_owned(), json!(step[1]));
            tally
                .call(bench, "advance_task", advance, &Value::Object(earlier))
                .await;
        }
    }
    let all: Vec<Value> = (3..3 + TASKS)
        .map(|number| record(&format!("MA-{number}"), "done"))
        .collect();
    tally
        .call(
            bench,
            "list_tasks",
            json!({"project": "my-app", "story_id": "MA-2"}),
            &json!(all),
        )
        .await;
    tally
        .call(
            bench,
            "search",
            json!({"project": "my-app", "query": "rows"}),
            &json!(all),
        )
        .await;
    tally
}

#[tokio::test]
async fn w34_a_working_day_costs_at_most_half_of_what_it_did() {
    let mut best = usize::MAX;
    let mut earlier = 0;
    for (name, bench) in [("compact", Bench::new()), ("toon", Bench::toon())] {
        let tally = work(&bench).await;
        println!(
            "{name}: {} tokens, the earlier program {}",
            tally.ours, tally.earlier
        );
        best = best.min(tally.ours);
        earlier = tally.earlier;
    }
    assert!(best * 2 <= earlier, "{best} of {earlier}");
}
