//! The runner is killed at any moment: nothing is lost, and nothing is done twice.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use orchestra_plan::{
    event::FailureKind,
    ids::Millis,
    spec::{IdempotencyKey, JobSpec, MaxParallel, PlanSettings, PlanSpec},
    status::PlanStatus,
    value::List,
};

use orchestra_runner::plans::Plans;

use super::{
    rig::{PATIENCE, Rig, create, ended, job, settings, succeeded, told},
    witness::all_killed,
};

/// A chain that appends to one file, and a fan beside it: what is done twice shows.
fn jobs() -> Vec<JobSpec> {
    let mut jobs = vec![job("chain-0", &[], "echo chain-0 >> chain.txt")];
    for at in 1..4 {
        let (name, before) = (format!("chain-{at}"), format!("chain-{}", at - 1));
        jobs.push(job(
            &name,
            &[&before],
            &format!("sleep 0.05; echo {name} >> chain.txt"),
        ));
    }
    for at in 0..4 {
        let name = format!("fan-{at}");
        jobs.push(job(
            &name,
            &["chain-1"],
            &format!("echo {name} > {name}.txt; sleep 0.{at}"),
        ));
    }
    jobs.push(job(
        "last",
        &["fan-0", "fan-1", "fan-2", "fan-3", "chain-3"],
        "cat chain.txt fan-*.txt > all.txt",
    ));
    jobs
}

fn keyed() -> PlanSettings {
    PlanSettings {
        idempotency_key: Some(IdempotencyKey::parse("one plan").unwrap()),
        ..settings("Killed")
    }
}

/// The tree that the plan comes to when nothing goes wrong, one job after the other.
async fn serial() -> (Rig, String) {
    let rig = Rig::new();
    let plans = rig.plans();
    let settings = PlanSettings {
        max_parallel: MaxParallel::new(1).unwrap(),
        ..keyed()
    };
    let made = create(&plans, settings, jobs()).await;
    succeeded(&plans, made.plan).await;
    let tree = rig.git(&["rev-parse", "result^{tree}"]);
    (rig, tree)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_is_killed_again_and_again_comes_to_the_same_result() {
    let (_serial, expected) = serial().await;
    let rig = Rig::new();
    let spec = PlanSpec {
        settings: keyed(),
        jobs: List::new(jobs()).unwrap(),
    };
    let file = rig.home().join("plan.json");
    std::fs::write(&file, serde_json::to_vec(&spec).unwrap()).unwrap();
    let before = rig.git(&["status", "--porcelain=v2", "--branch"]);
    let file = file.to_str().unwrap();
    // Not at random, so that what fails fails again; the machine is random enough.
    let moments = [3_u64, 40, 60, 90, 110, 25, 70, 140, 55, 180, 35, 220];
    for moment in moments {
        let mut process = rig.process(&["run", file]);
        std::thread::sleep(Duration::from_millis(moment));
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let mut process = rig.process(&["run", file]);
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(process.wait().unwrap().success(), "{lines:?}");
    let plans = rig.plans();
    let all = plans.list().await.unwrap();
    assert_eq!(all.len(), 1);
    let plan = &all[0];
    assert_eq!(plan.status(), PlanStatus::Succeeded, "{}", told(plan));
    assert_eq!(
        rig.git(&["rev-parse", "result^{tree}"]),
        expected,
        "{}",
        told(plan)
    );
    assert_eq!(
        rig.file("result", "chain.txt"),
        "chain-0\nchain-1\nchain-2\nchain-3\n"
    );
    assert_eq!(rig.git(&["status", "--porcelain=v2", "--branch"]), before);
    // Who runs them next finds nothing left to remove.
    assert!(plans.attend().await.unwrap());
    let end = Instant::now() + PATIENCE;
    while !rig.worktrees().is_empty() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(rig.worktrees(), Vec::<String>::new());
    ended(&plans, *plan.id()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_had_begun_before_the_machine_stopped_is_lost_although_nothing_of_it_was_kept() {
    for is_of_now in [true, false] {
        let rig = Rig::new();
        let go = rig.home().join("go");
        let line = format!("test -e '{}' || {{ touch '{0}'; sleep 60; }}", go.display());
        let spec = PlanSpec {
            settings: keyed(),
            jobs: List::new(vec![JobSpec {
                expects_no_changes: true,
                ..job("waits", &[], &line)
            }])
            .unwrap(),
        };
        let file = rig.home().join("plan.json");
        std::fs::write(&file, serde_json::to_vec(&spec).unwrap()).unwrap();
        let mut process = rig.process(&["run", file.to_str().unwrap()]);
        until(&|| go.exists()).await;
        process.kill().unwrap();
        process.wait().unwrap();
        all_killed(&rig);
        // It was not written to the disk for certain.
        let run = file_that_ends(&rig.storage(), "work.1.run").unwrap();
        std::fs::remove_file(run).unwrap();
        let mut options = rig.options();
        let up = std::fs::read_to_string("/proc/uptime").unwrap();
        let up: f64 = up.split(' ').next().unwrap().parse().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = Millis::new(u64::try_from(now.as_millis()).unwrap());
        let since = now.before(Duration::from_secs_f64(up));
        let taken = options.up_since.unwrap();
        assert!(taken.get().abs_diff(since.get()) < 5_000, "{taken} {since}");
        if !is_of_now {
            options.up_since = Some(Millis::new(u64::MAX));
        }
        let plans = Plans::new(options);
        assert!(plans.attend().await.unwrap());
        let id = *plans.list().await.unwrap()[0].id();
        let plan = succeeded(&plans, id).await;
        let attempts = plan.find("waits").unwrap().attempts();
        let first = &attempts[0].failure;
        let was_lost = first
            .as_ref()
            .is_some_and(|(_, failure)| failure.kind == FailureKind::Lost);
        assert_eq!(was_lost, !is_of_now, "{}", told(&plan));
        assert_eq!(attempts.len(), if is_of_now { 1 } else { 2 });
    }
}

async fn until(there: &dyn Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < end, "it does not come to that");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The first file below a directory that ends with this.
fn file_that_ends(directory: &Path, with: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find_map(|path| match path.is_dir() && !path.is_symlink() {
        true => file_that_ends(&path, with),
        false => path.to_str()?.ends_with(with).then_some(path),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_while_no_runner_was_there_ended_when_it_did() {
    let rig = Rig::new();
    let go = rig.home().join("go");
    let line = format!(
        "until [ -e '{}' ]; do sleep 0.02; done; exit 3",
        go.display()
    );
    let spec = PlanSpec {
        settings: keyed(),
        jobs: List::new(vec![JobSpec {
            auto_heal: false,
            ..job("waits", &[], &line)
        }])
        .unwrap(),
    };
    let file = rig.home().join("plan.json");
    std::fs::write(&file, serde_json::to_vec(&spec).unwrap()).unwrap();
    let mut process = rig.process(&["run", file.to_str().unwrap()]);
    until(&|| file_that_ends(&rig.storage(), "work.1.run").is_some()).await;
    process.kill().unwrap();
    process.wait().unwrap();
    std::fs::write(&go, "").unwrap();
    until(&|| file_that_ends(&rig.storage(), "work.1.exit.json").is_some()).await;
    let since = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let seen = u64::try_from(since).unwrap();
    let plans = rig.plans();
    assert!(plans.attend().await.unwrap());
    let id = *plans.list().await.unwrap()[0].id();
    let plan = ended(&plans, id).await;
    assert_eq!(plan.status(), PlanStatus::Failed, "{}", told(&plan));
    let attempt = plan.find("waits").unwrap().attempt().unwrap();
    let span = attempt.spans.last().unwrap();
    assert_eq!(attempt.ended_at, span.ended_at, "{attempt:?}");
    let told_at = plan.ended_at().unwrap().get();
    let ended = attempt.ended_at.unwrap().get();
    assert!(ended <= seen && seen <= told_at, "{ended} {seen} {told_at}");
}
