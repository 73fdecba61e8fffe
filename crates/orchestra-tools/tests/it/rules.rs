//! Weaknesses of the workflow: states, gates, parents, history.

use serde_json::json;

use crate::bench::{Bench, task};

const EVIDENCE: &str = "214 tests passed, 0 failed";

#[tokio::test]
async fn w04_every_copy_of_a_status_agrees_after_starting_a_task() {
    let bench = Bench::with_story().await;
    let id = bench.task("First").await;
    bench.bring(&id, "todo").await;
    bench.ok("set_current_task", task(&id)).await;
    assert_eq!(bench.status("MA-2").await, "in-progress");
    let listed = bench.ok("list_stories", json!({"project": "my-app"})).await;
    assert_eq!(listed["items"][0]["status"], "in-progress");
    let status = bench
        .ok("get_project_status", json!({"project": "my-app"}))
        .await;
    assert_eq!(status["stories"]["items"][0]["status"], "in-progress");
    assert_eq!(status["epics"]["items"][0]["status"], "in-progress");
}

#[tokio::test]
async fn w06_a_refused_change_leaves_nothing_half_done() {
    let bench = Bench::with_story().await;
    let id = bench.task("First").await;
    let before = bench.ok("get_task", task(&id)).await;
    let mut update = task(&id);
    update["title"] = json!("New title");
    update["status"] = json!("done");
    bench.refused("update_task", update).await;
    bench.refused("reject_task", task(&id)).await;
    assert_eq!(bench.ok("get_task", task(&id)).await, before);
    assert_eq!(
        bench.ok("list_tasks", json!({"project": "my-app"})).await["total"],
        1
    );
    // What is not there is an error, for every kind.
    for (tool, id) in [
        ("delete_epic", "epic_id"),
        ("delete_story", "story_id"),
        ("delete_task", "task_id"),
    ] {
        let refusal = bench
            .refused(tool, json!({"project": "my-app", id: "MA-99"}))
            .await;
        assert!(
            refusal.contains("MA-99 not found in project `my-app`"),
            "{refusal}"
        );
    }
    for tool in [
        "get_project_status",
        "get_workflow_status",
        "get_next_task",
        "list_epics",
        "list_tasks",
        "list_plans",
    ] {
        let refusal = bench.refused(tool, json!({"project": "none"})).await;
        assert_eq!(
            refusal, "project `none` not found; list_projects shows the projects",
            "{tool}"
        );
    }
}

#[tokio::test]
async fn w17_complete_task_finishes_the_implementation_and_says_so() {
    let bench = Bench::with_story().await;
    let id = bench.task("First").await;
    let mut complete = task(&id);
    complete["evidence"] = json!(EVIDENCE);
    assert_eq!(
        bench.refused("complete_task", complete.clone()).await,
        format!(
            "{id} is backlog and cannot become ready-for-testing; it can become todo, cancelled; \
             first call update_task with status todo"
        )
    );
    bench.bring(&id, "in-progress").await;
    assert_eq!(
        bench.ok("complete_task", complete).await["status"],
        "ready-for-testing"
    );
    let catalog = orchestra_hub::Provider::catalog(&bench.builtin)
        .borrow()
        .clone();
    let tool = catalog
        .tools
        .iter()
        .find(|tool| tool.name == "complete_task")
        .unwrap();
    let description = tool.description.as_ref().unwrap();
    assert!(
        description.contains("ready-for-testing") && description.contains("not done"),
        "{description}"
    );
}

#[tokio::test]
async fn w19_work_can_be_cancelled_and_parents_follow_rules() {
    let bench = Bench::with_story().await;
    let id = bench.task("First").await;
    bench.bring(&id, "in-progress").await;
    let story = |status: &str| json!({"project": "my-app", "story_id": "MA-2", "status": status});
    assert_eq!(
        bench.ok("update_story", story("cancelled")).await["status"],
        "cancelled"
    );
    assert_eq!(bench.status(&id).await, "cancelled");
    assert_eq!(bench.status("MA-1").await, "cancelled");
    bench.ok("update_story", story("backlog")).await;
    assert_eq!(
        [bench.status(&id).await, bench.status("MA-2").await],
        ["backlog", "backlog"]
    );
    // The history tells that somebody asked for it, of the story alone.
    let causes = async |issue: &str| -> Vec<String> {
        let history = bench
            .ok(
                "get_history",
                json!({"project": "my-app", "issue_id": issue}),
            )
            .await;
        let items = history["items"].as_array().unwrap();
        let moves = items.iter().filter(|item| item["event"] == "status");
        moves
            .filter(|item| item["from"] == "cancelled" || item["to"] == "cancelled")
            .map(|item| item["cause"].as_str().unwrap_or("asked for").to_owned())
            .collect()
    };
    assert_eq!(causes("MA-2").await, ["asked for", "asked for"]);
    assert_eq!(causes("MA-1").await, ["follows what is below"; 2]);
    bench.bring(&id, "in-progress").await;
    let refusal = bench.refused("update_story", story("todo")).await;
    assert!(refusal.contains("follows from its children"), "{refusal}");
    for status in ["done", "in-progress", "rejected"] {
        bench
            .refused(
                "update_epic",
                json!({"project": "my-app", "epic_id": "MA-1", "status": status}),
            )
            .await;
    }
}

#[tokio::test]
async fn a_status_says_when_its_lists_are_cut() {
    let bench = Bench::with_story().await;
    let mut status = json!(null);
    for number in 0..21 {
        assert!(status["note"].is_null(), "{status}");
        let id = bench.task(&format!("Task {number}")).await;
        let mut update = task(&id);
        update["status"] = json!("todo");
        bench.ok("update_task", update).await;
        status = bench
            .ok("get_workflow_status", json!({"project": "my-app"}))
            .await;
    }
    assert_eq!(status["ready"].as_array().unwrap().len(), 20);
    assert_eq!(status["by_status"]["todo"], 21);
    let note = status["note"].as_str().unwrap();
    assert!(
        note.contains("first 20") && note.contains("list_tasks"),
        "{note}"
    );
}

#[tokio::test]
async fn w20_no_tool_goes_round_a_gate() {
    let bench = Bench::with_story().await;
    let id = bench.task("First").await;
    bench.bring(&id, "in-progress").await;
    for evidence in [
        json!(null),
        json!(" "),
        json!("x"),
        json!("\u{2003}\u{2003}short\u{2003}\u{2003}\u{2003}"),
    ] {
        let mut complete = task(&id);
        complete["evidence"] = evidence;
        let mut update = complete.clone();
        update["status"] = json!("ready-for-testing");
        for (tool, arguments) in [
            ("complete_task", complete.clone()),
            ("advance_task", complete),
            ("update_task", update),
        ] {
            let refusal = bench.refused(tool, arguments).await;
            assert!(
                refusal.starts_with("GATE BLOCKED: tests_passed"),
                "{tool}: {refusal}"
            );
        }
    }
    assert_eq!(bench.status(&id).await, "in-progress");
}

#[tokio::test]
async fn w22_what_happened_is_kept_and_can_be_read() {
    let bench = Bench::with_story().await;
    let id = bench.task("First").await;
    let mut update = task(&id);
    update["status"] = json!("todo");
    update["title"] = json!("Better title");
    update["agent"] = json!("ada");
    bench.ok("update_task", update).await;
    let mut start = task(&id);
    start["agent"] = json!("ada");
    bench.ok("set_current_task", start.clone()).await;
    start["evidence"] = json!(EVIDENCE);
    bench.ok("complete_task", start).await;
    bench
        .ok(
            "add_comment",
            json!({"project": "my-app", "issue_id": id, "text": "Done with it"}),
        )
        .await;
    let history = bench
        .ok("get_history", json!({"project": "my-app", "issue_id": id}))
        .await;
    let events: Vec<&str> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        events
            .iter()
            .filter(|event| **event != "claimed")
            .copied()
            .collect::<Vec<_>>(),
        [
            "created",
            "edited",
            "status",
            "status",
            "status",
            "commented"
        ]
    );
    let text = history.to_string();
    assert!(
        text.contains(EVIDENCE)
            && text.contains("Better title")
            && text.contains("\"agent\":\"ada\"")
    );
    let story = bench
        .ok(
            "get_history",
            json!({"project": "my-app", "issue_id": "MA-2"}),
        )
        .await;
    assert!(story.to_string().contains("follows what is below"));
    let page = bench
        .ok(
            "get_history",
            json!({"project": "my-app", "issue_id": id, "limit": 2}),
        )
        .await;
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let rest = json!({"project": "my-app", "issue_id": id, "cursor": page["next_cursor"]});
    let rest = bench.ok("get_history", rest).await;
    assert_eq!(rest["items"].as_array().unwrap().len() + 2, events.len());
}

#[tokio::test]
async fn w32_only_done_counts_as_done_and_parents_are_evaluated_always() {
    let bench = Bench::with_story().await;
    let (done, dropped, open) = (
        bench.task("A").await,
        bench.task("B").await,
        bench.task("C").await,
    );
    bench.bring(&done, "done").await;
    bench.bring(&dropped, "cancelled").await;
    let status = bench
        .ok("get_workflow_status", json!({"project": "my-app"}))
        .await;
    assert_eq!(
        (&status["total"], &status["done"], &status["completion_pct"]),
        (&json!(3), &json!(1), &json!(50.0))
    );
    // By deletion.
    bench.ok("delete_task", task(&open)).await;
    assert_eq!(bench.status("MA-2").await, "done");
    bench.ok("delete_task", task(&done)).await;
    assert_eq!(bench.status("MA-2").await, "cancelled");
    // By update_task.
    bench
        .ok(
            "update_task",
            json!({"project": "my-app", "task_id": dropped, "status": "backlog"}),
        )
        .await;
    bench.bring(&dropped, "done").await;
    assert_eq!(
        [bench.status("MA-2").await, bench.status("MA-1").await],
        ["done", "done"]
    );
}
