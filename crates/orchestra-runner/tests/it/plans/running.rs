//! A plan from its creation to its merged branch.

use std::io::Read;

use orchestra_plan::{spec::PlanSettings, status::JobStatus, work::WorkSpec};
use orchestra_runner::plans::{Plans, Standing};

use super::rig::{Rig, create, job, settings, status, succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_before_something_is_asked_for() {
    let rig = Rig::new();
    let plans = rig.plans();
    assert!(plans.list().await.unwrap().is_empty());
    assert!(!plans.attend().await.unwrap());
    assert_eq!(plans.standing(), Standing::Apart);
    assert!(!rig.root.join(".orchestrator").exists());
    let error = plans.find("no such plan").await.unwrap_err();
    assert_eq!(error.code(), "plan-unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_and_its_change_is_merged() {
    let rig = Rig::new();
    let plans = rig.plans();
    let made = create(
        &plans,
        settings("One"),
        vec![job("one", &[], "echo hello > a.txt")],
    )
    .await;
    let plan = succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "a.txt"), "hello\n");
    assert_eq!(rig.git(&["status", "--porcelain"]), "");
    let subject = rig.git(&["log", "--format=%s", "-1", "result"]);
    assert_eq!(subject, "[Plan] Do one\n");
    assert!(plan.validation().unwrap().merged().is_some());
    // A second process reads it.
    let mut show = rig.process(&["show", &made.plan.to_string()]);
    let mut said = String::new();
    show.stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(show.wait().unwrap().success());
    assert_eq!(said, "One succeeded\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn git_does_not_see_a_plan_that_was_made_and_not_started() {
    let rig = Rig::new();
    let plans = rig.plans();
    let paused = PlanSettings {
        start_paused: true,
        ..settings("Later")
    };
    create(&plans, paused, vec![job("one", &[], "true")]).await;
    assert!(rig.storage().join("plans.db").exists());
    assert_eq!(rig.git(&["status", "--porcelain"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diamond_with_a_failing_check_is_healed_and_merged() {
    let rig = Rig::empty();
    let script = rig.home().join("script.json");
    let text = r#"{"steps": [
        {"when": {"prompt": "postchecks"}, "do": [
            {"write": {"path": "right.txt", "text": "right\n"}},
            {"usage": {"input": 10, "output": 5}}, "complete"]}
    ]}"#;
    std::fs::write(&script, text).unwrap();
    let mut options = rig.options();
    options
        .environment
        .insert("ORCHESTRA_AGENT_SCRIPT".into(), script.into());
    let plans = Plans::new(options);
    let mut right = job("right", &["top"], "echo wrong > right.txt");
    right.postchecks = Some(WorkSpec::parse("grep -qx right right.txt").unwrap());
    let jobs = vec![
        job("top", &[], "echo top > top.txt"),
        job("left", &["top"], "cat top.txt > left.txt"),
        right,
        job(
            "bottom",
            &["left", "right"],
            "cat left.txt right.txt > bottom.txt",
        ),
    ];
    let made = create(&plans, settings("Diamond"), jobs).await;
    let plan = succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "bottom.txt"), "top\nright\n");
    let right = plan.find("right").unwrap();
    assert_eq!(right.attempts().len(), 2);
    assert_eq!(right.usage().tokens(), 15);
    assert_eq!(status(&plan, "bottom"), JobStatus::Succeeded);
    assert_eq!(rig.git(&["status", "--porcelain"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_followed_its_session_taken_up_and_its_budget_held() {
    let rig = Rig::new();
    let script = rig.home().join("script.json");
    let text = r#"{"steps": [
        {"when": {"prompt": "spend"}, "do": [
            {"usage": {"input": 600, "output": 0}}, {"usage": {"input": 600, "output": 0}}, "hang"]},
        {"when": {"run": 1}, "do": [{"write": {"path": "a.txt", "text": "begun\n"}}, {"signal": "kill"}]},
        {"when": {"run": 2}, "do": [{"append": {"path": "a.txt", "text": "ended\n"}}, "complete"]}
    ]}"#;
    std::fs::write(&script, text).unwrap();
    let mut options = rig.options();
    options
        .environment
        .insert("ORCHESTRA_AGENT_SCRIPT".into(), script.into());
    let plans = Plans::new(options);
    let made = create(
        &plans,
        settings("Agent"),
        vec![job("writes", &[], "@agent Write the file.")],
    )
    .await;
    let plan = succeeded(&plans, made.plan).await;
    let attempts = plan.find("writes").unwrap().attempts();
    assert_eq!(attempts.len(), 2);
    let session = attempts[0].session.as_deref();
    assert!(session.is_some());
    assert_eq!(attempts[1].session.as_deref(), session);
    assert_eq!(rig.file("result", "a.txt"), "begun\nended\n");

    let mut spends = job("spends", &[], "@agent Please spend.");
    spends.budget = serde_json::from_str(r#"{"tokens": 1000}"#).unwrap();
    let made = create(&plans, settings("Spent"), vec![spends]).await;
    let plan = super::rig::ended(&plans, made.plan).await;
    let job = plan.find("spends").unwrap();
    assert_eq!(job.status(), JobStatus::Failed);
    assert!(
        job.error().unwrap().contains("1200 tokens used of 1000"),
        "{:?}",
        job.error()
    );
}
