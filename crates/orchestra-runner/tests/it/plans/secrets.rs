//! What is secret in the environment of a job is on no log, whoever writes it there.

use std::{collections::BTreeMap, sync::Arc};

use orchestra_plan::{
    command::{Command, Operation, PlanPatch},
    event::{Check, JobChange},
    spec::{JobSpec, PlanSettings},
    value::Env,
    work::{ProfileName, WorkSpec},
};
use orchestra_process::{CHILD_COMMAND, Launcher};
use orchestra_runner::{
    agents::{Agents, Prober},
    logs::Query,
    plans::{Caller, Plans},
};
use serde_json::json;

use super::rig::{self, Rig, create, ended, job, settings};

const PASSWORD: &str = "hunter2-hunter2";

#[tokio::test(flavor = "multi_thread")]
async fn passwords_of_inherited_addresses_and_in_words_of_the_runner_are_masked() {
    let rig = Rig::new();
    let mut options = rig.options();
    let address = format!("https://user:{PASSWORD}@proxy.example/");
    options.environment.insert("THE_URL".into(), address.into());
    let profile = json!({
        "program": "sh",
        "prompt": "stdin",
        "arguments": [["-c", "cat > /dev/null; echo at $THE_URL; echo 1 > one.txt"]],
        "environment": ["THE_URL"],
        "probe": {"version": [], "help": []},
        "output": {"form": "text"},
    });
    let name = ProfileName::parse("teller").unwrap();
    let profiles = BTreeMap::from([(name, serde_json::from_value(profile).unwrap())]);
    let prober = Prober::new(std::env::var_os("PATH").unwrap(), rig::program());
    let prober = prober.launcher(Launcher::new(rig::program(), [CHILD_COMMAND]));
    options.agents = Arc::new(Agents::new(profiles, prober));
    let plans = Plans::new(options);
    let work = json!({"type": "agent", "agent": "teller", "instructions": "Tell."});
    let told = JobSpec {
        work: serde_json::from_value::<WorkSpec>(work).unwrap(),
        ..job("told", &[], "true")
    };
    // The job knows its id by the name of its worktree.
    let line = "mkdir -p .orchestrator/evidence; ID=$(basename \"$PWD\"); printf \
         '{\"version\":1,\"nodeId\":\"%s\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"summary\":\"used %s\"}' \
         \"$ID\" \"$API_TOKEN\" > .orchestrator/evidence/$ID.json";
    let mut shown = job("shown", &[], line);
    shown.env = serde_json::from_value(json!({"API_TOKEN": PASSWORD})).unwrap();
    let made = create(&plans, settings("Secrets"), vec![told, shown]).await;
    let plan = ended(&plans, made.plan).await;
    for (name, words) in [
        ("told", "at https://user:"),
        ("shown", "nothing had to be changed"),
    ] {
        let log = plans.log_of(&plan, name, None).unwrap().unwrap();
        let page = plans.read_log(&log, Query::default()).await.unwrap();
        let text: Vec<String> = page.lines.into_iter().map(|line| line.text).collect();
        let text = text.join("\n");
        assert!(text.contains(words), "{text}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_are_written_out_are_told_when_a_plan_is_made() {
    let rig = Rig::new();
    let plans = Plans::new(rig.options());
    let mut told = settings("Told");
    told.start_paused = true;
    told.env = serde_json::from_value(json!({"API_KEY": "sk-0123456789"})).unwrap();
    let mut one = job("one", &[], "true");
    one.env = serde_json::from_value(json!({"TOKEN": "$TOKEN", "DEPLOY_TOKEN": PASSWORD})).unwrap();
    let foreseen = plans.foresee(&told, std::slice::from_ref(&one)).await;
    let made = create(&plans, told, vec![one]).await;
    for warnings in [foreseen.unwrap(), made.warnings] {
        let named = "the values of API_KEY, DEPLOY_TOKEN look like secrets";
        assert!(
            warnings.iter().any(|warning| warning.contains(named)),
            "{warnings:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_a_change_writes_out_are_told_as_well() {
    let rig = Rig::new();
    let plans = Plans::new(rig.options());
    let held = PlanSettings {
        start_paused: true,
        ..settings("Held")
    };
    let made = create(&plans, held, vec![job("one", &[], "true")]).await;
    assert_eq!(made.warnings, Vec::<String>::new());
    let env = |name: &str| serde_json::from_value::<Env>(json!({name: PASSWORD})).unwrap();
    let work = |name: &str| WorkSpec {
        env: env(name),
        ..WorkSpec::parse("true").unwrap()
    };
    let mut two = job("two", &[], "true");
    two.env = env("TWO_TOKEN");
    let update = PlanPatch {
        env: Some(env("PLAN_TOKEN")),
        ..PlanPatch::default()
    };
    let change = JobChange {
        env: Some(env("JOB_TOKEN")),
        work: Some(work("WORK_TOKEN")),
        postchecks: Some(Check::Set(Box::new(work("CHECK_TOKEN")))),
        ..JobChange::default()
    };
    let job = "one".to_owned();
    for (command, named) in [
        (Command::Update(update), "PLAN_TOKEN"),
        (
            Command::UpdateJob { job, change },
            "CHECK_TOKEN, JOB_TOKEN, WORK_TOKEN",
        ),
        (
            Command::Reshape(vec![Operation::Add(Box::new(two))]),
            "TWO_TOKEN",
        ),
    ] {
        let caller = Caller::named("a test");
        let done = plans.command(made.plan, command, &caller).await.unwrap();
        let words = format!("the values of {named} look like secrets");
        assert!(
            done.warnings.iter().any(|warning| warning.contains(&words)),
            "{done:?}"
        );
    }
}
