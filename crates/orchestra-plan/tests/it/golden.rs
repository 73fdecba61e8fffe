//! A log that was kept is read for ever, and folds to the same plan.
//!
//! `tests/logs/1.jsonl` holds an event of every type, and `tests/logs/1.json` what is shown of the plan
//! that they make. Neither is ever changed: what is added to the log is added as another file. Where
//! the first is not there, this test writes both, and fails.

use std::collections::BTreeSet;
use std::path::Path;

use orchestra_plan::budget::Usage;
use orchestra_plan::command::{Command, Operation, PlanPatch, Report, Retry};
use orchestra_plan::event::{
    Act, Event, FailureKind, JobChange, MergeIntent, Process, WorkSummary,
};
use orchestra_plan::phase::Phase;
use orchestra_plan::plan::Plan;
use orchestra_plan::pressure::{Filled, Part, Pressure};
use orchestra_plan::schedule::Waiting;
use orchestra_plan::spec::Task;
use orchestra_plan::view;

use crate::make::{job, new_plan, plan_id, work};
use crate::user::{fail, id, plan, report, until};
use crate::world::World;

const LAST: &str = "__snapshot-validation__";

const TYPES: [&str; 35] = [
    "planCreated",
    "jobsAdded",
    "planFinalized",
    "planUpdated",
    "planChained",
    "planPaused",
    "planResumed",
    "planCanceled",
    "planRecovered",
    "planArchived",
    "planDeleted",
    "branchesReady",
    "budgetExceeded",
    "jobAdded",
    "jobRemoved",
    "dependenciesChanged",
    "jobUpdated",
    "jobScheduled",
    "jobReturned",
    "jobRetried",
    "jobForceFailed",
    "attemptBegan",
    "worktreeReady",
    "actBegan",
    "processStarted",
    "sessionKnown",
    "contextFilled",
    "usageAdded",
    "actSucceeded",
    "jobSplit",
    "mergeIntended",
    "mergeVoided",
    "merged",
    "attemptEnded",
    "worktreeRemoved",
];

fn said(world: &mut World, command: Command) {
    world.command(0, command).unwrap();
}

fn again(world: &mut World, name: &str) {
    let retry = Command::RetryJob {
        job: name.to_owned(),
        retry: Retry::default(),
    };
    said(world, retry);
}

/// A plan to which everything happens.
fn story() -> World {
    let mut world = World::new(1);
    world.failures = 0;
    let mut new = new_plan(1, Vec::new());
    new.scaffolding = true;
    new.settings.verify_ri = Some(work("make check"));
    new.settings.worktree_init = serde_json::from_str(r#"["npm ci"]"#).unwrap();
    new.settings.env = serde_json::from_str(r#"{"TOKEN": "$TOKEN"}"#).unwrap();
    world.create(new).unwrap();
    let mut agent = job("agent", &[]);
    agent.work = work("@agent do it");
    agent.postchecks = Some(work(
        r#"{"type":"shell","command":"t","onFailure":{"message":"see the wiki"}}"#,
    ));
    agent.group = Some("build/linux".parse().unwrap());
    let jobs = vec![agent, job("gone", &[]), job("end", &["agent", "gone"])];
    said(&mut world, Command::AddJobs(jobs));
    said(&mut world, Command::Finalize { start_paused: true });
    said(&mut world, Command::Resume);
    let patch = PlanPatch {
        max_parallel: orchestra_plan::spec::MaxParallel::new(3),
        budget: Some(serde_json::from_str(r#"{"tokens": 1000, "wallMs": 9000000}"#).unwrap()),
        ..PlanPatch::default()
    };
    said(&mut world, Command::Update(patch));
    let operations = vec![
        Operation::Remove {
            job: "gone".to_owned(),
        },
        Operation::AddBefore {
            existing: "end".to_owned(),
            job: Box::new(job("before", &[])),
        },
    ];
    said(&mut world, Command::Reshape(operations));
    let change = JobChange {
        prechecks: Some(orchestra_plan::event::Check::Set(Box::new(work("look")))),
        budget: Some(serde_json::from_str(r#"{"tokens": 500}"#).unwrap()),
        ..JobChange::default()
    };
    let update = Command::UpdateJob {
        job: "end".to_owned(),
        change,
    };
    said(&mut world, update);
    let mut other = new_plan(2, vec![job("other", &[])]);
    other.settings.start_paused = true;
    world.create(other).unwrap();
    for after in [Some(plan_id(2)), None] {
        let patch = PlanPatch {
            resume_after_plan: Some(after),
            ..PlanPatch::default()
        };
        said(&mut world, Command::Update(patch));
    }
    said(&mut world, Command::Resume);
    world.prepare();
    attempts(&mut world);
    world
}

fn attempts(world: &mut World) {
    world.schedule();
    let agent = id(world, "agent");
    let reason = "the runner is gone".to_owned();
    said(world, Command::Return { job: agent, reason });
    until(world, "agent", Act::of(Phase::Work));
    let process = Process { pid: 7, started: 8 };
    report(world, "agent", Report::ProcessStarted(process));
    report(world, "agent", Report::SessionKnown("s-1".to_owned()));
    let usage = Usage {
        input_tokens: 10,
        ..Usage::default()
    };
    report(world, "agent", Report::Used(usage));
    let filled = Filled {
        level: Pressure::Critical,
        used: 150,
        limit: 200,
    };
    report(world, "agent", Report::Filled(filled));
    let part = Part {
        task: Task::parse("the rest").unwrap(),
        work: work("@agent go on"),
    };
    report(world, "agent", Report::Split(vec![part]));
    until(world, "agent", Act::of(Phase::Commit));
    let summary = Some(WorkSummary {
        commits: 1,
        files_added: 2,
        ..WorkSummary::default()
    });
    fail(
        world,
        "agent",
        Act::of(Phase::Commit),
        FailureKind::Transient,
    );
    world.tick(60_000);
    until(world, "agent", Act::of(Phase::Commit));
    let commit = world.commit_of(agent);
    report(
        world,
        "agent",
        Report::ActSucceeded {
            act: Act::of(Phase::Commit),
            commit: Some(commit),
            summary,
            usage: Usage::default(),
            ended: None,
        },
    );
    said(world, Command::WorktreeRemoved { job: agent });
    until(world, "agent-fan-in", Act::of(Phase::Postchecks));
    fail(
        world,
        "agent-fan-in",
        Act::of(Phase::Postchecks),
        FailureKind::ExitCode,
    );
    until(world, "before", Act::of(Phase::Work));
    let force = Command::ForceFail {
        job: "before".to_owned(),
        reason: Some("stuck".to_owned()),
    };
    said(world, force);
    again(world, "before");
    until(world, "end", Act::of(Phase::Work));
    let usage = Usage {
        output_tokens: 501,
        ..Usage::default()
    };
    report(world, "end", Report::Used(usage));
    let raised = JobChange {
        budget: Some(serde_json::from_str(r#"{"tokens": 5000}"#).unwrap()),
        ..JobChange::default()
    };
    let update = Command::UpdateJob {
        job: "end".to_owned(),
        change: raised,
    };
    said(world, update);
    again(world, "end");
    until(world, LAST, Act::of(Phase::MergeRi));
    intend(world);
    report(world, LAST, Report::MergeVoided);
    said(world, Command::Cancel { reason: None });
    said(world, Command::Recover);
    said(world, Command::Resume);
    world.prepare();
    until(world, LAST, Act::of(Phase::MergeRi));
    intend(world);
    let tip = plan(world).validation().unwrap().attempt().unwrap();
    let tip = tip.commit.clone().unwrap();
    report(world, LAST, Report::Merged(tip));
    said(world, Command::Archive { force: false });
    said(world, Command::Delete);
}

fn intend(world: &mut World) {
    let found = plan(world);
    let intent = MergeIntent {
        target: found.branches().unwrap().target.clone(),
        old: None,
        new: found
            .validation()
            .unwrap()
            .attempt()
            .unwrap()
            .commit
            .clone()
            .unwrap(),
    };
    report(world, LAST, Report::MergeIntended(intent));
}

/// All that is shown of a plan.
fn shown(plan: &Plan) -> serde_json::Value {
    let jobs: Vec<_> = plan
        .jobs()
        .iter()
        .map(|job| {
            serde_json::json!({
                "job": view::job(plan, job),
                "attempts": view::attempts(job),
            })
        })
        .collect();
    let whole = view::plan(plan, &|_| Waiting::Finalize);
    serde_json::json!({"plan": whole, "jobs": jobs})
}

#[test]
fn a_log_that_was_kept_is_read_for_ever() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
    let (log, view) = (directory.join("1.jsonl"), directory.join("1.json"));
    if !log.exists() {
        let world = story();
        let run = &world.runs[0];
        let lines: Vec<String> = run
            .log
            .iter()
            .map(|event| serde_json::to_string(event).unwrap() + "\n")
            .collect();
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(&log, lines.concat()).unwrap();
        let text = serde_json::to_string_pretty(&shown(&run.plan)).unwrap() + "\n";
        std::fs::write(&view, text).unwrap();
        panic!("{} was not there, and is written now", log.display());
    }
    let text = std::fs::read_to_string(log).unwrap();
    let events: Vec<Event> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kept: BTreeSet<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|event| event["what"]["type"].as_str().unwrap().to_owned())
        .collect();
    let missing: Vec<&str> = TYPES
        .into_iter()
        .filter(|name| !kept.contains(*name))
        .collect();
    assert_eq!(missing, [""; 0], "types of events that are not in the log");
    for (line, event) in text.lines().zip(&events) {
        assert_eq!(serde_json::to_string(event).unwrap(), line);
    }
    let plan = Plan::replay(&events).unwrap();
    let kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(view).unwrap()).unwrap();
    assert_eq!(shown(&plan), kept);
}
