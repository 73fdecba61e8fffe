//! A damaged database is made anew, and plans that lack values since do not run without them.

use std::{collections::BTreeMap, fs, time::Duration};

use orchestra_plan::{
    command::{Command, PlanPatch, Retry},
    event::PauseReason,
    spec::{Name, PlanSettings},
    status::PlanStatus,
    value::{Env, EnvName, EnvValue},
};
use orchestra_runner::{
    journal::Fault,
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
    assert_eq!(inspect(&rig.storage()).unwrap(), 0);
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
    plans.close(PATIENCE).await.unwrap();
    assert_eq!(inspect(&rig.storage()).unwrap(), 2);

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
    assert_eq!(inspect(&rig.storage()).unwrap(), 2);

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
