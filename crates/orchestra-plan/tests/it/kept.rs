//! What was done, mended or verified is kept, whatever comes between two attempts.

use orchestra_plan::command::{Command, Operation, PlanPatch, Report, Retry};
use orchestra_plan::event::{Act, Failure, FailureKind, JobChange, MergeIntent, What};
use orchestra_plan::phase::Phase;
use orchestra_plan::plan::{Plan, ReplayError, Step, Work};
use orchestra_plan::pressure::Part;
use orchestra_plan::spec::Task;
use orchestra_plan::status::{JobStatus, PlanStatus};
use orchestra_plan::work::AdmissionClass;

use crate::make::{job, new_plan, plan_id, producer, work};
use crate::user::{acts, fail, id, plan, report, status, until, world};
use crate::world::World;

const LAST: &str = "__snapshot-validation__";

fn verified(verify: &str) -> World {
    let mut new = new_plan(1, vec![job("job", &[])]);
    new.settings.verify_ri = Some(work(verify));
    let mut world = World::new(1);
    world.failures = 0;
    world.create(new).unwrap();
    world.prepare();
    world
}

fn again(world: &mut World, name: &str) {
    let retry = Command::RetryJob {
        job: name.to_owned(),
        retry: Retry::default(),
    };
    world.command(0, retry).unwrap();
}

fn lose(world: &mut World, name: &str, act: Act) {
    until(world, name, act);
    let message = "it is gone".to_owned();
    report(world, name, Report::Lost { message });
}

fn checked() -> orchestra_plan::spec::JobSpec {
    let mut spec = job("job", &[]);
    spec.postchecks = Some(work("test"));
    spec
}

fn part() -> Part {
    Part {
        task: Task::parse("the rest").unwrap(),
        work: work("@agent go on"),
    }
}

#[test]
fn a_result_that_did_not_land_is_verified_again_before_it_does() {
    for kind in [FailureKind::TargetDirty, FailureKind::Transient] {
        let mut world = verified("make");
        fail(&mut world, LAST, Act::of(Phase::MergeRi), kind);
        if status(&world, LAST) == JobStatus::Failed {
            again(&mut world, LAST);
        }
        world.now += 100_000;
        until(&mut world, LAST, Act::of(Phase::MergeFi));
        let acts = acts(&world, LAST);
        assert_eq!(acts.last().unwrap(), "merge-ri");
        assert!(acts.contains(&"work".to_owned()), "{kind:?}: {acts:?}");
    }
    let mut world = verified("make");
    lose(&mut world, LAST, Act::of(Phase::MergeRi));
    until(&mut world, LAST, Act::of(Phase::MergeFi));
    assert_eq!(acts(&world, LAST), ["merge-fi", "work", "merge-ri"]);
}

#[test]
fn what_is_added_between_two_validations_is_integrated_as_if_it_had_always_been_there() {
    let mut world = verified("make");
    lose(&mut world, LAST, Act::of(Phase::MergeRi));
    let more = Operation::Add(Box::new(job("more", &[])));
    world.command(0, Command::Reshape(vec![more])).unwrap();
    while status(&world, "more") != JobStatus::Succeeded {
        world.schedule();
        let more = id(&world, "more");
        world.advance(0, more);
    }
    let more = plan(&world).job_of(&producer("more")).unwrap();
    assert!(!more.removable(), "nobody has taken up its work");
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
}

#[test]
fn what_was_mended_for_the_validation_is_committed_before_it_is_verified() {
    let mut world = verified("make");
    for _ in 0..=world.policy.heals_max {
        fail(
            &mut world,
            LAST,
            Act::of(Phase::Work),
            FailureKind::ExitCode,
        );
    }
    assert_eq!(status(&world, LAST), JobStatus::Failed);
    again(&mut world, LAST);
    until(&mut world, LAST, Act::of(Phase::MergeFi));
    assert_eq!(
        acts(&world, LAST),
        ["merge-fi", "commit", "work", "merge-ri"]
    );
    lose(&mut world, LAST, Act::of(Phase::MergeFi));
    until(&mut world, LAST, Act::of(Phase::MergeFi));
    assert_eq!(
        acts(&world, LAST),
        ["merge-fi", "commit", "work", "merge-ri"]
    );
}

#[test]
fn a_validation_by_an_agent_is_done_again_after_it_was_healed() {
    let mut world = verified("@agent look at it");
    fail(
        &mut world,
        LAST,
        Act::of(Phase::Work),
        FailureKind::ExitCode,
    );
    until(&mut world, LAST, Act::heal(Phase::Work));
    assert_eq!(
        acts(&world, LAST),
        ["merge-fi", "heal of work", "commit", "work", "merge-ri"]
    );
    let job = plan(&world).job_of(&producer(LAST)).unwrap();
    let Step::UnderWay(task) = plan(&world).next(job) else {
        panic!("nothing under way")
    };
    assert!(matches!(task.work, Work::Heal { instead: false, .. }));
}

#[test]
fn what_a_person_or_a_failed_heal_left_behind_is_committed_before_it_is_checked() {
    let mut world = world(vec![checked()]);
    world.policy.heals_max = 2;
    fail(
        &mut world,
        "job",
        Act::of(Phase::Postchecks),
        FailureKind::ExitCode,
    );
    lose(&mut world, "job", Act::heal(Phase::Postchecks));
    until(&mut world, "job", Act::heal(Phase::Postchecks));
    fail(
        &mut world,
        "job",
        Act::heal(Phase::Postchecks),
        FailureKind::Timeout,
    );
    assert_eq!(status(&world, "job"), JobStatus::Failed);
    again(&mut world, "job");
    until(&mut world, "job", Act::of(Phase::MergeFi));
    assert_eq!(acts(&world, "job"), ["merge-fi", "commit", "postchecks"]);
}

#[test]
fn what_comes_before_the_place_where_an_attempt_goes_on_does_not_throw_it_back() {
    let mut world = world(vec![checked()]);
    lose(&mut world, "job", Act::of(Phase::Postchecks));
    lose(&mut world, "job", Act::of(Phase::MergeFi));
    until(&mut world, "job", Act::of(Phase::MergeFi));
    assert_eq!(acts(&world, "job"), ["merge-fi", "postchecks"]);
    fail(
        &mut world,
        "job",
        Act::of(Phase::MergeFi),
        FailureKind::Storage,
    );
    again(&mut world, "job");
    until(&mut world, "job", Act::of(Phase::MergeFi));
    assert_eq!(acts(&world, "job"), ["merge-fi", "commit", "postchecks"]);
    fail(
        &mut world,
        "job",
        Act::of(Phase::MergeFi),
        FailureKind::Conflict,
    );
    until(&mut world, "job", Act::heal(Phase::MergeFi));
    assert_eq!(
        acts(&world, "job"),
        ["heal of merge-fi", "merge-fi", "commit", "postchecks"]
    );
}

#[test]
fn a_commit_that_failed_for_another_reason_than_no_changes_is_all_that_is_done_again() {
    let mut world = world(vec![job("job", &[])]);
    fail(
        &mut world,
        "job",
        Act::of(Phase::Commit),
        FailureKind::Storage,
    );
    again(&mut world, "job");
    until(&mut world, "job", Act::of(Phase::MergeFi));
    assert_eq!(acts(&world, "job"), ["merge-fi", "commit"]);
}

#[test]
fn work_that_a_heal_was_to_do_is_not_left_out_by_a_retry() {
    for heals in [1, 4] {
        let mut agent = job("agent", &[]);
        agent.work = work("@agent do it");
        let mut world = world(vec![agent]);
        world.policy.heals_max = heals;
        let work = Act::of(Phase::Work);
        fail(&mut world, "agent", work, FailureKind::ExitCode);
        match heals {
            1 => fail(
                &mut world,
                "agent",
                Act::heal(Phase::Work),
                FailureKind::Timeout,
            ),
            _ => fail(
                &mut world,
                "agent",
                Act::of(Phase::MergeFi),
                FailureKind::Git,
            ),
        }
        again(&mut world, "agent");
        until(&mut world, "agent", Act::of(Phase::MergeFi));
        assert_eq!(acts(&world, "agent"), ["merge-fi", "work", "commit"]);
    }
}

#[test]
fn a_worktree_that_is_made_anew_has_the_work_and_is_made_ready() {
    let mut new = new_plan(1, vec![checked()]);
    new.settings.worktree_init = serde_json::from_str(r#"["make ready"]"#).unwrap();
    let mut world = World::new(1);
    world.failures = 0;
    world.create(new).unwrap();
    world.prepare();
    fail(
        &mut world,
        "job",
        Act::of(Phase::Postchecks),
        FailureKind::Git,
    );
    world.remove_worktree("job");
    again(&mut world, "job");
    until(&mut world, "job", Act::of(Phase::Setup));
    assert_eq!(
        acts(&world, "job"),
        ["merge-fi", "setup", "commit", "postchecks"]
    );
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
}

#[test]
fn work_that_is_gone_with_its_worktree_is_done_anew() {
    let mut world = world(vec![checked()]);
    lose(&mut world, "job", Act::of(Phase::Commit));
    world.remove_worktree("job");
    until(&mut world, "job", Act::of(Phase::Work));
    assert_eq!(
        acts(&world, "job"),
        ["merge-fi", "work", "commit", "postchecks"]
    );
    assert_eq!(
        plan(&world)
            .job_of(&producer("job"))
            .unwrap()
            .attempts()
            .len(),
        3
    );
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
}

#[test]
fn what_became_of_the_target_is_told_after_the_attempt_has_ended() {
    let mut world = verified("make");
    until(&mut world, LAST, Act::of(Phase::MergeRi));
    let attempt = plan(&world)
        .validation()
        .unwrap()
        .attempt()
        .unwrap()
        .clone();
    let intent = MergeIntent {
        target: plan(&world).branches().unwrap().target.clone(),
        old: None,
        new: attempt.commit.clone().unwrap(),
    };
    report(&mut world, LAST, Report::MergeIntended(intent.clone()));
    world.command(0, Command::Cancel { reason: None }).unwrap();
    let last = plan(&world).validation().unwrap();
    assert!(matches!(plan(&world).next(last), Step::Resolve { .. }));
    report(&mut world, LAST, Report::Merged(intent.new.clone()));
    let last = plan(&world).validation().unwrap();
    assert_eq!(last.merged(), Some(&intent.new));
    assert_eq!(plan(&world).next(last), Step::Ended(JobStatus::Canceled));
}

#[test]
fn a_plan_that_is_recovered_ends_where_it_was_to_end() {
    let mut world = world(vec![job("one", &[]), job("two", &["one"])]);
    let before = plan(&world).branches().unwrap().clone();
    until(&mut world, "two", Act::of(Phase::Work));
    world.command(0, Command::Cancel { reason: None }).unwrap();
    world.command(0, Command::Recover).unwrap();
    world.command(0, Command::Resume).unwrap();
    assert!(plan(&world).branches().is_none());
    assert_eq!(plan(&world).decided_branches(), Some(&before));
    world.prepare();
    assert_eq!(plan(&world).branches(), Some(&before));
}

#[test]
fn what_failed_and_is_recovered_goes_on_in_its_worktree() {
    let mut world = world(vec![checked()]);
    fail(
        &mut world,
        "job",
        Act::of(Phase::Postchecks),
        FailureKind::Git,
    );
    world.command(0, Command::Recover).unwrap();
    world.command(0, Command::Resume).unwrap();
    world.prepare();
    until(&mut world, "job", Act::of(Phase::MergeFi));
    assert_eq!(acts(&world, "job"), ["merge-fi", "commit", "postchecks"]);
}

/// Whether a job is to begin in a worktree with nothing in it: because somebody asks for that, and unless
/// somebody has something there.
fn begins(world: &World, name: &str) -> (bool, bool) {
    let found = plan(world).job_of(&producer(name)).unwrap();
    match plan(world).next(found) {
        Step::UnderWay(task) | Step::Do(task) => match task.work {
            Work::Integrate { clear, anew, .. } => (clear, anew),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_canceled_begins_anew_unless_somebody_has_something_there() {
    let mut world = world(vec![checked()]);
    until(&mut world, "job", Act::of(Phase::Work));
    for _ in 0..2 {
        world.command(0, Command::Cancel { reason: None }).unwrap();
        world.command(0, Command::Recover).unwrap();
        world.command(0, Command::Resume).unwrap();
        world.prepare();
        until(&mut world, "job", Act::of(Phase::MergeFi));
        assert_eq!(begins(&world, "job"), (false, true));
        // Also when it was lost before it had begun.
        lose(&mut world, "job", Act::of(Phase::MergeFi));
        until(&mut world, "job", Act::of(Phase::MergeFi));
        assert_eq!(begins(&world, "job"), (false, true));
    }
    // Somebody has: who asks for it again asks for it with that.
    let merges = Act::of(Phase::MergeFi);
    fail(&mut world, "job", merges, FailureKind::Worktree);
    again(&mut world, "job");
    until(&mut world, "job", merges);
    assert_eq!(begins(&world, "job"), (false, false));
}

#[test]
fn an_act_does_not_end_without_what_others_build_on() {
    let mut world = world(vec![job("job", &[])]);
    for act in [Phase::MergeFi, Phase::Commit] {
        until(&mut world, "job", Act::of(act));
        let found = plan(&world).job_of(&producer("job")).unwrap();
        let command = Command::Report {
            job: *found.id(),
            attempt: found.attempt().unwrap().number,
            report: Report::ActSucceeded {
                act: Act::of(act),
                commit: None,
                summary: None,
                usage: Default::default(),
                ended: None,
            },
        };
        let refusal = world.command(0, command).unwrap_err();
        assert_eq!(refusal.code().name(), "unexpected-report");
    }
}

#[test]
fn a_log_that_does_not_fit_together_is_refused() {
    let mut world = world(vec![job("job", &[])]);
    world.drain();
    let mut log = world.runs[0].log.clone();
    let place = log
        .iter()
        .position(|event| matches!(event.what, What::ActBegan { .. }))
        .unwrap();
    log.remove(place);
    let error = Plan::replay(&log).unwrap_err();
    assert!(matches!(error, ReplayError::Misfit { .. }), "{error}");
}

#[test]
fn values_of_variables_are_not_shown() {
    let mut spec = job("job", &[]);
    spec.work =
        work(r#"{"type":"shell","command":"t","env":{"A":"hunter2","B":"$TOKEN","C":"${T}x"}}"#);
    let world = world(vec![spec]);
    let job = plan(&world).job_of(&producer("job")).unwrap();
    let shown = serde_json::to_value(orchestra_plan::view::job(plan(&world), job)).unwrap();
    let env = serde_json::json!({"A": "***", "B": "$TOKEN", "C": "***"});
    assert_eq!(shown["node"]["work"]["env"], env);
}

#[test]
fn what_failed_to_make_a_worktree_ready_says_itself_what_follows() {
    let mut new = new_plan(1, vec![job("job", &[])]);
    new.settings.worktree_init = serde_json::from_str(
        r#"["true", {"type":"shell","command":"t","onFailure":{"noAutoHeal":true,"message":"ask"}}]"#,
    )
    .unwrap();
    let mut world = World::new(1);
    world.failures = 0;
    world.create(new).unwrap();
    world.prepare();
    until(&mut world, "job", Act::of(Phase::Setup));
    let mut failure = Failure::new(FailureKind::ExitCode, "it went wrong");
    failure.part = Some(1);
    let act = Act::of(Phase::Setup);
    let usage = Default::default();
    report(
        &mut world,
        "job",
        Report::ActFailed {
            act,
            failure,
            usage,
            ended: None,
        },
    );
    let job = plan(&world).job_of(&producer("job")).unwrap();
    assert_eq!(job.status(), JobStatus::Failed);
    assert_eq!(job.error(), Some("ask: it went wrong"));
}

#[test]
fn a_job_does_not_come_to_depend_on_too_many() {
    let names: Vec<String> = (0..100).map(|at| format!("job-{at}")).collect();
    let mut jobs: Vec<_> = names.iter().map(|name| job(name, &[])).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    jobs.push(job("more", &[]));
    jobs.push(job("end", &names));
    let mut world = world(jobs);
    let before = Operation::AddBefore {
        existing: "end".to_owned(),
        job: Box::new(job("before", &["more"])),
    };
    let decision = world.command(0, Command::Reshape(vec![before])).unwrap();
    let refused = decision.items[0].refused.as_ref().unwrap();
    assert_eq!(refused.code().name(), "too-many-dependencies");
}

#[test]
fn parts_are_waited_for_by_what_is_blocked_too() {
    let mut world = world(vec![
        job("left", &[]),
        job("right", &[]),
        job("end", &["left", "right"]),
    ]);
    until(&mut world, "left", Act::of(Phase::Work));
    fail(&mut world, "right", Act::of(Phase::Work), FailureKind::Git);
    assert_eq!(status(&world, "end"), JobStatus::Blocked);
    report(&mut world, "left", Report::Split(vec![part()]));
    let end = plan(&world).job_of(&producer("end")).unwrap();
    let names: Vec<&str> = plan(&world)
        .dependencies(end)
        .map(|job| job.producer().as_str())
        .collect();
    assert_eq!(names, ["left-fan-in", "right"]);
    again(&mut world, "right");
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
}

#[test]
fn a_job_put_after_another_comes_before_what_is_blocked_there_too() {
    let mut world = world(vec![
        job("left", &[]),
        job("right", &[]),
        job("end", &["left", "right"]),
    ]);
    fail(&mut world, "right", Act::of(Phase::Work), FailureKind::Git);
    let after = Operation::AddAfter {
        existing: "left".to_owned(),
        job: Box::new(job("after", &[])),
    };
    world.command(0, Command::Reshape(vec![after])).unwrap();
    let end = plan(&world).job_of(&producer("end")).unwrap();
    let names: Vec<&str> = plan(&world)
        .dependencies(end)
        .map(|job| job.producer().as_str())
        .collect();
    assert_eq!(names, ["after", "right"]);
}

#[test]
fn a_copy_of_a_plan_with_parts_is_that_plan_before_it_was_split() {
    let mut world = world(vec![job("left", &[]), job("end", &["left"])]);
    until(&mut world, "left", Act::of(Phase::Work));
    report(&mut world, "left", Report::Split(vec![part(), part()]));
    until(&mut world, "left-sub-1", Act::of(Phase::Work));
    report(&mut world, "left-sub-1", Report::Split(vec![part()]));
    world.drain();
    let copy = orchestra_plan::decide::cloned(plan(&world), plan_id(5), None, None).unwrap();
    let jobs: Vec<String> = copy
        .jobs
        .iter()
        .map(|job| {
            let names: Vec<&str> = job.dependencies.iter().map(|name| name.as_str()).collect();
            format!("{} <- {}", job.producer_id, names.join(" "))
        })
        .collect();
    assert_eq!(jobs, ["left <- ", "end <- left"]);
    let at = world.create(copy).unwrap();
    let finalize = Command::Finalize {
        start_paused: false,
    };
    world.command(at, finalize).unwrap();
    world.drain();
    assert_eq!(world.runs[at].plan.status(), PlanStatus::Succeeded);
}

#[test]
fn only_an_agent_at_its_work_hands_on_parts_of_it() {
    let mut world = world(vec![checked()]);
    for act in [Phase::MergeFi, Phase::Commit, Phase::Postchecks] {
        until(&mut world, "job", Act::of(act));
        let found = plan(&world).job_of(&producer("job")).unwrap();
        let command = Command::Report {
            job: *found.id(),
            attempt: found.attempt().unwrap().number,
            report: Report::Split(vec![part()]),
        };
        assert!(world.command(0, command).is_err(), "{act}");
    }
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
}

#[test]
fn time_in_which_a_plan_lay_ended_or_paused_is_not_counted() {
    let mut new = new_plan(1, vec![job("one", &[])]);
    new.settings.budget = serde_json::from_str(r#"{"wallMs": 3600000}"#).unwrap();
    let mut world = World::new(1);
    world.failures = 0;
    world.create(new).unwrap();
    world.prepare();
    until(&mut world, "one", Act::of(Phase::Work));
    world.tick(60_000);
    fail(&mut world, "one", Act::of(Phase::Work), FailureKind::Git);
    world.tick(86_400_000);
    again(&mut world, "one");
    until(&mut world, "one", Act::of(Phase::Work));
    world.tick(60_000);
    world.command(0, Command::Clock).unwrap();
    assert_eq!(status(&world, "one"), JobStatus::Running);
    fail(&mut world, "one", Act::of(Phase::Work), FailureKind::Git);
    world.command(0, Command::Recover).unwrap();
    world.tick(86_400_000);
    world.command(0, Command::Resume).unwrap();
    world.prepare();
    until(&mut world, "one", Act::of(Phase::Work));
    world.tick(60_000);
    assert_eq!(status(&world, "one"), JobStatus::Running);
    world.tick(3_600_000);
    assert_eq!(status(&world, "one"), JobStatus::Failed);
    let patch = PlanPatch {
        budget: Some(serde_json::from_str(r#"{"wallMs": 36000000}"#).unwrap()),
        ..PlanPatch::default()
    };
    world.command(0, Command::Update(patch)).unwrap();
    again(&mut world, "one");
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
}

#[test]
fn new_work_is_done_once_and_without_a_heal_of_the_old() {
    let mut agent = job("agent", &[]);
    agent.work = work("@agent do it");
    let mut world = world(vec![agent]);
    fail(
        &mut world,
        "agent",
        Act::of(Phase::Work),
        FailureKind::ExitCode,
    );
    assert_eq!(status(&world, "agent"), JobStatus::Ready);
    let change = JobChange {
        work: Some(work("@agent do that")),
        ..JobChange::default()
    };
    let update = Command::UpdateJob {
        job: "agent".to_owned(),
        change,
    };
    world.command(0, update).unwrap();
    until(&mut world, "agent", Act::of(Phase::MergeFi));
    assert_eq!(acts(&world, "agent"), ["merge-fi", "work", "commit"]);
}

#[test]
fn an_agent_that_makes_worktrees_ready_counts_as_one() {
    let mut new = new_plan(1, vec![job("job", &[])]);
    new.settings.worktree_init = serde_json::from_str(r#"["@agent make it ready"]"#).unwrap();
    let mut world = World::new(1);
    world.create(new).unwrap();
    let job = plan(&world).job_of(&producer("job")).unwrap();
    assert_eq!(plan(&world).class(job), AdmissionClass::Agent);
}
