//! Who starts next: order, classes, limits and shares.

use orchestra_plan::command::Command;
use orchestra_plan::ids::Millis;
use orchestra_plan::schedule::{Limits, waiting};
use orchestra_plan::spec::{JobSpec, MaxParallel};

use crate::make::{job, new_plan, producer, work};
use crate::world::World;

fn world(plans: Vec<Vec<JobSpec>>, limits: Limits) -> World {
    let mut world = World::new(1);
    world.failures = 0;
    world.limits = limits;
    for (number, jobs) in plans.into_iter().enumerate() {
        let mut new = new_plan(u64::try_from(number).unwrap() + 1, jobs);
        new.settings.max_parallel = MaxParallel::new(0).unwrap();
        world.create(new).unwrap();
    }
    world.prepare();
    world
}

fn agent(name: &str) -> JobSpec {
    let mut spec = job(name, &[]);
    spec.work = work("@agent do it");
    spec
}

/// The names of the jobs that start now, in order.
fn starts(world: &mut World) -> Vec<String> {
    let limits = world.limits;
    let starts = world.scheduler.next(&limits, Millis::new(world.now));
    let named = |start: &orchestra_plan::schedule::Start| {
        let run = world
            .runs
            .iter()
            .find(|run| *run.plan.id() == start.plan)
            .unwrap();
        run.plan.job(&start.job).unwrap().producer().to_string()
    };
    starts.iter().map(named).collect()
}

fn words(world: &World, at: usize, name: &str) -> String {
    let plan = &world.runs[at].plan;
    let job = plan.job_of(&producer(name)).unwrap();
    waiting(
        plan,
        job,
        &world.scheduler,
        &world.limits,
        Millis::new(world.now),
    )
    .to_string()
}

#[test]
fn more_dependents_come_first_and_then_names() {
    let jobs = vec![
        job("beta", &[]),
        job("alpha", &[]),
        job("wide", &[]),
        job("one", &["wide"]),
        job("two", &["wide"]),
    ];
    let mut world = world(vec![jobs], Limits::default());
    assert_eq!(starts(&mut world), ["wide", "alpha", "beta"]);
}

#[test]
fn plans_share_what_there_is() {
    let many = |name: &str| (0..6).map(|at| job(&format!("{name}-{at}"), &[])).collect();
    let limits = Limits {
        total: 4,
        ..Limits::default()
    };
    let mut world = world(vec![many("aaa"), many("bbb")], limits);
    assert_eq!(starts(&mut world), ["aaa-0", "bbb-0", "aaa-1", "bbb-1"]);
    assert_eq!(
        words(&world, 0, "aaa-2"),
        "waiting for: global limit (4 running)"
    );
}

#[test]
fn a_class_at_its_limit_holds_up_no_other() {
    let jobs = vec![agent("agent-1"), agent("agent-2"), job("shell-1", &[])];
    let limits = Limits {
        agents: 1,
        ..Limits::default()
    };
    let mut world = world(vec![jobs], limits);
    assert_eq!(starts(&mut world), ["agent-1", "shell-1"]);
    assert_eq!(
        words(&world, 0, "agent-2"),
        "waiting for: agent limit (1 running)"
    );
}

#[test]
fn a_plan_at_its_limit_says_so() {
    let mut new = new_plan(
        1,
        vec![
            job("one", &[]),
            job("two", &[]),
            job("end", &["one", "two"]),
        ],
    );
    new.settings.max_parallel = MaxParallel::new(1).unwrap();
    let mut world = World::new(1);
    world.failures = 0;
    world.create(new).unwrap();
    assert_eq!(
        words(&world, 0, "one"),
        "waiting for: the branches of the plan"
    );
    world.prepare();
    assert_eq!(words(&world, 0, "one"), "waiting for: its turn");
    assert_eq!(world.schedule(), 1);
    assert_eq!(
        words(&world, 0, "two"),
        "waiting for: plan limit (1 running)"
    );
    assert_eq!(words(&world, 0, "end"), "waiting for: one, two");
    assert_eq!(words(&world, 0, "one"), "at work");
    world.command(0, Command::Pause).unwrap();
    assert_eq!(
        words(&world, 0, "two"),
        "waiting for: the plan to be resumed"
    );
}

#[test]
fn a_start_that_is_not_made_gives_its_slot_back() {
    let limits = Limits {
        total: 1,
        ..Limits::default()
    };
    let mut world = world(vec![vec![job("one", &[])]], limits);
    assert_eq!(starts(&mut world), ["one"]);
    assert_eq!((starts(&mut world).len(), world.scheduler.active()), (0, 1));
    let run = &world.runs[0];
    let id = *run.plan.job_of(&producer("one")).unwrap().id();
    world.scheduler.refresh(&run.plan, &id);
    assert_eq!(world.scheduler.active(), 0);
    assert_eq!(starts(&mut world), ["one"]);
}

#[test]
fn the_machine_has_only_so_much_room() {
    let limits = Limits {
        machine_free: Some(0),
        machine: 4,
        ..Limits::default()
    };
    let mut world = world(vec![vec![job("one", &[])]], limits);
    assert_eq!(starts(&mut world).len(), 0);
    assert_eq!(
        words(&world, 0, "one"),
        "waiting for: a slot of this machine (4 of 4 are taken; machine_jobs)"
    );
}
