//! The weaknesses of the earlier system's tools (section 24.1), each made right.

use orchestra_plan::phase::Phase;
use serde_json::{Value, json};

use super::{Plans, job, plan, with};

fn names(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().unwrap().iter();
    items
        .map(|item| item[field].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn w1_nothing_that_create_and_scaffold_take_is_dropped() {
    let plans = Plans::new();
    let of_job = json!({"instructions": "Be kind", "baseBranch": "dev", "env": {"A": "1"}, "autoHeal": false});
    let settings = json!({"verifyRi": "make check", "worktreeInit": ["npm ci"], "maxParallel": 7,
        "cleanUpSuccessfulWork": false, "additionalSymlinkDirs": ["node_modules"]});
    let jobs = json!({"name": "A plan", "jobs": [with(&job("one", &[]), of_job)]});
    let id = plans.create(with(&jobs, settings.clone())).await;
    let made = plans.model.of(&id);
    let check = |made: &orchestra_plan::plan::Plan| {
        let kept = serde_json::to_value(made.settings()).unwrap();
        assert_eq!(kept["verifyRi"]["command"], "make check");
        assert_eq!(kept["worktreeInit"][0]["command"], "npm ci");
        assert_eq!(
            (&kept["maxParallel"], &kept["cleanUpSuccessfulWork"]),
            (&json!(7), &json!(false))
        );
        assert_eq!(kept["additionalSymlinkDirs"], json!(["node_modules"]));
    };
    check(&made);
    let one = made.find("one").unwrap().definition().clone();
    assert_eq!(one.instructions.as_ref().unwrap().as_str(), "Be kind");
    assert_eq!(one.base_branch.as_ref().unwrap().as_str(), "dev");
    assert_eq!((one.env.value("A"), one.auto_heal), (Some("1"), false));
    let begun = json!({"name": "Begun", "startPaused": false});
    let begun = plans
        .ok("scaffold_copilot_plan", with(&begun, settings))
        .await;
    let id = begun["planId"].as_str().unwrap();
    check(&plans.model.of(id));
    let add = with(
        &job("one", &[]),
        json!({"planId": id, "env": {"B": "2"}, "autoHeal": false}),
    );
    plans.ok("add_copilot_plan_job", add).await;
    let one = plans.model.of(id).find("one").unwrap().definition().clone();
    assert_eq!((one.env.value("B"), one.auto_heal), (Some("2"), false));
    let update = json!({"planId": id, "jobId": "one", "env": {"B": "3"}});
    plans.ok("update_copilot_plan_job", update).await;
    let one = plans.model.of(id).find("one").unwrap().definition().clone();
    assert_eq!(one.env.value("B"), Some("3"));
    let done = plans
        .ok("finalize_copilot_plan", json!({"planId": id}))
        .await;
    assert_eq!(
        done["paused"], false,
        "startPaused of scaffold_copilot_plan is kept"
    );
    let fail = json!({"planId": id, "jobId": "one", "reason": "it hangs"});
    plans.ok("force_fail_copilot_job", fail).await;
    let one = plans
        .ok("get_copilot_job", json!({"planId": id, "jobId": "one"}))
        .await;
    assert!(
        one["state"]["error"].as_str().unwrap().contains("it hangs"),
        "{one}"
    );
}

#[tokio::test]
async fn w2_reshape_takes_both_names_of_adding_and_removing() {
    let plans = Plans::new();
    let id = plans
        .create(with(
            &plan(&[job("one", &[])]),
            json!({"startPaused": true}),
        ))
        .await;
    for (at, (add, remove)) in [("add_job", "remove_job"), ("add_node", "remove_node")]
        .iter()
        .enumerate()
    {
        let name = format!("new-{at}");
        let operations = json!([{"type": add, "spec": job(&name, &["one"])},
            {"type": remove, "producerId": name}]);
        let done = plans
            .ok(
                "reshape_copilot_plan",
                json!({"planId": id, "operations": operations}),
            )
            .await;
        assert_eq!(names(&done["results"], "operation"), [*add, *remove]);
        assert_eq!(done["topology"]["nodeCount"], 2);
    }
    // One that fails does not stop the rest, nor one that lacks something.
    let operations = json!([{"type": "remove_job", "jobId": "nobody"}, {"type": "add_job"},
        {"type": "add_after", "existingJobId": "one", "spec": job("two", &[])},
        {"type": "add_job", "spec": with(&job("three", &[]), json!({"work": {"type": "shell"}}))}]);
    let done = plans
        .not(
            "reshape_copilot_plan",
            json!({"planId": id, "operations": operations}),
        )
        .await;
    let codes: Vec<&Value> = done["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["code"])
        .collect();
    assert_eq!(
        codes,
        [
            &json!("job-unknown"),
            &json!("operation-incomplete"),
            &Value::Null,
            &json!("invalid-work")
        ]
    );
    assert_eq!(done["topology"]["leaves"], json!(["two"]));
}

#[tokio::test]
async fn w3_lists_know_all_and_every_other_status() {
    let plans = Plans::new();
    let done = plans.create(plan(&[job("one", &[])])).await;
    plans.model.run(&done);
    plans.model.fail(&[("one", Phase::Work)]);
    let failed = plans
        .create(plan(&[job("one", &[]), job("two", &[])]))
        .await;
    plans.model.run(&failed);
    plans.model.fail(&[]);
    let paused = plans
        .create(plan(&[job("one", &[]), job("two", &["one"])]))
        .await;
    plans.model.step(&paused);
    plans
        .ok("pause_copilot_plan", json!({"planId": paused}))
        .await;
    plans.model.run(&paused);
    let pending = plans
        .create(with(
            &plan(&[job("one", &[])]),
            json!({"startPaused": true}),
        ))
        .await;
    let running = plans.create(plan(&[job("one", &[])])).await;
    plans.model.step(&running);
    let canceled = plans.create(plan(&[job("one", &[])])).await;
    plans
        .ok("cancel_copilot_plan", json!({"planId": canceled}))
        .await;
    let archived = plans.create(plan(&[job("one", &[])])).await;
    plans
        .ok("cancel_copilot_plan", json!({"planId": archived}))
        .await;
    plans
        .ok("archive_copilot_plan", json!({"planId": archived}))
        .await;
    let begun = plans
        .ok("scaffold_copilot_plan", json!({"name": "Begun"}))
        .await;
    let begun = begun["planId"].as_str().unwrap().to_owned();
    for (status, expected) in [
        (
            "all",
            vec![
                &begun, &archived, &canceled, &running, &pending, &paused, &failed, &done,
            ],
        ),
        ("completed", vec![&archived, &canceled, &failed, &done]),
        ("succeeded", vec![&done]),
        ("failed", vec![&failed]),
        ("partial", vec![&failed]),
        ("paused", vec![&paused]),
        ("pending", vec![&pending]),
        ("pending-start", vec![&pending]),
        ("running", vec![&running]),
        ("canceled", vec![&canceled]),
        ("archived", vec![&archived]),
        ("scaffolding", vec![&begun]),
    ] {
        let listed = plans
            .ok("list_copilot_plans", json!({"status": status}))
            .await;
        assert_eq!(
            names(&listed["Plans"], "id"),
            expected.into_iter().cloned().collect::<Vec<_>>(),
            "{status}"
        );
        assert_eq!(listed["count"], listed["total"], "{status}");
    }
}

#[tokio::test]
async fn w4_jobs_are_listed_by_their_own_groups() {
    let plans = Plans::new();
    let grouped = |name: &str, group: &str| with(&job(name, &[]), json!({"group": group}));
    let jobs = [
        grouped("one", "build/linux"),
        grouped("two", "build"),
        grouped("three", "test"),
        job("four", &[]),
    ];
    let id = plans.create(plan(&jobs)).await;
    let list = async |more: Value| {
        let listed = plans
            .ok("list_copilot_jobs", with(&json!({"planId": id}), more))
            .await;
        names(&listed["nodes"], "producerId")
    };
    assert_eq!(list(json!({"groupId": "build"})).await, ["one", "two"]);
    assert_eq!(list(json!({"groupId": "build/linux"})).await, ["one"]);
    assert_eq!(list(json!({"groupName": "LINUX"})).await, ["one"]);
    assert_eq!(list(json!({"groupName": "A plan"})).await, [""; 0]);
    assert_eq!(list(json!({"status": "ready"})).await.len(), 4);
    assert_eq!(list(json!({"status": "succeeded"})).await, [""; 0]);
    let listed = plans.ok("list_copilot_jobs", json!({"planId": id})).await;
    assert_eq!(
        (
            &listed["nodes"][0]["groupId"],
            &listed["nodes"][0]["groupName"]
        ),
        (&json!("build/linux"), &json!("linux"))
    );
}

#[tokio::test]
async fn w5_logs_are_found_by_any_name_of_a_job_and_have_a_tail() {
    let plans = Plans::new();
    let named = with(&job("one", &[]), json!({"name": "The First"}));
    let id = plans.create(plan(&[named])).await;
    plans.model.run(&id);
    plans.model.print(&id, "one", 6_000, 0);
    let of_job = plans
        .ok("get_copilot_job", json!({"planId": id, "jobId": "one"}))
        .await;
    for name in ["one", "the FIRST", of_job["node"]["id"].as_str().unwrap()] {
        let logs = json!({"planId": id, "jobId": name, "phase": "work", "tail": 2});
        let logs = plans.ok("get_copilot_job_logs", logs).await;
        assert_eq!(
            (&logs["logs"], &logs["jobName"]),
            (&json!("line 5999\nline 6000\n"), &json!("The First"))
        );
    }
    let many = json!({"planId": id, "jobId": "one", "tail": 5_500});
    let many = plans.ok("get_copilot_job_logs", many).await;
    assert_eq!(
        (&many["lines"], &many["truncated"]),
        (&json!(5_500), &json!(true))
    );
    let mut cursor = json!("0");
    let mut lines = 0;
    for _ in 0..10 {
        let page = json!({"planId": id, "jobId": "one", "cursor": cursor, "limit": 1_000});
        let page = plans.ok("get_copilot_job_logs", page).await;
        lines += page["lines"].as_u64().unwrap();
        cursor = page["next_cursor"].clone();
    }
    assert!(lines >= 6_000, "{lines}");
}

#[tokio::test]
async fn w6_the_context_of_a_failure_has_its_log() {
    let plans = Plans::new();
    plans.model.fail(&[("one", Phase::Work)]);
    let id = plans.create(plan(&[job("one", &[])])).await;
    plans.model.run(&id);
    let context = json!({"planId": id, "jobId": "one"});
    let context = plans.ok("get_copilot_job_failure_context", context).await;
    assert_eq!(
        (&context["failedPhase"], &context["producerId"]),
        (&json!("work"), &json!("one"))
    );
    let last = context["logs"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["message"], &last["type"], &last["phase"]),
        (&json!("it went wrong"), &json!("err"), &json!("work"))
    );
    let other = json!({"planId": id, "jobId": "__snapshot-validation__"});
    let (code, _) = plans
        .refused("get_copilot_job_failure_context", other)
        .await;
    assert_eq!(code, "wrong-job-state");
}

#[tokio::test]
async fn w7_every_tool_finds_jobs_by_any_name_and_a_running_job_is_not_edited() {
    let plans = Plans::new();
    plans.model.fail(&[("one", Phase::Work)]);
    let id = plans
        .create(plan(&[with(&job("one", &[]), json!({"name": "First"}))]))
        .await;
    plans.model.run(&id);
    plans.model.fail(&[]);
    for name in ["one", "first"] {
        plans.model.fail(&[("one", Phase::Work)]);
        let retried = plans
            .ok(
                "retry_copilot_plan",
                json!({"planId": id, "jobIds": [name]}),
            )
            .await;
        assert_eq!(names(&retried["retriedNodes"], "name"), ["First"]);
        plans.model.run(&id);
    }
    plans
        .ok("retry_copilot_job", json!({"planId": id, "jobId": "FIRST"}))
        .await;
    while plans.model.of(&id).find("one").unwrap().status()
        != orchestra_plan::status::JobStatus::Running
    {
        plans.model.step(&id);
    }
    for name in ["one", "First"] {
        let edit = json!({"planId": id, "jobId": name, "work": "false"});
        let (code, error) = plans.refused("update_copilot_plan_job", edit).await;
        assert_eq!(code, "wrong-job-state", "{error}");
    }
}

#[tokio::test]
async fn w7_a_name_that_several_jobs_have_is_refused_with_the_candidates() {
    let plans = Plans::new();
    let twin = |name: &str| with(&job(name, &[]), json!({"name": "Twin"}));
    let id = plans.create(plan(&[twin("one"), twin("two")])).await;
    let (code, error) = plans
        .refused("get_copilot_job", json!({"planId": id, "jobId": "twin"}))
        .await;
    assert_eq!(code, "job-ambiguous");
    assert!(error.contains("one, two"), "{error}");
}

#[tokio::test]
async fn w8_batch_and_clone_say_why_and_leave_out_the_validating_job() {
    let plans = Plans::new();
    let begun = plans
        .ok("scaffold_copilot_plan", json!({"name": "Begun"}))
        .await;
    let jobs =
        json!({"planId": begun["planId"], "jobs": [job("one", &[]), job("two", &["nobody"])]});
    let refused = plans.not("add_copilot_plan_jobs", jobs).await;
    let error = refused["results"][1]["error"]["error"].as_str().unwrap();
    assert!(error.contains("nobody"), "{refused}");
    let jobs = [job("sv-one", &[]), job("two", &["sv-one"])];
    let id = plans.create(plan(&jobs)).await;
    let copy = plans
        .ok("clone_copilot_plan", json!({"sourcePlanId": id}))
        .await;
    assert_eq!(
        (&copy["jobsCloned"], &copy["name"]),
        (&json!(2), &json!("A plan (clone)"))
    );
    let listed = plans
        .ok("list_copilot_jobs", json!({"planId": copy["planId"]}))
        .await;
    assert_eq!(names(&listed["nodes"], "producerId"), ["sv-one", "two"]);
    let (code, _) = plans
        .refused("clone_copilot_plan", json!({"sourcePlanId": "x"}))
        .await;
    assert_eq!(code, "plan-unknown");
}

#[tokio::test]
async fn w10_a_batch_is_taken_in_any_order_and_whole_or_not_at_all() {
    let plans = Plans::new();
    let begun = plans
        .ok("scaffold_copilot_plan", json!({"name": "Begun"}))
        .await;
    let id = begun["planId"].as_str().unwrap();
    let add = async |jobs: Value| {
        plans
            .bench
            .call("add_copilot_plan_jobs", json!({"planId": id, "jobs": jobs}))
            .await
    };
    let refused = add(json!([
        job("one", &[]),
        job("two", &["nobody"]),
        job("three", &[])
    ]))
    .await;
    assert!(refused.is_error);
    assert_eq!(
        (&refused.value["added"], &refused.value["total"]),
        (&json!(0), &json!(3))
    );
    assert_eq!(plans.model.of(id).jobs().len(), 0, "none of them");
    let added = add(json!([
        job("three", &["two"]),
        job("two", &["one"]),
        job("one", &[])
    ]))
    .await;
    assert_eq!(added.value["added"], 3, "{}", added.text);
    assert_eq!(plans.model.of(id).jobs().len(), 3);
}

#[tokio::test]
async fn w11_a_retry_keeps_what_an_agent_was_given() {
    let plans = Plans::new();
    let agent =
        json!({"type": "agent", "instructions": "Do it", "model": "m-1", "allowedFolders": ["/"]});
    plans.model.fail(&[("one", Phase::Work)]);
    let id = plans
        .create(plan(&[with(&job("one", &[]), json!({"work": agent}))]))
        .await;
    plans.model.run(&id);
    plans.ok("retry_copilot_plan", json!({"planId": id})).await;
    let kept = plans
        .ok("get_copilot_job", json!({"planId": id, "jobId": "one"}))
        .await;
    assert_eq!(
        (
            &kept["node"]["work"]["model"],
            &kept["node"]["work"]["allowedFolders"]
        ),
        (&json!("m-1"), &json!(["/"]))
    );
    plans.model.run(&id);
    let by_file = json!({"type": "agent", "instructionsFile": "docs/task.md"});
    let retry = json!({"planId": id, "jobId": "one", "newWork": by_file});
    plans.ok("retry_copilot_job", retry).await;
    let kept = plans
        .ok("get_copilot_job", json!({"planId": id, "jobId": "one"}))
        .await;
    assert_eq!(kept["node"]["work"]["instructionsFile"], "docs/task.md");
}

#[tokio::test]
async fn w11_a_refused_clearing_leaves_the_job_failed() {
    let plans = Plans::new();
    plans.model.fail(&[("two", Phase::Work)]);
    let id = plans
        .create(plan(&[job("one", &[]), job("two", &["one"])]))
        .await;
    plans.model.run(&id);
    let retry = json!({"planId": id, "jobId": "two", "clearWorktree": true});
    let (code, _) = plans.refused("retry_copilot_job", retry).await;
    assert_eq!(code, "worktree-needed");
    let two = plans
        .ok("get_copilot_job", json!({"planId": id, "jobId": "two"}))
        .await;
    assert_eq!(two["state"]["status"], "failed");
}

#[tokio::test]
async fn w12_what_is_asked_twice_with_a_key_is_done_once() {
    let plans = Plans::new();
    let keyed = with(&plan(&[job("one", &[])]), json!({"idempotencyKey": "k1"}));
    let first = plans.ok("create_copilot_plan", keyed.clone()).await;
    let second = plans.ok("create_copilot_plan", keyed).await;
    assert_eq!(
        (&first["planId"], &second["repeated"]),
        (&second["planId"], &json!(true))
    );
    let id = first["planId"].as_str().unwrap();
    for expected in [Value::Null, json!(true)] {
        let pause = json!({"planId": id, "idempotencyKey": "k2"});
        assert_eq!(
            plans.ok("pause_copilot_plan", pause).await["repeated"],
            expected
        );
    }
}

#[tokio::test]
async fn w12_a_change_of_a_version_that_is_gone_is_refused() {
    let plans = Plans::new();
    let id = plans.create(plan(&[job("one", &[])])).await;
    let seen = plans
        .ok("get_copilot_plan_status", json!({"planId": id}))
        .await["stateVersion"]
        .clone();
    plans
        .ok("pause_copilot_plan", json!({"planId": id, "version": seen}))
        .await;
    let late = json!({"planId": id, "version": seen});
    let (code, error) = plans.refused("resume_copilot_plan", late).await;
    assert_eq!(code, "version-conflict", "{error}");
}

#[tokio::test]
async fn w12_lists_come_in_pages() {
    let plans = Plans::new();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(
            0,
            plans
                .create(plan(&[job("one", &[]), job("two", &[]), job("three", &[])]))
                .await,
        );
    }
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = match cursor {
            Value::Null => json!({"limit": 2}),
            cursor => json!({"limit": 2, "cursor": cursor}),
        };
        let page = plans.ok("list_copilot_plans", page).await;
        assert_eq!(page["total"], 5);
        seen.extend(names(&page["Plans"], "id"));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, ids, "newest first");
    let jobs = plans
        .ok("list_copilot_jobs", json!({"planId": ids[0], "limit": 3}))
        .await;
    assert_eq!(
        (&jobs["count"], &jobs["total"], &jobs["next_cursor"]),
        (&json!(3), &json!(4), &json!("3"))
    );
    let rest = json!({"planId": ids[0], "limit": 3, "cursor": "3"});
    assert_eq!(plans.ok("list_copilot_jobs", rest).await["count"], 1);
    for (tool, arguments) in [
        ("list_copilot_plans", json!({"cursor": "x"})),
        (
            "list_copilot_jobs",
            json!({"planId": ids[0], "cursor": "x"}),
        ),
    ] {
        assert_eq!(plans.refused(tool, arguments).await.0, "bad-cursor");
    }
}

#[tokio::test]
async fn w12a_add_before_inherits_and_bulk_updates_leave_scheduled_jobs_alone() {
    let plans = Plans::new();
    let agent = |name: &str, on: &[&str]| with(&job(name, on), json!({"work": "@agent Do it"}));
    let id = plans
        .create(plan(&[agent("one", &[]), agent("two", &["one"])]))
        .await;
    let operations =
        json!([{"type": "add_before", "existingJobId": "two", "spec": job("new", &[])}]);
    plans
        .ok(
            "reshape_copilot_plan",
            json!({"planId": id, "operations": operations}),
        )
        .await;
    let graph = plans
        .ok("get_copilot_plan_graph", json!({"planId": id}))
        .await;
    let on = |name: &str| {
        let nodes = graph["nodes"].as_array().unwrap();
        nodes
            .iter()
            .find(|node| node["producerId"] == name)
            .unwrap()["dependsOn"]
            .clone()
    };
    assert_eq!((on("new"), on("two")), (json!(["one"]), json!(["new"])));
    plans.model.step(&id);
    let bulk = json!({"planId": id, "updates": {"model": "m-2"}});
    let bulk = plans.ok("bulk_update_copilot_plan_jobs", bulk).await;
    assert_eq!(bulk["updatedJobs"], json!(["two"]));
    let skipped = names(&bulk["skippedDetails"], "id");
    assert_eq!(skipped, ["one", "new", "__snapshot-validation__"]);
}

#[tokio::test]
async fn w12a_a_retry_checks_folders_and_urls() {
    let plans = Plans::new();
    plans.model.fail(&[("one", Phase::Work)]);
    let id = plans.create(plan(&[job("one", &[])])).await;
    plans.model.run(&id);
    for wrong in [
        json!({"allowedFolders": ["relative"]}),
        json!({"allowedUrls": ["file:///etc/passwd"]}),
    ] {
        let work = with(&json!({"type": "agent", "instructions": "x"}), wrong);
        for (tool, more) in [
            ("retry_copilot_plan", json!({})),
            ("retry_copilot_job", json!({"jobId": "one"})),
        ] {
            let retry = with(&json!({"planId": id, "newWork": work}), more);
            let (code, error) = plans.refused(tool, retry).await;
            assert!(
                code == "invalid-work" && error.contains("newWork"),
                "{code}: {error}"
            );
        }
    }
}
