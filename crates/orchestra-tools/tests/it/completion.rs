//! Completion of the arguments of prompts and templates.

use orchestra_hub::{CompletionRef, ProviderError};
use serde_json::json;

use crate::bench::Bench;

const TASK: &str = "toon://project/{slug}/task/{epicId}/{storyId}/{taskId}";

fn template(uri: &str) -> CompletionRef {
    CompletionRef::Resource(uri.to_owned())
}

fn review() -> CompletionRef {
    CompletionRef::Prompt("review_task".to_owned())
}

#[tokio::test]
async fn slugs_and_ids_are_completed() {
    let bench = Bench::with_story().await;
    bench.ok("create_project", json!({"name": "Other"})).await;
    bench
        .ok(
            "create_epic",
            json!({"project": "my-app", "title": "Second"}),
        )
        .await;
    let story = json!({"project": "my-app", "epic_id": "MA-3", "title": "Story", "user_story": "As a user"});
    bench.ok("create_story", story).await;
    bench.task_in("MA-2", "First").await;
    bench.task_in("MA-4", "Second").await;

    let check = async |reference, argument, typed, context: &[(&str, &str)], expected: &[&str]| {
        let found = bench
            .complete(reference, argument, typed, context)
            .await
            .unwrap();
        assert_eq!(found.values, expected, "{argument} {typed} {context:?}");
        assert_eq!(
            (found.total, found.has_more),
            (Some(expected.len() as u64), false)
        );
    };
    check(
        template("toon://project/{slug}/prd"),
        "slug",
        "",
        &[],
        &["my-app", "other"],
    )
    .await;
    check(template(TASK), "slug", "MY", &[], &["my-app"]).await;
    check(
        template(TASK),
        "epicId",
        "",
        &[("slug", "my-app")],
        &["MA-1", "MA-3"],
    )
    .await;
    check(
        template(TASK),
        "storyId",
        "",
        &[("slug", "my-app"), ("epicId", "MA-3")],
        &["MA-4"],
    )
    .await;
    check(
        template(TASK),
        "taskId",
        "ma-",
        &[("slug", "my-app")],
        &["MA-5", "MA-6"],
    )
    .await;
    check(
        template(TASK),
        "taskId",
        "",
        &[("slug", "my-app"), ("epicId", "MA-1"), ("storyId", "MA-2")],
        &["MA-5"],
    )
    .await;
    check(review(), "project", "o", &[], &["other"]).await;
    check(
        review(),
        "task_id",
        "MA-6",
        &[("project", "my-app"), ("story_id", "MA-4")],
        &["MA-6"],
    )
    .await;
    check(review(), "task_id", "", &[], &[]).await;
    check(review(), "task_id", "", &[("project", "no-such")], &[]).await;
    check(
        CompletionRef::Prompt("create_prd".to_owned()),
        "project_name",
        "x",
        &[],
        &[],
    )
    .await;
}

#[tokio::test]
async fn what_is_not_ours_is_refused() {
    let bench = Bench::new();
    for (reference, argument) in [
        (template("toon://other"), "slug"),
        (template(TASK), "nothing"),
        (review(), "nothing"),
        (CompletionRef::Prompt("nothing".to_owned()), "project"),
    ] {
        let error = bench
            .complete(reference, argument, "", &[])
            .await
            .unwrap_err();
        assert!(matches!(error, ProviderError::InvalidParams(_)));
    }
}

#[tokio::test]
async fn an_answer_has_at_most_100_values() {
    let bench = Bench::with_story().await;
    for number in 0..210 {
        bench
            .ok(
                "create_epic",
                json!({"project": "my-app", "title": format!("Epic {number}")}),
            )
            .await;
    }
    let found = bench
        .complete(template(TASK), "epicId", "", &[("slug", "my-app")])
        .await
        .unwrap();
    assert_eq!((found.values.len(), found.has_more), (100, true));
    // Beyond the first candidates, what is typed is searched for.
    let found = bench
        .complete(template(TASK), "epicId", "ma-21", &[("slug", "my-app")])
        .await
        .unwrap();
    assert_eq!(found.values, ["MA-21", "MA-210", "MA-211", "MA-212"]);
}
