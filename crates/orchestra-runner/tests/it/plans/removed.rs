//! What plans are kept in is removed while they run.

use std::{fs, path::PathBuf, time::Instant};

use orchestra_plan::{ids::PlanId, spec::JobSpec};
use orchestra_runner::plans::{Caller, Closed, Plans, PlansError, Standing};
use rustix::process::{Pid, test_kill_process};

use super::rig::{PATIENCE, Rig, create, job, settings, succeeded};

/// A job that works until a file is there.
fn waits_for(gate: &str) -> JobSpec {
    job(
        "slow",
        &[],
        &format!("echo began > began.txt; until [ -e '{gate}' ]; do sleep 0.02; done"),
    )
}

/// Waits until the job is at work, and gives its supervisor.
async fn at_work(plans: &Plans, plan: PlanId) -> Pid {
    let mut last = 0;
    loop {
        let found = plans.plan(plan).await.unwrap();
        let attempt = found.find("slow").unwrap().attempt().cloned();
        if let Some(process) = attempt.and_then(|attempt| attempt.process) {
            return Pid::from_raw(process.pid.cast_signed()).unwrap();
        }
        last = plans.changes(last, PATIENCE).await.unwrap();
    }
}

async fn ends(process: Pid) {
    let end = Instant::now() + PATIENCE;
    while test_kill_process(process).is_ok() {
        assert!(Instant::now() < end, "{process:?} goes on");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_plan_hears_that_git_clean_took_it() {
    let rig = Rig::new();
    let (holder, follower) = (rig.plans(), rig.plans());
    let gate = rig.home().join("gate");
    let jobs = vec![waits_for(gate.to_str().unwrap())];
    let made = create(&holder, settings("Cleaned"), jobs).await;
    let supervisor = at_work(&holder, made.plan).await;
    assert!(follower.attend().await.unwrap());
    let waiting = [&holder, &follower].map(|plans| {
        let plans = plans.clone();
        tokio::spawn(async move { plans.wait(made.plan).await })
    });
    // Something may be written into a directory that git has just emptied: it says so, and is asked once more.
    let mut tries = 0..100;
    while !rig.try_git(&["clean", "-fdxq"]).status.success() {
        assert!(tries.next().is_some(), "git never gets it away");
    }
    assert!(!rig.storage().exists());
    let worktree = rig.worktrees().pop().unwrap();
    for waiting in waiting {
        let error = tokio::time::timeout(PATIENCE, waiting)
            .await
            .unwrap()
            .unwrap()
            .unwrap_err();
        assert_eq!(error.code(), "storage-gone", "{error}");
        let PlansError::Gone { storage, left } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(*storage, rig.storage());
        let snapshot = format!("branch orchestrator/snapshot/{}", made.plan);
        assert!(left.contains(&snapshot), "{left:?}");
        assert!(
            left.iter().any(|left| left.ends_with(&worktree)),
            "{left:?}"
        );
        assert!(error.to_string().contains("git clean -x"), "{error}");
    }
    ends(supervisor).await;
    // Nobody says that it goes on, and nobody makes it again but for a new plan.
    let closed = holder.close(PATIENCE).await.unwrap_err();
    assert_eq!(closed.code(), "storage-gone");
    let end = Instant::now() + PATIENCE;
    while !matches!(follower.standing(), Standing::Failed(_)) {
        assert!(Instant::now() < end, "{:?}", follower.standing());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let made_again = fs::read_dir(rig.storage()).into_iter().flatten();
    let made_again: Vec<_> = made_again.map(|entry| entry.unwrap().path()).collect();
    assert!(!rig.storage().exists(), "{made_again:?}");
    let made = create(
        &follower,
        settings("Again"),
        vec![job("one", &[], "echo 1 > one.txt")],
    )
    .await;
    succeeded(&follower, made.plan).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_runner_does_not_make_a_repository_again_that_was_removed() {
    let rig = Rig::new();
    let first = rig.plans();
    let gate = rig.home().join("gate");
    let jobs = vec![waits_for(gate.to_str().unwrap())];
    let made = create(&first, settings("Removed"), jobs).await;
    let supervisor = at_work(&first, made.plan).await;
    assert_eq!(first.close(PATIENCE).await.unwrap(), Closed::HandedOver);
    let told = fs::read(rig.storage().join("runner.json")).unwrap();
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    let runner = i32::try_from(told["pid"].as_i64().unwrap()).unwrap();
    // What is written meanwhile may be in its way once.
    while rig.root.exists() {
        let _ = fs::remove_dir_all(&rig.root);
    }
    ends(Pid::from_raw(runner).unwrap()).await;
    ends(supervisor).await;
    assert!(!rig.root.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_plan_can_be_made_no_directory_is_made() {
    let bare = tempfile::tempdir().unwrap();
    let none = tempfile::tempdir().unwrap();
    let rig = Rig::new();
    let path = bare.path().to_str().unwrap();
    rig.git(&["init", "-q", "--bare", path]);
    for place in [bare.path(), none.path()] {
        let storage: PathBuf = place.join(".orchestrator/plans");
        let mut options = rig.options();
        options.workspace = place.to_owned();
        options.storage = storage;
        let plans = Plans::new(options);
        let made = plans
            .create(
                settings("Nowhere"),
                vec![job("one", &[], "true")],
                false,
                &Caller::named("a test"),
            )
            .await;
        assert!(matches!(made, Err(PlansError::Refused { .. })), "{made:?}");
        assert!(!place.join(".orchestrator").exists(), "{}", place.display());
    }
}
