//! What is done again: after a failure, after a kill, after a while.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use orchestra_plan::{
    command::{Command, Retry},
    ids::Branch,
    spec::PlanSpec,
    status::PlanStatus,
    value::List,
    work::WorkSpec,
};
use orchestra_runner::plans::{Caller, Closed, Machine, Plans};

use super::rig::{PATIENCE, Rig, at_last, create, ended, job, settings, succeeded, told};

#[tokio::test(flavor = "multi_thread")]
async fn work_is_still_the_jobs_when_its_branch_has_moved_on_meanwhile() {
    let rig = Rig::new();
    let plans = rig.plans();
    let gate = rig.home().join("gate");
    let mut one = job("one", &[], "echo one > one.txt");
    one.auto_heal = false;
    one.base_branch = Some(Branch::parse("main").unwrap());
    let check = format!("test -e '{}'", gate.display());
    one.postchecks = Some(WorkSpec::parse(&check).unwrap());
    let made = create(&plans, settings("Moved on"), vec![one]).await.plan;
    let plan = ended(&plans, made).await;
    assert_eq!(plan.status(), PlanStatus::Failed);
    // The user goes on where the job started.
    fs::write(rig.root.join("mine.txt"), "mine\n").unwrap();
    rig.git(&["add", "-A"]);
    rig.git(&["commit", "-q", "-m", "mine"]);
    fs::write(gate, "").unwrap();
    let retry = Command::RetryJob {
        job: "one".to_owned(),
        retry: Retry::default(),
    };
    let caller = Caller::default();
    plans.command(made, retry, &caller).await.unwrap();
    let plan = succeeded(&plans, made).await;
    assert_eq!(rig.file("result", "one.txt"), "one\n");
    assert_eq!(rig.file("result", "mine.txt"), "mine\n");
    // What came beside it is not counted as its work.
    let summary = plan.find("one").unwrap().summary();
    let added = summary.map(|summary| summary.files_added);
    assert_eq!(added, Some(1), "{}", told(&plan));
}

/// A git that fails as often as a file says when it is to delete a snapshot branch.
fn failing_git(home: &Path, times: u32) -> std::path::PathBuf {
    let (program, left) = (home.join("failing-git"), home.join("left"));
    fs::write(&left, format!("{times}\n")).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n\
         *'-d refs/heads/orchestrator/snapshot/'*)\n  left=$(cat '{0}')\n  if test \"$left\" -gt 0; then\n\
         echo $((left - 1)) > '{0}'; echo 'fatal: no' >&2; exit 128; fi;;\nesac\nexec git \"$@\"\n",
        left.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_removed_is_removed_later() {
    let rig = Rig::new();
    let mut options = rig.options();
    // More often than it is tried at once.
    options.git.program = failing_git(rig.home(), 5);
    let plans = Plans::new(options);
    let jobs = vec![job("one", &[], "echo one > one.txt")];
    let made = create(&plans, settings("Left"), jobs).await.plan;
    succeeded(&plans, made).await;
    at_last("the snapshot branch", || {
        let listed = rig.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
        listed == "refs/heads/main\nrefs/heads/result\n"
    })
    .await;
    let left = fs::read_to_string(rig.home().join("left")).unwrap();
    assert_eq!(left, "0\n", "it failed as often");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_when_git_has_failed_for_good_is_told() {
    let rig = Rig::new();
    let mut options = rig.options();
    options.git.program = failing_git(rig.home(), 1_000);
    options.tried_again = vec![Duration::from_millis(10)];
    let plans = Plans::new(options);
    let jobs = vec![job("one", &[], "echo one > one.txt")];
    let made = create(&plans, settings("Left"), jobs).await.plan;
    succeeded(&plans, made).await;
    let error = plans.close(PATIENCE).await.unwrap_err();
    assert_eq!(error.code(), "left-undone", "{error}");
    assert!(error.to_string().contains(&made.to_string()), "{error}");
    // The next one has another git.
    let plans = rig.plans();
    assert!(plans.attend().await.unwrap());
    at_last("the snapshot branch", || {
        let listed = rig.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
        listed == "refs/heads/main\nrefs/heads/result\n"
    })
    .await;
    assert_eq!(plans.close(PATIENCE).await.unwrap(), Closed::Idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_logs_are_looked_for_from_time_to_time() {
    let rig = Rig::new();
    let mut options = rig.options();
    options.collected_every = Duration::from_millis(100);
    options.kept.age = Duration::ZERO;
    options.kept.age_of_kept = Duration::ZERO;
    let plans = Plans::new(options);
    let jobs = vec![job("one", &[], "echo one > one.txt; echo said")];
    let made = create(&plans, settings("Old"), jobs).await.plan;
    let plan = succeeded(&plans, made).await;
    let log = plans.log_of(&plan, "one", None).unwrap().unwrap();
    at_last("the lines of the log", || {
        // What is not old stays, such as how the runs ended.
        let entries = fs::read_dir(&log.directory).unwrap();
        !entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .any(|name| name.starts_with("lines"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_found_at_work_has_a_slot_for_what_comes_next() {
    let (left, right) = (Rig::new(), Rig::new());
    let shared = tempfile::tempdir().unwrap();
    let (at_work, began) = (shared.path().join("at-work"), shared.path().join("began"));
    let gate = shared.path().join("gate");
    let alone = |rest: &str| {
        let at_work = at_work.display();
        format!("mkdir '{at_work}' || exit 9; {rest}; rmdir '{at_work}'")
    };
    let waits = format!(
        "echo > '{}'; until test -e '{}'; do sleep 0.01; done; echo x > x.txt",
        began.display(),
        gate.display()
    );
    let mut first = job("first", &[], &alone(&waits));
    first.auto_heal = false;
    first.postchecks = Some(WorkSpec::parse(&alone("sleep 1")).unwrap());
    let spec = PlanSpec {
        settings: settings("Found"),
        jobs: List::new(vec![first]).unwrap(),
    };
    let file = left.home().join("plan.json");
    fs::write(&file, serde_json::to_vec(&spec).unwrap()).unwrap();
    let slots = shared.path().join("slots");
    let variables = [("PLANS_SLOTS", slots.to_str().unwrap())];
    let mut process = left.process_with(&["run", file.to_str().unwrap()], &variables);
    at_last("the first job", || began.exists()).await;
    process.kill().unwrap();
    process.wait().unwrap();

    let open = |rig: &Rig| {
        let mut options = rig.options();
        options.machine = Some(Machine {
            directory: slots.clone(),
            slots: 1,
        });
        Plans::new(options)
    };
    let found = open(&left);
    assert!(found.attend().await.unwrap());
    let other = open(&right);
    let mut second = job("second", &[], &alone("sleep 0.5; echo y > y.txt"));
    second.auto_heal = false;
    let second = create(&other, settings("Waits"), vec![second]).await.plan;
    let first = found.list().await.unwrap()[0].id().to_owned();
    // It has no process of its own as long as the other's has the slot.
    at_last("the slot is waited for", || at_work.exists()).await;
    fs::write(gate, "").unwrap();
    succeeded(&found, first).await;
    succeeded(&other, second).await;
}
