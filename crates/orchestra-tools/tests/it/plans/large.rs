//! Plans of many jobs, as somebody sees them who has little room.

use serde_json::{Value, json};

use super::{Plans, job, plan, with};

/// As much as common clients take of one answer.
const TOKENS: usize = 25_000;

fn tokens(answer: &Value) -> usize {
    tiktoken_rs::o200k_base_singleton()
        .encode_ordinary(&answer.to_string())
        .len()
}

/// Five hundred jobs, sixteen beside each other.
fn wide() -> Value {
    let name = |at: usize| format!("job-{at:03}");
    let jobs: Vec<Value> = (0..500_usize)
        .map(|at| match at.checked_sub(16) {
            None => job(&name(at), &[]),
            Some(before) => job(&name(at), &[&name(before)]),
        })
        .collect();
    plan(&jobs)
}

#[tokio::test]
async fn a_plan_of_500_jobs_is_told_in_answers_that_clients_take() {
    let plans = Plans::new();
    let made = plans.ok("create_copilot_plan", wide()).await;
    assert!(tokens(&made) < TOKENS, "create: {}", tokens(&made));
    let id = made["planId"].as_str().unwrap().to_owned();
    let own = json!({"planId": id});
    let operations = json!([{"type": "remove_job", "jobId": "job-484"},
        {"type": "add_before", "existingJobId": "job-100", "spec": job("new", &[])}]);
    let reshape = with(&own, json!({"operations": operations}));
    let reshaped = plans.ok("reshape_copilot_plan", reshape).await;
    let topology = &reshaped["topology"];
    assert_eq!(topology["nodeCount"], 501);
    let changed: Vec<&str> = topology["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["producerId"].as_str().unwrap())
        .collect();
    for name in ["new", "job-100"] {
        assert!(changed.contains(&name), "{changed:?}");
    }
    assert!(changed.len() < 5, "{changed:?}");
    assert_eq!(topology["leftOut"], 501 - changed.len());
    assert!(tokens(&reshaped) < TOKENS / 5, "{}", tokens(&reshaped));
    plans.model.run(&id);
    for tool in ["get_copilot_plan_status", "get_copilot_plan_graph"] {
        let (mut seen, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let page = match &cursor {
                Value::Null => own.clone(),
                cursor => with(&own, json!({"cursor": cursor})),
            };
            let page = plans.ok(tool, page).await;
            assert!(tokens(&page) < TOKENS, "{tool}: {}", tokens(&page));
            let nodes = page["nodes"].as_array().unwrap();
            seen.extend(nodes.iter().map(|node| node["producerId"].clone()));
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        let all: std::collections::BTreeSet<String> =
            seen.iter().map(ToString::to_string).collect();
        assert_eq!((seen.len(), all.len()), (501, 501), "{tool}");
        let few = plans.ok(tool, with(&own, json!({"limit": 3}))).await;
        assert_eq!(
            (few["nodes"].as_array().unwrap().len(), &few["next_cursor"]),
            (3, &json!("3")),
            "{tool}"
        );
        let first = with(&own, json!({"limit": 3, "cursor": ""}));
        assert_eq!(plans.ok(tool, first).await["next_cursor"], "3", "{tool}");
        let wrong = with(&own, json!({"cursor": "x"}));
        assert_eq!(plans.refused(tool, wrong).await.0, "bad-cursor");
    }
}

#[tokio::test]
async fn a_copy_is_warned_of_what_the_copy_lacks() {
    let plans = Plans::new();
    let begun = plans
        .ok("scaffold_copilot_plan", json!({"name": "Begun"}))
        .await;
    let own = json!({"planId": begun["planId"]});
    plans
        .ok("add_copilot_plan_job", with(&job("one", &[]), own))
        .await;
    let copy = json!({"sourcePlanId": begun["planId"]});
    let copy = plans.ok("clone_copilot_plan", copy).await;
    let warnings = copy["warnings"].as_array().unwrap();
    assert!(
        warnings[0].as_str().unwrap().contains("postchecks"),
        "{copy}"
    );
}
