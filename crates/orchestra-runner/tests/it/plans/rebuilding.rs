//! A damaged database is made anew, and plans that lack values since do not run without them. A plan that
//! cannot be read stands in no other's way.

use std::{collections::BTreeMap, fs, time::Duration};

use orchestra_plan::{
    command::{Command, PlanPatch, Retry},
    event::PauseReason,
    spec::{Name, PlanSettings},
    status::PlanStatus,
    value::{Env, EnvName, EnvValue},
};
use orchestra_runner::{
    journal::{Append, Fault, Fresh, Journal, PlanKey},
    plans::{Caller, PlansError, inspect, rebuild},
};

use super::rig::{PATIENCE, Rig, create, ended, job, settings, succeeded};

fn env(name: &str, value: &str) -> Env {
    let pair = (
        EnvName::parse(name).unwrap(),
        EnvValue::parse(value).unwrap(),
    );
    Env::new(BTreeMap::from([pair])).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_lacks_values_since_its_database_was_damaged_waits_for_them() {
    let rig = Rig::new();
    assert_eq!(inspect(&rig.storage()).unwrap().plans, 0);
    assert!(!rig.storage().exists(), "looking makes nothing");
    let plans = rig.plans();
    let lacking = PlanSettings {
        start_paused: true,
        env: env("WORD", "swordfish"),
        ..settings("Lacking")
    };
    let line = "test \"$WORD\" = swordfish && echo $WORD > word.txt";
    let mut one = job("one", &[], line);
    one.auto_heal = false;
    let lacking = create(&plans, lacking, vec![one]).await.plan;
    let whole = PlanSettings {
        start_paused: true,
        target_branch: None,
        env: env("HERE", "$HOME"),
        ..PlanSettings::of(Name::parse("Whole").unwrap())
    };
    let whole = create(&plans, whole, vec![job("two", &[], "echo > two.txt")])
        .await
        .plan;
    let in_use = rebuild(&rig.storage()).unwrap_err();
    assert_eq!(in_use.code(), "in-use");
    let holder = format!("process {} runs the plans", std::process::id());
    assert!(in_use.to_string().contains(&holder), "{in_use}");
    plans.close(PATIENCE).await.unwrap();
    assert_eq!(inspect(&rig.storage()).unwrap().plans, 2);

    // What was not moved into the database yet is lost as well.
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(rig.storage().join(format!("plans.db{end}")));
    }
    // A new file: what this process still holds open of the old one has nothing to do with it.
    fs::remove_file(rig.storage().join("plans.db")).unwrap();
    fs::write(rig.storage().join("plans.db"), vec![b'x'; 9_000]).unwrap();
    let damaged = inspect(&rig.storage()).unwrap_err();
    assert!(
        matches!(damaged, PlansError::Storage(Fault::Damaged)),
        "{damaged:?}"
    );
    let mended = rebuild(&rig.storage()).unwrap();
    assert_eq!((mended.plans, mended.from_files + 1), (2, mended.events));
    assert!(mended.aside.unwrap().exists());
    let named: Vec<_> = mended.left_out.into_iter().collect();
    assert_eq!(named, [(lacking, ["WORD".to_owned()].into())]);
    assert_eq!(inspect(&rig.storage()).unwrap().plans, 2);

    let plans = rig.plans();
    let plan = plans.plan(whole).await.unwrap();
    assert_eq!(plan.paused(), Some(&PauseReason::StartPaused));
    let plan = plans.plan(lacking).await.unwrap();
    let Some(PauseReason::Variables { error }) = plan.paused() else {
        panic!("{:?}", plan.paused());
    };
    assert!(error.contains("set WORD and resume"), "{error}");
    // Who resumes it without them is told once more, and nothing runs with what stands in their place.
    let caller = Caller::default();
    let ask = async |command| plans.command(lacking, command, &caller).await.unwrap();
    ask(Command::Resume).await;
    let plan = ended(&plans, lacking).await;
    assert_eq!(plan.status(), PlanStatus::Failed);
    let failure = plan.find("one").unwrap().failure().unwrap();
    assert!(
        failure.message.contains("values of WORD"),
        "{}",
        failure.message
    );
    let set = PlanPatch {
        env: Some(env("WORD", "swordfish")),
        ..PlanPatch::default()
    };
    ask(Command::Update(set)).await;
    let retry = Retry::default();
    ask(Command::RetryPlan { jobs: None, retry }).await;
    succeeded(&plans, lacking).await;
    assert_eq!(rig.file("result", "word.txt"), "swordfish\n");
    plans.close(Duration::from_secs(30)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_a_newer_program_has_changed_stands_in_no_others_way() {
    let rig = Rig::new();
    let plans = rig.plans();
    let mut fails = job("fails", &[], "echo mine > mine.txt; exit 1");
    fails.auto_heal = false;
    let newer = create(&plans, settings("Newer"), vec![fails]).await.plan;
    let failed = ended(&plans, newer).await;
    let kept = rig.worktrees();
    assert!(!kept.is_empty());
    let paused = PlanSettings {
        start_paused: true,
        ..settings("Other")
    };
    let other = create(&plans, paused, vec![job("one", &[], "echo 1 > one.txt")])
        .await
        .plan;
    plans.close(PATIENCE).await.unwrap();

    // As a program of another version would.
    let journal = Journal::open(
        &rig.storage(),
        orchestra_runner::journal::Options::default(),
    );
    let journal = journal.unwrap();
    let body = serde_json::json!({"at": 1, "what": {"fromTheFuture": {}}});
    let append = Append {
        plan: PlanKey::parse(&newer.to_string()).unwrap(),
        expected: failed.version(),
        events: vec![Fresh::new(1, &body).unwrap()],
        once: None,
    };
    journal.append(append).await.unwrap();
    journal.close().await;

    let found = inspect(&rig.storage()).unwrap();
    assert_eq!((found.plans, found.unreadable.len()), (1, 1));
    let plans = rig.plans();
    let unreadable = plans.unreadable().await.unwrap();
    assert_eq!(unreadable, found.unreadable);
    assert_eq!(unreadable[0].plan, newer);
    assert!(unreadable[0].what.contains("update the program"));
    let error = plans.plan(newer).await.unwrap_err();
    assert_eq!(error.code(), "plan-unreadable");
    let listed = plans.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(*listed[0].id(), other);
    let caller = Caller::default();
    plans
        .command(other, Command::Resume, &caller)
        .await
        .unwrap();
    succeeded(&plans, other).await;
    assert_eq!(rig.file("result", "one.txt"), "1\n");
    plans.close(PATIENCE).await.unwrap();
    // Nothing of it is removed by who does not know what it needs.
    let left = rig.worktrees();
    assert!(kept.iter().all(|worktree| left.contains(worktree)));
}
