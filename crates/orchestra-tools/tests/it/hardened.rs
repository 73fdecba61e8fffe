//! Weaknesses of ids, arguments and errors: what comes in is parsed, what goes out tells nothing it should not.

use std::fs;

use serde_json::{Value, json};

use crate::bench::{Bench, task};

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
        "argument `status`: `finished` is not one of backlog, todo, cancelled; any other status follows from its children",
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
        "create_task",
        json!({"project": "my-app", "story_id": "MA-2", "title": "x"}),
        "missing argument `type`: one of task, bug, hotfix",
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
        "epic MA-9 not found in project `my-app`; search or list_tasks lists the existing ones"
    );
    assert_eq!(
        bench.refused("create_story", story("MA-2")).await,
        "MA-2 is a story, not an epic"
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
        format!("{id} is a task, not an epic")
    );
    bench
        .refused(
            "delete_story",
            json!({"project": "my-app", "story_id": "MA-1"}),
        )
        .await;
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
        (
            "get_memory",
            json!({"project": "my-app", "memory_id": "mem-9"}),
        ),
        (
            "update_memory",
            json!({"project": "my-app", "memory_id": "mem-9"}),
        ),
        (
            "forget_session",
            json!({"project": "my-app", "session_id": "none"}),
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
            json!({"project": "my-app", "title": "P", "content": "C", "replace": true}),
        )
        .await;
    assert_eq!(
        saved,
        json!({"file": "p.md", "path": ".projects/my-app/.plans/p.md"})
    );
}
