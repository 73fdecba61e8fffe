//! Random graphs with everything that can happen to them.

use std::collections::BTreeMap;
use std::io::Write;

use orchestra_plan::command::{Command, Operation, PlanPatch, Retry};
use orchestra_plan::event::{JobChange, PauseReason};
use orchestra_plan::ids::Millis;
use orchestra_plan::outcome::Restart;
use orchestra_plan::plan::Plan;
use orchestra_plan::schedule::{Limits, Waiting, waiting};
use orchestra_plan::status::PlanStatus;

use crate::make::{job, new_plan, random_jobs, work};
use crate::world::{Run, World};

/// How many worlds are tried: some, or with `ORCHESTRA_SOAK` 10 000.
fn worlds() -> u64 {
    match std::env::var_os("ORCHESTRA_SOAK") {
        Some(_) => 10_000,
        None => 150,
    }
}

fn random_world(seed: u64) -> World {
    let mut world = World::new(seed);
    let pick = |world: &mut World| u32::try_from(world.dice.below(4)).unwrap();
    world.limits = Limits {
        total: pick(&mut world) * 2,
        agents: pick(&mut world),
        shells: pick(&mut world),
        processes: pick(&mut world),
        machine_free: None,
        machine: 0,
    };
    world.policy.restart = world
        .dice
        .pick(&[Restart::Resume, Restart::RetryOnce, Restart::Manual]);
    world.policy.heals_max = pick(&mut world);
    world.policy.has_healer = world.dice.percent(80);
    let plans = 1 + world.dice.below(3);
    for number in 0..plans {
        let jobs = random_jobs(&mut world.dice, 12);
        let mut new = new_plan(u64::try_from(number).unwrap() + seed * 10, jobs);
        new.scaffolding = world.dice.percent(20);
        new.settings.start_paused = world.dice.percent(20);
        new.settings.max_parallel =
            orchestra_plan::spec::MaxParallel::new(u64::from(pick(&mut world))).unwrap();
        new.settings.verify_ri = world.dice.percent(50).then(|| work("true"));
        if world.dice.percent(30) {
            new.settings.worktree_init = serde_json::from_str(r#"["make ready"]"#).unwrap();
        }
        if number > 0 && world.dice.percent(30) {
            new.settings.resume_after_plan = Some(*world.runs[number - 1].plan.id());
        }
        if world.dice.percent(10) {
            new.settings.budget = serde_json::from_str(r#"{"tokens": 2000}"#).unwrap();
        }
        let at = world.create(new).unwrap();
        if world.runs[at].plan.is_scaffolding() {
            world
                .command(
                    at,
                    Command::Finalize {
                        start_paused: false,
                    },
                )
                .unwrap();
        }
    }
    world
}

/// Something that a person asks for; many of these are refused, and then nothing happens.
fn interfere(world: &mut World) {
    let at = world.dice.below(world.runs.len());
    let jobs = world.runs[at].plan.jobs();
    let count = jobs.len();
    let place = world.dice.below(count);
    let name = world.runs[at].plan.jobs()[place].producer().to_string();
    let other = world.runs[at].plan.jobs()[world.dice.below(count)]
        .producer()
        .clone();
    let new = Box::new(job(&format!("new-{}", world.dice.below(1000)), &[]));
    let command = match world.dice.below(24) {
        0..=2 => Command::Pause,
        3..=6 => Command::Resume,
        7 if world.dice.percent(30) => Command::Cancel { reason: None },
        8 if world.dice.percent(10) => Command::Delete,
        9 => Command::Recover,
        10..=12 => Command::RetryPlan {
            jobs: None,
            retry: Retry::default(),
        },
        13 => Command::RetryJob {
            job: name,
            retry: Retry {
                clear_worktree: world.dice.percent(50),
                ..Retry::default()
            },
        },
        14 => Command::RetryJob {
            job: name,
            retry: Retry {
                work: Some(work("true")),
                ..Retry::default()
            },
        },
        15 | 16 => Command::ForceFail {
            job: name,
            reason: Some("stuck".to_owned()),
        },
        17 => Command::UpdateJob {
            job: name,
            change: JobChange {
                work: Some(work("@agent again")),
                ..JobChange::default()
            },
        },
        18 => Command::Reshape(vec![Operation::Add(new)]),
        19 => Command::Reshape(vec![
            Operation::Remove { job: name },
            Operation::AddBefore {
                existing: other.to_string(),
                job: new,
            },
        ]),
        20 => Command::Reshape(vec![Operation::AddAfter {
            existing: name,
            job: new,
        }]),
        21 => Command::Reshape(vec![Operation::UpdateDependencies {
            job: name,
            dependencies: vec![other],
        }]),
        22 => Command::Update(PlanPatch {
            resume_after_plan: Some(None),
            max_parallel: orchestra_plan::spec::MaxParallel::new(2),
            ..PlanPatch::default()
        }),
        _ => Command::Clock,
    };
    let name = command.name();
    if world.command(at, command).is_err() {
        world.count("refused");
        world.count(match name {
            "reshape" => "refused reshapes",
            _ => "other refusals",
        });
    }
}

fn live(seed: u64) -> World {
    let mut world = random_world(seed);
    for _ in 0..150 {
        world.prepare();
        world.schedule();
        let active = world.active();
        if !active.is_empty() {
            let (at, id) = active[world.dice.below(active.len())];
            world.advance(at, id);
        }
        if world.dice.percent(6) {
            interfere(&mut world);
        }
        if world.dice.percent(6) {
            world.meddle();
        }
        if world.dice.percent(2) {
            world.crash();
        }
        let by = u64::try_from(world.dice.below(1000)).unwrap();
        world.tick(by);
    }
    world
}

/// Whether a plan that has come to rest says why.
fn rests(world: &World, plan: &Plan) {
    let status = plan.status();
    if status.is_ended() || plan.is_deleted() {
        return;
    }
    assert!(plan.paused().is_some(), "{status} and not paused");
    let now = Millis::new(world.now);
    for job in plan.jobs().iter().filter(|job| !job.status().is_terminal()) {
        let reason = waiting(plan, job, &world.scheduler, &world.limits, now);
        let stated = matches!(
            reason,
            Waiting::Dependencies { .. } | Waiting::Resume { .. } | Waiting::Finalize
        );
        assert!(stated, "{}: {reason}", job.producer());
    }
}

#[test]
fn whatever_happens_the_laws_hold_and_every_plan_comes_to_rest() {
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut steps, mut failed) = (0, Vec::new());
    for seed in 1..=worlds() {
        let result = std::panic::catch_unwind(|| {
            let mut world = live(seed);
            world.drain();
            for run in &world.runs {
                rests(&world, &run.plan);
            }
            world.crash();
            world.drain();
            ends(&mut world);
            let steps: usize = world.runs.iter().map(|run| run.log.len()).sum();
            (world.tally, steps)
        });
        match result {
            Ok((counted, more)) => {
                steps += more;
                for (what, times) in counted {
                    *tally.entry(what).or_default() += times;
                }
            }
            Err(_) => failed.push(seed),
        }
    }
    // `cargo xtask` gathers such lines, also where what tests print is not shown; nobody may read them.
    let _ = writeln!(
        std::io::stdout().lock(),
        "\ncounted: {} random worlds of plans, {steps} steps, {} worlds failed: {tally:?}",
        worlds(),
        failed.len()
    );
    assert!(failed.is_empty(), "worlds of the seeds {failed:?}");
    for what in [
        "lost",
        "failures",
        "crashes",
        "plans ended",
        "retry_job",
        "retry_plan",
        "recover",
        "splits",
        "worktrees removed",
        "changes by hand",
        "targets moved",
        "merges cut short",
        "moves resolved",
        "work that was gone",
    ] {
        assert!(tally.get(what).is_some_and(|times| *times > 0), "no {what}");
    }
}

/// When people resume what is paused and ask again for what failed, everything ends well.
fn ends(world: &mut World) {
    for _ in 0..3 {
        for at in 0..world.runs.len() {
            let plan = &world.runs[at].plan;
            if plan.is_deleted() {
                continue;
            }
            match plan.status() {
                PlanStatus::Failed if plan.settings().budget.is_empty() => {
                    world.command(at, Command::Recover).unwrap();
                    world.command(at, Command::Resume).unwrap();
                }
                PlanStatus::Canceled => {
                    world.command(at, Command::Recover).unwrap();
                    world.command(at, Command::Resume).unwrap();
                }
                _ if plan
                    .paused()
                    .is_some_and(|why| *why != PauseReason::ResumeAfterPlan) =>
                {
                    world.command(at, Command::Resume).unwrap();
                }
                _ => {}
            }
        }
        world.drain();
    }
    for run in world.runs.iter().filter(|run| !run.plan.is_deleted()) {
        let budgets = !run.plan.settings().budget.is_empty()
            || run
                .plan
                .jobs()
                .iter()
                .any(|job| !job.definition().budget.is_empty());
        let done = run.plan.status() == PlanStatus::Succeeded;
        // What it waits for may rest itself.
        let rests = |run: &&Run| run.plan.status() != PlanStatus::Succeeded;
        let chained = run.plan.settings().resume_after_plan.is_some_and(|other| {
            let runs = world.runs.iter();
            let mut found = runs.filter(|run| *run.plan.id() == other && !run.plan.is_deleted());
            found.next().as_ref().is_some_and(rests)
        });
        assert!(
            done || budgets || chained,
            "{} at {}",
            run.plan.status(),
            run.plan.name()
        );
        if done {
            assert!(run.merges >= 1 && run.plan.validation().unwrap().merged().is_some());
        }
    }
}

#[test]
fn a_log_folded_step_by_step_is_what_it_is_at_once() {
    for seed in 1..=20 {
        let world = live(1_000_000 + seed);
        for run in &world.runs {
            let mut plan = Plan::start(&run.log[0]).unwrap();
            for (at, event) in run.log.iter().enumerate().skip(1) {
                assert_eq!(plan.apply(event).refused, None);
                if at % 16 == 0 {
                    assert_eq!(plan, Plan::replay(&run.log[..=at]).unwrap());
                }
            }
            assert_eq!(plan, run.plan);
        }
    }
}
