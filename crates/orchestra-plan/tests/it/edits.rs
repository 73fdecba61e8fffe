//! Changes of jobs: plans that are put together job by job, reshaped, edited, copied and split.

use orchestra_plan::command::{AgentFields, AgentPatch, Code, Command, Operation, Report, Retry};
use orchestra_plan::event::{Act, Event, FailureKind, JobChange};
use orchestra_plan::phase::Phase;
use orchestra_plan::plan::{PhaseStatus, Plan};
use orchestra_plan::pressure::Part;
use orchestra_plan::spec::Task;
use orchestra_plan::status::{JobStatus, PlanStatus};
use orchestra_plan::view;

use crate::make::{job, new_plan, plan_id, producer, work};
use crate::user::{acts, diamond, fail, id, plan, refused, report, status, until, world};
use crate::world::World;

#[test]
fn jobs_are_added_in_any_order_and_the_plan_completed() {
    let mut new = new_plan(1, Vec::new());
    new.scaffolding = true;
    let mut world = World::new(1);
    world.create(new).unwrap();
    assert_eq!(
        refused(&mut world, Command::Finalize { start_paused: true }).0,
        Code::NoJobs
    );
    assert_eq!(refused(&mut world, Command::Resume).0, Code::WrongPlanState);
    let jobs = vec![
        job("end", &["start"]),
        job("start", &[]),
        job("bad", &["gone"]),
        job("late", &[]),
    ];
    let decision = world.command(0, Command::AddJobs(jobs)).unwrap();
    let told: Vec<(&str, bool)> = decision
        .items
        .iter()
        .map(|item| (item.asked.as_str(), item.refused.is_none()))
        .collect();
    assert_eq!(told, [("start", true), ("end", true), ("bad", false)]);
    let refusal = decision.items[2].refused.as_ref().unwrap();
    assert_eq!(refusal.code(), Code::UnknownDependency);
    world
        .command(0, Command::Finalize { start_paused: true })
        .unwrap();
    assert_eq!(plan(&world).status(), PlanStatus::PendingStart);
    let last: Vec<&str> = plan(&world)
        .dependencies(plan(&world).validation().unwrap())
        .map(|job| job.producer().as_str())
        .collect();
    assert_eq!(last, ["end"]);
    let add = Command::AddJobs(vec![job("more", &[])]);
    assert_eq!(refused(&mut world, add).0, Code::WrongPlanState);
}

#[test]
fn plan_created_under_a_sandbox_keeps_it_in_its_log_and_its_clone_does_not() {
    for sandboxed in [false, true] {
        let mut new = new_plan(1, vec![job("one", &[])]);
        new.sandboxed = sandboxed;
        let mut world = World::new(1);
        world.create(new).unwrap();
        let text = serde_json::to_string(&world.runs[0].log).unwrap();
        // Earlier versions read the log of a plan without a sandbox.
        assert_eq!(text.contains("sandboxed"), sandboxed, "{text}");
        let log: Vec<Event> = serde_json::from_str(&text).unwrap();
        assert_eq!(Plan::replay(&log).unwrap().is_sandboxed(), sandboxed);
        let clone = orchestra_plan::decide::cloned(plan(&world), plan_id(5), None, None).unwrap();
        assert!(!clone.sandboxed);
    }
}

#[test]
fn an_operation_that_fails_does_not_stop_the_rest() {
    let mut world = diamond();
    let operations = vec![
        Operation::Add(Box::new(job("extra", &["top"]))),
        Operation::Add(Box::new(job("extra", &[]))),
        Operation::UpdateDependencies {
            job: "top".to_owned(),
            dependencies: vec![producer("end")],
        },
        Operation::Remove {
            job: "left".to_owned(),
        },
        Operation::AddBefore {
            existing: "end".to_owned(),
            job: Box::new(job("before", &["extra"])),
        },
        Operation::AddAfter {
            existing: "end".to_owned(),
            job: Box::new(job("after", &[])),
        },
        Operation::Remove {
            job: "__snapshot-validation__".to_owned(),
        },
    ];
    let decision = world.command(0, Command::Reshape(operations)).unwrap();
    let codes: Vec<Option<&str>> = decision
        .items
        .iter()
        .map(|item| item.refused.as_ref().map(|refusal| refusal.code().name()))
        .collect();
    let expected = [
        None,
        Some("duplicate-producer-id"),
        Some("dependency-cycle"),
        None,
        None,
        None,
        Some("validation-job"),
    ];
    assert_eq!(codes, expected);
    let edges = view::graph(plan(&world))
        .into_iter()
        .map(|node| {
            let names: Vec<&str> = node.depends_on.iter().map(|name| name.as_str()).collect();
            format!("{} <- {}", node.producer_id, names.join(" "))
        })
        .collect::<Vec<_>>();
    assert_eq!(
        edges,
        [
            "top <- ",
            "right <- top",
            "end <- before",
            "extra <- top",
            "before <- extra top right",
            "after <- end",
            "__snapshot-validation__ <- after",
        ]
    );
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
}

#[test]
fn a_job_that_has_begun_is_not_reshaped() {
    let mut world = diamond();
    until(&mut world, "left", Act::of(Phase::Work));
    let operations = vec![
        Operation::Remove {
            job: "top".to_owned(),
        },
        Operation::UpdateDependencies {
            job: "left".to_owned(),
            dependencies: Vec::new(),
        },
    ];
    let decision = world.command(0, Command::Reshape(operations)).unwrap();
    assert!(decision.events.is_empty());
    assert!(decision.items.iter().all(|item| item.refused.is_some()));
}

#[test]
fn a_job_at_work_is_not_edited_whatever_it_is_called_by() {
    let mut world = diamond();
    until(&mut world, "top", Act::of(Phase::Work));
    let change = JobChange {
        work: Some(work("other")),
        ..JobChange::default()
    };
    for name in [
        id(&world, "top").to_string(),
        "top".to_owned(),
        "TOP".to_owned(),
    ] {
        let update = Command::UpdateJob {
            job: name,
            change: change.clone(),
        };
        assert_eq!(refused(&mut world, update).0, Code::WrongJobState);
    }
    let update = Command::UpdateJob {
        job: "end".to_owned(),
        change,
    };
    world.command(0, update).unwrap();
    let end = plan(&world).job_of(&producer("end")).unwrap();
    assert_eq!(end.definition().work, Some(work("other")));
    let nothing = Command::UpdateJob {
        job: "end".to_owned(),
        change: JobChange::default(),
    };
    assert_eq!(refused(&mut world, nothing).0, Code::NothingToDo);
    let unknown = Command::UpdateJob {
        job: "gone".to_owned(),
        change: JobChange::default(),
    };
    assert_eq!(refused(&mut world, unknown).0, Code::UnknownJob);
}

#[test]
fn agents_are_changed_in_bulk_and_others_skipped_with_a_reason() {
    let mut agent = job("agent", &[]);
    agent.work = work("@agent do it");
    let mut world = world(vec![agent, job("shell", &[])]);
    let fields = AgentFields {
        resume_session: Some(true),
        ..AgentFields::default()
    };
    let patch = AgentPatch {
        agent: Some(Box::new(fields)),
        ..AgentPatch::default()
    };
    let decision = world
        .command(0, Command::BulkUpdate { jobs: None, patch })
        .unwrap();
    let skipped: Vec<&str> = decision
        .items
        .iter()
        .filter_map(|item| Some(item.refused.as_ref()?.message()))
        .collect();
    assert_eq!(skipped.len(), 2);
    assert_eq!(skipped[0], "job `shell` does not run an agent");
    let agent = plan(&world).job_of(&producer("agent")).unwrap();
    let work = agent.definition().work.as_ref().unwrap();
    assert_eq!(work.agent().unwrap().resume_session, Some(true));
}

#[test]
fn a_worktree_that_holds_the_work_of_others_is_not_cleared() {
    let mut world = diamond();
    fail(&mut world, "right", Act::of(Phase::Work), FailureKind::Git);
    assert_eq!(status(&world, "right"), JobStatus::Failed);
    let retry = Retry {
        clear_worktree: true,
        ..Retry::default()
    };
    let command = Command::RetryJob {
        job: "right".to_owned(),
        retry,
    };
    assert_eq!(refused(&mut world, command).0, Code::WorktreeNeeded);
    assert_eq!(status(&world, "right"), JobStatus::Failed);
}

#[test]
fn a_copy_has_the_jobs_and_none_of_the_history() {
    let mut world = diamond();
    world.drain();
    let copy = orchestra_plan::decide::cloned(plan(&world), plan_id(5), None, None).unwrap();
    let at = world.create(copy).unwrap();
    let copy = &world.runs[at].plan;
    assert_eq!(
        (copy.name(), copy.status()),
        ("plan 1 (clone)", PlanStatus::Scaffolding)
    );
    assert_eq!(copy.source(), Some(&plan_id(1)));
    let names: Vec<&str> = copy
        .jobs()
        .iter()
        .map(|job| job.producer().as_str())
        .collect();
    assert_eq!(names, ["top", "left", "right", "end"]);
    world
        .command(
            at,
            Command::Finalize {
                start_paused: false,
            },
        )
        .unwrap();
    world.drain();
    assert_eq!(world.runs[at].plan.status(), PlanStatus::Succeeded);
}

#[test]
fn a_job_that_is_split_is_followed_by_its_parts() {
    let mut world = diamond();
    until(&mut world, "left", Act::of(Phase::Work));
    let part = || Part {
        task: Task::parse("the rest").unwrap(),
        work: work("@agent go on"),
    };
    report(&mut world, "left", Report::Split(vec![part(), part()]));
    assert_eq!(acts(&world, "left"), ["merge-fi", "work", "commit"]);
    let edges = |name: &str| -> Vec<String> {
        let plan = plan(&world);
        let job = plan.job_of(&producer(name)).unwrap();
        plan.dependencies(job)
            .map(|job| job.producer().to_string())
            .collect()
    };
    assert_eq!(edges("left-sub-2"), ["left"]);
    assert_eq!(edges("left-fan-in"), ["left-sub-1", "left-sub-2"]);
    assert_eq!(edges("end"), ["left-fan-in", "right"]);
    world.crash();
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
    let left = plan(&world).job_of(&producer("left")).unwrap();
    assert!(
        left.history()
            .any(|change| change.to == JobStatus::CompletedSplit)
    );
    let job = plan(&world).job_of(&producer("left-fan-in")).unwrap();
    assert_eq!(job.phase(Phase::Postchecks), PhaseStatus::Success);
}
