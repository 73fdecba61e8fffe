//! What is offered: the names, their order, annotations and schemas.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_hub::{Catalog, Cost, Provider, Toolset};
use serde_json::{Value, json};

use crate::bench::Bench;

/// The tools of document 001, by group, and those added where it lacks an operation.
const TOOLS: [(&str, &[&str], &[&str]); 13] = [
    (
        "project",
        &[
            "list_projects",
            "create_project",
            "get_project_status",
            "read_prd",
            "write_prd",
        ],
        &["rename_project", "delete_project"],
    ),
    (
        "epic",
        &[
            "list_epics",
            "create_epic",
            "get_epic",
            "update_epic",
            "delete_epic",
        ],
        &[],
    ),
    (
        "story",
        &[
            "list_stories",
            "create_story",
            "get_story",
            "update_story",
            "delete_story",
        ],
        &[],
    ),
    (
        "task",
        &[
            "list_tasks",
            "create_task",
            "get_task",
            "update_task",
            "delete_task",
        ],
        &[
            "move_issue",
            "add_dependency",
            "remove_dependency",
            "add_comment",
            "get_history",
        ],
    ),
    (
        "workflow",
        &[
            "get_next_task",
            "set_current_task",
            "complete_task",
            "search",
            "get_workflow_status",
        ],
        &["claim_task", "release_task"],
    ),
    ("lifecycle", &["advance_task", "reject_task"], &[]),
    (
        "prd",
        &[
            "start_prd_session",
            "answer_prd_question",
            "get_prd_session",
            "abandon_prd_session",
            "skip_prd_question",
            "back_prd_question",
            "preview_prd",
            "split_prd",
            "list_prd_phases",
        ],
        &[],
    ),
    ("bugfix", &["report_bug", "log_request"], &["list_requests"]),
    (
        "memory",
        &[
            "save_memory",
            "search_memory",
            "get_context",
            "save_session",
            "list_sessions",
            "get_session",
        ],
        &[
            "forget_memory",
            "list_memory",
            "get_memory",
            "update_memory",
            "forget_session",
        ],
    ),
    (
        "usage",
        &["get_usage", "record_usage", "reset_session_usage"],
        &[],
    ),
    ("artifacts", &["save_plan", "list_plans"], &["read_plan"]),
    (
        "claude",
        &[
            "list_skills",
            "list_agents",
            "receive_hook_event",
            "get_hook_events",
            "install_skills",
            "install_agents",
            "install_docs",
        ],
        &[],
    ),
    ("readme", &["regenerate_readme"], &[]),
];

fn catalog(bench: &Bench) -> Catalog {
    Catalog::clone(&bench.builtin.catalog().borrow())
}

#[tokio::test]
async fn the_57_tools_and_the_added_ones_are_there() {
    let catalog = catalog(&Bench::new());
    let mut offered: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for tool in &catalog.tools {
        assert!(offered.entry(&*tool.group).or_default().insert(&tool.name));
    }
    assert_eq!(
        TOOLS.iter().map(|(_, known, _)| known.len()).sum::<usize>(),
        57
    );
    for (group, known, added) in TOOLS {
        let expected: BTreeSet<&str> = known.iter().chain(added).copied().collect();
        assert_eq!(offered.remove(group), Some(expected), "{group}");
    }
    assert!(offered.is_empty());
}

#[tokio::test]
async fn w25_the_order_of_tools_is_always_the_same() {
    let names = |bench: &Bench| -> Vec<String> {
        catalog(bench)
            .tools
            .into_iter()
            .map(|tool| tool.name)
            .collect()
    };
    let (first, second) = (names(&Bench::new()), names(&Bench::new()));
    assert_eq!(first, second);
    assert_eq!(first[0], "list_projects");
    assert_eq!(first.last().unwrap(), "regenerate_readme");
}

/// Whether a tool loses what somebody wrote, and then, whether calling it twice loses no more than
/// calling it once.
fn lost_by(tool: &str) -> Option<bool> {
    match tool {
        "delete_project"
        | "delete_epic"
        | "delete_story"
        | "delete_task"
        | "forget_memory"
        | "forget_session"
        | "abandon_prd_session"
        | "write_prd"
        | "update_memory"
        | "save_session"
        | "save_plan" => Some(true),
        // Answers given before, or a document written by hand.
        "start_prd_session"
        | "answer_prd_question"
        | "skip_prd_question"
        | "back_prd_question"
        | "regenerate_readme" => Some(false),
        _ => None,
    }
}

#[tokio::test]
async fn w37_every_tool_is_annotated_and_templates_are_listed() {
    let catalog = catalog(&Bench::new());
    for tool in &catalog.tools {
        let hints = tool.annotations;
        assert_eq!(hints.open_world, Some(false), "{}", tool.name);
        let reads = ["list_", "get_", "read_", "search", "preview_"]
            .iter()
            .any(|verb| tool.name.starts_with(verb));
        // With an agent, get_next_task claims.
        let reads = reads && tool.name != "get_next_task";
        assert_eq!(hints.read_only, Some(reads), "{}", tool.name);
        let lost = lost_by(&tool.name);
        assert_eq!(
            hints.destructive,
            (!reads).then_some(lost.is_some()),
            "{}",
            tool.name
        );
        assert_eq!(hints.idempotent.is_some(), !reads, "{}", tool.name);
        if let Some(twice_is_once) = lost {
            assert_eq!(hints.idempotent, Some(twice_is_once), "{}", tool.name);
        }
        assert!(
            tool.output_schema.is_some() && tool.title.is_some(),
            "{}",
            tool.name
        );
        let heavy = tool.name.starts_with("install_")
            || [
                "get_context",
                "list_skills",
                "list_agents",
                "regenerate_readme",
                "search_memory",
            ]
            .contains(&tool.name.as_str());
        assert_eq!(tool.cost == Cost::Heavy, heavy, "{}", tool.name);
    }
    let templates: Vec<&str> = catalog
        .templates
        .iter()
        .map(|template| template.uri_template.as_str())
        .collect();
    assert_eq!(
        templates,
        [
            "toon://project/{slug}/prd",
            "toon://project/{slug}/status",
            "toon://project/{slug}/task/{epicId}/{storyId}/{taskId}",
        ]
    );
}

/// What a tool takes and what its schema says it takes are the same.
#[tokio::test]
async fn every_argument_that_is_taken_is_told_of() {
    let bench = Bench::new();
    for tool in catalog(&bench).tools {
        let schema: Value = tool.input_schema.parse().unwrap();
        let told: BTreeSet<String> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        let refusal = bench
            .refused(&tool.name, json!({"not_an_argument": 1}))
            .await;
        // "unknown argument `…`, expected one of `project`, `title`"
        let taken: BTreeSet<String> = refusal
            .split('`')
            .skip(3)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        assert_eq!(taken, told, "{}: {refusal}", tool.name);
    }
}

#[tokio::test]
async fn instructions_lead_through_a_claim() {
    let instructions = catalog(&Bench::new()).instructions.unwrap();
    assert!(
        instructions.contains("set_current_task with the same `agent`"),
        "{instructions}"
    );
}

#[tokio::test]
async fn schemas_are_inlined_bare_and_closed() {
    for tool in catalog(&Bench::new()).tools {
        let schema: Value = tool.input_schema.parse().unwrap();
        jsonschema::draft202012::meta::validate(&schema).unwrap();
        assert_eq!(
            (&schema["type"], &schema["additionalProperties"]),
            (&json!("object"), &json!(false))
        );
        let output: Value = tool.output_schema.unwrap().parse().unwrap();
        jsonschema::draft202012::meta::validate(&output).unwrap();
        assert_eq!(output["type"], "object", "{}", tool.name);
        for schema in [&schema, &output] {
            let text = schema.to_string();
            for word in [
                "\"$",
                "\"null\"",
                ":null",
                ",null",
                "\"format\"",
                "\"default\"",
            ] {
                assert!(!text.contains(word), "{}: {word} in {text}", tool.name);
            }
        }
        bare(&schema, &tool.name);
    }
}

/// What toolset `lean` shows leaves out arguments and nothing else, and refuses none that is taken.
#[tokio::test]
async fn lean_schemas_leave_out_what_is_seldom_needed_and_refuse_nothing() {
    let mut shortened = Vec::new();
    for tool in catalog(&Bench::new()).tools {
        let whole: Value = tool.input_schema.parse().unwrap();
        assert!(!whole.to_string().contains("\"x-"), "{whole}");
        let Some(lean) = &tool.lean_schema else {
            continue;
        };
        let lean: Value = lean.parse().unwrap();
        jsonschema::draft202012::meta::validate(&lean).unwrap();
        let arguments = lean["properties"].as_object().unwrap();
        let all = whole["properties"].as_object().unwrap();
        assert!(arguments.len() < all.len(), "{}", tool.name);
        let mut expected = whole.clone();
        expected["properties"] = json!(arguments);
        expected
            .as_object_mut()
            .unwrap()
            .remove("additionalProperties");
        assert_eq!(lean, expected, "{}", tool.name);
        for (name, schema) in arguments {
            assert_eq!(all.get(name), Some(schema), "{}: {name}", tool.name);
        }
        for name in whole["required"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            assert!(arguments.contains_key(name), "{}: {name}", tool.name);
        }
        assert!(
            Toolset::Lean.shows(&tool),
            "{} is shortened for nobody",
            tool.name
        );
        shortened.push(tool.name);
    }
    assert!(shortened.iter().any(|name| name == "search_memory"));
}

/// A client that checks its calls by the lean schema lets an argument pass that this leaves out, the
/// tool takes it, and says what there is when one is not taken.
#[tokio::test]
async fn what_a_lean_schema_leaves_out_is_taken() {
    let bench = Bench::with_story().await;
    let catalog = catalog(&bench);
    let task = bench.task("A").await;
    for (name, arguments) in [
        (
            "update_task",
            json!({"project": "my-app", "task_id": task, "epic_id": "MA-1", "story_id": "MA-2", "title": "B"}),
        ),
        (
            "save_memory",
            json!({"project": "my-app", "content": "c", "summary": "s", "source": "task", "expires_in_days": 7}),
        ),
        (
            "search_memory",
            json!({"project": "my-app", "query": "c", "source": "task", "include_superseded": true}),
        ),
        (
            "get_context",
            json!({"project": "my-app", "query": "c", "max_tokens": 500}),
        ),
    ] {
        let tool = catalog.tools.iter().find(|tool| tool.name == name);
        let lean: Value = tool.unwrap().lean_schema.as_ref().unwrap().parse().unwrap();
        assert!(jsonschema::draft202012::is_valid(&lean, &arguments));
        bench.ok(name, arguments).await;
    }
    let refusal = bench
        .refused(
            "search_memory",
            json!({"project": "my-app", "query": "c", "sources": "task"}),
        )
        .await;
    assert!(refusal.contains("`source`"), "{refusal}");
}

/// No `title` keyword; a property may well be called so.
fn bare(schema: &Value, name: &str) {
    let Value::Object(fields) = schema else {
        return;
    };
    assert!(!fields.contains_key("title"), "{name}: {schema}");
    for property in fields
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        bare(property.1, name);
    }
    fields
        .get("items")
        .into_iter()
        .for_each(|items| bare(items, name));
}

#[tokio::test]
async fn the_arguments_of_document_001_are_required_or_allowed_as_it_says() {
    let required = [
        ("create_project", vec!["name"]),
        ("get_project_status", vec!["project"]),
        ("write_prd", vec!["project", "content"]),
        ("create_epic", vec!["project", "title"]),
        ("get_epic", vec!["project", "epic_id"]),
        ("list_stories", vec!["project"]),
        (
            "create_story",
            vec!["project", "epic_id", "title", "user_story"],
        ),
        ("get_story", vec!["project", "story_id"]),
        ("list_tasks", vec!["project"]),
        ("create_task", vec!["project", "story_id", "title", "type"]),
        ("get_task", vec!["project", "task_id"]),
        ("advance_task", vec!["project", "task_id"]),
        ("search", vec!["project", "query"]),
        ("answer_prd_question", vec!["project", "answer"]),
        ("split_prd", vec!["project", "phases"]),
        (
            "report_bug",
            vec!["project", "story_id", "title", "severity"],
        ),
        ("log_request", vec!["project", "type", "description"]),
        ("save_memory", vec!["project", "content", "summary"]),
        ("search_memory", vec!["project", "query"]),
        ("save_session", vec!["project", "session_id", "summary"]),
        ("get_session", vec!["project", "session_id"]),
        ("record_usage", vec!["input_tokens", "output_tokens"]),
        ("save_plan", vec!["project", "title", "content"]),
        ("receive_hook_event", vec!["event_type"]),
    ];
    let optional = [
        ("create_project", vec!["description"]),
        (
            "create_epic",
            vec!["description", "priority", "assignees", "labels"],
        ),
        (
            "update_epic",
            vec!["title", "description", "status", "priority", "version"],
        ),
        ("list_stories", vec!["epic_id", "limit", "cursor"]),
        ("create_story", vec!["priority"]),
        (
            "update_story",
            vec!["epic_id", "title", "description", "status", "priority"],
        ),
        (
            "list_tasks",
            vec![
                "epic_id", "story_id", "status", "assignee", "label", "limit", "cursor",
            ],
        ),
        (
            "create_task",
            vec![
                "epic_id",
                "description",
                "priority",
                "assignees",
                "labels",
                "agent",
            ],
        ),
        ("get_task", vec!["epic_id", "story_id"]),
        (
            "update_task",
            vec![
                "epic_id", "story_id", "status", "evidence", "version", "agent", "labels",
            ],
        ),
        (
            "complete_task",
            vec!["epic_id", "story_id", "evidence", "agent"],
        ),
        ("get_next_task", vec!["agent"]),
        ("search", vec!["type", "limit", "cursor"]),
        ("reject_task", vec!["reason", "epic_id", "story_id"]),
        ("report_bug", vec!["steps", "expected", "actual"]),
        (
            "save_memory",
            vec![
                "source",
                "source_id",
                "tags",
                "expires_at",
                "expires_in_days",
                "supersedes",
            ],
        ),
        (
            "search_memory",
            vec![
                "limit",
                "include_superseded",
                "source",
                "tags",
                "since",
                "until",
            ],
        ),
        ("get_context", vec!["limit", "max_tokens"]),
        (
            "list_memory",
            vec!["state", "source", "tag", "limit", "cursor"],
        ),
        ("save_session", vec!["events", "started_at", "ended_at"]),
        (
            "record_usage",
            vec!["cost", "provider", "model", "project", "issue_id"],
        ),
        ("get_usage", vec!["project", "issue_id"]),
        ("save_plan", vec!["issue_id", "replace"]),
        (
            "receive_hook_event",
            vec!["session_id", "tool_name", "agent_type", "data"],
        ),
        ("get_hook_events", vec!["event_type", "limit"]),
        ("install_skills", vec!["names"]),
        ("install_agents", vec!["names"]),
    ];
    let catalog = catalog(&Bench::new());
    let schema = |name: &str| -> Value {
        catalog
            .tools
            .iter()
            .find(|tool| tool.name == name)
            .unwrap()
            .input_schema
            .parse()
            .unwrap()
    };
    for (name, expected) in required {
        assert_eq!(schema(name)["required"], json!(expected), "{name}");
    }
    for (name, expected) in optional {
        for argument in expected {
            assert!(
                schema(name)["properties"][argument].is_object(),
                "{name}: {argument}"
            );
        }
    }
}
