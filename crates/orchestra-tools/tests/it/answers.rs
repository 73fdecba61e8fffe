//! Weaknesses of answers: one shape, bounded, explained.

use std::sync::Arc;

use orchestra_tools::Options;
use serde_json::json;

use crate::bench::{Bench, ids, task};

const EVIDENCE: &str = "214 tests passed, 0 failed";

#[tokio::test]
async fn w18_lists_have_one_shape_empty_or_not() {
    let bench = Bench::with_story().await;
    let empty = json!({"items": [], "total": 0});
    for (tool, arguments) in [
        (
            "list_tasks",
            json!({"project": "my-app", "story_id": "MA-2"}),
        ),
        ("list_tasks", json!({"project": "my-app", "label": "none"})),
        (
            "search",
            json!({"project": "my-app", "query": "nothing here"}),
        ),
        ("list_prd_phases", json!({"project": "my-app"})),
        ("list_requests", json!({"project": "my-app"})),
        ("search_memory", json!({"project": "my-app", "query": "x"})),
        ("get_context", json!({"project": "my-app", "query": "x"})),
        ("list_sessions", json!({"project": "my-app"})),
        ("list_plans", json!({"project": "my-app"})),
        ("list_skills", json!({})),
        ("list_agents", json!({})),
        ("get_hook_events", json!({})),
    ] {
        assert_eq!(bench.ok(tool, arguments).await, empty, "{tool}");
    }
    assert_eq!(Bench::new().ok("list_projects", json!({})).await, empty);
    let status = bench
        .ok("get_workflow_status", json!({"project": "my-app"}))
        .await;
    assert_eq!(status["completion_pct"], 0.0);
    for list in [
        "blocked",
        "in_progress",
        "ready",
        "testing",
        "documenting",
        "reviewing",
    ] {
        assert_eq!(status[list], json!([]), "{list}");
    }
}

#[tokio::test]
async fn list_projects_of_an_empty_board_has_the_hint_of_the_program() {
    let bench = Bench::with(Options {
        empty_board_hint: Some(Arc::new(|| Some("fetch it"))),
        ..Options::default()
    });
    let list = async || bench.ok("list_projects", json!({})).await;
    assert_eq!(list().await["hint"], "fetch it");
    bench.ok("create_project", json!({"name": "My App"})).await;
    assert!(list().await.get("hint").is_none());
}

#[tokio::test]
async fn w21_the_next_task_is_addressed_ordered_and_explained() {
    let bench = Bench::with_story().await;
    let next = async |agent: Option<&str>| {
        let mut arguments = json!({"project": "my-app"});
        if let Some(agent) = agent {
            arguments["agent"] = json!(agent);
        }
        bench.ok("get_next_task", arguments).await
    };
    assert_eq!(
        next(None).await["reason"],
        "no tasks yet; create one with create_epic, create_story and create_task, in this order"
    );
    let make = async |kind: &str, priority: &str| {
        let arguments = json!({"project": "my-app", "story_id": "MA-2", "title": "T", "type": kind, "priority": priority});
        bench.ok("create_task", arguments).await["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let low = make("task", "low").await;
    let critical = make("task", "critical").await;
    let only_backlog = next(None).await;
    assert!(only_backlog["task"].is_null());
    assert_eq!(
        only_backlog["reason"],
        "no task available: 2 in the backlog; plan one with update_task to status todo"
    );
    bench.bring(&low, "todo").await;
    bench.bring(&critical, "todo").await;
    let first = next(None).await;
    assert_eq!(
        [
            &first["task"]["id"],
            &first["task"]["epic_id"],
            &first["task"]["story_id"]
        ],
        [critical.as_str(), "MA-1", "MA-2"]
    );
    assert_eq!(
        first["reason"],
        "first by type (task), priority (critical) and progress (todo)"
    );

    // Work that waits for a tester or a reviewer is offered before new work.
    let review = make("task", "critical").await;
    bench.bring(&review, "in-review").await;
    assert_eq!(next(None).await["task"]["id"], review);
    // A bug comes before, and what it waits for before it.
    let bug = make("bug", "low").await;
    bench.bring(&bug, "todo").await;
    bench
        .ok(
            "add_dependency",
            json!({"project": "my-app", "issue_id": bug, "depends_on": low}),
        )
        .await;
    let passed = next(None).await;
    assert_eq!(
        (&passed["task"]["id"], &passed["waiting"]),
        (&json!(review), &json!(1))
    );
    assert!(
        passed["reason"]
            .as_str()
            .unwrap()
            .ends_with("; 1 is waiting for dependencies")
    );

    // Two agents asking at once get different tasks, and the claim holds.
    let (one, other) = tokio::join!(next(Some("ada")), next(Some("bob")));
    assert_ne!(one["task"]["id"], other["task"]["id"]);
    assert_eq!(next(Some("ada")).await["task"]["id"], one["task"]["id"]);
    assert_eq!(one["task"]["claim"]["agent"], "ada");
    let taken = one["task"]["id"].as_str().unwrap();
    let mut advance = task(taken);
    advance["evidence"] = json!(EVIDENCE);
    advance["agent"] = json!("bob");
    let refusal = bench.refused("advance_task", advance.clone()).await;
    assert!(refusal.contains("is claimed by ada until"), "{refusal}");
    let advice = "; wait, choose another task, or ask ada to release it";
    assert!(refusal.ends_with(advice), "{refusal}");
    bench
        .ok(
            "add_comment",
            json!({"project": "my-app", "issue_id": taken, "text": "Mind the gap", "agent": "bob"}),
        )
        .await;
    bench.clock.advance(31 * 60);
    bench.ok("advance_task", advance).await;
}

#[tokio::test]
async fn w34_lists_are_bounded_paged_and_compact() {
    let bench = Bench::with_story().await;
    for number in 0..60 {
        let arguments = json!({
            "project": "my-app", "story_id": "MA-2", "title": format!("Task {number}"), "type": "task",
            "description": "long ".repeat(1_000),
        });
        bench.ok("create_task", arguments).await;
    }
    for (tool, arguments) in [
        ("list_tasks", json!({"project": "my-app"})),
        ("search", json!({"project": "my-app", "query": "Task"})),
    ] {
        let page = bench.ok(tool, arguments.clone()).await;
        assert_eq!(
            (page["items"].as_array().unwrap().len(), &page["total"]),
            (50, &json!(60)),
            "{tool}"
        );
        assert!(
            !page.to_string().contains("long long"),
            "{tool} shows descriptions"
        );
        let mut seen: Vec<String> = ids(&page).into_iter().map(str::to_owned).collect();
        let mut rest = arguments;
        rest["cursor"] = page["next_cursor"].clone();
        let rest = bench.ok(tool, rest).await;
        assert!(rest["next_cursor"].is_null());
        seen.extend(ids(&rest).into_iter().map(str::to_owned));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 60, "{tool}");
    }
    let story = bench
        .ok(
            "get_story",
            json!({"project": "my-app", "story_id": "MA-2", "limit": 5}),
        )
        .await;
    assert_eq!(
        (
            story["children"]["items"].as_array().unwrap().len(),
            &story["children"]["total"]
        ),
        (5, &json!(60))
    );
    let projects = bench.ok("list_projects", json!({})).await;
    assert_eq!(projects["items"][0]["tasks"], 60);
    assert!(projects.to_string().len() < 200, "{projects}");
    let status = bench
        .ok("get_project_status", json!({"project": "my-app"}))
        .await;
    assert!(status.to_string().len() < 4_000);
    let refusal = bench
        .refused("list_tasks", json!({"project": "my-app", "cursor": "x"}))
        .await;
    assert!(refusal.contains("cursor"), "{refusal}");
}
