//! Operations that the earlier program lacked.

use serde_json::{Value, json};

use crate::bench::{Bench, ids, task};

#[tokio::test]
async fn w35_the_missing_operations_are_there() {
    let bench = Bench::with_story().await;
    let id = bench.task("First").await;
    let other = bench.task("Second").await;
    let of = |more: Value| {
        let mut arguments = json!({"project": "my-app", "issue_id": id});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        arguments
    };
    // Rename and delete a project.
    bench
        .ok(
            "rename_project",
            json!({"project": "my-app", "name": "Our App"}),
        )
        .await;
    assert_eq!(
        bench
            .ok("get_project_status", json!({"project": "my-app"}))
            .await["project"],
        "Our App"
    );
    bench.ok("create_project", json!({"name": "Doomed"})).await;
    bench
        .ok("delete_project", json!({"project": "doomed"}))
        .await;
    bench
        .refused("get_project_status", json!({"project": "doomed"}))
        .await;
    // Move an issue.
    let story = json!({"project": "my-app", "epic_id": "MA-1", "title": "S", "user_story": "U"});
    let story = bench.ok("create_story", story).await["id"].clone();
    assert_eq!(
        bench
            .ok("move_issue", of(json!({"parent_id": story})))
            .await["story_id"],
        story
    );
    bench
        .refused("move_issue", of(json!({"parent_id": "MA-1"})))
        .await;
    // Dependencies, circles refused.
    let waits = bench
        .ok("add_dependency", of(json!({"depends_on": other})))
        .await;
    assert_eq!(waits["depends_on"], json!([other]));
    let circle = json!({"project": "my-app", "issue_id": other, "depends_on": id});
    assert!(
        bench
            .refused("add_dependency", circle)
            .await
            .contains("cycle")
    );
    assert!(
        bench
            .ok("remove_dependency", of(json!({"depends_on": other})))
            .await["depends_on"]
            .is_null()
    );
    // Assignees and labels.
    let mut update = task(&id);
    update["assignees"] = json!(["ada", "ada", "bob"]);
    update["labels"] = json!(["export"]);
    assert_eq!(
        bench.ok("update_task", update).await["assignees"],
        json!(["ada", "bob"])
    );
    for filter in [
        json!({"assignee": "bob"}),
        json!({"label": "export"}),
        json!({"status": "backlog", "label": "export"}),
    ] {
        let mut arguments = json!({"project": "my-app"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(filter.as_object().unwrap().clone());
        assert_eq!(
            ids(&bench.ok("list_tasks", arguments).await),
            [id.as_str()],
            "{filter}"
        );
    }
    // Plans, requests, memories.
    bench
        .refused(
            "save_plan",
            json!({"project": "my-app", "title": "a\nb: injected", "content": "x"}),
        )
        .await;
    let plan = bench
        .ok(
            "save_plan",
            json!({"project": "my-app", "title": "Über: \"plan\"", "content": "1. Do"}),
        )
        .await;
    let read = bench
        .ok(
            "read_plan",
            json!({"project": "my-app", "file": plan["file"]}),
        )
        .await;
    assert_eq!(
        (&read["title"], &read["content"]),
        (&json!("Über: \"plan\""), &json!("1. Do"))
    );
    bench
        .ok(
            "log_request",
            json!({"project": "my-app", "type": "feature", "description": "Dark mode"}),
        )
        .await;
    let requests = bench
        .ok("list_requests", json!({"project": "my-app"}))
        .await;
    assert_eq!(
        (
            &requests["items"][0]["id"],
            &requests["items"][0]["description"]
        ),
        (&json!("REQ-1"), &json!("Dark mode"))
    );
}

#[tokio::test]
async fn w35_versions_guard_against_lost_updates() {
    let bench = Bench::with_story().await;
    let id = bench.task("First").await;
    let version = bench.field(&id, "version").await;
    let update = |title: &str| json!({"project": "my-app", "task_id": id, "title": title, "version": version});
    bench.ok("update_task", update("Mine")).await;
    let refusal = bench.refused("update_task", update("Yours")).await;
    assert!(
        refusal.contains("has changed") && refusal.contains("read it again"),
        "{refusal}"
    );
    assert_eq!(bench.field(&id, "title").await, "Mine");
}
