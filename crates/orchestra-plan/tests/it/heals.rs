//! Limits of heals: of a job, of a plan, and of their cost.

use orchestra_plan::budget::Usage;
use orchestra_plan::command::{Command, Report, Retry};
use orchestra_plan::event::{Act, FailureKind};
use orchestra_plan::phase::Phase;
use orchestra_plan::status::JobStatus;

use crate::make::{job, producer};
use crate::user::{fail, plan, report, status, until, world};
use crate::world::World;

fn usd(dollars: u64) -> Usage {
    Usage {
        cost_micros: dollars * 1_000_000,
        ..Usage::default()
    }
}

fn try_again(world: &mut World, name: &str) {
    let retry = Command::RetryJob {
        job: name.to_owned(),
        retry: Retry::default(),
    };
    world.command(0, retry).unwrap();
}

#[test]
fn second_heal_starts_after_the_first_and_not_when_that_has_cost_the_limit() {
    let mut world = world(vec![job("first", &[]), job("second", &[])]);
    let (work, heal) = (Act::of(Phase::Work), Act::heal(Phase::Work));
    until(&mut world, "first", work);
    until(&mut world, "second", work);
    fail(&mut world, "first", work, FailureKind::ExitCode);
    fail(&mut world, "second", work, FailureKind::ExitCode);
    // The heal of the first has its slot by now.
    assert_eq!(world.schedule(), 0, "one heal at a time");
    until(&mut world, "first", heal);
    assert_eq!(status(&world, "second"), JobStatus::Ready);
    let healed = Report::ActSucceeded {
        act: heal,
        commit: None,
        summary: None,
        usage: usd(3),
        ended: None,
    };
    report(&mut world, "first", healed);
    world.drain();
    assert_eq!(status(&world, "first"), JobStatus::Succeeded);
    assert_eq!(status(&world, "second"), JobStatus::Failed);
    let second = plan(&world).job_of(&producer("second")).unwrap();
    let (_, act, failure) = second.failed_heal().unwrap();
    assert_eq!(act, heal);
    assert!(
        failure.message.contains("have cost 3 of 2 USD"),
        "{}",
        failure.message
    );
    // A retry does not give the plan a new budget for heals.
    try_again(&mut world, "second");
    fail(&mut world, "second", work, FailureKind::ExitCode);
    assert_eq!(status(&world, "second"), JobStatus::Failed);
    assert_eq!(plan(&world).heal_cost(), 3_000_000);
}

#[test]
fn number_of_heals_of_a_plan_includes_those_before_a_retry() {
    let mut world = world(vec![job("job", &[])]);
    world.policy.heals_max = 1;
    world.policy.plan_heals_max = 2;
    let work = Act::of(Phase::Work);
    for healed in [1, 2, 2] {
        fail(&mut world, "job", work, FailureKind::ExitCode);
        assert_eq!(plan(&world).heals(), healed);
        if status(&world, "job") == JobStatus::Ready {
            fail(&mut world, "job", work, FailureKind::ExitCode);
        }
        assert_eq!(status(&world, "job"), JobStatus::Failed);
        try_again(&mut world, "job");
    }
}

#[test]
fn heal_that_is_repeated_counts_for_the_job_and_the_plan() {
    let (work, heal) = (Act::of(Phase::Work), Act::heal(Phase::Work));
    for (kind, heals_max, plan_heals_max, runs) in [
        (FailureKind::Transient, 9, 2, 2),
        (FailureKind::Transient, 2, 9, 2),
        (FailureKind::Transient, 9, 9, 4),
        (FailureKind::Signal, 9, 2, 2),
        (FailureKind::Signal, 2, 9, 2),
    ] {
        let mut world = world(vec![job("job", &[])]);
        world.policy.heals_max = heals_max;
        world.policy.plan_heals_max = plan_heals_max;
        fail(&mut world, "job", work, FailureKind::ExitCode);
        let mut ran = 0;
        while status(&world, "job") == JobStatus::Ready {
            world.now += 200_000;
            fail(&mut world, "job", heal, kind);
            ran += 1;
        }
        assert_eq!(
            ran, runs,
            "{kind:?}, {heals_max} per job, {plan_heals_max} per plan"
        );
        assert_eq!(plan(&world).heals(), runs, "{kind:?}");
    }
}

#[test]
fn heal_that_is_lost_with_its_runner_counts_when_it_is_repeated() {
    let (work, heal) = (Act::of(Phase::Work), Act::heal(Phase::Work));
    for (heals_max, plan_heals_max, why) in [
        (2, 9, "the job has used its 2 automatic attempts"),
        (9, 2, "the plan has used its 2 heals"),
    ] {
        let mut world = world(vec![job("job", &[])]);
        world.policy.heals_max = heals_max;
        world.policy.plan_heals_max = plan_heals_max;
        fail(&mut world, "job", work, FailureKind::ExitCode);
        // A loss before the heal begins does not count.
        lose(&mut world, Act::of(Phase::MergeFi));
        assert_eq!(plan(&world).heals(), 1, "{why}");
        let mut ran = 0;
        while status(&world, "job") == JobStatus::Ready {
            lose(&mut world, heal);
            ran += 1;
        }
        assert_eq!((ran, plan(&world).heals()), (2, 2), "{why}");
        assert_eq!(status(&world, "job"), JobStatus::Failed, "{why}");
        let job = plan(&world).job_of(&producer("job")).unwrap();
        let (_, act, failure) = job.failed_heal().unwrap();
        assert_eq!((act, failure.kind), (heal, FailureKind::Lost), "{why}");
        assert!(failure.message.contains(why), "{}", failure.message);
        assert_eq!(job.failure().unwrap().kind, FailureKind::ExitCode, "{why}");
    }
}

/// Loses the runner of the job while an act is under way.
fn lose(world: &mut World, act: Act) {
    until(world, "job", act);
    let message = "it is gone".to_owned();
    report(world, "job", Report::Lost { message });
}
