//! What goes wrong between deciding and doing: the disk, a second runner, a kill between two steps.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use orchestra_plan::{
    command::Command, event::Act, ids::PlanId, phase::Phase, plan::Plan, status::PlanStatus,
};
use orchestra_runner::{
    journal::BUSY_TIMEOUT,
    plans::{Answer, Caller, Closed, Machine, Options, Plans, Standing},
};
use rusqlite::Connection;

use super::rig::{PATIENCE, Rig, create, ended, job, settings, succeeded};

async fn ask(plans: &Plans, plan: PlanId, command: Command) -> Answer {
    let caller = Caller::default();
    plans.command(plan, command, &caller).await.unwrap()
}

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a plan is as it should be.
async fn plan_is(plans: &Plans, id: PlanId, is: impl Fn(&Plan) -> bool) {
    until("the plan", async || is(&plans.plan(id).await.unwrap())).await;
}

/// A line that waits until a file is there.
fn gated(gate: &Path, then: &str) -> String {
    format!(
        "while ! test -e '{}'; do sleep 0.02; done; {then}",
        gate.display()
    )
}

/// The options of somebody who leaves nobody behind.
fn alone(rig: &Rig) -> Options {
    Options {
        background: None,
        ..rig.options()
    }
}

/// Keeps the database from being written as soon as somebody has begun to hold, until it is dropped.
fn locked_once_held(database: &Path, before: u64) -> Connection {
    let connection = Connection::open(database).unwrap();
    connection.busy_timeout(Duration::from_millis(20)).unwrap();
    let epoch = || -> u64 {
        let sql = "SELECT value FROM fact WHERE name = 'epoch'";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "nobody holds");
        if epoch() == before || connection.execute_batch("BEGIN IMMEDIATE").is_err() {
            std::thread::yield_now();
            continue;
        }
        return connection;
    }
}

fn epoch(database: &Path) -> u64 {
    let connection = Connection::open(database).unwrap();
    let sql = "SELECT value FROM fact WHERE name = 'epoch'";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_up_goes_on_although_the_first_turn_cannot_be_kept() {
    let rig = Rig::new();
    let gate = rig.home().join("gate");
    let mut options = alone(&rig);
    options.limits.total = 1;
    let first = Plans::new(options);
    let jobs = vec![
        job("first", &[], &gated(&gate, "echo first > first.txt")),
        job("second", &[], "echo second > second.txt"),
    ];
    // Reading them takes the next runner a while.
    let mut paused = settings("Paused");
    paused.start_paused = true;
    paused.target_branch = None;
    for _ in 0..40 {
        let jobs = (0..40).map(|at| job(&format!("job-{at}"), &[], "true"));
        create(&first, paused.clone(), jobs.collect()).await;
    }
    let made = create(&first, settings("Taken up"), jobs).await;
    plan_is(&first, made.plan, |plan| {
        let running = plan.find("first").unwrap().running();
        running.is_some_and(|attempt| attempt.under_way() == Some(Act::of(Phase::Work)))
    })
    .await;
    assert_eq!(first.close(PATIENCE).await.unwrap(), Closed::Stopped);

    // There is room for the second job now, so that the first turn has something to keep.
    let database = rig.storage().join("plans.db");
    let before = epoch(&database);
    let lock = {
        let database = database.clone();
        tokio::task::spawn_blocking(move || locked_once_held(&database, before))
    };
    let second = Plans::new(alone(&rig));
    assert!(second.attend().await.unwrap());
    let lock = lock.await.unwrap();
    // Longer than anybody waits for the database.
    tokio::time::sleep(BUSY_TIMEOUT + Duration::from_millis(500)).await;
    lock.execute_batch("ROLLBACK").unwrap();
    fs::write(&gate, "open").unwrap();
    let plan = succeeded(&second, made.plan).await;
    assert_eq!(plan.find("first").unwrap().attempts().len(), 1);
    assert_eq!(rig.file("result", "second.txt"), "second\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_taken_away_stops_the_runner_and_another_begins() {
    let rig = Rig::new();
    let plans = Plans::new(alone(&rig));
    let mut paused = settings("Taken away");
    paused.start_paused = true;
    let made = create(&plans, paused, vec![job("one", &[], "echo 1 > one.txt")]).await;
    let (here, away) = (rig.storage().join("plans.db"), rig.home().join("away.db"));
    fs::rename(&here, &away).unwrap();
    let caller = Caller::default();
    let refused = plans.command(made.plan, Command::Resume, &caller).await;
    assert_eq!(refused.unwrap_err().code(), "storage-failed");
    fs::rename(&away, &here).unwrap();
    until("a runner", async || {
        plans
            .command(made.plan, Command::Resume, &caller)
            .await
            .is_ok()
    })
    .await;
    succeeded(&plans, made.plan).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_used_is_counted_once_whoever_reads_it_again() {
    let rig = Rig::new();
    let script = rig.home().join("script.json");
    let text = r#"{"steps": [{"do": [
        {"usage": {"input": 600, "output": 0}}, {"wait": 8000},
        {"usage": {"input": 10, "output": 0}},
        {"write": {"path": "a.txt", "text": "done\n"}}, "complete"]}]}"#;
    fs::write(&script, text).unwrap();
    let options = || {
        let mut options = alone(&rig);
        let script = script.clone().into();
        options
            .environment
            .insert("ORCHESTRA_AGENT_SCRIPT".into(), script);
        options
    };
    let mut spends = job("spends", &[], "@agent Write the file.");
    spends.budget = serde_json::from_str(r#"{"tokens": 1000}"#).unwrap();
    let first = Plans::new(options());
    let made = create(&first, settings("Counted"), vec![spends]).await;
    plan_is(&first, made.plan, |plan| plan.usage().tokens() == 600).await;
    assert_eq!(first.close(PATIENCE).await.unwrap(), Closed::Stopped);
    let second = Plans::new(options());
    assert!(second.attend().await.unwrap());
    let plan = succeeded(&second, made.plan).await;
    assert_eq!(plan.usage().tokens(), 610);
    assert_eq!(plan.find("spends").unwrap().attempts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_is_killed_after_a_cancel_leaves_no_process_and_no_worktree() {
    let rig = Rig::new();
    let plans = rig.plans();
    let mut paused = settings("Canceled");
    paused.start_paused = true;
    let began = rig.home().join("began");
    // It does not end when it is told to, and goes on writing.
    let line = format!(
        "trap '' TERM; echo $$ > '{0}.new'; mv '{0}.new' '{0}'; \
         while true; do date +%N > left.txt; sleep 0.01; done",
        began.display()
    );
    let made = create(&plans, paused, vec![job("stubborn", &[], &line)]).await;
    assert_eq!(plans.close(PATIENCE).await.unwrap(), Closed::Idle);

    let mut holder = rig.process(&["attend"]);
    let follower = Plans::new(alone(&rig));
    until("a holder", async || {
        rig.storage().join("runner.json").exists()
    })
    .await;
    until("follower connected", async || {
        follower.attend().await.unwrap();
        match follower.standing() {
            Standing::Follows(_) => true,
            Standing::Holds => panic!("the other one was slower"),
            _ => false,
        }
    })
    .await;
    ask(&follower, made.plan, Command::Resume).await;
    until("the job", async || began.exists()).await;
    ask(&follower, made.plan, Command::Cancel { reason: None }).await;
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("worktrees", async || rig.worktrees().is_empty()).await;
    let pid: i32 = fs::read_to_string(&began).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    until("the process", async || {
        rustix::process::test_kill_process(pid).is_err()
    })
    .await;
    plan_is(&follower, made.plan, |plan| {
        let worktree = plan.find("stubborn").unwrap().worktree();
        plan.status() == PlanStatus::Canceled && worktree.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_brought_back_while_it_is_put_away_keeps_its_new_worktrees() {
    /// Enough that their deletion takes longer than a look at them.
    const FILES: usize = 4_000;
    let rig = Rig::new();
    let plans = rig.plans();
    let gate = rig.home().join("gate");
    let fill =
        format!("mkdir many; cd many; seq 1 {FILES} | xargs touch; cd ..; git add -A >/dev/null");
    let line = format!(
        "test -e '{0}' && sleep 1 && echo done > done.txt || {{ {fill}; touch '{0}.full'; sleep 1000; }}; \
         test -e done.txt",
        gate.display()
    );
    let mut large = job("large", &[], &line);
    large.auto_heal = false;
    let made = create(&plans, settings("Back"), vec![large]).await;
    let full = rig.home().join("gate.full");
    until("the files", async || full.exists()).await;
    fs::write(&gate, "open").unwrap();
    let worktree = rig.worktrees().pop().unwrap();
    let many = rig.root.join(".worktrees").join(worktree).join("many");
    ask(&plans, made.plan, Command::Cancel { reason: None }).await;
    // Its files are being deleted: some are gone, and not all.
    until("the deletion", async || {
        fs::read_dir(&many).map_or(0, Iterator::count) < FILES
    })
    .await;
    ask(&plans, made.plan, Command::Recover).await;
    ask(&plans, made.plan, Command::Resume).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "done.txt"), "done\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_comes_for_a_job_which_waits_no_more_is_left_to_others() {
    let rigs = [Rig::new(), Rig::new(), Rig::new()];
    let shared = tempfile::tempdir().unwrap();
    let gate = shared.path().join("gate");
    let all = rigs.each_ref().map(|rig| {
        Plans::new(Options {
            machine: Some(Machine {
                directory: shared.path().join("slots"),
                slots: 1,
            }),
            ..alone(rig)
        })
    });
    let [works, waits, third] = &all;
    let line = gated(&gate, "echo x > x.txt");
    let working = create(works, settings("Works"), vec![job("one", &[], &line)]).await;
    plan_is(works, working.plan, |plan| plan.counts().active() == 1).await;
    let waiting = create(waits, settings("Waits"), vec![job("one", &[], "true")]).await;
    plan_is(waits, waiting.plan, |plan| plan.branches().is_some()).await;
    // It has asked for a slot by then.
    ask(waits, waiting.plan, Command::Cancel { reason: None }).await;
    ended(waits, waiting.plan).await;
    fs::write(&gate, "open").unwrap();
    succeeded(works, working.plan).await;
    let line = "echo y > y.txt";
    for _ in 0..2 {
        let mut settings = settings("Third");
        settings.target_branch = None;
        let made = create(third, settings, vec![job("one", &[], line)]).await;
        succeeded(third, made.plan).await;
    }
}
