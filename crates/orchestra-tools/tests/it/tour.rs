//! One call of every tool, so that no result escapes its output schema.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use orchestra_hub::Provider;
use orchestra_tools::{Bundle, BundleError, BundleKind, InstallReport, Options, TextFormat};
use serde_json::json;

use crate::bench::Bench;

/// A bundle that tells what it was asked for.
pub(crate) struct TwoSkills;

impl Bundle for TwoSkills {
    fn available(&self, kind: BundleKind) -> Vec<String> {
        let names: &[&str] = match kind {
            BundleKind::Skills => &["board", "review"],
            BundleKind::Agents => &["planner"],
            BundleKind::Docs => &["AGENTS.md"],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn install(
        &self,
        _: &Path,
        _: BundleKind,
        names: &[String],
    ) -> Result<InstallReport, BundleError> {
        let (kept, installed) = names.iter().cloned().partition(|name| name == "review");
        Ok(InstallReport {
            installed,
            unchanged: Vec::new(),
            kept,
        })
    }
}

async fn tour(bench: &Bench) {
    let p = json!({"project": "my-app"});
    let calls = [
        (
            "create_project",
            json!({"name": "My App", "description": "For the tour"}),
        ),
        ("list_projects", json!({})),
        (
            "rename_project",
            json!({"project": "my-app", "name": "My App!"}),
        ),
        (
            "write_prd",
            json!({"project": "my-app", "content": "# PRD"}),
        ),
        ("read_prd", p.clone()),
        (
            "create_epic",
            json!({"project": "my-app", "title": "E", "priority": "high", "labels": ["x"], "assignees": ["a"]}),
        ),
        ("list_epics", p.clone()),
        (
            "update_epic",
            json!({"project": "my-app", "epic_id": "MA-1", "status": "todo", "priority": "none"}),
        ),
        (
            "create_story",
            json!({"project": "my-app", "epic_id": "MA-1", "title": "S", "user_story": "U"}),
        ),
        (
            "list_stories",
            json!({"project": "my-app", "epic_id": "MA-1"}),
        ),
        ("get_epic", json!({"project": "my-app", "epic_id": "MA-1"})),
        (
            "update_story",
            json!({"project": "my-app", "epic_id": "MA-1", "story_id": "MA-2", "title": "S2"}),
        ),
        (
            "create_task",
            json!({"project": "my-app", "story_id": "MA-2", "title": "T", "type": "task", "priority": "low"}),
        ),
        (
            "create_task",
            json!({"project": "my-app", "story_id": "MA-2", "title": "U", "type": "hotfix", "depends_on": ["MA-3"]}),
        ),
        (
            "get_story",
            json!({"project": "my-app", "story_id": "MA-2"}),
        ),
        (
            "list_tasks",
            json!({"project": "my-app", "epic_id": "MA-1"}),
        ),
        (
            "list_tasks",
            json!({"project": "my-app", "story_id": "MA-2", "status": "backlog", "limit": 1}),
        ),
        ("get_task", json!({"project": "my-app", "task_id": "MA-4"})),
        (
            "update_task",
            json!({"project": "my-app", "task_id": "MA-3", "status": "todo", "labels": ["a", "b"], "assignees": ["kim"]}),
        ),
        (
            "add_dependency",
            json!({"project": "my-app", "issue_id": "MA-2", "depends_on": "MA-3"}),
        ),
        (
            "remove_dependency",
            json!({"project": "my-app", "issue_id": "MA-2", "depends_on": "MA-3"}),
        ),
        (
            "add_comment",
            json!({"project": "my-app", "issue_id": "MA-3", "text": "Looks small", "agent": "kim"}),
        ),
        ("get_next_task", p.clone()),
        (
            "get_next_task",
            json!({"project": "my-app", "agent": "kim"}),
        ),
        (
            "claim_task",
            json!({"project": "my-app", "task_id": "MA-3", "agent": "kim"}),
        ),
        (
            "release_task",
            json!({"project": "my-app", "task_id": "MA-3", "agent": "kim"}),
        ),
        (
            "set_current_task",
            json!({"project": "my-app", "task_id": "MA-3", "agent": "kim"}),
        ),
        (
            "complete_task",
            json!({"project": "my-app", "task_id": "MA-3", "agent": "kim", "evidence": "all tests pass"}),
        ),
        (
            "advance_task",
            json!({"project": "my-app", "task_id": "MA-3", "agent": "kim"}),
        ),
        (
            "get_history",
            json!({"project": "my-app", "issue_id": "MA-3"}),
        ),
        (
            "search",
            json!({"project": "my-app", "query": "t", "type": "task"}),
        ),
        ("get_workflow_status", p.clone()),
        ("get_project_status", p.clone()),
        (
            "report_bug",
            json!({"project": "my-app", "story_id": "MA-2", "title": "B", "severity": "low", "steps": "1", "expected": "2", "actual": "3"}),
        ),
        (
            "log_request",
            json!({"project": "my-app", "type": "feature", "description": "Dark mode"}),
        ),
        ("list_requests", p.clone()),
        (
            "save_memory",
            json!({"project": "my-app", "content": "C", "summary": "S", "source": "user", "source_id": "1", "tags": ["t"]}),
        ),
        ("search_memory", json!({"project": "my-app", "query": "s"})),
        ("list_memory", json!({"project": "my-app", "state": "any"})),
        (
            "get_memory",
            json!({"project": "my-app", "memory_id": "mem-1"}),
        ),
        (
            "update_memory",
            json!({"project": "my-app", "memory_id": "mem-1", "summary": "S", "expires_in_days": 7}),
        ),
        (
            "save_session",
            json!({"project": "my-app", "session_id": "s1", "summary": "Did s", "events": [{"type": "note", "summary": "N"}]}),
        ),
        (
            "get_context",
            json!({"project": "my-app", "query": "s", "limit": 3}),
        ),
        ("list_sessions", p.clone()),
        (
            "get_session",
            json!({"project": "my-app", "session_id": "s1"}),
        ),
        (
            "forget_session",
            json!({"project": "my-app", "session_id": "s1"}),
        ),
        (
            "forget_memory",
            json!({"project": "my-app", "memory_id": "mem-1"}),
        ),
        (
            "record_usage",
            json!({"input_tokens": 10, "output_tokens": 2.0, "cost": 0.1, "provider": "p", "model": "m"}),
        ),
        (
            "record_usage",
            json!({"input_tokens": 3, "output_tokens": 1, "project": "my-app", "issue_id": "MA-3"}),
        ),
        ("get_usage", json!({})),
        ("get_usage", p.clone()),
        (
            "get_usage",
            json!({"project": "my-app", "issue_id": "MA-2"}),
        ),
        ("reset_session_usage", json!({})),
        ("reset_session_usage", json!({})),
        (
            "save_plan",
            json!({"project": "my-app", "title": "The plan", "content": "1. Do", "issue_id": "MA-3"}),
        ),
        ("list_plans", p.clone()),
        (
            "read_plan",
            json!({"project": "my-app", "file": "the-plan.md"}),
        ),
        ("list_skills", json!({})),
        ("list_agents", json!({})),
        ("install_skills", json!({})),
        ("install_agents", json!({"names": ["planner"]})),
        ("install_docs", json!({})),
        (
            "receive_hook_event",
            json!({"event_type": "Stop", "data": {"a": [1, null]}}),
        ),
        ("get_hook_events", json!({"event_type": "Stop", "limit": 5})),
        ("regenerate_readme", p.clone()),
        (
            "start_prd_session",
            json!({"project": "my-app", "restart": false}),
        ),
        (
            "answer_prd_question",
            json!({"project": "my-app", "answer": "Shop"}),
        ),
        ("back_prd_question", p.clone()),
        ("get_prd_session", p.clone()),
        ("preview_prd", p.clone()),
        ("abandon_prd_session", p.clone()),
        ("list_prd_phases", p.clone()),
    ];
    for (name, arguments) in calls {
        bench.ok(name, arguments).await;
    }
    finish(bench).await;
}

/// What needs many calls, or takes away.
async fn finish(bench: &Bench) {
    let p = json!({"project": "my-app"});
    bench.ok("start_prd_session", p.clone()).await;
    for question in 0..12 {
        match [4, 6].contains(&question) {
            true => bench.ok("skip_prd_question", p.clone()).await,
            false => {
                bench
                    .ok(
                        "answer_prd_question",
                        json!({"project": "my-app", "answer": "A", "overwrite": true}),
                    )
                    .await
            }
        };
    }
    bench
        .ok(
            "split_prd",
            json!({"project": "my-app", "phases": ["One", "Two"]}),
        )
        .await;
    let rejected = bench.task("Rejected").await;
    bench.bring(&rejected, "in-review").await;
    bench
        .ok(
            "reject_task",
            json!({"project": "my-app", "task_id": rejected}),
        )
        .await;
    let story = json!({"project": "my-app", "epic_id": "MA-1", "title": "S", "user_story": "U"});
    let story = bench.ok("create_story", story).await["id"].clone();
    bench
        .ok(
            "move_issue",
            json!({"project": "my-app", "issue_id": "MA-4", "parent_id": story}),
        )
        .await;
    bench
        .ok(
            "delete_task",
            json!({"project": "my-app", "task_id": "MA-4"}),
        )
        .await;
    bench
        .ok(
            "delete_story",
            json!({"project": "my-app", "story_id": story}),
        )
        .await;
    bench
        .ok(
            "delete_epic",
            json!({"project": "my-app", "epic_id": "MA-1", "agent": "kim"}),
        )
        .await;
    bench.ok("delete_project", p).await;
}

#[tokio::test]
async fn every_tool_answers_by_its_schema_in_both_text_forms() {
    for text in [TextFormat::Json, TextFormat::Toon] {
        let bench = Bench::with(Options {
            text,
            bundle: Arc::new(TwoSkills),
            ..Options::default()
        });
        tour(&bench).await;
        let worked = bench.worked.lock().unwrap().clone();
        let offered: BTreeSet<String> = bench
            .builtin
            .catalog()
            .borrow()
            .tools
            .iter()
            .map(|tool| tool.name.clone())
            .collect();
        assert_eq!(worked, offered);
    }
}

#[tokio::test]
async fn toon_is_the_text_alone() {
    let bench = Bench::toon();
    let answer = bench
        .call("create_project", json!({"name": "My App"}))
        .await;
    assert_eq!(answer.text, "slug: my-app\nkey: MA\nstatus: created");
    assert_eq!(
        answer.value,
        json!({"slug": "my-app", "key": "MA", "status": "created"})
    );
}
