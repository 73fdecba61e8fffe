//! Agents that run out of context, and leave the rest of their work to others.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use orchestra_plan::{
    ids::PlanId,
    phase::Phase,
    plan::{Job, PhaseStatus, Plan},
    pressure::{Filled, Pressure, Splits},
    status::JobStatus,
    work::WorkSpec,
};
use orchestra_runner::plans::{Closed, Options, Plans};
use serde_json::{Value, json};

use super::rig::{PATIENCE, Rig, create, ended, job, settings, status, succeeded};

/// Asks for a checkpoint, as an agent sees it.
const REQUEST: &str = ".orchestrator/CHECKPOINT_REQUIRED";

/// Options under which contexts are looked at, with agents that do what this script says.
fn options(rig: &Rig, script: &Value) -> Options {
    let path = rig.home().join("script.json");
    fs::write(&path, script.to_string()).unwrap();
    let mut options = Options {
        background: None,
        ..rig.options()
    };
    options.policy.splits = Splits {
        enabled: true,
        ..Splits::default()
    };
    let name = "ORCHESTRA_AGENT_SCRIPT".into();
    options.environment.insert(name, path.into());
    options
}

fn writes(name: &str) -> Value {
    json!({"write": {"path": format!("{name}.txt"), "text": format!("{name}\n")}})
}

fn manifest(value: &Value) -> Value {
    json!({"write": {"path": ".orchestrator/checkpoint-manifest.json", "text": value.to_string()}})
}

fn used(tokens: u64) -> Value {
    json!({"usage": {"input": tokens, "output": 10}})
}

/// What is left of a task of three files.
fn left() -> Value {
    json!({"version": 1, "done": "The first file is written.", "remaining": [
        {"task": "Write the second file", "instructions": "It is second.txt."},
        {"task": "Write the third file"},
    ]})
}

/// A script of an agent that stops after the first of three files, and of those that go on for it.
fn stops(then: Vec<Value>) -> Value {
    let begin = [
        used(90_000),
        used(110_000),
        used(150_000),
        json!({"wait_for": REQUEST}),
        writes("first"),
        json!({"commit": "The first file"}),
    ];
    let all: Vec<Value> = begin.into_iter().chain(then).collect();
    json!({"steps": [
        {"when": {"prompt": "Write the second file"}, "do": [used(10), writes("second"), "complete"]},
        {"when": {"prompt": "Write the third file"}, "do": [writes("third"), "complete"]},
        {"when": {"prompt": "CHECKPOINT_REQUIRED"}, "do": all},
    ]})
}

/// A job that writes three files by an agent, and one that puts them together.
fn jobs() -> Vec<orchestra_plan::spec::JobSpec> {
    let mut large = job("large", &[], "@agent Write three files.");
    let check = "test -f first.txt && test -f second.txt && test -f third.txt";
    large.postchecks = Some(WorkSpec::parse(check).unwrap());
    let all = "cat first.txt second.txt third.txt > all.txt";
    vec![large, job("after", &["large"], all)]
}

fn found<'a>(plan: &'a Plan, name: &str) -> &'a Job {
    plan.find(name).unwrap()
}

/// Whether all that the large job was to do is in the result, by it and by those that followed it.
fn is_whole(rig: &Rig, plan: &Plan) {
    assert_eq!(rig.file("result", "all.txt"), "first\nsecond\nthird\n");
    let large = found(plan, "large");
    let is_split = |status| status == JobStatus::CompletedSplit;
    assert!(large.history().any(|change| is_split(change.to)));
    assert_eq!(large.attempts().len(), 1);
    for name in ["large-sub-1", "large-sub-2", "large-fan-in", "after"] {
        assert_eq!(status(plan, name), JobStatus::Succeeded, "{name}");
    }
    let checked = found(plan, "large-fan-in").phase(Phase::Postchecks);
    assert_eq!(checked, PhaseStatus::Success);
    let own = rig.git(&["ls-tree", "-r", "--name-only", "result"]);
    assert!(!own.contains(".orchestrator"), "{own}");
}

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The worktree of a job, once it is there.
async fn worktree(plans: &Plans, id: PlanId, name: &str) -> PathBuf {
    let mut path = None;
    until("a worktree", async || {
        let plan = plans.plan(id).await.unwrap();
        path = found(&plan, name).worktree().map(PathBuf::from);
        path.is_some()
    })
    .await;
    path.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_says_at_its_very_end_is_shown() {
    let rig = Rig::new();
    let script = json!({"steps": [{"do": [writes("one"), used(150_000), "complete"]}]});
    let plans = Plans::new(options(&rig, &script));
    let jobs = vec![job("one", &[], "@agent Write one file.")];
    let made = create(&plans, settings("Quick"), jobs).await;
    let plan = succeeded(&plans, made.plan).await;
    let full = Filled {
        level: Pressure::Critical,
        used: 150_000,
        limit: 200_000,
    };
    assert_eq!(found(&plan, "one").attempt().unwrap().filled, Some(full));
    assert_eq!(status(&plan, "one"), JobStatus::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_context_fills_up_leaves_the_rest_to_jobs_of_their_own() {
    let rig = Rig::new();
    let plans = Plans::new(options(
        &rig,
        &stops(vec![manifest(&left()), json!("complete")]),
    ));
    let made = create(&plans, settings("Split"), jobs()).await;
    let plan = succeeded(&plans, made.plan).await;
    is_whole(&rig, &plan);
    let filled = Filled {
        level: Pressure::Critical,
        used: 150_000,
        limit: 200_000,
    };
    assert_eq!(found(&plan, "large").attempts()[0].filled, Some(filled));
    assert_eq!(found(&plan, "large-sub-1").attempts()[0].filled, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_left_is_found_by_a_runner_that_comes_later() {
    let rig = Rig::new();
    let then = vec![
        json!({"wait_for": ".orchestrator/go"}),
        manifest(&left()),
        json!("complete"),
    ];
    let options = options(&rig, &stops(then));
    let first = Plans::new(options.clone());
    let made = create(&first, settings("Taken up"), jobs()).await;
    let path = worktree(&first, made.plan, "large").await;
    until("a request", async || path.join(REQUEST).exists()).await;
    assert_eq!(first.close(PATIENCE).await.unwrap(), Closed::Stopped);
    fs::write(path.join(".orchestrator/go"), "").unwrap();
    let left = path.join(".orchestrator/checkpoint-manifest.json");
    until("the manifest", async || left.exists()).await;
    let second = Plans::new(options);
    assert!(second.attend().await.unwrap());
    let plan = succeeded(&second, made.plan).await;
    is_whole(&rig, &plan);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_asked_only_where_that_is_configured_and_not_too_deep() {
    let rig = Rig::new();
    let script = json!({"steps": [
        {"when": {"prompt": "CHECKPOINT_REQUIRED"}, "do": [{"exit": 3}]},
        {"do": [used(190_000), writes("first"), writes("second"), writes("third"), "complete"]},
    ]});
    for enabled in [false, true] {
        let mut options = options(&rig, &script);
        options.policy.splits.enabled = enabled;
        options.policy.splits.depth_max = 0;
        let plans = Plans::new(options);
        let mut own = settings("Whole");
        own.target_branch = None;
        let made = create(&plans, own, jobs()).await;
        let plan = succeeded(&plans, made.plan).await;
        assert!(plan.find("large-sub-1").is_err());
        let filled = found(&plan, "large").attempts()[0].filled;
        assert!(filled.is_none() || enabled);
        plans.close(PATIENCE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_agent_says_wrongly_what_is_left_fails_with_words() {
    let rig = Rig::new();
    let pieces: Vec<Value> = (0..9).map(|at| json!({"task": format!("{at}")})).collect();
    let much = json!({"version": 1, "remaining": pieces});
    let plans = Plans::new(options(
        &rig,
        &stops(vec![manifest(&much), json!("complete")]),
    ));
    let mut jobs = jobs();
    jobs[0].auto_heal = false;
    let made = create(&plans, settings("Wrong"), jobs).await;
    let plan = ended(&plans, made.plan).await;
    let error = found(&plan, "large").error().unwrap();
    assert!(error.contains("must have 1 to 8 pieces"), "{error}");
}
