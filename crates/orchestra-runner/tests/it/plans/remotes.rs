//! A plan that is resumed goes on with what its remotes have by then, and without where they have nothing
//! to say.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use orchestra_plan::{command::Command, ids::Branch, spec::PlanSettings};
use orchestra_runner::plans::Caller;

use super::rig::{PATIENCE, Rig, create, job, settings, succeeded};

fn paused(base: &str) -> PlanSettings {
    PlanSettings {
        start_paused: true,
        base_branch: Some(Branch::parse(base).unwrap()),
        ..settings("Resumed")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_plan_starts_from_what_its_remote_has_by_then() {
    let (rig, theirs) = (Rig::new(), Rig::new());
    let remote = theirs.root.to_str().unwrap();
    rig.git(&["remote", "add", "theirs", remote]);
    rig.git(&["remote", "add", "nobody", "/nowhere/at all"]);
    rig.git(&["fetch", "-q", "theirs"]);
    let plans = rig.plans();
    let jobs = vec![job("copy", &[], "cp later.txt copy.txt")];
    let made = create(&plans, paused("theirs/main"), jobs).await.plan;
    fs::write(theirs.root.join("later.txt"), "later\n").unwrap();
    theirs.git(&["add", "-A"]);
    theirs.git(&["commit", "-q", "-m", "later"]);
    let caller = Caller::default();
    plans.command(made, Command::Resume, &caller).await.unwrap();
    succeeded(&plans, made).await;
    assert_eq!(rig.file("result", "copy.txt"), "later\n");
    assert!(
        !rig.root.join(".git/FETCH_HEAD").exists() || {
            let head = fs::read_to_string(rig.root.join(".git/FETCH_HEAD")).unwrap();
            !head.contains(theirs.git(&["rev-parse", "HEAD"]).trim())
        }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_branch_of_the_users_moves_or_goes_when_remotes_are_asked() {
    let (rig, theirs) = (Rig::new(), Rig::new());
    let remote = theirs.root.to_str().unwrap();
    // One of them has the branches of the other for its own, as a mirror does.
    rig.git(&["remote", "add", "a.mirror=x", remote]);
    rig.git(&[
        "config",
        "remote.a.mirror=x.fetch",
        "+refs/heads/*:refs/heads/*",
    ]);
    rig.git(&["config", "fetch.prune", "true"]);
    rig.git(&["remote", "add", "theirs", remote]);
    theirs.git(&["branch", "shared"]);
    rig.git(&["branch", "shared"]);
    rig.git(&["branch", "mine"]);
    theirs.git(&["commit", "-q", "--allow-empty", "-m", "theirs"]);
    theirs.git(&["branch", "-f", "shared"]);
    let branches = ["for-each-ref", "refs/heads/"];
    let before = rig.git(&branches);
    let plans = rig.plans();
    let mut settings = paused("main");
    settings.target_branch = Some(Branch::parse("shared").unwrap());
    let jobs = vec![job("one", &[], "sleep 1000")];
    let made = create(&plans, settings, jobs).await.plan;
    let caller = Caller::default();
    plans.command(made, Command::Resume, &caller).await.unwrap();
    let mut last = 0;
    while plans.plan(made).await.unwrap().counts().active() == 0 {
        last = plans.changes(last, PATIENCE).await.unwrap();
    }
    let after = rig.git(&branches);
    let own = after.lines().filter(|line| !line.contains("orchestrator/"));
    assert_eq!(own.collect::<Vec<_>>(), before.lines().collect::<Vec<_>>());
    let fetched = rig.git(&["rev-parse", "theirs/shared"]);
    assert_eq!(fetched, theirs.git(&["rev-parse", "shared"]));
    let cancel = Command::Cancel { reason: None };
    plans.command(made, cancel, &caller).await.unwrap();
    plans.close(Duration::from_secs(20)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_that_is_slow_holds_up_no_answer() {
    let rig = Rig::new();
    let (asked, gate) = (rig.home().join("asked"), rig.home().join("gate"));
    let slow = rig.home().join("slow");
    let script = format!(
        "#!/bin/sh\necho > '{}'\nuntil test -e '{}'; do sleep 0.01; done\nexit 1\n",
        asked.display(),
        gate.display()
    );
    fs::write(&slow, script).unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    rig.git(&["remote", "add", "slow", rig.root.to_str().unwrap()]);
    rig.git(&["config", "remote.slow.uploadpack", slow.to_str().unwrap()]);
    let plans = rig.plans();
    let jobs = vec![job("one", &[], "echo one > one.txt")];
    let made = create(&plans, paused("main"), jobs).await.plan;
    let caller = Caller::default();
    let resumed = plans.command(made, Command::Resume, &caller);
    let answer = tokio::time::timeout(PATIENCE, resumed).await.unwrap();
    assert!(answer.unwrap().changed);
    let wait = async {
        while !asked.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
    let plan = plans.plan(made).await.unwrap();
    assert!(plan.branches().is_none(), "it goes on after the remotes");
    fs::write(gate, "").unwrap();
    succeeded(&plans, made).await;
}
