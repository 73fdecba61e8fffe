//! Who runs the plans leaves, and they go on.

use std::time::{Duration, Instant};

use orchestra_plan::ids::AttemptNumber;
use orchestra_runner::{
    logs::Query,
    plans::{Closed, Standing},
};
use rustix::process::{Pid, test_kill_process};

use super::rig::{PATIENCE, Rig, at_last, create, gated, job, settings, succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_in_the_background_when_its_runner_leaves() {
    let rig = Rig::new();
    let first = rig.plans();
    let (began, gate) = (rig.home().join("began"), rig.home().join("gate"));
    let line = format!(
        "echo began; {}",
        gated(&began, &gate, "echo done > slow.txt")
    );
    let jobs = vec![
        job("slow", &[], &line),
        job("next", &["slow"], "cp slow.txt next.txt"),
    ];
    let made = create(&first, settings("Long"), jobs).await;
    at_last("the first job", || began.exists()).await;
    assert_eq!(first.close(PATIENCE).await.unwrap(), Closed::HandedOver);
    assert_eq!(first.standing(), Standing::Ended);

    let second = rig.plans();
    assert!(second.attend().await.unwrap());
    std::fs::write(&gate, "").unwrap();
    let plan = succeeded(&second, made.plan).await;
    assert_eq!(rig.file("result", "next.txt"), "done\n");
    assert_eq!(plan.find("slow").unwrap().attempts().len(), 1);
    let log = second
        .log_of(&plan, "slow", Some(AttemptNumber::FIRST))
        .unwrap()
        .unwrap();
    let query = Query {
        contains: Some("began".to_owned()),
        ..Query::default()
    };
    let page = second.read_log(&log, query).await.unwrap();
    assert!(page.lines.iter().any(|line| line.text == "began"));
    let Standing::Follows(holder) = second.standing() else {
        panic!("{:?}", second.standing());
    };
    assert_eq!(second.close(PATIENCE).await.unwrap(), Closed::Left);
    // It ends without clients, and the runtime reaps it, since it is our child.
    let holder = Pid::from_raw(holder.cast_signed()).unwrap();
    at_last("the end of the holder", || {
        test_kill_process(holder).is_err()
    })
    .await;
    // Nothing lies beside the database that nobody uses.
    for name in ["plans.db-wal", "plans.db-shm", "runner.log", "runner.json"] {
        let left = rig.storage().join(name);
        let said = std::fs::read_to_string(&left).unwrap_or_default();
        assert!(!left.exists(), "{name} is left: {said}");
    }
}

/// As somebody does who resumes a plan from the shell.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_in_the_background_though_who_resumed_it_leaves_at_once() {
    for round in 0..12 {
        let rig = Rig::new();
        let mut paused = settings("Resumed");
        paused.start_paused = true;
        let first = rig.plans();
        let made = create(&first, paused, vec![job("one", &[], "echo 1 > one.txt")]).await;
        assert_eq!(first.close(PATIENCE).await.unwrap(), Closed::Idle);
        let second = rig.plans();
        let resume = orchestra_plan::command::Command::Resume;
        let caller = orchestra_runner::plans::Caller::default();
        second.command(made.plan, resume, &caller).await.unwrap();
        let closed = second.close(PATIENCE).await.unwrap();
        assert_eq!(closed, Closed::HandedOver, "round {round}");
        // Nobody but the background runner runs it: this one only looks.
        let looks = rig.plans();
        let end = Instant::now() + PATIENCE;
        while !looks.plan(made.plan).await.unwrap().status().is_ended() {
            assert!(Instant::now() < end, "round {round}: nobody runs it");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(looks.standing(), Standing::Apart);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_takes_up_the_plans_of_a_holder_that_is_killed() {
    let rig = Rig::new();
    let setup = rig.plans();
    let (began, gate) = (rig.home().join("began"), rig.home().join("gate"));
    let jobs = vec![
        job("slow", &[], &gated(&began, &gate, "echo done > slow.txt")),
        job("next", &["slow"], "cp slow.txt next.txt"),
    ];
    let mut paused = settings("Long");
    paused.start_paused = true;
    let made = create(&setup, paused, jobs).await;
    assert_eq!(setup.close(PATIENCE).await.unwrap(), Closed::Idle);
    let mut holder = rig.process(&["attend"]);
    let follower = rig.plans();
    at_last("a holder", || rig.storage().join("runner.json").exists()).await;
    let end = Instant::now() + PATIENCE;
    loop {
        follower.attend().await.unwrap();
        match follower.standing() {
            Standing::Follows(_) => break,
            Standing::Holds => panic!("the other one was slower"),
            other => assert!(Instant::now() < end, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let resume = orchestra_plan::command::Command::Resume;
    let caller = orchestra_runner::plans::Caller::default();
    let answer = follower.command(made.plan, resume, &caller).await.unwrap();
    assert!(answer.changed);
    let refused = follower
        .command(
            made.plan,
            orchestra_plan::command::Command::Recover,
            &caller,
        )
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "wrong-plan-state");
    at_last("the first job", || began.exists()).await;
    holder.kill().unwrap();
    holder.wait().unwrap();
    std::fs::write(&gate, "").unwrap();
    let plan = succeeded(&follower, made.plan).await;
    assert_eq!(follower.standing(), Standing::Holds);
    assert_eq!(plan.find("slow").unwrap().attempts().len(), 1);
    assert_eq!(rig.file("result", "next.txt"), "done\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_supervisor_is_killed_is_done_again() {
    let rig = Rig::new();
    let plans = rig.plans();
    let flag = rig.home().join("flag");
    let line = format!(
        "if test -e '{0}'; then echo done > a.txt; else touch '{0}'; sleep 1000; fi",
        flag.display()
    );
    let made = create(&plans, settings("Lost"), vec![job("lost", &[], &line)]).await;
    at_last("the job", || flag.exists()).await;
    let mut last = 0;
    let process = loop {
        last = plans.changes(last, PATIENCE).await.unwrap();
        let plan = plans.plan(made.plan).await.unwrap();
        let attempt = plan.find("lost").unwrap().attempt();
        if let Some(process) = attempt.and_then(|attempt| attempt.process.clone()) {
            break process;
        }
    };
    let supervisor = Pid::from_raw(process.pid.cast_signed()).unwrap();
    rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
    let plan = succeeded(&plans, made.plan).await;
    let attempts = plan.find("lost").unwrap().attempts();
    assert_eq!(attempts.len(), 2);
    assert_eq!(
        attempts[1].trigger,
        orchestra_plan::event::Trigger::Recovery
    );
    assert_eq!(rig.file("result", "a.txt"), "done\n");
}
