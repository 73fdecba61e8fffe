//! What the tools answer: the fields of section 6.

use orchestra_plan::phase::Phase;
use serde_json::{Value, json};

use super::{Plans, job, plan, with};

fn has(answer: &Value, fields: &str) {
    for field in fields.split_whitespace() {
        let found = answer.pointer(&format!("/{}", field.replace('.', "/")));
        assert!(
            found.is_some_and(|found| !found.is_null()),
            "{field} in {answer}"
        );
    }
}

#[tokio::test]
async fn answers_have_the_fields_of_section_6() {
    let plans = Plans::new();
    plans.model.fail(&[("two", Phase::Work)]);
    let grouped = with(&job("one", &[]), json!({"group": "build"}));
    let made = plans
        .ok(
            "create_copilot_plan",
            plan(&[grouped, job("two", &["one"])]),
        )
        .await;
    has(
        &made,
        "planId name paused message jobMapping.one jobMapping.__snapshot-validation__ status.status \
        status.nodes status.roots status.leaves warnings",
    );
    assert_eq!(
        (&made["status"]["roots"], &made["status"]["leaves"]),
        (&json!(1), &json!(1))
    );
    assert!(
        made["warnings"][0].as_str().unwrap().contains("postchecks"),
        "{made}"
    );
    let id = made["planId"].as_str().unwrap();
    let own = json!({"planId": id});
    let one = json!({"planId": id, "jobId": "one"});
    plans.model.run(id);
    let status = plans.ok("get_copilot_plan_status", own.clone()).await;
    has(
        &status,
        "planId name status progress counts.succeeded nodes.0.id nodes.0.producerId nodes.0.name \
        nodes.0.type nodes.0.group nodes.0.status nodes.0.attempts nodes.0.startedAt nodes.0.endedAt \
        nodes.0.completedCommit nodes.1.error groups.build.status groups.build.nodes createdAt startedAt \
        endedAt stateVersion baseBranch targetBranch nodes.0.worktreePath nodes.1.mergedToTarget totalNodes",
    );
    assert_eq!(
        (&status["status"], &status["progress"]),
        (&json!("failed"), &json!(100))
    );
    let listed = plans.ok("list_copilot_plans", json!({})).await;
    has(
        &listed,
        "count Plans.0.id Plans.0.name Plans.0.status Plans.0.nodes Plans.0.counts.failed \
        Plans.0.createdAt Plans.0.startedAt Plans.0.endedAt",
    );
    let graph = plans.ok("get_copilot_plan_graph", own.clone()).await;
    has(
        &graph,
        "planId name nodeCount mermaid nodes.0.producerId nodes.0.name nodes.0.status nodes.0.group \
        nodes.0.dependsOn nodes.0.dependedOnBy",
    );
    let mermaid = graph["mermaid"].as_str().unwrap();
    assert!(
        mermaid.starts_with("flowchart LR") && mermaid.contains("subgraph"),
        "{mermaid}"
    );
    let shown = plans.ok("get_copilot_job", one.clone()).await;
    has(
        &shown,
        "node.id node.producerId node.name node.type node.dependencies node.dependents.0.producerId \
        node.task node.work state.status state.attempts state.scheduledAt state.startedAt state.endedAt \
        state.baseCommit state.completedCommit state.isLeaf planId groupId groupName",
    );
    has(
        &plans.ok("list_copilot_jobs", own.clone()).await,
        "count nodes.0.id nodes.0.producerId nodes.0.name \
        nodes.0.type nodes.0.status nodes.0.attempts nodes.0.groupId nodes.0.groupName nodes.0.startedAt",
    );
    has(
        &plans.ok("get_copilot_job_logs", one.clone()).await,
        "planId jobId jobName phase logs",
    );
    has(
        &plans.ok("get_copilot_job_attempts", one).await,
        "totalAttempts attempts.0.attemptNumber \
        attempts.0.status attempts.0.triggerType attempts.0.stepStatuses attempts.0.logs",
    );
    let two = json!({"planId": id, "jobId": "two"});
    has(
        &plans
            .ok("get_copilot_job_failure_context", two.clone())
            .await,
        "nodeId producerId name planId \
        failedPhase error attempts worktreePath lastAttempt logs.0.timestamp logs.0.phase logs.0.type \
        logs.0.message",
    );
    has(
        &plans.ok("retry_copilot_plan", own.clone()).await,
        "retriedNodes.0.id retriedNodes.0.name errors message",
    );
    plans.model.run(id);
    has(
        &plans.ok("retry_copilot_job", two).await,
        "message jobId jobName",
    );
    for tool in [
        "pause_copilot_plan",
        "resume_copilot_plan",
        "cancel_copilot_plan",
    ] {
        has(
            &plans.ok(tool, own.clone()).await,
            "message planId status stateVersion",
        );
    }
    has(
        &plans.ok("recover_copilot_plan", own.clone()).await,
        "recoveredBranch recoveredNodeCount \
        recoveredNodes.0.id totalNodeCount message",
    );
    let away = plans
        .ok("archive_copilot_plan", with(&own, json!({"force": true})))
        .await;
    has(
        &away,
        "cleanedWorktrees cleanedBranches worktrees branches message",
    );
    has(
        &plans.ok("delete_copilot_plan", own.clone()).await,
        "message",
    );
    assert_eq!(
        plans.refused("get_copilot_plan_status", own).await.0,
        "plan-unknown"
    );
}

#[tokio::test]
async fn a_scaffolded_plan_is_answered_as_section_6_says() {
    let plans = Plans::new();
    let begun = plans
        .ok("scaffold_copilot_plan", json!({"name": "Begun"}))
        .await;
    has(&begun, "planId specsDir message");
    let own = json!({"planId": begun["planId"]});
    let hard =
        "Write parser.rs, crypto.rs, protocol.rs, state-machine.rs, tls.rs and tests for each. "
            .repeat(20);
    let hard = with(&job("one", &[]), json!({"work": format!("@agent {hard}")}));
    let added = plans
        .ok("add_copilot_plan_job", with(&hard, own.clone()))
        .await;
    has(&added, "jobId message complexityWarning");
    assert_eq!(added["jobId"], "one");
    let more = plans
        .ok(
            "add_copilot_plan_jobs",
            with(&own, json!({"jobs": [job("two", &["one"])]})),
        )
        .await;
    has(&more, "added total results.0.producerId results.0.success");
    let again = with(&job("one", &[]), own.clone());
    assert_eq!(
        plans.refused("add_copilot_plan_job", again).await.0,
        "duplicate-producer-id"
    );
    let done = plans.ok("finalize_copilot_plan", own.clone()).await;
    has(
        &done,
        "planId name paused message jobMapping status.nodes warnings",
    );
    let copy = plans
        .ok(
            "clone_copilot_plan",
            json!({"sourcePlanId": done["planId"]}),
        )
        .await;
    has(
        &copy,
        "planId sourcePlanId name jobsCloned message warnings",
    );
    has(
        &plans
            .ok("update_copilot_plan", with(&own, json!({"maxParallel": 2})))
            .await,
        "updated message env maxParallel",
    );
    let edit = json!({"jobId": "one", "work": "true", "resetToStage": "work"});
    has(
        &plans.ok("update_copilot_plan_job", with(&own, edit)).await,
        "message jobId jobName hasNewPrechecks \
        hasNewWork hasNewPostchecks resetToStage",
    );
    let bulk = plans
        .ok(
            "bulk_update_copilot_plan_jobs",
            with(&own, json!({"updates": {"model": "m"}})),
        )
        .await;
    has(
        &bulk,
        "updated skipped skippedDetails.0.id skippedDetails.0.reason updatedJobs fieldsApplied message",
    );
    let operations = json!({"operations": [{"type": "remove_job", "jobId": "two"}]});
    has(
        &plans
            .ok("reshape_copilot_plan", with(&own, operations))
            .await,
        "planId results.0.operation \
        results.0.success results.0.nodeId topology.nodeCount topology.roots topology.leaves \
        topology.nodes.0.id topology.nodes.0.producerId topology.nodes.0.dependencies topology.nodes.0.dependents",
    );
}

/// Whoever makes a plan that is none is told what is wrong, and by which code.
#[tokio::test]
async fn plans_that_are_none_are_refused_with_codes() {
    let plans = Plans::new();
    let twice = [job("one", &[]), job("one", &[])];
    let circle = [job("one", &["two"]), job("two", &["one"])];
    let work = |work: Value| vec![with(&job("one", &[]), json!({"work": work}))];
    for (jobs, code, told) in [
        (twice.to_vec(), "duplicate-producer-id", "one"),
        (
            vec![job("one", &["nobody"])],
            "unknown-dependency",
            "nobody",
        ),
        (vec![job("one", &["one"])], "self-dependency", "one"),
        (circle.to_vec(), "dependency-cycle", "one"),
        (vec![], "invalid-arguments", "jobs"),
        (
            vec![job("__snapshot-validation__", &[])],
            "invalid-arguments",
            "producerId",
        ),
        (
            work(json!({"type": "shell"})),
            "invalid-arguments",
            "command",
        ),
        (
            work(json!({"type": "shell", "command": "x", "args": []})),
            "invalid-arguments",
            "args",
        ),
        (
            work(json!({"type": "shell", "command": "x 2>&1", "shell": "pwsh"})),
            "invalid-arguments",
            "2>&1",
        ),
        (
            work(json!({"type": "agent", "instructions": "x", "cwd": "../up"})),
            "invalid-arguments",
            "cwd",
        ),
    ] {
        let (found, error) = plans.refused("create_copilot_plan", plan(&jobs)).await;
        assert!(found == code && error.contains(told), "{found}: {error}");
    }
}

#[tokio::test]
async fn the_integration_test_ends_as_its_jobs_say() {
    let plans = Plans::new();
    let made = plans
        .ok(
            "run_copilot_integration_test",
            json!({"startPaused": false}),
        )
        .await;
    has(
        &made,
        "planId name status jobCount scriptCount jobs.root-setup descriptions.always-fails instructions.0 note",
    );
    assert_eq!(
        (&made["jobCount"], &made["scriptCount"]),
        (&json!(11), &json!(4))
    );
    let id = made["planId"].as_str().unwrap();
    plans.model.fail(&[
        ("always-fails", Phase::Work),
        ("postchecks-fail", Phase::Postchecks),
    ]);
    plans.model.run(id);
    let status = plans
        .ok("get_copilot_plan_status", json!({"planId": id}))
        .await;
    assert_eq!(status["status"], "failed");
    for node in status["nodes"].as_array().unwrap() {
        let name = node["producerId"].as_str().unwrap();
        let expected = match name {
            "always-fails" | "postchecks-fail" => "failed",
            "blocked-downstream" | "__snapshot-validation__" => "blocked",
            _ => "succeeded",
        };
        assert_eq!(node["status"], expected, "{name}");
    }
}

#[tokio::test]
async fn the_integration_test_says_what_it_proves() {
    let ask = json!({"startPaused": false, "idempotencyKey": "k"});
    let begun = async |failing: &[(&str, Phase)]| {
        let plans = Plans::new();
        plans.model.fail(failing);
        let made = plans.ok("run_copilot_integration_test", ask.clone()).await;
        assert_eq!(made["verdict"], "not-ended", "{made}");
        let id = made["planId"].as_str().unwrap().to_owned();
        (plans, id)
    };
    let failing = [
        ("always-fails", Phase::Work),
        ("postchecks-fail", Phase::Postchecks),
    ];
    let (plans, id) = begun(&failing).await;
    plans.model.run(&id);
    let proved = plans.ok("run_copilot_integration_test", ask.clone()).await;
    assert_eq!(
        (&proved["verdict"], &proved["status"]),
        (&json!("proved"), &json!("failed")),
        "{proved}"
    );
    // A job that should have failed has not, and one that should not has.
    let (plans, id) = begun(&[("always-fails", Phase::Work), ("no-changes", Phase::Work)]).await;
    plans.model.run(&id);
    let not = plans.not("run_copilot_integration_test", ask.clone()).await;
    assert_eq!(not["verdict"], "disproved", "{not}");
    let expected =
        json!({"final-merge": "blocked", "no-changes": "failed", "postchecks-fail": "succeeded"});
    assert_eq!(not["unexpected"], expected);
    let (plans, id) = begun(&failing).await;
    plans.model.step(&id);
    plans.ok("cancel_copilot_plan", json!({"planId": id})).await;
    let canceled = plans.ok("run_copilot_integration_test", ask.clone()).await;
    assert_eq!(
        (&canceled["verdict"], &canceled["unexpected"]),
        (&json!("canceled"), &Value::Null),
        "{canceled}"
    );
}

/// What is to be known of a change is told with it, whichever tool makes it.
#[tokio::test]
async fn warnings_are_told_by_every_tool_that_brings_work() {
    let plans = Plans::new();
    plans.model.fail(&[("one", Phase::Work)]);
    let id = plans.create(plan(&[job("one", &[])])).await;
    let begun = plans
        .ok("scaffold_copilot_plan", json!({"name": "Begun"}))
        .await;
    plans.model.warn("mind this");
    let own = json!({"planId": id});
    let begun = json!({"planId": begun["planId"]});
    let one = with(&own, json!({"jobId": "one"}));
    plans.model.run(&id);
    for (tool, plan, more) in [
        ("add_copilot_plan_job", &begun, job("two", &[])),
        (
            "add_copilot_plan_jobs",
            &begun,
            json!({"jobs": [job("three", &[])]}),
        ),
        ("finalize_copilot_plan", &begun, json!({})),
        ("update_copilot_plan", &own, json!({"env": {"A": "1"}})),
        ("update_copilot_plan_job", &one, json!({"work": "true"})),
        (
            "bulk_update_copilot_plan_jobs",
            &own,
            json!({"updates": {"env": {"A": "1"}}}),
        ),
        ("retry_copilot_job", &one, json!({"newWork": "true"})),
        (
            "reshape_copilot_plan",
            &own,
            json!({"operations": [{"type": "add_job", "spec": job("four", &[])}]}),
        ),
    ] {
        let done = plans.ok(tool, with(plan, more)).await;
        let told = done["warnings"].as_array().unwrap();
        assert!(told.contains(&json!("mind this")), "{tool}: {done}");
    }
    plans.model.run(&id);
    let done = plans.ok("retry_copilot_plan", own).await;
    assert_eq!(done["warnings"], json!(["mind this"]));
}

/// The text is the same as the structure, or TOON where that was asked for.
#[tokio::test]
async fn answers_come_as_toon_where_that_is_asked_for() {
    let model = super::Model::new();
    let options = orchestra_tools::Options {
        plans: Some(std::sync::Arc::new(model)),
        text: orchestra_tools::TextFormat::Toon,
        ..orchestra_tools::Options::default()
    };
    let bench = crate::bench::Bench::with(options);
    let made = bench
        .call("create_copilot_plan", plan(&[job("one", &[])]))
        .await;
    assert!(made.text.starts_with("success: true"), "{}", made.text);
    assert_eq!(made.value["success"], true);
}

#[tokio::test]
async fn of_many_jobs_that_are_brought_back_the_first_are_named() {
    let plans = Plans::new();
    plans.model.fail(&[("job-0", Phase::Work)]);
    let others = (1..500).map(|at| job(&format!("job-{at}"), &["job-0"]));
    let jobs: Vec<Value> = std::iter::once(job("job-0", &[])).chain(others).collect();
    let id = plans.create(plan(&jobs)).await;
    plans.model.run(&id);
    let back = plans
        .ok("recover_copilot_plan", json!({"planId": id}))
        .await;
    assert_eq!(
        (&back["recoveredNodeCount"], &back["totalNodeCount"]),
        (&json!(501), &json!(501))
    );
    assert_eq!(back["recoveredNodes"].as_array().unwrap().len(), 20);
    assert_eq!(back["recoveredNodes"][0]["name"], "job-0");
    let message = back["message"].as_str().unwrap();
    assert!(message.contains("list_copilot_jobs"), "{message}");
    assert!(back.to_string().len() < 3_000, "{back}");
}
