//! What people ask for, what it does, and what they are told when it cannot be.

use std::time::Duration;

use orchestra_plan::budget::Usage;
use orchestra_plan::command::{Code, Command, PlanPatch, Report, Request, Retry};
use orchestra_plan::event::{Act, Failure, FailureKind, PauseReason, Trigger};
use orchestra_plan::ids::{AttemptNumber, JobId, Millis};
use orchestra_plan::phase::Phase;
use orchestra_plan::plan::{PhaseStatus, Plan, Step, Work};
use orchestra_plan::schedule::{Waiting, waiting};
use orchestra_plan::status::{JobStatus, PlanStatus};
use orchestra_plan::view;

use crate::make::{job, new_plan, plan_id, producer, work};
use crate::world::World;

/// A world in which nothing fails by itself, with one plan.
pub(crate) fn world(jobs: Vec<orchestra_plan::spec::JobSpec>) -> World {
    let mut world = World::new(1);
    world.failures = 0;
    world.create(new_plan(1, jobs)).unwrap();
    world.prepare();
    world
}

pub(crate) fn diamond() -> World {
    let mut healed = job("left", &["top"]);
    healed.postchecks = Some(work("test"));
    world(vec![
        job("top", &[]),
        healed,
        job("right", &["top"]),
        job("end", &["left", "right"]),
    ])
}

pub(crate) fn plan(world: &World) -> &Plan {
    &world.runs[0].plan
}

pub(crate) fn status(world: &World, name: &str) -> JobStatus {
    plan(world).job_of(&producer(name)).unwrap().status()
}

pub(crate) fn id(world: &World, name: &str) -> JobId {
    *plan(world).job_of(&producer(name)).unwrap().id()
}

pub(crate) fn refused(world: &mut World, command: Command) -> (Code, String) {
    let version = plan(world).version();
    let refusal = world.command(0, command).unwrap_err();
    assert_eq!(plan(world).version(), version, "a refusal changes nothing");
    (refusal.code(), refusal.message().to_owned())
}

/// Takes a job on until it is about to end an act of this phase.
pub(crate) fn until(world: &mut World, name: &str, act: Act) {
    for _ in 0..100 {
        world.schedule();
        let job = plan(world).job_of(&producer(name)).unwrap();
        if job.running().and_then(|attempt| attempt.under_way()) == Some(act) {
            return;
        }
        let id = *job.id();
        if job.status().is_active() {
            world.advance(0, id);
        } else {
            let others: Vec<JobId> = plan(world).active().map(|job| *job.id()).collect();
            for other in others {
                world.advance(0, other);
            }
        }
    }
    panic!("{name} does not come to {act}");
}

pub(crate) fn fail(world: &mut World, name: &str, act: Act, kind: FailureKind) {
    until(world, name, act);
    let failure = Failure::new(kind, "it went wrong");
    report(
        world,
        name,
        Report::ActFailed {
            act,
            failure,
            usage: Usage::default(),
            ended: None,
        },
    );
}

pub(crate) fn report(world: &mut World, name: &str, report: Report) {
    let job = plan(world).job_of(&producer(name)).unwrap();
    let (job, attempt) = (*job.id(), job.attempt().unwrap().number);
    world
        .command(
            0,
            Command::Report {
                job,
                attempt,
                report,
            },
        )
        .unwrap();
}

pub(crate) fn acts(world: &World, name: &str) -> Vec<String> {
    let job = plan(world).job_of(&producer(name)).unwrap();
    job.attempt()
        .unwrap()
        .acts
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn after_a_heal_the_failed_check_is_done_again_and_the_work_is_as_it_was() {
    let mut world = diamond();
    let before = plan(&world)
        .job_of(&producer("left"))
        .unwrap()
        .definition()
        .clone();
    fail(
        &mut world,
        "left",
        Act::of(Phase::Postchecks),
        FailureKind::ExitCode,
    );
    assert_eq!(status(&world, "left"), JobStatus::Ready);
    until(&mut world, "left", Act::heal(Phase::Postchecks));
    assert_eq!(
        acts(&world, "left"),
        ["merge-fi", "heal of postchecks", "commit", "postchecks"]
    );
    let job = plan(&world).job_of(&producer("left")).unwrap();
    assert_eq!(job.attempt().unwrap().trigger, Trigger::AutoHeal);
    let Step::UnderWay(task) = plan(&world).next(job) else {
        panic!("nothing under way")
    };
    let Work::Heal {
        failed,
        failure,
        instead,
        ..
    } = task.work
    else {
        panic!("no heal")
    };
    assert_eq!(
        (failed.number, failure.message.as_str()),
        (AttemptNumber::FIRST, "it went wrong")
    );
    assert!(!instead);
    assert_eq!(job.definition(), &before);
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
}

#[test]
fn heals_are_bounded_and_then_all_behind_is_blocked_by_name() {
    let mut world = diamond();
    for _ in 0..=world.policy.heals_max {
        fail(
            &mut world,
            "left",
            Act::of(Phase::Postchecks),
            FailureKind::ExitCode,
        );
    }
    assert_eq!(status(&world, "left"), JobStatus::Failed);
    assert_eq!(status(&world, "end"), JobStatus::Blocked);
    let end = plan(&world).job_of(&producer("end")).unwrap();
    assert_eq!(
        end.error(),
        Some("blocked: job `left`, which this one depends on, is failed")
    );
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Failed);
    assert_eq!(world.runs[0].ended, 1);
    world
        .command(
            0,
            Command::RetryPlan {
                jobs: None,
                retry: Retry::default(),
            },
        )
        .unwrap();
    assert_eq!(status(&world, "end"), JobStatus::Pending);
    until(&mut world, "left", Act::of(Phase::MergeFi));
    assert_eq!(acts(&world, "left"), ["merge-fi", "commit", "postchecks"]);
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
    assert_eq!((world.runs[0].ended, world.runs[0].merges), (2, 1));
}

#[test]
fn work_of_a_shell_is_done_again_after_a_heal_and_that_of_an_agent_is_not() {
    let mut agent = job("agent", &[]);
    agent.work = work("@agent do it");
    let mut world = world(vec![agent, job("shell", &[])]);
    for name in ["agent", "shell"] {
        fail(
            &mut world,
            name,
            Act::of(Phase::Work),
            FailureKind::ExitCode,
        );
        until(&mut world, name, Act::of(Phase::MergeFi));
    }
    assert_eq!(
        acts(&world, "agent"),
        ["merge-fi", "heal of work", "commit"]
    );
    assert_eq!(
        acts(&world, "shell"),
        ["merge-fi", "heal of work", "work", "commit"]
    );
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
}

#[test]
fn a_crashed_agent_takes_up_its_session() {
    let mut agent = job("agent", &[]);
    agent.work = work("@agent do it");
    let mut world = world(vec![agent]);
    until(&mut world, "agent", Act::of(Phase::Work));
    report(&mut world, "agent", Report::SessionKnown("s-1".to_owned()));
    fail(
        &mut world,
        "agent",
        Act::of(Phase::Work),
        FailureKind::Signal,
    );
    until(&mut world, "agent", Act::of(Phase::Work));
    assert_eq!(acts(&world, "agent"), ["merge-fi", "work", "commit"]);
    let job = plan(&world).job_of(&producer("agent")).unwrap();
    let Step::UnderWay(task) = plan(&world).next(job) else {
        panic!("nothing under way")
    };
    assert!(
        matches!(
            task.work,
            Work::Run {
                session: Some("s-1"),
                ..
            }
        ),
        "{:?}",
        task.work
    );
}

#[test]
fn what_says_where_to_resume_is_done_again_from_there_without_an_agent() {
    let mut spec = job("job", &[]);
    spec.prechecks = Some(work("check"));
    spec.postchecks = Some(work(
        r#"{"type":"shell","command":"t","onFailure":{"resumeFromPhase":"prechecks","message":"see the wiki"}}"#,
    ));
    let mut world = world(vec![spec]);
    fail(
        &mut world,
        "job",
        Act::of(Phase::Postchecks),
        FailureKind::ExitCode,
    );
    let job = plan(&world).job_of(&producer("job")).unwrap();
    let failed = job.attempt().unwrap().failure.clone().unwrap().1;
    assert_eq!(failed.message, "see the wiki: it went wrong");
    until(&mut world, "job", Act::of(Phase::Prechecks));
    assert_eq!(
        acts(&world, "job"),
        ["merge-fi", "prechecks", "work", "commit", "postchecks"]
    );
}

#[test]
fn a_commit_without_changes_fails_and_its_retry_does_the_work_again() {
    let mut world = world(vec![job("job", &[])]);
    fail(
        &mut world,
        "job",
        Act::of(Phase::Commit),
        FailureKind::NothingChanged,
    );
    assert_eq!(status(&world, "job"), JobStatus::Failed);
    world
        .command(
            0,
            Command::RetryJob {
                job: "JOB".to_owned(),
                retry: Retry::default(),
            },
        )
        .unwrap();
    until(&mut world, "job", Act::of(Phase::MergeFi));
    assert_eq!(acts(&world, "job"), ["merge-fi", "work", "commit"]);
}

#[test]
fn a_retry_may_say_that_no_changes_are_right() {
    for said in [None, Some(true), Some(false)] {
        let mut world = world(vec![job("job", &[])]);
        let commit = Act::of(Phase::Commit);
        fail(&mut world, "job", commit, FailureKind::NothingChanged);
        let retry = Retry {
            expects_no_changes: said,
            ..Retry::default()
        };
        let command = |job: &str| Command::RetryJob {
            job: job.to_owned(),
            retry: retry.clone(),
        };
        world.command(0, command("job")).unwrap();
        until(&mut world, "job", commit);
        let job = plan(&world).find("job").unwrap();
        assert_eq!(job.definition().expects_no_changes, said == Some(true));
        assert_eq!(acts(&world, "job"), ["merge-fi", "work", "commit"]);
    }
}

#[test]
fn a_process_that_ended_while_nobody_looked_ended_when_it_did() {
    let act = Act::of(Phase::Work);
    // When it began, when the attempt ended, and when that was told.
    let times = |ended: &dyn Fn(u64) -> u64| {
        let mut world = world(vec![job("job", &[])]);
        until(&mut world, "job", act);
        let attempt = |world: &World| plan(world).find("job").unwrap().attempt().unwrap().clone();
        let began = attempt(&world).spans.last().unwrap().started_at.get();
        world.now += 3_600_000;
        let told = Report::ActFailed {
            act,
            failure: Failure::new(FailureKind::Git, "it went wrong"),
            usage: Usage::default(),
            ended: Some(Millis::new(ended(began))),
        };
        report(&mut world, "job", told);
        let attempt = attempt(&world);
        assert_eq!(attempt.ended_at, attempt.spans.last().unwrap().ended_at);
        let ended = attempt.ended_at.unwrap().get();
        (began, ended, plan(&world).ended_at().unwrap().get())
    };
    let (began, ended, told) = times(&|began| began + 5);
    assert_eq!(ended, began + 5);
    assert!(told >= began + 3_600_000);
    // Clocks may be set: it did not end before it began, nor after that was told.
    let (began, ended, _) = times(&|_| 1);
    assert_eq!(ended, began);
    let (_, ended, told) = times(&|_| u64::MAX);
    assert_eq!(ended, told);
}

#[test]
fn a_target_that_moved_sends_the_result_back_to_integration_a_bounded_number_of_times() {
    let mut world = world(vec![job("job", &[])]);
    let last = "__snapshot-validation__";
    let merge = Act::of(Phase::MergeRi);
    for _ in 0..world.policy.integrations_max {
        fail(&mut world, last, merge, FailureKind::TargetMoved);
        assert_eq!(status(&world, last), JobStatus::Ready);
    }
    assert_eq!(acts(&world, last), ["merge-fi", "merge-ri"]);
    fail(&mut world, last, merge, FailureKind::TargetMoved);
    assert_eq!(plan(&world).status(), PlanStatus::Failed);
}

#[test]
fn what_a_person_allows_of_a_result_holds_until_it_is_merged() {
    let mut world = world(vec![job("job", &[])]);
    let last = "__snapshot-validation__";
    let merge = Act::of(Phase::MergeRi);
    let allowed = |world: &World| {
        let job = plan(world).job_of(&producer(last)).unwrap();
        job.upcoming().despite
    };
    let retry = |world: &mut World| {
        let retry = Command::RetryPlan {
            jobs: None,
            retry: Retry::default(),
        };
        world.command(0, retry).unwrap();
    };
    fail(&mut world, last, merge, FailureKind::TreeDestroyed);
    assert_eq!(plan(&world).status(), PlanStatus::Failed);
    // Bringing the plan back as a whole says nothing of that.
    world.command(0, Command::Recover).unwrap();
    world.command(0, Command::Resume).unwrap();
    world.prepare();
    assert_eq!(allowed(&world), None);
    fail(&mut world, last, merge, FailureKind::TreeDestroyed);
    retry(&mut world);
    assert_eq!(allowed(&world), Some(FailureKind::TreeDestroyed));
    // Whatever comes between.
    fail(&mut world, last, merge, FailureKind::TargetMoved);
    assert_eq!(allowed(&world), Some(FailureKind::TreeDestroyed));
    until(&mut world, last, Act::of(Phase::MergeFi));
    let message = "it is gone".to_owned();
    report(&mut world, last, Report::Lost { message });
    assert_eq!(allowed(&world), Some(FailureKind::TreeDestroyed));
    fail(&mut world, last, merge, FailureKind::TargetDirty);
    retry(&mut world);
    assert_eq!(allowed(&world), Some(FailureKind::TreeDestroyed));

    // That the target was rewritten once says nothing of the next time.
    fail(&mut world, last, merge, FailureKind::TargetRewritten);
    retry(&mut world);
    assert_eq!(allowed(&world), Some(FailureKind::TargetRewritten));
    fail(&mut world, last, merge, FailureKind::TargetMoved);
    assert_eq!(allowed(&world), None);
    fail(&mut world, last, merge, FailureKind::TargetTaken);
    retry(&mut world);
    assert_eq!(allowed(&world), None);
}

#[test]
fn what_passes_by_itself_is_tried_again_later() {
    let mut world = world(vec![job("job", &[])]);
    fail(
        &mut world,
        "job",
        Act::of(Phase::Work),
        FailureKind::Transient,
    );
    assert_eq!(world.schedule(), 0);
    let at = world.scheduler.wake_at().unwrap();
    assert_eq!(at.get(), world.now + 30_000);
    let job = plan(&world).job_of(&producer("job")).unwrap();
    let now = Millis::new(world.now);
    let reason = waiting(plan(&world), job, &world.scheduler, &world.limits, now);
    assert_eq!(reason, Waiting::Delay { until: at });
    world.now += 30_000;
    assert_eq!(world.schedule(), 1);
}

#[test]
fn a_job_that_is_done_or_blocked_cannot_be_forced_to_fail() {
    let mut world = diamond();
    until(&mut world, "left", Act::of(Phase::Work));
    let force = |job: &str| Command::ForceFail {
        job: job.to_owned(),
        reason: None,
    };
    assert_eq!(refused(&mut world, force("top")).0, Code::WrongJobState);
    world.command(0, force("left")).unwrap();
    assert_eq!(status(&world, "left"), JobStatus::Failed);
    let (code, words) = refused(&mut world, force("end"));
    assert_eq!(code, Code::WrongJobState);
    assert_eq!(
        words,
        "job `end` is blocked; only a job that has not ended can be forced to fail"
    );
    let left = plan(&world).job_of(&producer("left")).unwrap();
    assert_eq!(left.attempts().len(), 1, "a forced failure is no attempt");
    assert_eq!(left.phase(Phase::Work), PhaseStatus::Failed);
    let (code, words) = refused(
        &mut world,
        Command::RetryJob {
            job: "end".to_owned(),
            retry: Retry::default(),
        },
    );
    assert_eq!(
        (code, words.as_str()),
        (
            Code::WrongJobState,
            "job `end` is blocked by job `left`; retry the blocking job instead"
        )
    );
}

#[test]
fn a_report_of_an_attempt_that_is_over_is_refused() {
    let mut world = diamond();
    until(&mut world, "top", Act::of(Phase::Work));
    let job = id(&world, "top");
    world
        .command(
            0,
            Command::ForceFail {
                job: "top".to_owned(),
                reason: None,
            },
        )
        .unwrap();
    let act = Act::of(Phase::Work);
    let report = Report::ActSucceeded {
        act,
        commit: None,
        summary: None,
        usage: Usage::default(),
        ended: None,
    };
    let late = Command::Report {
        job,
        attempt: AttemptNumber::FIRST,
        report,
    };
    assert_eq!(refused(&mut world, late).0, Code::StaleAttempt);
}

#[test]
fn a_key_that_was_seen_and_a_version_that_is_old_change_nothing() {
    let mut world = diamond();
    let request = Request {
        command: Command::Pause,
        expected_version: None,
        key: Some("once".to_owned()),
        by: Some("alice".to_owned()),
    };
    assert_eq!(world.ask(0, request.clone()).unwrap().events.len(), 1);
    world.command(0, Command::Resume).unwrap();
    let again = world.ask(0, request).unwrap();
    assert!(again.repeated && again.events.is_empty());
    let old = Request {
        expected_version: Some(1),
        ..Request::of(Command::Pause)
    };
    let refusal = world.ask(0, old).unwrap_err();
    assert_eq!(refusal.code(), Code::VersionConflict);
    assert_eq!(
        world.runs[0]
            .log
            .iter()
            .find_map(|event| event.by.as_deref()),
        Some("alice")
    );
}

#[test]
fn a_paused_plan_lets_what_runs_end_and_starts_nothing() {
    let mut world = diamond();
    until(&mut world, "top", Act::of(Phase::Work));
    world.command(0, Command::Pause).unwrap();
    assert_eq!(plan(&world).status(), PlanStatus::Pausing);
    while status(&world, "top") == JobStatus::Running {
        let id = id(&world, "top");
        world.advance(0, id);
    }
    assert_eq!(world.schedule(), 0);
    assert_eq!(plan(&world).status(), PlanStatus::Paused);
    world.command(0, Command::Resume).unwrap();
    assert_eq!(world.schedule(), 2);
}

#[test]
fn a_canceled_plan_comes_back_paused_and_runs_to_its_end() {
    let mut world = diamond();
    until(&mut world, "left", Act::of(Phase::Work));
    world.now += 500;
    world.command(0, Command::Cancel { reason: None }).unwrap();
    assert_eq!(plan(&world).status(), PlanStatus::Canceled);
    assert_eq!(status(&world, "top"), JobStatus::Succeeded);
    assert_eq!(refused(&mut world, Command::Resume).0, Code::WrongPlanState);
    let at_work = |world: &World| plan(world).time_at_work(Millis::new(world.now));
    let before = at_work(&world);
    assert!(before > Duration::ZERO);
    // Neither while it was over nor while it is paused does anything of it work.
    world.now += 60_000;
    world.command(0, Command::Recover).unwrap();
    assert_eq!(plan(&world).status(), PlanStatus::Paused);
    assert_eq!(status(&world, "left"), JobStatus::Ready);
    assert!(plan(&world).branches().is_none());
    world.now += 60_000;
    assert_eq!(at_work(&world), before);
    world.command(0, Command::Resume).unwrap();
    let since = world.now;
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
    let more = Duration::from_millis(world.now - since);
    assert!(at_work(&world) <= before + more, "{:?}", at_work(&world));
    world.now += 60_000;
    assert!(at_work(&world) <= before + more);
}

#[test]
fn a_plan_that_waits_for_another_starts_when_that_one_succeeds() {
    let mut world = world(vec![job("first", &[])]);
    let mut next = new_plan(2, vec![job("second", &[])]);
    next.settings.resume_after_plan = Some(plan_id(1));
    world.create(next).unwrap();
    assert_eq!(
        world.runs[1].plan.paused(),
        Some(&PauseReason::ResumeAfterPlan)
    );
    let patch = PlanPatch {
        resume_after_plan: Some(Some(plan_id(2))),
        ..PlanPatch::default()
    };
    assert_eq!(
        refused(&mut world, Command::Update(patch)).0,
        Code::ChainCycle
    );
    let unknown = PlanPatch {
        resume_after_plan: Some(Some(plan_id(9))),
        ..PlanPatch::default()
    };
    assert_eq!(
        refused(&mut world, Command::Update(unknown)).0,
        Code::UnknownPlan
    );
    world.drain();
    assert_eq!(world.runs[1].plan.status(), PlanStatus::Succeeded);
}

#[test]
fn a_plan_that_waits_for_a_deleted_one_waits_for_a_person() {
    let mut world = world(vec![job("first", &[])]);
    let mut next = new_plan(2, vec![job("second", &[])]);
    next.settings.resume_after_plan = Some(plan_id(1));
    world.create(next).unwrap();
    world.command(0, Command::Delete).unwrap();
    assert_eq!(world.runs[1].plan.paused(), Some(&PauseReason::User));
    assert_eq!(world.runs[1].plan.settings().resume_after_plan, None);
}

#[test]
fn a_token_budget_fails_what_runs_and_says_so() {
    let mut new = new_plan(1, vec![job("one", &[]), job("two", &["one"])]);
    new.settings.budget = serde_json::from_str(r#"{"tokens": 100}"#).unwrap();
    let mut world = World::new(1);
    world.failures = 0;
    world.create(new).unwrap();
    world.prepare();
    until(&mut world, "one", Act::of(Phase::Work));
    let usage = Usage {
        input_tokens: 101,
        ..Usage::default()
    };
    report(&mut world, "one", Report::Used(usage));
    assert_eq!(plan(&world).status(), PlanStatus::Failed);
    let one = plan(&world).job_of(&producer("one")).unwrap();
    assert_eq!(
        one.error(),
        Some(
            "the plan's budget is used up: 101 tokens used of 100; raise `budget.tokens` of the plan, \
             then retry"
        )
    );
    assert_eq!(status(&world, "two"), JobStatus::Blocked);
    let retry = Command::RetryJob {
        job: "one".to_owned(),
        retry: Retry::default(),
    };
    assert_eq!(refused(&mut world, retry.clone()).0, Code::BudgetExceeded);
    let budget = Some(serde_json::from_str(r#"{"tokens": 1000}"#).unwrap());
    world
        .command(
            0,
            Command::Update(PlanPatch {
                budget,
                ..PlanPatch::default()
            }),
        )
        .unwrap();
    world.command(0, retry).unwrap();
}

#[test]
fn wall_time_of_a_job_ends_it_at_its_deadline() {
    let mut spec = job("slow", &[]);
    spec.budget = serde_json::from_str(r#"{"wallMs": 5000}"#).unwrap();
    let mut world = world(vec![spec]);
    until(&mut world, "slow", Act::of(Phase::Work));
    assert_eq!(plan(&world).deadline(), Some(Millis::new(world.now + 5000)));
    world.tick(4999);
    assert_eq!(status(&world, "slow"), JobStatus::Running);
    world.tick(1);
    let slow = plan(&world).job_of(&producer("slow")).unwrap();
    assert_eq!(
        slow.error(),
        Some(
            "the job's budget is used up: 5000 ms of wall time used of 5000; raise `budget.wallMs` of \
             the job, then retry"
        )
    );
}

#[test]
fn views_say_what_is_so() {
    let mut world = diamond();
    fail(&mut world, "left", Act::of(Phase::Work), FailureKind::Git);
    world.drain();
    let now = Millis::new(world.now);
    let (scheduler, limits) = (&world.scheduler, &world.limits);
    let shown = view::plan(plan(&world), &|job| {
        waiting(plan(&world), job, scheduler, limits, now)
    });
    assert_eq!((shown.status, shown.progress), (PlanStatus::Failed, 100));
    let json = serde_json::to_value(&shown).unwrap();
    assert_eq!(json["counts"]["blocked"], 2);
    assert_eq!(json["nodes"][1]["status"], "failed");
    assert_eq!(json["nodes"][1]["type"], "job");
    let left = plan(&world).find("left").unwrap();
    let context = view::failure_context(plan(&world), left).unwrap();
    assert_eq!(context.failed_phase, Some(Phase::Work));
    assert_eq!(
        context.last_attempt.unwrap().attempt_number,
        AttemptNumber::FIRST
    );
    let attempts = serde_json::to_value(view::attempts(left)).unwrap();
    assert_eq!(attempts[0]["stepStatuses"]["work"], "failed");
    assert_eq!(attempts[0]["stepStatuses"]["prechecks"], "skipped");
    let job = serde_json::to_value(view::job(plan(&world), left)).unwrap();
    assert_eq!(job["node"]["dependencies"][0]["producerId"], "top");
    assert_eq!(job["state"]["failureReason"], "execution-error");
    assert!(view::failure_context(plan(&world), plan(&world).find("top").unwrap()).is_err());
}

#[test]
fn a_worktree_is_made_ready_where_the_repository_says_how() {
    let mut world = diamond();
    world.sets_up = true;
    until(&mut world, "left", Act::of(Phase::Setup));
    fail(
        &mut world,
        "left",
        Act::of(Phase::Setup),
        FailureKind::ExitCode,
    );
    // It is healed there, and made ready again.
    until(&mut world, "left", Act::of(Phase::Work));
    let acts = acts(&world, "left");
    assert_eq!(acts[..4], ["merge-fi", "heal of setup", "setup", "work"]);
    world.drain();
    assert_eq!(plan(&world).status(), PlanStatus::Succeeded);
    let last = plan(&world).validation().unwrap();
    assert_eq!(last.phase(Phase::Setup), PhaseStatus::Success);
}
