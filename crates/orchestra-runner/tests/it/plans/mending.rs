//! What people do in the worktrees of jobs between two attempts stays theirs: it is gone on with, or named.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command as Program, Output},
    time::{Duration, Instant},
};

use orchestra_plan::{
    command::{Command, Retry},
    event::FailureKind,
    ids::PlanId,
    plan::Plan,
    spec::{JobSpec, PlanSpec},
    status::{JobStatus, PlanStatus},
    value::List,
    work::WorkSpec,
};
use orchestra_runner::plans::{Caller, Plans};
use rustix::process::{Pid, test_kill_process};

use super::rig::{PATIENCE, Rig, create, ended, job, settings, status, succeeded, told};

async fn ask(plans: &Plans, plan: PlanId, command: Command) {
    let caller = Caller::default();
    plans.command(plan, command, &caller).await.unwrap();
}

async fn retry(plans: &Plans, plan: PlanId) {
    let (jobs, retry) = (None, Retry::default());
    ask(plans, plan, Command::RetryPlan { jobs, retry }).await;
}

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A job that nobody heals.
fn alone(name: &str, after: &[&str], line: &str) -> JobSpec {
    JobSpec {
        auto_heal: false,
        ..job(name, after, line)
    }
}

fn worktree(plan: &Plan, job: &str) -> PathBuf {
    PathBuf::from(plan.find(job).unwrap().worktree().unwrap())
}

fn words(plan: &Plan, job: &str) -> String {
    plan.find(job).unwrap().error().unwrap().to_owned()
}

/// The user runs git in a worktree of ours.
fn git_in(directory: &Path, words: &[&str]) -> Output {
    Program::new("git")
        .args([
            "-c",
            "user.name=A User",
            "-c",
            "user.email=user@example.org",
        ])
        .args(words)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_EDITOR", "true")
        .output()
        .unwrap()
}

fn git_does(directory: &Path, words: &[&str]) {
    let output = git_in(directory, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_that_a_person_has_solved_is_concluded_by_the_retry() {
    const WAYS: [&str; 3] = ["edits", "adds", "commits"];
    let rig = Rig::new();
    let plans = rig.plans();
    let mut jobs = vec![
        job("left", &[], "echo left > same.txt"),
        job("right", &[], "echo right > same.txt"),
    ];
    // What says of itself whether it has changed anything does so still.
    let line = |way: &str| format!("cp same.txt {way}.txt");
    jobs.extend(WAYS.map(|way| alone(way, &["left", "right"], &line(way))));
    let made = create(&plans, settings("By hand"), jobs).await.plan;
    let plan = ended(&plans, made).await;
    for way in WAYS {
        assert_eq!(status(&plan, way), JobStatus::Failed, "{}", told(&plan));
        let place = worktree(&plan, way);
        fs::write(place.join("same.txt"), "left\nright\n").unwrap();
        if way != "edits" {
            git_does(&place, &["add", "same.txt"]);
        }
        if way == "commits" {
            git_does(&place, &["commit", "-q", "-m", "both"]);
        }
    }
    retry(&plans, made).await;
    let plan = succeeded(&plans, made).await;
    for way in WAYS {
        assert_eq!(rig.file("result", &format!("{way}.txt")), "left\nright\n");
        if way != "commits" {
            // What was brought together is not counted as its work.
            let summary = plan.find(way).unwrap().summary().unwrap();
            let counted = (summary.files_added, summary.files_modified);
            assert_eq!(counted, (1, 0), "{way}: {}", told(&plan));
        }
    }
    assert_eq!(rig.file("result", "same.txt"), "left\nright\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_that_is_solved_in_part_stays_so_however_often_it_is_retried() {
    let rig = Rig::new();
    let plans = rig.plans();
    let line = |side: &str| format!("echo {side} > one.txt; echo {side} > two.txt");
    let jobs = vec![
        job("left", &[], &line("left")),
        job("right", &[], &line("right")),
        alone("both", &["left", "right"], "cat one.txt two.txt > both.txt"),
    ];
    let made = create(&plans, settings("In part"), jobs).await.plan;
    let plan = ended(&plans, made).await;
    let place = worktree(&plan, "both");
    // Nobody has looked at it: it is begun anew, and is what it was.
    retry(&plans, made).await;
    let plan = ended(&plans, made).await;
    assert!(words(&plan, "both").contains("one.txt"), "{}", told(&plan));
    fs::write(place.join("one.txt"), "solved\n").unwrap();
    git_does(&place, &["add", "one.txt"]);
    for _ in 0..2 {
        retry(&plans, made).await;
        let plan = ended(&plans, made).await;
        let words = words(&plan, "both");
        assert!(
            words.contains("two.txt") && !words.contains("one.txt"),
            "{words}"
        );
        assert_eq!(
            fs::read_to_string(place.join("one.txt")).unwrap(),
            "solved\n"
        );
    }
    fs::write(place.join("two.txt"), "as well\n").unwrap();
    retry(&plans, made).await;
    succeeded(&plans, made).await;
    assert_eq!(rig.file("result", "both.txt"), "solved\nas well\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_has_begun_and_not_ended_is_named_and_left_alone() {
    let rig = Rig::new();
    fs::write(rig.root.join("README"), "another\n").unwrap();
    rig.git(&["commit", "-q", "-am", "second"]);
    let plans = rig.plans();
    let gate = rig.home().join("gate");
    let line = format!("echo mine > README; test -e '{}'", gate.display());
    let jobs = vec![alone("one", &[], &line)];
    let made = create(&plans, settings("Begun"), jobs).await.plan;
    let plan = ended(&plans, made).await;
    let place = worktree(&plan, "one");
    git_does(&place, &["checkout", "-q", "--", "README"]);
    // It does not go: nothing is there that the first commit would be a change of.
    assert!(!git_in(&place, &["revert", "HEAD~1"]).status.success());
    fs::write(place.join("README"), "half\n").unwrap();
    for _ in 0..2 {
        retry(&plans, made).await;
        let plan = ended(&plans, made).await;
        let words = words(&plan, "one");
        assert!(words.contains("a revert was started in"), "{words}");
        assert!(words.contains(place.to_str().unwrap()), "{words}");
        assert_eq!(fs::read_to_string(place.join("README")).unwrap(), "half\n");
    }
    git_does(&place, &["revert", "--abort"]);
    fs::write(gate, "").unwrap();
    retry(&plans, made).await;
    succeeded(&plans, made).await;
    assert_eq!(rig.file("result", "README"), "mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_recovered_throws_away_nothing_that_canceling_has_kept() {
    let rig = Rig::new();
    let plans = rig.plans();
    let gate = rig.home().join("gate");
    let fails = format!("echo one > one.txt; test -e '{}'", gate.display());
    let long = format!(
        "test -e '{}' || sleep 1000; echo > long.txt",
        gate.display()
    );
    let jobs = vec![alone("one", &[], &fails), alone("long", &[], &long)];
    let made = create(&plans, settings("Recovered"), jobs).await.plan;
    until("the failure", async || {
        let plan = plans.plan(made).await.unwrap();
        let long = plan.find("long").unwrap().worktree().is_some();
        status(&plan, "one") == JobStatus::Failed && long
    })
    .await;
    let place = worktree(&plans.plan(made).await.unwrap(), "one");
    // Its task has noted by then what it has left.
    let marker = rig
        .root
        .join(".git/worktrees")
        .join(place.file_name().unwrap());
    until("what it has left", async || {
        let text = fs::read_to_string(marker.join("orchestra.json")).unwrap();
        text.contains("\"digest\"")
    })
    .await;
    fs::write(place.join("notes.txt"), "mine\n").unwrap();
    ask(&plans, made, Command::Cancel { reason: None }).await;
    until("the other worktree", async || rig.worktrees().len() == 1).await;
    fs::write(gate, "").unwrap();
    ask(&plans, made, Command::Recover).await;
    ask(&plans, made, Command::Resume).await;
    let plan = ended(&plans, made).await;
    assert_eq!(
        status(&plan, "long"),
        JobStatus::Succeeded,
        "{}",
        told(&plan)
    );
    assert_eq!(status(&plan, "one"), JobStatus::Failed, "{}", told(&plan));
    let words = words(&plan, "one");
    assert!(words.contains("notes.txt"), "{words}");
    assert!(words.contains(place.to_str().unwrap()), "{words}");
    assert_eq!(
        fs::read_to_string(place.join("notes.txt")).unwrap(),
        "mine\n"
    );
    // Who asks for the job then asks for it with what is there.
    retry(&plans, made).await;
    succeeded(&plans, made).await;
    assert_eq!(rig.file("result", "notes.txt"), "mine\n");
    assert_eq!(rig.file("result", "one.txt"), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_mended_where_the_result_is_verified_stays_when_the_target_moves() {
    let rig = Rig::new();
    rig.git(&["branch", "result"]);
    let plans = rig.plans();
    let mut settings = settings("Verified");
    let verify = r#"{"type": "shell", "command": "grep -qx good one.txt",
        "onFailure": {"noAutoHeal": true}}"#;
    settings.verify_ri = Some(serde_json::from_str::<WorkSpec>(verify).unwrap());
    let made = create(
        &plans,
        settings,
        vec![job("one", &[], "echo bad > one.txt")],
    )
    .await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Failed, "{}", told(&plan));
    let place = plan.validation().unwrap().worktree().unwrap().to_owned();
    fs::write(Path::new(&place).join("one.txt"), "good\n").unwrap();
    // A colleague's work comes onto the target meanwhile.
    rig.git(&["checkout", "-q", "result"]);
    fs::write(rig.root.join("theirs.txt"), "theirs\n").unwrap();
    rig.git(&["add", "-A"]);
    rig.git(&["commit", "-q", "-m", "theirs"]);
    rig.git(&["checkout", "-q", "main"]);
    retry(&plans, made.plan).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "one.txt"), "good\n");
    assert_eq!(rig.file("result", "theirs.txt"), "theirs\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_be_read_ends_with_its_attempt() {
    let rig = Rig::new();
    let began = rig.home().join("began");
    let line = format!(
        "echo $$ > '{0}.new'; mv '{0}.new' '{0}'; sleep 1000",
        began.display()
    );
    let spec = PlanSpec {
        settings: settings("Unread"),
        jobs: List::new(vec![alone("one", &[], &line)]).unwrap(),
    };
    let file = rig.home().join("plan.json");
    fs::write(&file, serde_json::to_vec(&spec).unwrap()).unwrap();
    let mut process = rig.process(&["run", file.to_str().unwrap()]);
    until("the job", async || began.exists()).await;
    process.kill().unwrap();
    process.wait().unwrap();
    let plans = rig.plans();
    let plan = plans.list().await.unwrap()[0].clone();
    let log = plans.log_of(&plan, "one", None).unwrap().unwrap();
    let runs = fs::read_dir(&log.directory).unwrap();
    let mut runs = runs.map(|entry| entry.unwrap().path());
    let run = runs.find(|path| path.extension().is_some_and(|is| is == "run"));
    // As a later version of this program might have written it.
    let run = run.unwrap();
    let text = fs::read_to_string(&run).unwrap();
    assert!(text.contains("\"v\":"), "{text}");
    fs::write(&run, text.replacen("\"v\":", "\"v\":99", 1)).unwrap();
    assert!(plans.attend().await.unwrap());
    let plan = ended(&plans, *plan.id()).await;
    let failure = plan.find("one").unwrap().failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Storage, "{}", told(&plan));
    let pid = fs::read_to_string(&began).unwrap().trim().parse().unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    until("its end", async || test_kill_process(pid).is_err()).await;
}
