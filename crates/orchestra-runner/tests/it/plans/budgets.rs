//! Budgets of jobs and plans: what goes beyond them is ended, and what is raised goes on.

use std::{fs, time::Duration};

use orchestra_plan::{
    command::{Command, PlanPatch, Retry},
    event::{FailureKind, JobChange},
    spec::Budget,
    status::{JobStatus, PlanStatus},
};
use orchestra_runner::plans::{Caller, Options, Plans};
use serde_json::json;

use super::rig::{Rig, create, ended, job, settings, status, succeeded};

/// Options with an agent that uses much at first and goes on, and little when it is called again.
fn spends(rig: &Rig) -> Options {
    let path = rig.home().join("script.json");
    let much = json!({"usage": {"input": 1_500, "output": 500, "cost_usd": 2.5}});
    let little = json!({"usage": {"input": 10, "output": 5, "cost_usd": 0.01}});
    let script = json!({"steps": [
        {"when": {"run": 1}, "do": [little, much, "hang"]},
        {"do": [little, {"write": {"path": "done.txt", "text": "done\n"}}, "complete"]},
    ]});
    fs::write(&path, script.to_string()).unwrap();
    let mut options = Options {
        background: None,
        ..rig.options()
    };
    let name = "ORCHESTRA_AGENT_SCRIPT".into();
    options.environment.insert(name, path.into());
    options
}

fn budget(value: serde_json::Value) -> Budget {
    serde_json::from_value(value).unwrap()
}

/// Runs an agent into a budget, of its job or of its plan; asks for it again, which is refused; raises
/// the budget, and sees it end well.
async fn is_bounded(of_plan: bool, least: serde_json::Value, words: &str, field: &str) {
    let rig = Rig::new();
    let plans = Plans::new(spends(&rig));
    let whose = if of_plan { "plan" } else { "job" };
    let (mut own, mut spends) = (settings("Spends"), job("spends", &[], "@agent Do it."));
    match of_plan {
        true => own.budget = budget(least),
        false => spends.budget = budget(least),
    }
    let jobs = vec![spends, job("later", &["spends"], "cp done.txt later.txt")];
    let made = create(&plans, own, jobs).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(plan.status(), PlanStatus::Failed);
    assert_eq!(status(&plan, "later"), JobStatus::Blocked);
    let found = plan.find("spends").unwrap();
    // It is not healed: there is nothing left to heal it with.
    assert_eq!(found.attempts().len(), 1);
    let failure = found.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::BudgetExceeded);
    assert!(failure.message.contains(words), "{failure}");
    let raise = format!("raise `{field}` of the {whose}");
    assert!(failure.message.contains(&raise), "{failure}");
    let is_wall = field == "budget.wallMs";
    // How far it comes within a time is not certain.
    if !is_wall {
        let used = (plan.usage().tokens(), plan.usage().cost_micros);
        assert_eq!(used, (2_015, 2_510_000));
    }

    let retry = || Command::RetryJob {
        job: "spends".to_owned(),
        retry: Retry::default(),
    };
    let caller = Caller::default();
    let refused = plans.command(made.plan, retry(), &caller).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), "budget-exceeded");
    assert!(refused.to_string().contains(&raise), "{refused}");

    let enough = budget(json!({"tokens": 5_000, "cost": 5, "wallMs": 3_600_000}));
    let raised = match of_plan {
        true => Command::Update(PlanPatch {
            budget: Some(enough),
            ..PlanPatch::default()
        }),
        false => Command::UpdateJob {
            job: "spends".to_owned(),
            change: JobChange {
                budget: Some(enough),
                ..JobChange::default()
            },
        },
    };
    plans.command(made.plan, raised, &caller).await.unwrap();
    plans.command(made.plan, retry(), &caller).await.unwrap();
    let plan = succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "later.txt"), "done\n");
    assert!(is_wall || plan.usage().tokens() == 2_030);
    plans.close(Duration::from_secs(60)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_jobs_and_plans_are_bounded() {
    for of_plan in [false, true] {
        let words = "2015 tokens used of 1000";
        is_bounded(of_plan, json!({"tokens": 1_000}), words, "budget.tokens").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn money_of_jobs_and_plans_is_bounded() {
    for of_plan in [false, true] {
        let words = "cost 2.51 of 1.25";
        is_bounded(of_plan, json!({"cost": 1.25}), words, "budget.cost").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_time_of_jobs_and_plans_is_bounded() {
    for of_plan in [false, true] {
        let words = "ms of wall time used of 3000";
        is_bounded(of_plan, json!({"wallMs": 3_000}), words, "budget.wallMs").await;
    }
}
