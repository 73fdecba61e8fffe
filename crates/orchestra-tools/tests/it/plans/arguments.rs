//! Every argument has an effect that can be seen.

use orchestra_plan::phase::Phase;
use orchestra_plan::plan::Plan;
use serde_json::{Value, json};

use super::{Plans, job, plan, with};

/// What is kept of a plan, as JSON.
fn settings(plan: &Plan) -> Value {
    serde_json::to_value(plan.settings()).unwrap()
}

/// What is kept of a job, as JSON.
fn kept(plan: &Plan, job: &str) -> Value {
    serde_json::to_value(&**plan.find(job).unwrap().definition()).unwrap()
}

/// The arguments of a plan as a whole, and what is kept of them.
fn of_plan() -> Vec<(&'static str, Value)> {
    vec![
        ("baseBranch", json!("dev")),
        ("targetBranch", json!("result")),
        ("maxParallel", json!(9)),
        ("cleanUpSuccessfulWork", json!(false)),
        ("additionalSymlinkDirs", json!(["node_modules", "vendor"])),
        ("startPaused", json!(false)),
        (
            "verifyRi",
            json!({"type": "shell", "command": "make check"}),
        ),
        ("env", json!({"A": "1"})),
        (
            "worktreeInit",
            json!([{"type": "shell", "command": "npm ci"}]),
        ),
        ("budget", json!({"tokens": 10, "cost": 2.5, "wallMs": 1000})),
        ("idempotencyKey", json!("k")),
    ]
}

#[tokio::test]
async fn every_argument_of_create_and_scaffold_is_kept() {
    for (name, value) in of_plan() {
        let plans = Plans::new();
        let more = json!({name: value});
        let whole = json!({"name": "A plan", "jobs": [job("one", &[])]});
        let id = plans.create(with(&whole, more.clone())).await;
        assert_eq!(
            settings(&plans.model.of(&id))[name],
            value,
            "create: {name}"
        );
        let plans = Plans::new();
        let begun = with(&json!({"name": "A plan"}), more);
        let begun = plans.ok("scaffold_copilot_plan", begun).await;
        let made = plans.model.of(begun["planId"].as_str().unwrap());
        assert_eq!(settings(&made)[name], value, "scaffold: {name}");
        assert_eq!(made.name(), "A plan");
    }
}

#[tokio::test]
async fn start_paused_and_resume_after_plan_decide_whether_it_starts() {
    let plans = Plans::new();
    let jobs = json!({"name": "A plan", "jobs": [job("one", &[])]});
    for (more, paused, status) in [
        (json!({}), true, "pending-start"),
        (json!({"startPaused": true}), true, "pending-start"),
        (json!({"startPaused": false}), false, "pending"),
    ] {
        let made = plans.ok("create_copilot_plan", with(&jobs, more)).await;
        assert_eq!(
            (&made["paused"], &made["status"]["status"]),
            (&json!(paused), &json!(status))
        );
    }
    let first = plans
        .create(with(&jobs, json!({"startPaused": false})))
        .await;
    let after = json!({"startPaused": false, "resumeAfterPlan": first});
    let made = plans.ok("create_copilot_plan", with(&jobs, after)).await;
    assert_eq!(made["paused"], true, "it waits for the other");
    let unknown = json!({"resumeAfterPlan": "00000000-0000-4000-8000-00000000ffff"});
    let (code, _) = plans
        .refused("create_copilot_plan", with(&jobs, unknown))
        .await;
    assert_eq!(code, "plan-unknown");
}

/// The arguments of a job, and what is kept of them.
fn of_job() -> Vec<(&'static str, Value)> {
    let check = json!({"type": "process", "executable": "test", "args": ["-f", "x"]});
    vec![
        ("name", json!("The job")),
        ("task", json!("Do it well")),
        (
            "work",
            json!({"type": "agent", "instructions": "Do it", "modelTier": "fast", "effort": "low", "maxTurns": 5}),
        ),
        ("dependencies", json!(["root"])),
        ("prechecks", check.clone()),
        ("postchecks", check),
        ("instructions", json!("Be kind")),
        ("baseBranch", json!("dev")),
        ("expectsNoChanges", json!(true)),
        ("group", json!("phase1/setup")),
        ("autoHeal", json!(false)),
        ("env", json!({"A": "1"})),
        ("budget", json!({"tokens": 10})),
    ]
}

#[tokio::test]
async fn every_argument_of_a_job_is_kept_whichever_tool_adds_it() {
    for (name, value) in of_job() {
        let plans = Plans::new();
        let own = with(&job("own", &[]), json!({name: value}));
        let jobs = json!([job("root", &[]), own]);
        let id = plans.create(json!({"name": "A plan", "jobs": jobs})).await;
        assert_eq!(
            kept(&plans.model.of(&id), "own")[name],
            value,
            "create: {name}"
        );
        for tool in ["add_copilot_plan_job", "add_copilot_plan_jobs"] {
            let begun = plans
                .ok("scaffold_copilot_plan", json!({"name": "A plan"}))
                .await;
            let id = begun["planId"].as_str().unwrap();
            let add = json!({"planId": id, "jobs": [job("root", &[])]});
            plans.ok("add_copilot_plan_jobs", add).await;
            let add = match tool {
                "add_copilot_plan_job" => with(&own, json!({"planId": id})),
                _ => json!({"planId": id, "jobs": [own]}),
            };
            plans.ok(tool, add).await;
            assert_eq!(
                kept(&plans.model.of(id), "own")[name],
                value,
                "{tool}: {name}"
            );
        }
        if ["baseBranch", "budget"].contains(&name) {
            continue;
        }
        let id = plans
            .create(json!({"name": "A plan", "jobs": [job("root", &[])]}))
            .await;
        let operations = json!([{"type": "add_job", "spec": own}]);
        plans
            .ok(
                "reshape_copilot_plan",
                json!({"planId": id, "operations": operations}),
            )
            .await;
        assert_eq!(
            kept(&plans.model.of(&id), "own")[name],
            value,
            "reshape: {name}"
        );
    }
}

/// Every field of work, in one call; that each alone is kept is shown where work is read.
#[tokio::test]
async fn every_field_of_work_is_kept() {
    let common = json!({"env": {"A": "1"}, "cwd": "sub", "timeoutMs": 5, "idleTimeoutMs": 6,
        "onFailure": {"noAutoHeal": true, "message": "m", "resumeFromPhase": "prechecks"}});
    for work in [
        json!({"type": "shell", "command": "true", "shell": "pwsh", "errorAction": "Stop"}),
        json!({"type": "process", "executable": "true", "args": ["x"]}),
        json!({"type": "agent", "instructionsFile": "a.md", "agent": "claude", "model": "m", "modelTier": "fast",
            "effort": "xhigh", "maxTurns": 500, "resumeSession": true, "allowedFolders": ["/"],
            "allowedUrls": ["*.example.org"]}),
    ] {
        let work = with(&work, common.clone());
        let plans = Plans::new();
        let own = with(&job("one", &[]), json!({"work": work}));
        let id = plans.create(plan(&[own])).await;
        assert_eq!(kept(&plans.model.of(&id), "one")["work"], work);
        let shown = plans
            .ok("get_copilot_job", json!({"planId": id, "jobId": "one"}))
            .await;
        let masked = with(&work, json!({"env": {"A": "***"}}));
        assert_eq!(shown["node"]["work"], masked);
    }
}

#[tokio::test]
async fn finalize_starts_paused_as_told_or_as_scaffolded() {
    let plans = Plans::new();
    for (scaffolded, told, paused) in [
        (json!({}), json!({}), true),
        (json!({"startPaused": false}), json!({}), false),
        (
            json!({"startPaused": false}),
            json!({"startPaused": true}),
            true,
        ),
        (json!({}), json!({"startPaused": false}), false),
    ] {
        let begun = with(&json!({"name": "A plan"}), scaffolded);
        let begun = plans.ok("scaffold_copilot_plan", begun).await;
        let own = json!({"planId": begun["planId"]});
        let (code, _) = plans.refused("finalize_copilot_plan", own.clone()).await;
        assert_eq!(code, "plan-empty");
        plans
            .ok("add_copilot_plan_job", with(&job("one", &[]), own.clone()))
            .await;
        let done = plans.ok("finalize_copilot_plan", with(&own, told)).await;
        assert_eq!(done["paused"], paused);
        assert_eq!(done["jobMapping"].as_object().unwrap().len(), 2);
        assert_eq!(
            plans.refused("finalize_copilot_plan", own).await.0,
            "wrong-plan-state"
        );
    }
}

#[tokio::test]
async fn a_clone_has_the_name_and_the_target_that_are_given() {
    let plans = Plans::new();
    let id = plans.create(plan(&[job("one", &[])])).await;
    let copy = json!({"sourcePlanId": id, "name": "Mine", "targetBranch": "result", "idempotencyKey": "k"});
    let made = plans.ok("clone_copilot_plan", copy.clone()).await;
    let made_id = made["planId"].as_str().unwrap();
    let copied = plans.model.of(made_id);
    assert_eq!(
        (copied.name(), &settings(&copied)["targetBranch"]),
        ("Mine", &json!("result"))
    );
    let again = plans.ok("clone_copilot_plan", copy).await;
    assert_eq!(
        (&again["planId"], &again["repeated"]),
        (&made["planId"], &json!(true))
    );
}

#[tokio::test]
async fn every_argument_of_looking_narrows_what_is_shown() {
    let plans = Plans::new();
    plans.model.fail(&[("one", Phase::Work)]);
    let id = plans.create(plan(&[job("one", &[])])).await;
    plans.model.run(&id);
    plans.ok("retry_copilot_plan", json!({"planId": id})).await;
    plans.model.run(&id);
    let own = json!({"planId": id, "jobId": "one"});
    let attempts = async |more: Value| plans.ok("get_copilot_job_attempts", with(&own, more)).await;
    let all = attempts(json!({})).await;
    assert_eq!(
        (
            &all["totalAttempts"],
            all["attempts"].as_array().unwrap().len()
        ),
        (&json!(2), 2)
    );
    assert!(
        all["attempts"][0]["logs"]
            .as_str()
            .unwrap()
            .contains("includeLogs"),
        "{all}"
    );
    let first = attempts(json!({"attemptNumber": 1})).await;
    assert_eq!(first["attempt"]["attemptNumber"], 1);
    let logs = attempts(json!({"attemptNumber": 2, "includeLogs": true})).await;
    assert!(
        logs["attempt"]["logs"]
            .as_str()
            .unwrap()
            .contains("it went wrong"),
        "{logs}"
    );
    let unknown = with(&own, json!({"attemptNumber": 3}));
    assert_eq!(
        plans.refused("get_copilot_job_attempts", unknown).await.0,
        "attempt-unknown"
    );
    let read = async |more: Value| plans.ok("get_copilot_job_logs", with(&own, more)).await;
    let all = read(json!({})).await;
    let text = all["logs"].as_str().unwrap();
    assert!(text.starts_with("[merge-fi] merge-fi of one\n"), "{text}");
    for phase in ["merge-fi", "work"] {
        let some = read(json!({"phase": phase})).await;
        assert!(
            some["logs"]
                .as_str()
                .unwrap()
                .starts_with(&format!("{phase} of one\n")),
            "{some}"
        );
    }
    for phase in ["setup", "prechecks", "commit", "postchecks", "merge-ri"] {
        assert_eq!(read(json!({"phase": phase})).await["logs"], "");
    }
    assert_eq!(read(json!({"phase": "all"})).await["logs"], all["logs"]);
    assert_eq!(
        read(json!({"tail": 1})).await["logs"],
        "[work] it went wrong\n"
    );
    assert_eq!(
        read(json!({"contains": "WORK OF"})).await["logs"],
        "[work] work of one\n"
    );
    let page = json!({"contains": " of one", "limit": 1, "cursor": "1"});
    assert_eq!(read(page).await["logs"], "[work] work of one\n");
    assert_eq!(
        read(json!({"limit": 1})).await["logs"],
        "[merge-fi] merge-fi of one\n"
    );
    assert_eq!(
        read(json!({"cursor": "1", "limit": 1})).await["logs"],
        "[work] work of one\n"
    );
    assert_eq!(
        read(json!({"cursor": "", "limit": 1})).await["logs"],
        "[merge-fi] merge-fi of one\n"
    );
    assert_eq!(read(json!({"attemptNumber": 1})).await["attemptNumber"], 1);
    assert_eq!(
        plans
            .refused("get_copilot_job_logs", with(&own, json!({"cursor": "x"})))
            .await
            .0,
        "bad-cursor"
    );
}

#[tokio::test]
async fn every_argument_of_update_copilot_plan_changes_it() {
    let plans = Plans::new();
    let other = plans.create(plan(&[job("one", &[])])).await;
    let id = plans.create(plan(&[job("one", &[])])).await;
    let update = async |more: Value| {
        plans
            .ok("update_copilot_plan", with(&json!({"planId": id}), more))
            .await
    };
    assert_eq!(
        update(json!({})).await["updated"],
        json!([]),
        "nothing is no fault"
    );
    let changed = update(json!({"env": {"A": "1"}})).await;
    assert_eq!(
        (&changed["updated"], &changed["env"]),
        (&json!(["env"]), &json!(["A"]))
    );
    assert_eq!(update(json!({"maxParallel": 0})).await["maxParallel"], 0);
    update(json!({"budget": {"tokens": 5}})).await;
    assert_eq!(settings(&plans.model.of(&id))["budget"]["tokens"], 5);
    let waits = update(json!({"resumeAfterPlan": other})).await;
    assert_eq!(
        (&waits["resumeAfterPlan"], &waits["status"]),
        (&json!(other), &json!("pending-start"))
    );
    let free = update(json!({"resumeAfterPlan": ""})).await;
    assert_eq!(free["resumeAfterPlan"], Value::Null);
    let unknown = json!({"planId": id, "resumeAfterPlan": "nobody"});
    assert_eq!(
        plans.refused("update_copilot_plan", unknown).await.0,
        "plan-unknown"
    );
}

#[tokio::test]
async fn every_argument_of_update_copilot_plan_job_changes_it() {
    let plans = Plans::new();
    let id = plans.create(plan(&[job("one", &[])])).await;
    let own = json!({"planId": id, "jobId": "one"});
    for (name, flag) in [
        ("prechecks", "hasNewPrechecks"),
        ("work", "hasNewWork"),
        ("postchecks", "hasNewPostchecks"),
    ] {
        let done = plans
            .ok(
                "update_copilot_plan_job",
                with(&own, json!({name: format!("echo {name}")})),
            )
            .await;
        assert_eq!(done[flag], true);
        assert_eq!(
            kept(&plans.model.of(&id), "one")[name]["command"],
            format!("echo {name}")
        );
    }
    let done = plans
        .ok(
            "update_copilot_plan_job",
            with(&own, json!({"env": {"A": "1"}})),
        )
        .await;
    assert_eq!(
        (&done["hasNewEnv"], &done["hasNewWork"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(kept(&plans.model.of(&id), "one")["env"], json!({"A": "1"}));
    let budget = json!({"tokens": 10, "cost": 2.5, "wallMs": 60_000});
    let done = plans
        .ok(
            "update_copilot_plan_job",
            with(&own, json!({"budget": budget})),
        )
        .await;
    assert_eq!(
        (&done["hasNewBudget"], &done["hasNewEnv"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(kept(&plans.model.of(&id), "one")["budget"], budget);
    let expects = with(&own, json!({"expectsNoChanges": true}));
    plans.ok("update_copilot_plan_job", expects).await;
    assert_eq!(kept(&plans.model.of(&id), "one")["expectsNoChanges"], true);
    assert_eq!(
        plans
            .refused("update_copilot_plan_job", own.clone())
            .await
            .0,
        "nothing-to-do"
    );
    for (stage, phase) in [
        ("prechecks", Phase::Prechecks),
        ("work", Phase::Work),
        ("postchecks", Phase::Postchecks),
    ] {
        let plans = Plans::new();
        plans.model.fail(&[("one", Phase::Postchecks)]);
        let checked = with(
            &job("one", &[]),
            json!({"prechecks": "true", "postchecks": "true"}),
        );
        let id = plans.create(plan(&[checked])).await;
        plans.model.run(&id);
        plans.model.fail(&[]);
        let reset = json!({"planId": id, "jobId": "one", "resetToStage": stage});
        let done = plans.ok("update_copilot_plan_job", reset).await;
        assert_eq!(done["resetToStage"], stage);
        plans.ok("retry_copilot_plan", json!({"planId": id})).await;
        plans.model.run(&id);
        let attempt = plans
            .model
            .of(&id)
            .find("one")
            .unwrap()
            .attempts()
            .last()
            .unwrap()
            .clone();
        // What a person has changed by hand is committed before it is checked.
        let first = attempt
            .spans
            .iter()
            .map(|span| span.act.phase)
            .find(|phase| *phase > Phase::Setup && *phase != Phase::Commit);
        assert_eq!(first, Some(phase), "{stage}");
    }
}

#[tokio::test]
async fn every_argument_of_a_bulk_update_changes_agents() {
    for (name, value) in [
        ("model", json!("m-2")),
        ("modelTier", json!("premium")),
        ("effort", json!("high")),
        ("maxTurns", json!(500)),
        ("resumeSession", json!(true)),
        ("env", json!({"A": "1"})),
    ] {
        let plans = Plans::new();
        let agent = |name: &str| with(&job(name, &[]), json!({"work": "@agent Do it"}));
        let id = plans
            .create(plan(&[agent("one"), agent("two"), job("three", &[])]))
            .await;
        let bulk = json!({"planId": id, "jobIds": ["one"], "updates": {name: value}});
        let done = plans.ok("bulk_update_copilot_plan_jobs", bulk).await;
        assert_eq!(
            (&done["fieldsApplied"], &done["updatedJobs"]),
            (&json!([name]), &json!(["one"]))
        );
        assert_eq!(
            kept(&plans.model.of(&id), "one")["work"][name],
            value,
            "{name}"
        );
        assert_eq!(
            kept(&plans.model.of(&id), "two")["work"][name],
            Value::Null,
            "{name}"
        );
        let none = json!({"planId": id, "updates": {}});
        assert_eq!(
            plans.refused("bulk_update_copilot_plan_jobs", none).await.0,
            "nothing-to-do"
        );
    }
}

#[tokio::test]
async fn every_operation_of_a_reshape_is_done() {
    let plans = Plans::new();
    let id = plans
        .create(plan(&[
            job("one", &[]),
            job("two", &["one"]),
            job("three", &["two"]),
        ]))
        .await;
    let reshape = async |operation: Value| {
        let done = json!({"planId": id, "operations": [operation]});
        plans.ok("reshape_copilot_plan", done).await["topology"].clone()
    };
    let on = |topology: &Value, name: &str| {
        let nodes = topology["nodes"].as_array().unwrap();
        nodes
            .iter()
            .find(|node| node["producerId"] == name)
            .unwrap()["dependencies"]
            .clone()
    };
    let now = reshape(json!({"type": "remove_job", "jobId": "two"})).await;
    assert_eq!(on(&now, "three"), json!(["one"]), "the gap is bridged");
    let now = reshape(json!({"type": "update_deps", "jobId": "three", "dependencies": []})).await;
    assert_eq!(now["roots"], json!(["one", "three"]));
    let now =
        reshape(json!({"type": "add_after", "existingJobId": "one", "spec": job("four", &[])}))
            .await;
    assert_eq!(on(&now, "four"), json!(["one"]));
    let now = reshape(
        json!({"type": "add_before", "existingJobId": "four", "spec": job("five", &["three"])}),
    )
    .await;
    assert_eq!(
        (on(&now, "four"), on(&now, "five")),
        (json!(["five"]), json!(["three", "one"]))
    );
    let now = reshape(json!({"type": "remove_job", "producerId": "four"})).await;
    assert_eq!(now["leaves"], json!(["five"]));
    let cycle = json!([{"type": "update_deps", "jobId": "one", "dependencies": ["five"]}]);
    let done = plans
        .not(
            "reshape_copilot_plan",
            json!({"planId": id, "operations": cycle}),
        )
        .await;
    assert_eq!(done["results"][0]["code"], "dependency-cycle");
}

#[tokio::test]
async fn retries_take_new_work_and_checks_or_take_checks_away() {
    for tool in ["retry_copilot_plan", "retry_copilot_job"] {
        for (argument, field) in [
            ("newWork", "work"),
            ("newPrechecks", "prechecks"),
            ("newPostchecks", "postchecks"),
        ] {
            let plans = Plans::new();
            plans.model.fail(&[("one", Phase::Work)]);
            let checked = with(
                &job("one", &[]),
                json!({"prechecks": "true", "postchecks": "true"}),
            );
            let id = plans.create(plan(&[checked])).await;
            plans.model.run(&id);
            let own = match tool {
                "retry_copilot_job" => json!({"planId": id, "jobId": "one"}),
                _ => json!({"planId": id, "jobIds": ["one"]}),
            };
            plans
                .ok(tool, with(&own, json!({argument: "echo new"})))
                .await;
            assert_eq!(
                kept(&plans.model.of(&id), "one")[field]["command"],
                "echo new"
            );
            plans.model.run(&id);
            let none = with(&own, json!({argument: null}));
            plans.ok(tool, none).await;
            let now = kept(&plans.model.of(&id), "one")[field].clone();
            match argument {
                // Work that is left out stays.
                "newWork" => assert_eq!(now["command"], "echo new"),
                _ => assert_eq!(now, Value::Null, "{tool} {argument}"),
            }
            plans.model.run(&id);
            plans
                .ok(
                    tool,
                    with(
                        &own,
                        json!({"clearWorktree": true, "expectsNoChanges": true}),
                    ),
                )
                .await;
            let plan = plans.model.of(&id);
            assert!(
                plan.find("one").unwrap().upcoming().clear_worktree,
                "{tool}"
            );
            assert_eq!(kept(&plan, "one")["expectsNoChanges"], true, "{tool}");
        }
    }
}

#[tokio::test]
async fn archive_and_recover_do_as_they_are_told() {
    let plans = Plans::new();
    let id = plans.create(plan(&[job("one", &[])])).await;
    plans.model.step(&id);
    let own = json!({"planId": id});
    assert_eq!(
        plans.refused("archive_copilot_plan", own.clone()).await.0,
        "wrong-plan-state"
    );
    let all = json!({"planId": id, "force": true, "deleteRemoteBranches": true});
    let away = plans.ok("archive_copilot_plan", all).await;
    assert_eq!(
        (&away["cleanedBranches"], &away["branches"][1]),
        (&json!(2), &json!("origin/orchestra/x"))
    );
    let put_away = plans.model.put_away().last().copied().unwrap();
    assert_eq!((put_away.1, put_away.2), (true, true));
    for (told, expected) in [
        (json!({}), Value::Null),
        (json!({"useCopilotAgent": true}), Value::Null),
        (json!({"useCopilotAgent": false}), json!(false)),
    ] {
        let plans = Plans::new();
        plans.model.fail(&[("one", Phase::Work)]);
        let agent = with(&job("one", &[]), json!({"work": "@agent Do it"}));
        let id = plans.create(plan(&[agent, job("two", &["one"])])).await;
        plans.model.run(&id);
        let back = plans
            .ok("recover_copilot_plan", with(&json!({"planId": id}), told))
            .await;
        assert_eq!(
            (&back["recoveredNodeCount"], &back["totalNodeCount"]),
            (&json!(3), &json!(3)),
            "{back}"
        );
        assert_eq!(back["recoveredBranch"], "orchestra/x");
        let now = plans.model.of(&id);
        assert_eq!(kept(&now, "one")["work"]["resumeSession"], expected);
        assert_eq!(now.status().name(), "paused");
    }
}

#[tokio::test]
async fn every_argument_of_the_integration_test_is_kept() {
    for (name, value) in [
        ("name", json!("Mine")),
        ("baseBranch", json!("dev")),
        ("targetBranch", json!("result")),
        ("maxParallel", json!(8)),
        ("startPaused", json!(false)),
        ("idempotencyKey", json!("k")),
    ] {
        let plans = Plans::new();
        let made = plans
            .ok("run_copilot_integration_test", json!({name: value}))
            .await;
        let made = plans.model.of(made["planId"].as_str().unwrap());
        assert_eq!(settings(&made)[name], value, "{name}");
    }
}

/// All that changes a plan takes the version that the caller has seen, and a key.
#[tokio::test]
async fn every_change_takes_a_version_and_a_key() {
    let plans = Plans::new();
    let id = plans.create(plan(&[job("one", &[])])).await;
    let own = json!({"planId": id, "version": 99});
    for (tool, more) in [
        ("update_copilot_plan", json!({"maxParallel": 1})),
        (
            "update_copilot_plan_job",
            json!({"jobId": "one", "work": "true"}),
        ),
        (
            "bulk_update_copilot_plan_jobs",
            json!({"updates": {"model": "m"}}),
        ),
        (
            "reshape_copilot_plan",
            json!({"operations": [{"type": "remove_job", "jobId": "one"}]}),
        ),
        ("pause_copilot_plan", json!({})),
        ("resume_copilot_plan", json!({})),
        ("cancel_copilot_plan", json!({})),
        ("delete_copilot_plan", json!({})),
        ("archive_copilot_plan", json!({"force": true})),
        ("recover_copilot_plan", json!({})),
        ("force_fail_copilot_job", json!({"jobId": "one"})),
        ("retry_copilot_plan", json!({})),
        ("retry_copilot_job", json!({"jobId": "one"})),
        ("finalize_copilot_plan", json!({})),
        ("add_copilot_plan_job", job("new", &[])),
        ("add_copilot_plan_jobs", json!({"jobs": [job("new", &[])]})),
    ] {
        let (code, _) = plans.refused(tool, with(&own, more.clone())).await;
        assert_eq!(code, "version-conflict", "{tool}");
        let key = with(&json!({"planId": id, "idempotencyKey": ""}), more);
        let (code, _) = plans.refused(tool, key).await;
        assert_eq!(code, "bad-key", "{tool}");
    }
}
