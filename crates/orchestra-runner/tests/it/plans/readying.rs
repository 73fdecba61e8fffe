//! Worktrees that a repository says itself how to make ready, and what agents find in theirs.

use std::{collections::BTreeMap, fs, sync::Arc};

use orchestra_plan::{
    event::Act,
    phase::Phase,
    plan::{PhaseStatus, Plan},
    status::PlanStatus,
};
use orchestra_runner::{
    agents::{Agents, Named, Prober},
    plans::{Options, Plans},
};
use serde_json::{Value, json};

use super::rig::{Rig, create, ended, job, program, settings, succeeded};

const SKILL: &str = ".github/skills/.orchestrator/SKILL.md";

/// A repository that says how its worktrees are made ready.
fn says_how() -> Rig {
    let rig = Rig::new();
    let directory = rig.root.join(".github/instructions");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("worktree-init.instructions.md");
    fs::write(file, "Write the file ready.txt.\n").unwrap();
    rig.git(&["add", "-A"]);
    rig.git(&["commit", "-q", "-m", "how worktrees are made ready"]);
    rig
}

/// Options with agents that do what this script says.
fn options(rig: &Rig, script: &Value) -> Options {
    let path = rig.home().join("script.json");
    fs::write(&path, script.to_string()).unwrap();
    let mut options = Options {
        background: None,
        ..rig.options()
    };
    let name = "ORCHESTRA_AGENT_SCRIPT".into();
    options.environment.insert(name, path.into());
    options
}

/// What the first attempt of a job has on its log.
fn log(rig: &Rig, plan: &Plan, name: &str) -> String {
    let job = plan.find(name).unwrap().id().to_string();
    let directory = rig.storage().join(plan.id().to_string()).join("specs");
    let attempt = directory.join(job).join("attempts/1");
    fs::read_to_string(attempt.join("lines.jsonl")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_makes_worktrees_ready_as_the_repository_says() {
    let rig = says_how();
    let script = json!({"steps": [
        {"when": {"prompt": "Write the file ready.txt."},
            "do": [{"append": {"path": "ready.txt", "text": "ready\n"}}, "complete"]},
    ]});
    let plans = Plans::new(options(&rig, &script));
    let jobs = vec![
        job("first", &[], "cp ready.txt first.txt"),
        job("second", &["first"], "cp ready.txt second.txt"),
    ];
    let made = create(&plans, settings("Ready"), jobs).await;
    let plan = succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "first.txt"), "ready\n");
    // Each worktree is made ready, whatever others left to be committed.
    assert_eq!(rig.file("result", "second.txt"), "ready\nready\n");
    let first = plan.find("first").unwrap();
    assert_eq!(first.phase(Phase::Setup), PhaseStatus::Success);
    // By a quick model.
    assert!(log(&rig, &plan, "first").contains("script-fast"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worktree_that_cannot_be_made_ready_fails_its_job() {
    let rig = says_how();
    let script = json!({"steps": [{"do": [{"exit": 7}]}]});
    let plans = Plans::new(options(&rig, &script));
    let mut one = job("one", &[], "echo 1 > one.txt");
    one.auto_heal = false;
    let made = create(&plans, settings("Not ready"), vec![one]).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Failed);
    let failure = plan.find("one").unwrap().attempts()[0].failure.clone();
    let (act, failure) = failure.unwrap();
    assert_eq!((act, failure.exit_code), (Act::of(Phase::Setup), Some(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn worktree_without_a_named_agent_is_used_as_it_is_and_that_is_logged() {
    let rig = says_how();
    let nowhere = rig.home().join("no programs here");
    let prober = Prober::new(nowhere.into(), program());
    let plans = Plans::new(Options {
        agents: Arc::new(Agents::new(BTreeMap::new(), prober)),
        named: Named::default(),
        background: None,
        ..rig.options()
    });
    let made = create(
        &plans,
        settings("As it is"),
        vec![job("one", &[], "echo 1 > one.txt")],
    )
    .await;
    let plan = succeeded(&plans, made.plan).await;
    let log = log(&rig, &plan, "one");
    assert!(
        log.contains("is not followed: no agent is named for it"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_find_out_how_work_is_done_in_a_file_that_is_in_no_commit() {
    let rig = Rig::new();
    let script = json!({"steps": [{"do": [
        {"wait_for": SKILL},
        {"write": {"path": ".github/skills/own/SKILL.md", "text": "own\n"}},
        {"commit": "Everything that is there"},
        {"write": {"path": "more.txt", "text": "more\n"}},
        "complete",
    ]}]});
    let plans = Plans::new(options(&rig, &script));
    let made = create(
        &plans,
        settings("Skill"),
        vec![job("one", &[], "@agent Do it.")],
    )
    .await;
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "more.txt"), "more\n");
    let all = rig.git(&["log", "--all", "--format=%H"]);
    for commit in all.lines() {
        let files = rig.git(&["ls-tree", "-r", "--name-only", commit]);
        assert!(!files.contains(SKILL), "{commit}: {files}");
    }
    // Those of the repository and of its jobs are.
    assert_eq!(rig.file("result", ".github/skills/own/SKILL.md"), "own\n");
    let status = rig.git(&["status", "--porcelain"]);
    assert!(!status.contains("skills"), "{status}");
}
