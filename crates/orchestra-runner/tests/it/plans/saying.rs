//! What is said of jobs: how their acts ended, what they wait for, and what nobody can mend.

use std::time::{Duration, Instant};

use orchestra_plan::{
    command::Command,
    status::{JobStatus, PlanStatus},
};
use orchestra_runner::{
    holder::Slots,
    logs::{Query, Stream},
    plans::{Caller, Machine, Plans},
};

use super::rig::{PATIENCE, Rig, create, ended, job, settings, status, succeeded};

/// What the runner itself has said on the log of a job's only attempt.
async fn said(plans: &Plans, plan: &orchestra_plan::plan::Plan, job: &str) -> Vec<String> {
    let log = plans.log_of(plan, job, None).unwrap().unwrap();
    let page = plans.read_log(&log, Query::default()).await.unwrap();
    let ours = page
        .lines
        .into_iter()
        .filter(|line| line.stream == Stream::Runner);
    ours.map(|line| line.text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_to_its_end_is_not_said_to_have_ended_before() {
    let rig = Rig::new();
    let plans = rig.plans();
    // Which of two things is heard first is left to chance.
    let names: Vec<String> = (0..12).map(|number| format!("job-{number}")).collect();
    let mut jobs: Vec<_> = names
        .iter()
        .map(|name| job(name, &[], &format!("echo done > {name}")))
        .collect();
    jobs.push(job("fails", &[], "exit 7"));
    let made = create(&plans, settings("Well"), jobs).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(status(&plan, "fails"), JobStatus::Failed);
    // It may say so after the attempt is over.
    plans.close(PATIENCE).await.unwrap();
    for name in names.iter().map(String::as_str).chain(["fails"]) {
        let lines = said(&plans, &plan, name).await;
        let wrong = lines.iter().find(|line| line.contains("before its end"));
        assert_eq!(wrong, None, "{name}: {lines:#?}");
        assert!(lines.len() > 1, "{name}: {lines:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_canceled_is_said_to_have_ended_before_its_end() {
    let rig = Rig::new();
    let plans = rig.plans();
    let began = rig.home().join("began");
    let line = format!("touch '{}'; sleep 1000", began.display());
    let made = create(&plans, settings("Long"), vec![job("long", &[], &line)]).await;
    tokio::time::timeout(PATIENCE, async {
        while !began.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let cancel = Command::Cancel { reason: None };
    let caller = Caller::default();
    plans.command(made.plan, cancel, &caller).await.unwrap();
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Canceled);
    plans.close(PATIENCE).await.unwrap();
    let lines = said(&plans, &plan, "long").await;
    assert!(
        lines.contains(&"work: ended before its end".to_owned()),
        "{lines:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_slot_of_the_machine_says_so() {
    let rig = Rig::new();
    let directory = rig.home().join("slots");
    let others = Slots::new(&directory, "jobs", 2).unwrap();
    let taken = [0, 1].map(|_| others.try_acquire().unwrap().unwrap());
    let mut options = rig.options();
    options.machine = Some(Machine {
        directory,
        slots: 2,
    });
    let plans = Plans::new(options.clone());
    let made = create(
        &plans,
        settings("Waits"),
        vec![job("one", &[], "echo 1 > one.txt")],
    )
    .await;
    // Whoever looks sees it, in any process.
    let other = Plans::new(options);
    let end = Instant::now() + PATIENCE;
    loop {
        let plan = other.plan(made.plan).await.unwrap();
        let waiting = other.waiting(&plan).await.unwrap();
        let one = plan.find("one").unwrap().id();
        let (_, waits) = waiting.iter().find(|(job, _)| job == one).unwrap();
        let words = waits.to_string();
        if words == "waiting for: a slot of this machine (2 of 2 are taken; machine_jobs)" {
            break;
        }
        assert!(Instant::now() < end, "{words}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(taken);
    succeeded(&plans, made.plan).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_is_there_to_heal_says_so() {
    let rig = Rig::new();
    let mut options = rig.options();
    options.policy.has_healer = false;
    let plans = Plans::new(options);
    let healed = job("healed", &[], "exit 3");
    let mut left = job("left", &[], "exit 3");
    left.auto_heal = false;
    let made = create(&plans, settings("Alone"), vec![healed, left]).await;
    let plan = ended(&plans, made.plan).await;
    let words = |name: &str| plan.find(name).unwrap().error().unwrap().to_owned();
    let said = "not healed: no agent is named for it";
    assert!(words("healed").contains(said), "{}", words("healed"));
    assert!(!words("left").contains(said), "{}", words("left"));
}
