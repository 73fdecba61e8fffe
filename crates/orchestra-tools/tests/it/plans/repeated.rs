//! What is asked again under a key is done once, and told as what it is; one key keeps nothing else from
//! being done.

use orchestra_plan::phase::Phase;
use serde_json::{Value, json};

use super::{Plans, job, plan, with};

#[tokio::test]
async fn one_key_for_a_whole_task_keeps_none_of_its_steps_from_being_done() {
    let plans = Plans::new();
    let keyed = json!({"startPaused": true, "idempotencyKey": "task-1"});
    let made = with(&plan(&[job("one", &[]), job("two", &[])]), keyed);
    let id = plans.create(made).await;
    let own = json!({"planId": id, "idempotencyKey": "task-1"});
    let status = |answer: &Value| answer["status"].as_str().unwrap().to_owned();
    let resumed = plans.ok("resume_copilot_plan", own.clone()).await;
    assert_eq!(status(&resumed), "pending", "{resumed}");
    let paused = plans.ok("pause_copilot_plan", own.clone()).await;
    assert_eq!(status(&paused), "pending-start", "{paused}");
    // The same of another job is not the same.
    for name in ["one", "two"] {
        let fail = with(&own, json!({"jobId": name}));
        let failed = plans.ok("force_fail_copilot_job", fail.clone()).await;
        assert_eq!(failed["repeated"], Value::Null, "{failed}");
        let again = plans.ok("force_fail_copilot_job", fail).await;
        assert_eq!(again["repeated"], true, "{again}");
    }
    // Nor is it with other words.
    for limit in [3, 4] {
        let limited = with(&own, json!({"maxParallel": limit}));
        let limited = plans.ok("update_copilot_plan", limited).await;
        assert_eq!(limited["maxParallel"], limit, "{limited}");
    }
    let long = with(&own, json!({"idempotencyKey": "k".repeat(200)}));
    assert_eq!(
        plans.refused("resume_copilot_plan", long).await.0,
        "bad-key"
    );
}

#[tokio::test]
async fn a_repeated_retry_has_done_its_work() {
    for (tool, more) in [
        ("retry_copilot_plan", json!({})),
        ("retry_copilot_job", json!({"jobId": "one"})),
    ] {
        let plans = Plans::new();
        plans.model.fail(&[("one", Phase::Work)]);
        let id = plans.create(plan(&[job("one", &[])])).await;
        plans.model.run(&id);
        let retry = with(&json!({"planId": id, "idempotencyKey": "k"}), more);
        let first = plans.ok(tool, retry.clone()).await;
        assert_eq!(first["repeated"], Value::Null);
        let again = plans.ok(tool, retry).await;
        assert_eq!(again["repeated"], true, "{again}");
        let message = again["message"].as_str().unwrap();
        assert!(message.contains("is not repeated"), "{message}");
    }
}

#[tokio::test]
async fn a_repeated_reshape_claims_nothing_of_its_operations() {
    let plans = Plans::new();
    let id = plans.create(plan(&[job("one", &[])])).await;
    let operations = json!([{"type": "add_job", "spec": job("new", &[])},
        {"type": "remove_job", "jobId": "nobody"}]);
    let reshape = json!({"planId": id, "idempotencyKey": "k", "operations": operations});
    let first = plans.not("reshape_copilot_plan", reshape.clone()).await;
    assert_eq!(first["results"][1]["code"], "job-unknown");
    let again = plans.ok("reshape_copilot_plan", reshape).await;
    assert_eq!(
        (
            &again["repeated"],
            &again["results"],
            &again["topology"]["nodeCount"]
        ),
        (&json!(true), &json!([]), &json!(3))
    );
}

#[tokio::test]
async fn every_change_that_is_repeated_says_so() {
    let plans = Plans::new();
    let agent = with(&job("one", &[]), json!({"work": "@agent Do it"}));
    let id = plans.create(plan(&[agent, job("two", &[])])).await;
    let begun = plans
        .ok("scaffold_copilot_plan", json!({"name": "Begun"}))
        .await;
    let begun = begun["planId"].as_str().unwrap().to_owned();
    for (plan, tool, more) in [
        (&id, "update_copilot_plan", json!({"env": {"A": "1"}})),
        (
            &id,
            "update_copilot_plan_job",
            json!({"jobId": "two", "work": "false"}),
        ),
        (
            &id,
            "bulk_update_copilot_plan_jobs",
            json!({"updates": {"model": "m"}}),
        ),
        (&begun, "add_copilot_plan_job", job("one", &[])),
        (
            &begun,
            "add_copilot_plan_jobs",
            json!({"jobs": [job("two", &[])]}),
        ),
        (&begun, "finalize_copilot_plan", json!({})),
        (&id, "pause_copilot_plan", json!({})),
        (&id, "resume_copilot_plan", json!({})),
        (&id, "cancel_copilot_plan", json!({})),
        (&id, "recover_copilot_plan", json!({})),
        (&id, "archive_copilot_plan", json!({"force": true})),
    ] {
        let asked = with(&json!({"planId": plan, "idempotencyKey": "k"}), more);
        let first = plans.ok(tool, asked.clone()).await;
        assert_eq!(first["repeated"], Value::Null, "{tool}: {first}");
        let version = plans.model.of(plan).version();
        let again = plans.ok(tool, asked).await;
        assert_eq!(again["repeated"], true, "{tool}: {again}");
        assert_eq!(plans.model.of(plan).version(), version, "{tool}");
    }
}

#[tokio::test]
async fn a_key_that_made_a_plan_makes_no_other() {
    let plans = Plans::new();
    let keyed = |more: Value| {
        with(
            &with(&plan(&[job("one", &[])]), more),
            json!({"idempotencyKey": "k"}),
        )
    };
    let made = plans.ok("create_copilot_plan", keyed(json!({}))).await;
    let started = plans
        .ok("create_copilot_plan", keyed(json!({"startPaused": true})))
        .await;
    assert_eq!(
        (&started["planId"], &started["repeated"]),
        (&made["planId"], &json!(true))
    );
    for (tool, asked) in [
        ("create_copilot_plan", keyed(json!({"maxParallel": 9}))),
        (
            "create_copilot_plan",
            keyed(json!({"jobs": [job("two", &[])]})),
        ),
        (
            "scaffold_copilot_plan",
            json!({"name": "Begun", "idempotencyKey": "k"}),
        ),
        (
            "clone_copilot_plan",
            json!({"sourcePlanId": made["planId"], "idempotencyKey": "k"}),
        ),
    ] {
        let (code, error) = plans.refused(tool, asked).await;
        assert_eq!(code, "key-reused", "{tool}: {error}");
        assert!(error.contains(made["planId"].as_str().unwrap()), "{error}");
    }
}
