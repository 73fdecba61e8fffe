//! The weaknesses of the earlier program that concern tools, each with a test that fails on its
//! behaviour. Those of the questionnaire, of prompts and of notices stand beside theirs.

use std::fs;
use std::sync::Arc;

use orchestra_tools::Options;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::tour::TwoSkills;

const EVIDENCE: &str = "214 tests passed, 0 failed";

fn task(id: &str) -> Value {
    json!({"project": "my-app", "task_id": id})
}

fn ids(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn w01_ids_cannot_reach_outside_their_directory() {
    let bench = Bench::with_story().await;
    let outside = bench.directory.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    for id in ["", "..", "../..", "../../../outside"] {
        bench
            .refused("delete_epic", json!({"project": "my-app", "epic_id": id}))
            .await;
        bench
            .refused("delete_epic", json!({"project": id, "epic_id": "MA-1"}))
            .await;
        bench
            .refused(
                "save_session",
                json!({"project": "my-app", "session_id": id, "summary": "x"}),
            )
            .await;
    }
    assert!(outside.is_dir());
    assert_eq!(bench.status("MA-1").await, "backlog");
}

#[tokio::test]
async fn w02_a_deleted_id_is_not_given_again() {
    let bench = Bench::with_story().await;
    let (first, second) = (bench.task("First").await, bench.task("Second").await);
    bench.ok("delete_task", task(&first)).await;
    let third = bench.task("Third").await;
    assert_ne!(third, second);
    bench.ok("delete_task", task(&third)).await;
    assert_ne!(bench.task("Fourth").await, third);
    assert_eq!(bench.field(&second, "title").await, "Second");
}

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
async fn w08_every_name_gives_a_usable_slug() {
    let bench = Bench::new();
    for name in ["Проект", "プロジェクト", "🚀🚀", "---", "Ünïcode"] {
        let slug = bench.ok("create_project", json!({"name": name})).await["slug"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            !slug.is_empty() && slug.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
            "{name}: {slug}"
        );
        assert_eq!(
            bench
                .ok("get_project_status", json!({"project": slug}))
                .await["project"],
            name
        );
    }
    bench.refused("create_project", json!({"name": " "})).await;
}

#[tokio::test]
async fn w09_enums_ranges_and_unknown_arguments_are_enforced() {
    let bench = Bench::with_story().await;
    let check = async |tool: &str, arguments: Value, expected: &str| {
        assert_eq!(bench.refused(tool, arguments).await, expected);
    };
    let create = |kind: Value, priority: Value| json!({"project": "my-app", "story_id": "MA-2", "title": "T", "type": kind, "priority": priority});
    check(
        "create_task",
        create(json!("banana"), json!("low")),
        "argument `type`: `banana` is not one of task, bug, hotfix",
    )
    .await;
    check(
        "create_task",
        create(json!("task"), json!("urgent")),
        "argument `priority`: `urgent` is not one of low, medium, high, critical",
    )
    .await;
    check(
        "update_epic",
        json!({"project": "my-app", "epic_id": "MA-1", "status": "finished"}),
        "argument `status`: `finished` is not one of backlog, todo, cancelled; any other status follows from what is below it",
    )
    .await;
    check(
        "log_request",
        json!({"project": "my-app", "type": "rant", "description": "x"}),
        "argument `type`: `rant` is not one of feature, bug, improvement, question",
    )
    .await;
    check(
        "list_tasks",
        json!({"project": "my-app", "limit": 501}),
        "argument `limit`: invalid value: integer `501`, expected a whole number from 1 to 500",
    )
    .await;
    check(
        "list_epics",
        json!({"project": "my-app", "epic": "MA-1"}),
        "unknown argument `epic`, expected one of `project`, `limit`, `cursor`",
    )
    .await;
    check(
        "record_usage",
        json!({"input_tokens": -1, "output_tokens": 0}),
        "argument `input_tokens`: token counts must be whole numbers from 0 to 1000000000",
    )
    .await;
    check(
        "create_epic",
        json!({"project": "my-app"}),
        "missing argument `title`",
    )
    .await;
    check(
        "create_epic",
        json!({"project": "my-app", "title": ""}),
        "argument `title`: must not be empty",
    )
    .await;
    assert_eq!(
        bench.ok("list_tasks", json!({"project": "my-app"})).await["total"],
        0
    );
}

#[tokio::test]
async fn w10_parents_must_be_there_and_of_the_right_kind() {
    let bench = Bench::with_story().await;
    let story =
        |epic: &str| json!({"project": "my-app", "epic_id": epic, "title": "S", "user_story": "U"});
    assert_eq!(
        bench.refused("create_story", story("MA-9")).await,
        "epic MA-9 not found in project `my-app`; search or list_tasks shows what is there"
    );
    assert_eq!(
        bench.refused("create_story", story("MA-2")).await,
        "MA-2 is a story, not a epic"
    );
    let create = |story: &str, epic: &str| json!({"project": "my-app", "epic_id": epic, "story_id": story, "title": "T", "type": "task"});
    bench.refused("create_task", create("MA-9", "MA-1")).await;
    bench.refused("create_task", create("MA-1", "MA-1")).await;
    assert_eq!(
        bench.refused("create_task", create("MA-2", "MA-7")).await,
        "MA-2 belongs to epic MA-1, not MA-7"
    );
    let id = bench.task("First").await;
    let mut wrong = task(&id);
    wrong["story_id"] = json!("MA-1");
    assert_eq!(
        bench.refused("get_task", wrong.clone()).await,
        format!("{id} belongs to story MA-2, not MA-1")
    );
    assert_eq!(
        bench.refused("delete_task", wrong).await,
        format!("{id} belongs to story MA-2, not MA-1")
    );
    assert_eq!(
        bench.refused("get_task", task("MA-2")).await,
        "MA-2 is a story, not a task"
    );
    assert_eq!(
        bench
            .refused(
                "update_epic",
                json!({"project": "my-app", "epic_id": id, "title": "X"})
            )
            .await,
        format!("{id} is a task, not a epic")
    );
    bench
        .refused(
            "delete_story",
            json!({"project": "my-app", "story_id": "MA-1"}),
        )
        .await;
}

#[tokio::test]
async fn w15_hook_payloads_are_masked_and_capped() {
    let bench = Bench::new();
    let data = json!({
        "tool_input": {"headers": {"Authorization": "Bearer abcdef"}, "api_key": "sk-123", "content": "y".repeat(1_000_000)},
    });
    bench
        .ok(
            "receive_hook_event",
            json!({"event_type": "PreToolUse", "data": data}),
        )
        .await;
    let kept = bench.ok("get_hook_events", json!({})).await.to_string();
    assert!(
        !kept.contains("abcdef") && !kept.contains("sk-123"),
        "{kept:.300}"
    );
    assert!(kept.len() < 10_000, "{}", kept.len());
}

#[tokio::test]
async fn w16_no_error_tells_where_the_workspace_is() {
    let bench = Bench::with_story().await;
    let workspace = bench.directory.path().to_str().unwrap().to_owned();
    fs::create_dir_all(bench.directory.path().join(".claude")).unwrap();
    fs::write(
        bench.directory.path().join(".claude/skills"),
        "not a directory",
    )
    .unwrap();
    let calls = [
        ("get_task", task("MA-9")),
        ("read_prd", json!({"project": "none"})),
        ("read_plan", json!({"project": "my-app", "file": "none.md"})),
        (
            "get_session",
            json!({"project": "my-app", "session_id": "none"}),
        ),
        (
            "forget_memory",
            json!({"project": "my-app", "memory_id": "mem-9"}),
        ),
        ("list_skills", json!({})),
        (
            "save_plan",
            json!({"project": "my-app", "title": "P", "content": "C"}),
        ),
        ("regenerate_readme", json!({"project": "my-app"})),
    ];
    for (tool, arguments) in calls {
        let answer = bench.call(tool, arguments).await;
        assert!(!answer.text.contains(&workspace), "{tool}: {}", answer.text);
    }
    let saved = bench
        .ok(
            "save_plan",
            json!({"project": "my-app", "title": "P", "content": "C"}),
        )
        .await;
    assert_eq!(
        saved,
        json!({"file": "p.md", "path": ".projects/my-app/.plans/p.md"})
    );
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
            "{id} is backlog and cannot become ready-for-testing; it can become todo, cancelled"
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
    bench.bring(&id, "in-progress").await;
    let refusal = bench.refused("update_story", story("todo")).await;
    assert!(
        refusal.contains("follows from what is below it"),
        "{refusal}"
    );
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
        "no tasks yet; make some with create_task"
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
        "nothing to work on: 2 in the backlog; plan one with update_task to status todo"
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
            .ends_with("; 1 waiting for dependencies passed over")
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
async fn w28_memory_answers_do_not_depend_on_what_answers() {
    let bench = Bench::with_story().await;
    for number in 0..3 {
        let chunk = json!({"project": "my-app", "content": format!("The cache holds {number} pages"), "summary": "cache"});
        bench.ok("save_memory", chunk).await;
    }
    let query = json!({"project": "my-app", "query": "cache pages", "limit": 2});
    let first = bench.ok("search_memory", query.clone()).await;
    assert_eq!(
        first,
        bench.ok("search_memory", query).await,
        "the order is the same each time"
    );
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    for item in first["items"].as_array().unwrap() {
        assert!(item["id"].is_string() && item["content"].is_string() && item["score"].is_number());
    }
}

#[tokio::test]
async fn w30_a_session_is_known_by_project_and_id() {
    let bench = Bench::with_story().await;
    bench.ok("create_project", json!({"name": "Other"})).await;
    let save = |project: &str, summary: &str, events: Value| json!({"project": project, "session_id": "s-1", "summary": summary, "events": events});
    let events =
        json!([{"type": "note", "summary": "Read the code", "timestamp": "2026-02-14T10:00:00Z"}]);
    let saved = bench
        .ok("save_session", save("my-app", "First", events))
        .await;
    bench
        .ok("save_session", save("other", "Elsewhere", json!([])))
        .await;
    bench.clock.advance(60);
    bench
        .ok("save_session", save("my-app", "Second", json!([])))
        .await;
    let session = bench
        .ok(
            "get_session",
            json!({"project": "my-app", "session_id": "s-1"}),
        )
        .await;
    assert_eq!(
        (&session["summary"], &session["started_at"]),
        (&json!("Second"), &saved["started_at"])
    );
    assert_ne!(session["ended_at"], session["started_at"]);
    assert_eq!(session["events"][0]["timestamp"], "2026-02-14T10:00:00Z");
    assert_eq!(
        bench
            .ok("list_sessions", json!({"project": "my-app"}))
            .await["total"],
        1
    );
    let other = bench
        .ok(
            "get_session",
            json!({"project": "other", "session_id": "s-1"}),
        )
        .await;
    assert_eq!(other["summary"], "Elsewhere");
    assert!(
        bench
            .refused(
                "get_session",
                json!({"project": "my-app", "session_id": "index"})
            )
            .await
            .contains("session_id")
    );
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
            .contains("circle")
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

#[tokio::test]
async fn w39_memory_search_finds_words_and_not_parts_of_them() {
    let bench = Bench::with_story().await;
    let save = |content: &str| json!({"project": "my-app", "content": content, "summary": "note"});
    bench
        .ok(
            "save_memory",
            save("The database is the slow part of exports"),
        )
        .await;
    bench
        .ok(
            "save_memory",
            save("Exports write rows as they come; exports are quick now"),
        )
        .await;
    let search = async |query: &str| {
        bench
            .ok(
                "search_memory",
                json!({"project": "my-app", "query": query}),
            )
            .await
    };
    assert_eq!(search("abas").await["total"], 0);
    assert_eq!(ids(&search("rows").await), ["mem-2"]);
    assert_eq!(
        ids(&search("exports").await)[0],
        "mem-2",
        "what speaks of it more comes first"
    );
    for hostile in [
        "\"",
        "a AND (",
        "NEAR(",
        "*",
        "'; DROP TABLE chunk",
        "-x",
        "",
    ] {
        search(hostile).await;
    }
}

#[tokio::test]
async fn w41_memories_can_be_forgotten_are_merged_and_capped() {
    let bench = Bench::with_story().await;
    let save = |content: &str| json!({"project": "my-app", "content": content, "summary": "note"});
    let first = bench.ok("save_memory", save("The cache is warm")).await;
    let again = bench.ok("save_memory", save("The cache is warm")).await;
    assert_eq!(
        (&again["id"], &again["merged"]),
        (&first["id"], &json!(true))
    );
    bench
        .refused("save_memory", save(&"x".repeat(70_000)))
        .await;
    let forget = json!({"project": "my-app", "memory_id": first["id"]});
    bench.ok("forget_memory", forget.clone()).await;
    bench.refused("forget_memory", forget).await;
    assert_eq!(
        bench
            .ok(
                "search_memory",
                json!({"project": "my-app", "query": "cache"})
            )
            .await["total"],
        0
    );
    let next = bench.ok("save_memory", save("Another")).await;
    assert_ne!(next["id"], first["id"], "the id is not used again");
}

#[tokio::test]
async fn w44_an_empty_directory_does_not_block_a_project() {
    let bench = Bench::new();
    fs::create_dir_all(bench.directory.path().join(".projects/my-app")).unwrap();
    assert_eq!(
        bench.ok("create_project", json!({"name": "My App"})).await["slug"],
        "my-app"
    );
    bench
        .ok(
            "create_epic",
            json!({"project": "my-app", "title": "Works"}),
        )
        .await;
}

#[tokio::test]
async fn w45_skills_and_agents_are_described_by_their_front_matter() {
    let bench = Bench::new();
    let claude = bench.directory.path().join(".claude");
    for (name, text) in [
        (
            "board",
            "---\nname: board\ndescription: Works the board.\n---\n# Board\n",
        ),
        ("plain", "# Plain\n\nJust prose.\n"),
    ] {
        fs::create_dir_all(claude.join("skills").join(name)).unwrap();
        fs::write(claude.join("skills").join(name).join("SKILL.md"), text).unwrap();
    }
    fs::create_dir_all(claude.join("skills/empty")).unwrap();
    fs::create_dir_all(claude.join("agents")).unwrap();
    fs::write(
        claude.join("agents/planner.md"),
        "---\nname: planner\ndescription: >-\n  Plans\n  sprints\n---\n",
    )
    .unwrap();
    fs::write(claude.join("agents/notes.txt"), "not an agent").unwrap();
    let secret = bench.directory.path().join("secret");
    fs::write(&secret, "---\ndescription: top secret\n---\n").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&secret, claude.join("agents/link.md")).unwrap();
    let skills = bench.ok("list_skills", json!({})).await;
    assert_eq!(
        skills["items"],
        json!([{"name": "board", "description": "Works the board."}, {"name": "plain", "description": "Just prose."}])
    );
    let agents = bench.ok("list_agents", json!({})).await;
    assert_eq!(
        agents["items"],
        json!([{"name": "planner", "description": "Plans sprints"}])
    );
}

#[tokio::test]
async fn w46_only_what_is_named_is_installed_and_edits_are_kept() {
    let bench = Bench::with(Options {
        bundle: Arc::new(TwoSkills),
        ..Options::default()
    });
    let named = bench
        .ok("install_skills", json!({"names": ["board"]}))
        .await;
    assert_eq!(
        named,
        json!({"installed": 1, "files": ["board"], "available": ["board", "review"]})
    );
    let all = bench.ok("install_skills", json!({})).await;
    assert_eq!(
        (&all["installed"], &all["kept"]),
        (&json!(1), &json!(["review"]))
    );
    assert_eq!(
        bench
            .refused("install_agents", json!({"names": ["../../evil"]}))
            .await,
        "argument `names`: `../../evil` is not one of planner"
    );
}
