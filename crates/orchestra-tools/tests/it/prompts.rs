//! The three prompts.

use orchestra_hub::{Provider, ProviderError};
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn prompts_are_offered_with_their_arguments() {
    let bench = Bench::new();
    let catalog = bench.builtin.catalog().borrow().clone();
    let offered: Vec<(&str, Vec<(&str, bool)>)> = catalog
        .prompts
        .iter()
        .map(|prompt| {
            let arguments = prompt
                .arguments
                .iter()
                .map(|argument| (argument.name.as_str(), argument.required));
            (prompt.name.as_str(), arguments.collect())
        })
        .collect();
    assert_eq!(
        offered,
        [
            (
                "create_prd",
                vec![("project_name", true), ("description", false)]
            ),
            (
                "review_task",
                vec![
                    ("project", true),
                    ("epic_id", true),
                    ("story_id", true),
                    ("task_id", true)
                ]
            ),
            ("plan_sprint", vec![("project", true)]),
        ]
    );
}

#[tokio::test]
async fn required_arguments_are_enforced() {
    let bench = Bench::with_story().await;
    let check = async |name: &str, arguments: &[(&str, &str)], expected: &str| {
        let error = bench.prompt(name, arguments).await.unwrap_err();
        assert!(
            matches!(error, ProviderError::InvalidParams(_)),
            "{error:?}"
        );
        assert_eq!(error.to_string(), expected);
    };
    check("create_prd", &[], "missing argument `project_name`").await;
    check(
        "create_prd",
        &[("project_name", " ")],
        "missing argument `project_name`",
    )
    .await;
    check("plan_sprint", &[], "missing argument `project`").await;
    check(
        "plan_sprint",
        &[("project", "my-app"), ("x", "y")],
        "unknown argument `x`",
    )
    .await;
    check(
        "review_task",
        &[
            ("project", "my-app"),
            ("epic_id", "MA-1"),
            ("story_id", "MA-2"),
        ],
        "missing argument `task_id`",
    )
    .await;
    check(
        "plan_sprint",
        &[("project", "none")],
        "project `none` not found; list_projects shows the projects",
    )
    .await;
    let error = bench.prompt("nothing", &[]).await.unwrap_err();
    assert!(matches!(
        error,
        ProviderError::Unknown { kind: "prompt", .. }
    ));
}

#[tokio::test]
async fn prompts_quote_what_they_are_about() {
    let bench = Bench::with_story().await;
    let task = json!({"project": "my-app", "story_id": "MA-2", "title": "Add login", "type": "task", "description": "With a form"});
    bench.ok("create_task", task).await;
    let prd = bench
        .prompt(
            "create_prd",
            &[("project_name", "Shop"), ("description", "Sells things")],
        )
        .await
        .unwrap();
    assert!(prd.contains("\"Shop\"") && prd.contains("Sells things") && prd.contains("timeline"));
    let address = [
        ("project", "my-app"),
        ("epic_id", "MA-1"),
        ("story_id", "MA-2"),
        ("task_id", "MA-3"),
    ];
    let review = bench.prompt("review_task", &address).await.unwrap();
    assert!(
        review.contains("MA-3: Add login")
            && review.contains("With a form")
            && review.contains("security")
    );
}

#[tokio::test]
async fn w03_plan_sprint_lists_tasks_by_type_whatever_the_key() {
    let bench = Bench::new();
    for name in ["Orchestra Engine", "Acme Suite"] {
        let project = bench.ok("create_project", json!({"name": name})).await["slug"].clone();
        let epic = bench
            .ok("create_epic", json!({"project": project, "title": "Epic"}))
            .await["id"]
            .clone();
        let story = json!({"project": project, "epic_id": epic, "title": "Story", "user_story": "As a user"});
        let story = bench.ok("create_story", story).await["id"].clone();
        let task =
            json!({"project": project, "story_id": story, "title": "Wash the car", "type": "bug"});
        bench.ok("create_task", task).await;
        let plan = bench
            .prompt("plan_sprint", &[("project", project.as_str().unwrap())])
            .await
            .unwrap();
        assert!(plan.contains("[bug, backlog] Wash the car"), "{plan}");
        assert!(
            !plan.contains("Epic\n") && !plan.contains("Story\n"),
            "{plan}"
        );
    }
}
