//! What cannot be had is found when a plan is made or changed, not when its job begins.

use std::{collections::BTreeMap, sync::Arc};

use orchestra_plan::{
    command::{Command, Operation},
    event::JobChange,
    ids::Branch,
    spec::{JobSpec, PlanSettings},
    status::PlanStatus,
};
use orchestra_runner::{
    agents::{Agents, Prober},
    plans::{Caller, Plans},
};

use super::rig::{self, Rig, create, job, settings, succeeded};

/// What creating a plan is refused with.
async fn refused(plans: &Plans, settings: PlanSettings, jobs: Vec<JobSpec>) -> String {
    let caller = Caller::named("a test");
    let error = plans.create(settings, jobs, false, &caller).await;
    error.unwrap_err().code().to_owned()
}

/// A job for an agent, as JSON says it.
fn for_agent(fields: serde_json::Value) -> JobSpec {
    let mut work = serde_json::json!({"type": "agent", "instructions": "Do it."});
    for (name, value) in fields.as_object().unwrap() {
        work[name] = value.clone();
    }
    JobSpec {
        work: serde_json::from_value(work).unwrap(),
        ..job("last", &["first"], "true")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_do_the_work_is_found_when_the_plan_is_made() {
    let rig = Rig::new();
    let plans = rig.plans();
    let first = || job("first", &[], "echo 1 > one.txt");
    for (fields, code) in [
        (serde_json::json!({"agent": "nosuch"}), "agent_unknown"),
        (
            serde_json::json!({"agent": "scripted", "allowedUrls": ["a.com"]}),
            "agent_urls_unsupported",
        ),
        (
            serde_json::json!({"agent": "claude", "allowedFolders": ["/not/there"]}),
            "agent_folder",
        ),
    ] {
        let jobs = vec![first(), for_agent(fields.clone())];
        let refused = refused(&plans, settings("Cannot"), jobs.clone()).await;
        assert_eq!(refused, code, "{fields}");
        let foreseen = plans.foresee(&settings("Cannot"), &jobs).await;
        assert_eq!(foreseen.unwrap_err().code(), code, "{fields}");
    }
    assert!(plans.list().await.unwrap().is_empty());
    // What is brought later is looked at as well.
    let mut held = settings("Held");
    held.start_paused = true;
    let made = create(&plans, held, vec![first()]).await;
    let add = Command::Reshape(vec![Operation::Add(Box::new(for_agent(
        serde_json::json!({"agent": "nosuch"}),
    )))]);
    let change = JobChange {
        work: Some(for_agent(serde_json::json!({"agent": "nosuch"})).work),
        ..JobChange::default()
    };
    let update = Command::UpdateJob {
        job: "first".to_owned(),
        change,
    };
    for command in [add, update] {
        let caller = Caller::named("a test");
        let error = plans.command(made.plan, command, &caller).await;
        assert_eq!(error.unwrap_err().code(), "agent_unknown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_installed_yet_is_a_warning() {
    let rig = Rig::new();
    let mut options = rig.options();
    // No program is found there.
    let prober = Prober::new(rig.home().join("bin").into_os_string(), rig::program());
    options.agents = Arc::new(Agents::new(BTreeMap::new(), prober));
    let plans = Plans::new(options);
    let mut held = settings("Held");
    held.start_paused = true;
    let work = for_agent(serde_json::json!({"agent": "claude", "model": "opus"}));
    let jobs = vec![job("first", &[], "true"), work];
    let warned = plans.foresee(&held, &jobs).await.unwrap();
    assert!(warned[0].contains("is not installed"), "{warned:?}");
    let made = create(&plans, held, jobs).await;
    assert_eq!(made.warnings, warned);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_plan_starts_and_ends_is_settled_when_it_is_made() {
    let rig = Rig::new();
    let plans = rig.plans();
    let jobs = || vec![job("one", &[], "echo 1 > one.txt")];
    let branch = |name: &str| Some(Branch::parse(name).unwrap());
    let mut wrong = settings("Wrong");
    wrong.base_branch = branch("nope");
    assert_eq!(refused(&plans, wrong, jobs()).await, "unknown-commit");
    let mut wrong = settings("Wrong");
    wrong.target_branch = branch("main/below");
    assert_eq!(refused(&plans, wrong, jobs()).await, "branch-in-the-way");
    assert!(plans.list().await.unwrap().is_empty());
    let base = async |held: PlanSettings| {
        let made = create(&plans, held, jobs()).await;
        let plan = plans.plan(made.plan).await.unwrap();
        (plan.settings().base_branch.clone(), made.warnings)
    };
    let held = |name: &str| PlanSettings {
        start_paused: true,
        ..settings(name)
    };
    assert_eq!(base(held("On a branch")).await, (branch("main"), vec![]));
    rig.git(&["checkout", "-q", "--detach"]);
    let head = rig.git(&["rev-parse", "HEAD"]);
    assert_eq!(base(held("On none")).await, (branch(head.trim()), vec![]));
    std::fs::write(rig.root.join("README"), "mine\n").unwrap();
    std::fs::write(rig.root.join("new.txt"), "mine\n").unwrap();
    // Files of a board are no part of what jobs miss.
    std::fs::create_dir(rig.root.join(".projects")).unwrap();
    std::fs::write(rig.root.join(".projects/project.toon"), "slug: shop\n").unwrap();
    let (_, warned) = base(held("Dirty")).await;
    let not_part = "2 uncommitted changes are not part of it: jobs see what is committed";
    assert_eq!(warned, [not_part]);
    rig.git(&["checkout", "-q", "main"]);
    let mut here = held("Target is here");
    here.target_branch = branch("main");
    let (_, warned) = base(here).await;
    let follows = "its target `main` is checked out here with 1 uncommitted change: commit or stash before it \
                   ends, or its result cannot be merged";
    assert_eq!(warned, [not_part, follows]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_the_earlier_system_is_copied_and_runs() {
    let rig = Rig::new();
    let id = "6c84fb90-12c4-41e1-840d-7b25c5ee775a";
    let plan = serde_json::json!({
        "id": id,
        "spec": {"name": "Old"},
        "jobs": [
            {"id": "n1", "producerId": "first", "task": "First", "dependencies": [], "work": "echo 1 > one.txt"},
            {"id": "n2", "producerId": "second", "task": "Second", "dependencies": ["n1"], "work": "echo 2 > two.txt"},
        ],
    });
    let directory = rig.storage().join(id);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("plan.json"), plan.to_string()).unwrap();
    let plans = rig.plans();
    let old = plans.find("old").await.unwrap();
    assert_eq!(old.status(), PlanStatus::Archived);
    let caller = Caller::named("a test");
    let deleted = plans.command(*old.id(), Command::Delete, &caller).await;
    assert_eq!(deleted.unwrap_err().code(), "plan-read-only");
    let target = Branch::parse("result").unwrap();
    let copy = plans.copy(*old.id(), None, Some(target), &caller).await;
    let copy = copy.unwrap().plan;
    let start = Command::Finalize {
        start_paused: false,
    };
    plans.command(copy, start, &caller).await.unwrap();
    succeeded(&plans, copy).await;
    assert_eq!(rig.file("result", "two.txt"), "2\n");
    assert_eq!(plans.list().await.unwrap().len(), 2);
    assert!(directory.join("plan.json").exists());
}
