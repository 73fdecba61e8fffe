//! The acceptance scenarios that concern tools, under their numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::bench::Bench;

const EVIDENCE: &str = "214 tests passed, 0 failed";

const STATES: [&str; 13] = [
    "backlog",
    "todo",
    "in-progress",
    "blocked",
    "ready-for-testing",
    "in-testing",
    "ready-for-docs",
    "in-docs",
    "documented",
    "in-review",
    "done",
    "rejected",
    "cancelled",
];

/// The table of document 001, plus cancellation from every state that is not final.
fn exits(from: &str) -> &'static [&'static str] {
    match from {
        "backlog" => &["todo", "cancelled"],
        "todo" => &["in-progress", "backlog", "cancelled"],
        "in-progress" => &["ready-for-testing", "blocked", "todo", "cancelled"],
        "blocked" => &["in-progress", "todo", "cancelled"],
        "ready-for-testing" => &["in-testing", "in-progress", "cancelled"],
        "in-testing" => &["ready-for-docs", "in-progress", "cancelled"],
        "ready-for-docs" => &["in-docs", "in-testing", "cancelled"],
        "in-docs" => &["documented", "ready-for-docs", "cancelled"],
        "documented" => &["in-review", "cancelled"],
        "in-review" => &["done", "rejected", "documented", "cancelled"],
        "done" => &["todo"],
        "rejected" => &["todo", "backlog"],
        "cancelled" => &["backlog"],
        _ => unreachable!("not a state"),
    }
}

#[tokio::test]
async fn scenario_01_slugs_keys_and_duplicates() {
    let bench = Bench::new();
    let made = bench.ok("create_project", json!({"name": "My App"})).await;
    assert_eq!(
        made,
        json!({"slug": "my-app", "key": "MA", "status": "created"})
    );
    let refusal = bench
        .refused("create_project", json!({"name": "my  app!"}))
        .await;
    assert_eq!(
        refusal,
        "project `my-app` exists already; choose another name"
    );
    let slug = bench.ok("create_project", json!({"name": "北京"})).await["slug"].clone();
    assert_eq!(slug, "bei-jing");
    let slug = bench.ok("create_project", json!({"name": "!!!"})).await["slug"].clone();
    assert_eq!(slug, "project-1");
    bench
        .ok(
            "create_epic",
            json!({"project": slug, "title": "Works there"}),
        )
        .await;
}

#[tokio::test]
async fn scenario_02_ids_are_distinct_and_never_used_again() {
    let bench = Bench::with_story().await;
    let mut seen = BTreeSet::from(["MA-1".to_owned(), "MA-2".to_owned()]);
    for round in 0..3 {
        let mut tasks = Vec::new();
        for number in 0..3 {
            let id = bench.task(&format!("Task {round} {number}")).await;
            assert!(seen.insert(id.clone()), "{id} again");
            tasks.push(id);
        }
        for id in [&tasks[0], &tasks[2]] {
            bench
                .ok("delete_task", json!({"project": "my-app", "task_id": id}))
                .await;
        }
        assert_eq!(
            bench.field(&tasks[1], "title").await,
            format!("Task {round} 1")
        );
    }
    let bug =
        json!({"project": "my-app", "story_id": "MA-2", "title": "Broken", "severity": "low"});
    assert_eq!(bench.ok("report_bug", bug.clone()).await["id"], "BUG-1");
    bench
        .ok(
            "delete_task",
            json!({"project": "my-app", "task_id": "BUG-1"}),
        )
        .await;
    assert_eq!(bench.ok("report_bug", bug).await["id"], "BUG-2");
}

#[tokio::test]
async fn scenario_03_status_lists_issues_by_type_whatever_the_key() {
    for (name, slug) in [
        ("Orchestra Engine", "orchestra-engine"),
        ("Acme Suite", "acme-suite"),
    ] {
        let bench = Bench::new();
        bench.ok("create_project", json!({"name": name})).await;
        let epic = bench
            .ok("create_epic", json!({"project": slug, "title": "E"}))
            .await["id"]
            .clone();
        let story =
            json!({"project": slug, "epic_id": epic, "title": "S", "user_story": "As a user"});
        let story = bench.ok("create_story", story).await["id"].clone();
        for kind in ["task", "bug", "hotfix"] {
            bench
                .ok(
                    "create_task",
                    json!({"project": slug, "story_id": story, "title": "T", "type": kind}),
                )
                .await;
        }
        let status = bench
            .ok("get_project_status", json!({"project": slug}))
            .await;
        let totals =
            ["epics", "stories", "tasks"].map(|list| status[list]["total"].as_u64().unwrap());
        assert_eq!(totals, [1, 1, 3], "{name}");
        assert_eq!(
            status["epics"]["items"],
            json!([{"id": epic, "title": "E", "status": "backlog"}])
        );
        assert_eq!(status["by_type"], json!({"task": 1, "bug": 1, "hotfix": 1}));
        assert_eq!(
            bench.ok("list_epics", json!({"project": slug})).await["total"],
            1
        );
        assert_eq!(
            bench.ok("list_stories", json!({"project": slug})).await["total"],
            1
        );
        assert_eq!(
            bench.ok("list_tasks", json!({"project": slug})).await["total"],
            3
        );
    }
}

#[tokio::test]
async fn scenario_04_all_169_moves_are_as_the_table_says() {
    let bench = Bench::with_story().await;
    for from in STATES {
        let stays = bench.task(from).await;
        bench.bring(&stays, from).await;
        for to in STATES {
            let update = |id: &str| json!({"project": "my-app", "task_id": id, "status": to, "evidence": EVIDENCE});
            if exits(from).contains(&to) {
                let goes = bench.task(from).await;
                bench.bring(&goes, from).await;
                assert_eq!(
                    bench.ok("update_task", update(&goes)).await["status"],
                    to,
                    "{from} -> {to}"
                );
            } else {
                let refusal = bench.refused("update_task", update(&stays)).await;
                let between = exits(from).iter().find(|next| exits(next).contains(&to));
                let next = match between.unwrap_or(&exits(from)[0]) {
                    _ if from == to && from == "in-progress" => {
                        "; to work on it, call claim_task with your name as `agent`".to_owned()
                    }
                    _ if from == to => String::new(),
                    next => format!("; first call update_task with status {next}"),
                };
                assert_eq!(
                    refusal,
                    format!(
                        "{stays} is {from} and cannot become {to}; it can become {}{next}",
                        exits(from).join(", ")
                    )
                );
                assert_eq!(bench.status(&stays).await, from);
            }
        }
    }
}

#[tokio::test]
async fn scenario_05_gates_sit_on_the_edge_whichever_tool_asks() {
    let bench = Bench::with_story().await;
    for (from, to, gate) in [
        ("in-progress", "ready-for-testing", "tests_passed"),
        ("in-testing", "ready-for-docs", "tests_verified"),
        ("in-docs", "documented", "docs_written"),
        ("in-review", "done", "review_approved"),
    ] {
        let task = bench.task(from).await;
        bench.bring(&task, from).await;
        let update = json!({"project": "my-app", "task_id": task, "status": to});
        let advance = json!({"project": "my-app", "task_id": task});
        for short in [
            None,
            Some(""),
            Some(" "),
            Some("   x   "),
            Some("         nine     "),
        ] {
            for (tool, mut arguments) in [
                ("update_task", update.clone()),
                ("advance_task", advance.clone()),
            ] {
                if let Some(evidence) = short {
                    arguments["evidence"] = json!(evidence);
                }
                let refusal = bench.refused(tool, arguments).await;
                assert!(
                    refusal.starts_with(&format!(
                        "GATE BLOCKED: {gate}: leaving {from} needs evidence"
                    )),
                    "{refusal}"
                );
            }
        }
        if from == "in-progress" {
            let refusal = bench.refused("complete_task", advance.clone()).await;
            assert!(refusal.starts_with("GATE BLOCKED"), "{refusal}");
        }
        assert_eq!(bench.status(&task).await, from);
        let mut shown = advance;
        shown["evidence"] = json!(EVIDENCE);
        let moved = bench.ok("advance_task", shown).await;
        assert_eq!(
            (&moved["from"], &moved["to"], &moved["evidence"]),
            (&json!(from), &json!(to), &json!(EVIDENCE))
        );
        assert_eq!(moved["gate"].is_string(), to != "done");
    }
}

#[tokio::test]
async fn scenario_06_parents_complete_and_reopen_with_their_children() {
    let bench = Bench::with_story().await;
    let first = bench.task("First").await;
    let second = bench.task("Second").await;
    bench.bring(&first, "done").await;
    assert_eq!(bench.status("MA-2").await, "in-progress");
    bench.bring(&second, "done").await;
    assert_eq!(
        [bench.status("MA-2").await, bench.status("MA-1").await],
        ["done", "done"]
    );
    let third = bench.task("New work").await;
    assert_eq!(
        [bench.status("MA-2").await, bench.status("MA-1").await],
        ["in-progress", "in-progress"]
    );
    bench
        .ok(
            "delete_task",
            json!({"project": "my-app", "task_id": third}),
        )
        .await;
    assert_eq!(
        [bench.status("MA-2").await, bench.status("MA-1").await],
        ["done", "done"]
    );
    bench
        .ok(
            "update_task",
            json!({"project": "my-app", "task_id": first, "status": "todo"}),
        )
        .await;
    assert_eq!(
        [bench.status("MA-2").await, bench.status("MA-1").await],
        ["in-progress", "in-progress"]
    );
}

/// What a random choice needs: numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

#[tokio::test]
async fn scenario_06_all_views_agree_after_random_operations() {
    let bench = Bench::with_story().await;
    let project = json!("my-app");
    let story =
        json!({"project": project, "epic_id": "MA-1", "title": "Other", "user_story": "As a user"});
    let stories = [
        "MA-2".to_owned(),
        bench.ok("create_story", story).await["id"]
            .as_str()
            .unwrap()
            .to_owned(),
    ];
    let mut tasks: Vec<String> = Vec::new();
    let mut dice = Dice(42);
    for _ in 0..150 {
        let roll = if tasks.len() < 4 { 0 } else { dice.roll(10) };
        let task = tasks
            .get(dice.roll(tasks.len().max(1)))
            .cloned()
            .unwrap_or_default();
        let of_task = json!({"project": project, "task_id": task});
        match roll {
            0 => tasks.push(bench.task_in(&stories[dice.roll(2)], "Some work").await),
            1 => {
                bench.ok("delete_task", of_task).await;
                tasks.retain(|known| *known != task);
            }
            2 => {
                let to = &stories[dice.roll(2)];
                bench
                    .call(
                        "move_issue",
                        json!({"project": project, "issue_id": task, "parent_id": to}),
                    )
                    .await;
            }
            3 => {
                let status = ["cancelled", "backlog", "todo"][dice.roll(3)];
                let story = &stories[dice.roll(2)];
                bench
                    .call(
                        "update_story",
                        json!({"project": project, "story_id": story, "status": status}),
                    )
                    .await;
            }
            4 => {
                let answer = bench.call("reject_task", of_task).await;
                if let Some(bug) = answer.value["bug_created"]["id"].as_str() {
                    tasks.push(bug.to_owned());
                }
            }
            _ => {
                let from = bench.status(&task).await;
                let to = exits(&from)[dice.roll(exits(&from).len())];
                let mut update = of_task;
                update["status"] = json!(to);
                update["evidence"] = json!(EVIDENCE);
                bench.ok("update_task", update).await;
            }
        }
        agree(&bench).await;
    }
}

/// The state of a parent as a function of its children's, as the design says it.
fn follows(children: &[String], own: &str) -> String {
    let is_final = |state: &String| ["done", "rejected", "cancelled"].contains(&state.as_str());
    let waits = |state: &String| ["backlog", "todo", "cancelled"].contains(&state.as_str());
    match children {
        [] => own.to_owned(),
        all if all.iter().all(is_final) && all.contains(&"done".to_owned()) => "done".to_owned(),
        all if all.iter().all(is_final) => "cancelled".to_owned(),
        all if !all.iter().all(waits) => "in-progress".to_owned(),
        _ => own.to_owned(),
    }
}

/// Every view shows the same status of every issue, and parents follow their children.
async fn agree(bench: &Bench) {
    let project = json!({"project": "my-app"});
    let rows = |list: &Value| -> BTreeMap<String, String> {
        let row = |row: &Value| {
            (
                row["id"].as_str().unwrap().to_owned(),
                row["status"].as_str().unwrap().to_owned(),
            )
        };
        list["items"].as_array().unwrap().iter().map(row).collect()
    };
    let status = bench
        .ok("get_project_status", json!({"project": "my-app"}))
        .await;
    let tasks = rows(
        &bench
            .ok("list_tasks", json!({"project": "my-app", "limit": 500}))
            .await,
    );
    assert_eq!(status["tasks"]["total"], tasks.len());
    for (id, state) in rows(&status["tasks"]) {
        assert_eq!(tasks.get(&id), Some(&state), "{id}");
    }
    let stories = rows(&bench.ok("list_stories", project.clone()).await);
    assert_eq!(rows(&status["stories"]), stories);
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    for state in tasks.values() {
        *counted.entry(state).or_default() += 1;
    }
    let workflow = bench.ok("get_workflow_status", project).await;
    assert_eq!(workflow["by_status"], json!(counted));
    assert_eq!(status["by_status"], json!(counted));
    let mut below_epic = Vec::new();
    for (story, shown) in &stories {
        let record = bench
            .ok(
                "get_story",
                json!({"project": "my-app", "story_id": story, "limit": 500}),
            )
            .await;
        assert_eq!(record["status"], **shown);
        let children = rows(&record["children"]);
        for (id, state) in &children {
            assert_eq!(tasks[id], *state);
            assert_eq!(bench.status(id).await, *state);
        }
        let children: Vec<String> = children.into_values().collect();
        // A parent none of whose children has started may be backlog or todo by itself.
        let own = if ["backlog", "todo", "cancelled"].contains(&shown.as_str()) {
            shown.as_str()
        } else {
            "backlog"
        };
        assert_eq!(*shown, follows(&children, own), "{story}: {children:?}");
        below_epic.push(shown.clone());
    }
    let epic = bench.status("MA-1").await;
    let own = if ["backlog", "todo", "cancelled"].contains(&epic.as_str()) {
        epic.as_str()
    } else {
        "backlog"
    };
    assert_eq!(epic, follows(&below_epic, own), "{below_epic:?}");
}

#[tokio::test]
async fn scenario_07_rejecting_links_a_bug_and_keeps_the_reason() {
    let bench = Bench::with_story().await;
    let task = bench.task("Add login").await;
    let reject =
        json!({"project": "my-app", "task_id": task, "reason": "No tests for wrong passwords"});
    for state in STATES.into_iter().filter(|state| *state != "in-review") {
        let other = bench.task("Other").await;
        bench.bring(&other, state).await;
        bench
            .refused(
                "reject_task",
                json!({"project": "my-app", "task_id": other}),
            )
            .await;
    }
    bench.bring(&task, "in-review").await;
    let answer = bench.ok("reject_task", reject).await;
    assert_eq!(
        (&answer["rejected"]["id"], &answer["rejected"]["status"]),
        (&json!(task), &json!("rejected"))
    );
    let bug = &answer["bug_created"];
    assert_eq!(
        [
            &bug["title"],
            &bug["type"],
            &bug["priority"],
            &bug["status"],
            &bug["fixes"],
            &bug["story_id"]
        ],
        [
            "Fix: Add login",
            "bug",
            "high",
            "backlog",
            task.as_str(),
            "MA-2"
        ]
    );
    let bug = bench
        .ok(
            "get_task",
            json!({"project": "my-app", "task_id": bug["id"]}),
        )
        .await;
    assert!(
        bug["description"]
            .as_str()
            .unwrap()
            .contains("No tests for wrong passwords")
    );
    let history = bench
        .ok(
            "get_history",
            json!({"project": "my-app", "issue_id": task}),
        )
        .await;
    let last = history["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["to"], &last["reason"]),
        (&json!("rejected"), &json!("No tests for wrong passwords"))
    );
}

#[tokio::test]
async fn scenario_08_starting_a_task_lifts_story_and_epic() {
    let bench = Bench::with_story().await;
    let task = bench.task("First").await;
    bench.bring(&task, "todo").await;
    bench
        .ok(
            "set_current_task",
            json!({"project": "my-app", "task_id": task}),
        )
        .await;
    assert_eq!(
        [bench.status("MA-2").await, bench.status("MA-1").await],
        ["in-progress", "in-progress"]
    );
    let epic = bench
        .ok("get_epic", json!({"project": "my-app", "epic_id": "MA-1"}))
        .await;
    assert_eq!(epic["children"]["items"][0]["status"], "in-progress");
}

#[tokio::test]
async fn scenario_11_concurrent_creations_give_distinct_issues() {
    let bench = Bench::with_story().await;
    let create = |number| {
        let arguments = json!({"project": "my-app", "story_id": "MA-2", "title": format!("Task {number}"), "type": "task"});
        bench.ok("create_task", arguments)
    };
    let calls: Vec<_> = (0..200).map(create).collect();
    let mut ids = BTreeSet::new();
    for made in futures_in_order(calls).await {
        assert!(ids.insert(made["id"].as_str().unwrap().to_owned()));
    }
    assert_eq!(ids.len(), 200);
    let listed = bench
        .ok("list_tasks", json!({"project": "my-app", "limit": 1}))
        .await;
    assert_eq!(listed["total"], 200);
}

/// Polls all futures once in order, then awaits each: as a connection does.
async fn futures_in_order<F: Future>(calls: Vec<F>) -> Vec<F::Output> {
    let mut calls: Vec<_> = calls.into_iter().map(Box::pin).collect();
    let mut answers = Vec::new();
    std::future::poll_fn(|cx| {
        answers = calls
            .iter_mut()
            .map(|call| call.as_mut().poll(cx))
            .collect();
        std::task::Poll::Ready(())
    })
    .await;
    let mut done = Vec::new();
    for (call, answer) in calls.into_iter().zip(answers) {
        done.push(match answer {
            std::task::Poll::Ready(answer) => answer,
            std::task::Poll::Pending => call.await,
        });
    }
    done
}

#[tokio::test]
async fn changes_take_effect_in_the_order_of_the_calls() {
    let bench = Bench::with_story().await;
    let task = json!({"project": "my-app", "story_id": "MA-2", "title": "First", "type": "task"});
    let update = |status: &str| json!({"project": "my-app", "task_id": "MA-3", "status": status});
    let calls = vec![
        bench.call("create_task", task),
        bench.call("update_task", update("todo")),
        bench.call("update_task", update("in-progress")),
        bench.call("update_task", update("blocked")),
    ];
    let answers = futures_in_order(calls).await;
    assert!(answers.iter().all(|answer| !answer.is_error), "{answers:?}");
    assert_eq!(bench.status("MA-3").await, "blocked");
}

#[tokio::test]
async fn scenario_13_memory_and_context_answer_in_one_shape() {
    let bench = Bench::with_story().await;
    for (content, summary) in [
        ("The database runs in WAL mode", "database mode"),
        ("Exports are streamed row by row", "exports"),
    ] {
        bench
            .ok(
                "save_memory",
                json!({"project": "my-app", "content": content, "summary": summary}),
            )
            .await;
    }
    let session =
        json!({"project": "my-app", "session_id": "s-1", "summary": "Moved the database to WAL"});
    bench.ok("save_session", session).await;
    let query = json!({"project": "my-app", "query": "database"});
    let found = bench.ok("search_memory", query.clone()).await;
    let context = bench.ok("get_context", query).await;
    let keys =
        |item: &Value| -> BTreeSet<String> { item.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(found["total"], 1);
    assert_eq!(found["items"][0]["id"], "mem-1");
    let kinds: BTreeSet<&str> = context["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, BTreeSet::from(["memory", "session"]));
    for item in context["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["type"] == "memory")
    {
        assert_eq!(keys(item), keys(&found["items"][0]));
    }
}

#[tokio::test]
async fn scenario_16_hook_events_are_kept_masked_and_bounded() {
    let bench = Bench::new();
    let event = |number: usize| {
        let data = json!({"hook_event_name": "PostToolUse", "password": "hunter2", "command": "x".repeat(50_000)});
        let arguments = json!({"event_type": "PostToolUse", "session_id": format!("s-{number}"), "tool_name": "", "data": data});
        bench.ok("receive_hook_event", arguments)
    };
    futures_in_order((0..50).map(event).collect()).await;
    let kept = bench.ok("get_hook_events", json!({"limit": 500})).await;
    assert_eq!(kept["total"], 50);
    let sessions: BTreeSet<&str> = kept["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["session_id"].as_str().unwrap())
        .collect();
    assert_eq!(sessions.len(), 50);
    for event in kept["items"].as_array().unwrap() {
        let text = event.to_string();
        assert!(
            !text.contains("hunter2") && text.len() < 10_000,
            "{text:.200}"
        );
        assert!(event["tool_name"].is_null());
    }
    let none = bench
        .ok("get_hook_events", json!({"event_type": "Stop"}))
        .await;
    assert_eq!(none, json!({"items": [], "total": 0}));
}
