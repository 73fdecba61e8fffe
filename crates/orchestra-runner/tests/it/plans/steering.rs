//! Plans are paused, canceled, retried, put away and waited for.

use std::{
    fs,
    time::{Duration, Instant},
};

use orchestra_plan::{
    command::{Command, PlanPatch, Retry},
    event::Trigger,
    ids::{Branch, PlanId},
    spec::{JobSpec, MaxParallel, PlanSettings, WorktreeInit},
    status::{JobStatus, PlanStatus},
    work::WorkSpec,
};
use orchestra_runner::plans::{Answer, Caller, Closed, Plans, PlansError};
use rustix::process::{Pid, test_kill_process};

use super::rig::{
    PATIENCE, Rig, at_last, create, ended, gated, job, settings, status, succeeded, told,
};

async fn ask(plans: &Plans, plan: PlanId, command: Command) -> Result<Answer, PlansError> {
    plans.command(plan, command, &Caller::default()).await
}

/// Waits for a file that a job writes, and gives what it says.
async fn written(path: &std::path::Path) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => assert!(Instant::now() < end, "{}", path.display()),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn is_there(pid: &str) -> bool {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    test_kill_process(pid).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_plan_leaves_no_process_and_no_worktree() {
    let rig = Rig::new();
    let plans = rig.plans();
    let pids = rig.home().join("pids");
    let line = format!(
        "sleep 1000 & echo x > left.txt; echo $! $$ > '{0}.new'; mv '{0}.new' '{0}'; wait",
        pids.display()
    );
    let made = create(
        &plans,
        settings("Endless"),
        vec![job("endless", &[], &line)],
    )
    .await;
    let said = written(&pids).await;
    let pids: Vec<&str> = said.split_whitespace().collect();
    assert!(pids.iter().all(|pid| is_there(pid)));
    let reason = Some("enough".to_owned());
    ask(&plans, made.plan, Command::Cancel { reason })
        .await
        .unwrap();
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Canceled);
    at_last("processes", || !pids.iter().any(|pid| is_there(pid))).await;
    at_last("worktrees", || rig.worktrees().is_empty()).await;
    at_last("branches", || {
        rig.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]) == "refs/heads/main\n"
    })
    .await;
    // Again is as good as once, and what is over cannot be paused.
    let again = ask(&plans, made.plan, Command::Cancel { reason: None }).await;
    assert!(!again.unwrap().changed);
    let refused = ask(&plans, made.plan, Command::Pause).await.unwrap_err();
    assert_eq!(refused.code(), "wrong-plan-state");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_at_work_is_forced_to_fail_and_asked_for_again() {
    let rig = Rig::new();
    let plans = rig.plans();
    let pid = rig.home().join("pid");
    let line = format!(
        "if test -e '{0}'; then echo done > done.txt; else echo $$ > '{0}'; sleep 1000; fi",
        pid.display()
    );
    let made = create(&plans, settings("Forced"), vec![job("stuck", &[], &line)]).await;
    let said = written(&pid).await;
    let force = Command::ForceFail {
        job: "stuck".to_owned(),
        reason: Some("it hangs".to_owned()),
    };
    ask(&plans, made.plan, force).await.unwrap();
    let plan = ended(&plans, made.plan).await;
    assert_eq!(status(&plan, "stuck"), JobStatus::Failed);
    at_last("the process", || !is_there(&said)).await;
    let (context, _) = plans.failure(&plan, "stuck").await.unwrap();
    assert_eq!(context.error.as_deref(), Some("forced to fail: it hangs"));
    let retry = Command::RetryJob {
        job: "stuck".to_owned(),
        retry: Retry::default(),
    };
    ask(&plans, made.plan, retry).await.unwrap();
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "done.txt"), "done\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_plan_starts_nothing_new_and_goes_on_when_resumed() {
    let rig = Rig::new();
    let plans = rig.plans();
    let (began, gate) = (rig.home().join("began"), rig.home().join("gate"));
    let line = gated(&began, &gate, "echo a > a.txt");
    let jobs = vec![
        job("one", &[], &line),
        job("two", &["one"], "cp a.txt b.txt"),
    ];
    let made = create(&plans, settings("Paused"), jobs).await;
    at_last("the first job", || began.exists()).await;
    ask(&plans, made.plan, Command::Pause).await.unwrap();
    fs::write(&gate, "").unwrap();
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Paused, "{}", told(&plan));
    assert_eq!(status(&plan, "one"), JobStatus::Succeeded);
    assert_eq!(status(&plan, "two"), JobStatus::Ready);
    ask(&plans, made.plan, Command::Resume).await.unwrap();
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "b.txt"), "a\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_is_retried_with_other_work() {
    let rig = Rig::new();
    let plans = rig.plans();
    let mut failing = job("one", &[], "exit 3");
    failing.auto_heal = false;
    let made = create(&plans, settings("Retried"), vec![failing]).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Failed);
    assert_eq!(
        plan.find("one").unwrap().failure().unwrap().exit_code,
        Some(3)
    );
    let retry = Command::RetryJob {
        job: "one".to_owned(),
        retry: Retry {
            work: Some(WorkSpec::parse("echo one > one.txt").unwrap()),
            ..Retry::default()
        },
    };
    ask(&plans, made.plan, retry).await.unwrap();
    let plan = succeeded(&plans, made.plan).await;
    let last = plan.find("one").unwrap().attempt().unwrap();
    assert_eq!((last.number.get(), last.trigger), (2, Trigger::Retry));
    assert_eq!(rig.file("result", "one.txt"), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_waits_for_another() {
    let rig = Rig::new();
    let plans = rig.plans();
    let (began, gate) = (rig.home().join("began"), rig.home().join("gate"));
    let line = gated(&began, &gate, "echo one > one.txt");
    let first = create(&plans, settings("First"), vec![job("one", &[], &line)]).await;
    let mut second = settings("Second");
    second.resume_after_plan = Some(first.plan);
    second.base_branch = None;
    let second = create(&plans, second, vec![job("two", &[], "cp one.txt two.txt")]).await;
    assert_eq!(second.status, PlanStatus::PendingStart);
    fs::write(&gate, "").unwrap();
    succeeded(&plans, first.plan).await;
    let mut last = 0;
    while !plans.plan(second.plan).await.unwrap().status().is_ended() {
        last = plans.changes(last, Duration::from_secs(5)).await.unwrap();
    }
    succeeded(&plans, second.plan).await;
    assert_eq!(rig.file("result", "two.txt"), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_plan_that_is_deleted_hears_of_it_though_it_had_failed() {
    let rig = Rig::new();
    let plans = rig.plans();
    let fails = JobSpec {
        auto_heal: false,
        ..job("one", &[], "exit 1")
    };
    let first = create(&plans, settings("First"), vec![fails]).await.plan;
    ended(&plans, first).await;
    let mut second = settings("Second");
    second.resume_after_plan = Some(first);
    let second = create(&plans, second, vec![job("two", &[], "true")])
        .await
        .plan;
    ask(&plans, first, Command::Delete).await.unwrap();
    let mut last = 0;
    loop {
        let plan = plans.plan(second).await.unwrap();
        if plan.settings().resume_after_plan.is_none() {
            assert_eq!(plan.status(), PlanStatus::PendingStart);
            return;
        }
        last = plans.changes(last, PATIENCE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_plans_run_at_once_on_one_repository() {
    let rig = Rig::new();
    let plans = rig.plans();
    let mut made = Vec::new();
    for name in ["Left", "Right"] {
        let mut settings = settings(name);
        settings.target_branch = None;
        settings.max_parallel = MaxParallel::new(3).unwrap();
        let jobs: Vec<_> = (0..6)
            .map(|at| {
                job(
                    &format!("job-{at}"),
                    &[],
                    &format!("echo {name} > {at}.txt"),
                )
            })
            .collect();
        made.push(create(&plans, settings, jobs).await.plan);
    }
    for (plan, name) in made.into_iter().zip(["Left", "Right"]) {
        let plan = succeeded(&plans, plan).await;
        let target = plan.branches().unwrap().target.to_string();
        assert_eq!(target, format!("orchestra/{}", name.to_lowercase()));
        for at in 0..6 {
            assert_eq!(rig.file(&target, &format!("{at}.txt")), format!("{name}\n"));
        }
    }
    at_last("worktrees", || rig.worktrees().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worktrees_are_made_ready_and_the_whole_is_verified() {
    let rig = Rig::new();
    fs::create_dir(rig.root.join("cache")).unwrap();
    fs::write(rig.root.join("cache/big"), "big\n").unwrap();
    fs::write(rig.root.join(".git/info/exclude"), "cache\n").unwrap();
    let plans = rig.plans();
    let mut linked = settings("Linked");
    linked.additional_symlink_dirs = serde_json::from_str(r#"["cache"]"#).unwrap();
    let verify = "test -e one.txt && test ! -e never.txt && echo verified";
    linked.verify_ri = Some(WorkSpec::parse(verify).unwrap());
    let made = create(
        &plans,
        linked,
        vec![job("one", &[], "cp cache/big one.txt")],
    )
    .await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "one.txt"), "big\n");

    let mut prepared = settings("Prepared");
    let init = ["echo 1 > ready-1", "test -e ready-1 && echo 2 > ready-2"];
    let init = init.map(|line| WorkSpec::parse(line).unwrap()).to_vec();
    prepared.worktree_init = WorktreeInit::new(init).unwrap();
    let made = create(
        &plans,
        prepared,
        vec![job("two", &[], "cat ready-1 ready-2 > two.txt")],
    )
    .await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "two.txt"), "1\n2\n");

    let mut refused = settings("Refused");
    refused.verify_ri = Some(WorkSpec::parse("exit 1").unwrap());
    let mut options = rig.options();
    options.policy.has_healer = false;
    assert_eq!(
        plans.close(PATIENCE).await.unwrap(),
        orchestra_runner::plans::Closed::Idle
    );
    let plans = Plans::new(options);
    let tip = rig.git(&["rev-parse", "result"]);
    let made = create(
        &plans,
        refused,
        vec![job("three", &[], "echo 3 > three.txt")],
    )
    .await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Failed);
    assert_eq!(status(&plan, "__snapshot-validation__"), JobStatus::Failed);
    assert_eq!(rig.git(&["rev-parse", "result"]), tip);
}

#[tokio::test(flavor = "multi_thread")]
async fn worktrees_of_jobs_that_succeeded_stay_where_that_is_asked() {
    let rig = Rig::new();
    let plans = rig.plans();
    let mut kept = settings("Kept");
    kept.clean_up_successful_work = false;
    let jobs = vec![
        job("one", &[], "echo 1 > one.txt"),
        job("two", &["one"], "echo 2 > two.txt"),
    ];
    let made = create(&plans, kept, jobs).await;
    let plan = succeeded(&plans, made.plan).await;
    // It ends once nothing is removed any more.
    plans.close(PATIENCE).await.unwrap();
    let worktrees = rig.root.join(".worktrees");
    for (name, file) in [("one", "one.txt"), ("two", "two.txt")] {
        let place = worktrees.join(plan.find(name).unwrap().id().to_string());
        assert!(place.join(file).is_file(), "{}", place.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_begins_from_the_branch_that_it_names() {
    let rig = Rig::new();
    rig.git(&["switch", "-q", "-c", "other"]);
    fs::write(rig.root.join("other.txt"), "other\n").unwrap();
    rig.git(&["add", "-A"]);
    rig.git(&["commit", "-q", "-m", "other"]);
    rig.git(&["switch", "-q", "main"]);
    let plans = rig.plans();
    let mut there = job("there", &[], "cp other.txt there.txt");
    there.base_branch = Some(Branch::parse("other").unwrap());
    let here = job("here", &[], "test ! -e other.txt && echo here > here.txt");
    let made = create(&plans, settings("Elsewhere"), vec![there, here]).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "there.txt"), "other\n");
    assert_eq!(rig.file("result", "here.txt"), "here\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_directory_of_the_checkout_is_linked_unless_the_plan_asks_for_it() {
    let rig = Rig::new();
    let kept = rig.root.join("node_modules/kept");
    fs::create_dir(rig.root.join("node_modules")).unwrap();
    fs::write(&kept, "mine\n").unwrap();
    fs::write(rig.root.join(".git/info/exclude"), "node_modules\n").unwrap();
    let plans = rig.plans();
    let clean = "rm -rf node_modules/*; mkdir -p node_modules; echo job > node_modules/job; ";
    let work = format!("{clean} echo 1 > one.txt");
    let made = create(&plans, settings("Alone"), vec![job("one", &[], &work)]).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(fs::read_to_string(&kept).unwrap(), "mine\n");
    assert!(!rig.root.join("node_modules/job").exists());

    let mut asked = settings("Asked");
    asked.additional_symlink_dirs = serde_json::from_str(r#"["node_modules"]"#).unwrap();
    let work = "cp node_modules/kept two.txt";
    let made = create(&plans, asked, vec![job("two", &[], work)]).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "two.txt"), "mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_put_away_and_deleted() {
    let rig = Rig::new();
    let plans = rig.plans();
    let mut failing = job("bad", &[], "echo x > x.txt; exit 1");
    failing.auto_heal = false;
    let made = create(&plans, settings("Bad"), vec![failing]).await;
    assert_eq!(ended(&plans, made.plan).await.status(), PlanStatus::Failed);
    assert_eq!(rig.worktrees().len(), 1);
    ask(&plans, made.plan, Command::Archive { force: false })
        .await
        .unwrap();
    at_last("worktrees", || rig.worktrees().is_empty()).await;
    assert_eq!(
        plans.plan(made.plan).await.unwrap().status(),
        PlanStatus::Archived
    );
    let directory = rig.storage().join(made.plan.to_string());
    assert!(directory.is_dir());
    ask(&plans, made.plan, Command::Delete).await.unwrap();
    assert!(plans.list().await.unwrap().is_empty());
    at_last("its directory", || !directory.exists()).await;
    let error = plans.plan(made.plan).await.unwrap_err();
    assert_eq!(error.code(), "plan-unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_plan_is_recovered_and_ends() {
    let rig = Rig::new();
    let plans = rig.plans();
    let gate = rig.home().join("gate");
    let line = format!("test -e '{}' || sleep 1000; echo b > b.txt", gate.display());
    let jobs = vec![
        job("one", &[], "echo a > a.txt"),
        job("two", &["one"], &line),
    ];
    let made = create(&plans, settings("Recovered"), jobs).await;
    let mut last = 0;
    while status(&plans.plan(made.plan).await.unwrap(), "two") != JobStatus::Running {
        last = plans.changes(last, PATIENCE).await.unwrap();
    }
    ask(&plans, made.plan, Command::Cancel { reason: None })
        .await
        .unwrap();
    // Brought back at once, it waits until it is put away.
    fs::write(gate, "open").unwrap();
    ask(&plans, made.plan, Command::Recover).await.unwrap();
    ask(&plans, made.plan, Command::Resume).await.unwrap();
    let plan = succeeded(&plans, made.plan).await;
    assert_eq!(plan.find("one").unwrap().attempts().len(), 1);
    assert_eq!(rig.file("result", "a.txt"), "a\n");
    assert_eq!(rig.file("result", "b.txt"), "b\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worktree_that_somebody_removes_costs_no_work_that_was_committed() {
    let rig = Rig::new();
    let plans = rig.plans();
    let gate = rig.home().join("gate");
    let mut checked = job("one", &[], "echo one > one.txt");
    checked.auto_heal = false;
    let check = format!("test -e one.txt && test -e '{}'", gate.display());
    checked.postchecks = Some(WorkSpec::parse(&check).unwrap());
    let made = create(&plans, settings("Removed"), vec![checked]).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Failed);
    let worktree = plan.find("one").unwrap().worktree().unwrap().to_owned();
    fs::remove_dir_all(&worktree).unwrap();
    fs::write(gate, "open").unwrap();
    let retry = Command::RetryJob {
        job: "one".to_owned(),
        retry: Retry::default(),
    };
    ask(&plans, made.plan, retry).await.unwrap();
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "one.txt"), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_share_the_slots_of_the_machine() {
    let (left, right) = (Rig::new(), Rig::new());
    let shared = tempfile::tempdir().unwrap();
    let mut made = Vec::new();
    let at_work = shared.path().join("at-work");
    let line = format!(
        "mkdir '{0}' || exit 9; sleep 0.05; rmdir '{0}'; echo x > $RANDOM.txt; echo y > y.txt",
        at_work.display()
    );
    for rig in [&left, &right] {
        let mut options = rig.options();
        options.machine = Some(orchestra_runner::plans::Machine {
            directory: shared.path().join("slots"),
            slots: 1,
        });
        let plans = Plans::new(options);
        let jobs = (0..4).map(|at| {
            let mut job = job(&format!("job-{at}"), &[], &line);
            job.auto_heal = false;
            job.expects_no_changes = true;
            job
        });
        let plan = create(&plans, settings("Shared"), jobs.collect())
            .await
            .plan;
        made.push((plans, plan));
    }
    for (plans, plan) in made {
        succeeded(&plans, plan).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_time_ends_a_job_at_work() {
    let rig = Rig::new();
    let plans = rig.plans();
    let mut endless = job("endless", &[], "sleep 1000");
    endless.budget = serde_json::from_str(r#"{"wallMs": 300}"#).unwrap();
    let made = create(&plans, settings("Budget"), vec![endless]).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Failed);
    let error = plan.find("endless").unwrap().error().unwrap().to_owned();
    assert!(error.contains("budget is used up"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_makes_one_plan_and_a_key_of_a_command_is_done_once() {
    let rig = Rig::new();
    let plans = rig.plans();
    let caller = Caller {
        key: Some("once".to_owned()),
        ..Caller::default()
    };
    let mut paused = settings("Once");
    paused.start_paused = true;
    let jobs = || vec![job("one", &[], "echo 1 > 1.txt")];
    let first = plans
        .create(paused.clone(), jobs(), false, &caller)
        .await
        .unwrap();
    let second = plans.create(paused, jobs(), false, &caller).await.unwrap();
    assert_eq!((first.plan, second.repeated), (second.plan, true));
    assert_eq!(plans.list().await.unwrap().len(), 1);
    let caller = Caller {
        key: Some("resumed".to_owned()),
        ..Caller::default()
    };
    let resume = || plans.command(first.plan, Command::Resume, &caller);
    let (resumed, again) = (resume().await.unwrap(), resume().await.unwrap());
    assert_eq!((resumed.changed, resumed.repeated), (true, false));
    assert_eq!((again.changed, again.repeated), (false, true));
    let late = Caller {
        expected_version: Some(1),
        ..Caller::default()
    };
    let refused = plans
        .command(first.plan, Command::Pause, &late)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "version-conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_made_something_else_is_refused_also_by_a_later_runner() {
    let rig = Rig::new();
    let caller = Caller {
        key: Some("once".to_owned()),
        ..Caller::default()
    };
    let make = async |plans: &Plans, settings: PlanSettings, line: &str| {
        let jobs = vec![job("one", &[], line)];
        plans.create(settings, jobs, false, &caller).await
    };
    let mut paused = settings("Once");
    paused.start_paused = true;
    let first = rig.plans();
    let made = make(&first, paused.clone(), "echo 1").await.unwrap();
    let copied = first.copy(made.plan, None, None, &caller).await;
    assert_eq!(copied.unwrap_err().code(), "key-reused");
    // What has become of it meanwhile, and where the user is now, is not what was asked for.
    let patch = PlanPatch {
        max_parallel: Some(MaxParallel::new(7).unwrap()),
        ..PlanPatch::default()
    };
    let by = Caller::default();
    let changed = first.command(made.plan, Command::Update(patch), &by);
    changed.await.unwrap();
    assert_eq!(first.close(PATIENCE).await.unwrap(), Closed::Idle);
    rig.git(&["switch", "-q", "-c", "elsewhere"]);

    let second = rig.plans();
    let again = make(&second, paused.clone(), "echo 1").await.unwrap();
    assert_eq!((again.plan, again.repeated), (made.plan, true));
    let mut renamed = paused.clone();
    renamed.name = settings("Other").name;
    for (settings, line) in [(paused, "echo 2"), (renamed, "echo 1")] {
        let error = make(&second, settings, line).await.unwrap_err();
        assert_eq!(error.code(), "key-reused");
        let said = error.to_string();
        assert!(said.contains("`once`"), "{said}");
        assert!(said.contains(&made.plan.to_string()), "{said}");
    }
    assert_eq!(second.list().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_where_no_plan_can_work_is_refused_with_what_to_do() {
    let rig = Rig::new();
    let bare = rig.home().join("bare.git");
    rig.git(&["init", "-q", "--bare", bare.to_str().unwrap()]);
    for (place, code) in [
        (bare, "bare-repository"),
        (rig.home().to_owned(), "not-a-repository"),
    ] {
        let mut options = rig.options();
        options.storage = place.join("plans");
        options.workspace = place;
        let plans = Plans::new(options);
        let error = plans
            .create(
                settings("No"),
                vec![job("one", &[], "true")],
                false,
                &Caller::default(),
            )
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(plans.list().await.unwrap().is_empty());
    }
}
