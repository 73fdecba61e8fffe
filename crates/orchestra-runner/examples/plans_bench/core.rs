//! The core alone: a plan of very many jobs, validated and taken to its end in memory.

use std::time::Instant;

use orchestra_plan::{
    command::{Command, Cx, NewPlan, Report, Request},
    decide::{create, decide},
    event::{Act, Branches, MergeIntent},
    ids::{Branch, Commit, JobId, Millis, PlanId, ProducerId},
    outcome::Policy,
    phase::Phase,
    plan::{Plan, Step},
    schedule::{Limits, Scheduler},
    spec::{Dependencies, JobSpec, MaxParallel, Name, PlanSettings, Task},
    status::PlanStatus,
    work::WorkSpec,
};

use super::bars::{Bars, percentile};

const JOBS: usize = 10_000;
const ROUNDS: usize = 5;

struct World {
    plan: Plan,
    scheduler: Scheduler,
    events: usize,
}

impl World {
    fn ask(&mut self, command: Command) {
        let mut none = || JobId::of_random([0; 16]);
        let mut cx = Cx {
            now: Millis::new(1),
            policy: &Policy::default(),
            ids: &mut none,
            others: &|_| None,
        };
        let decision = decide(&self.plan, Request::of(command), &mut cx).unwrap();
        for event in decision.events {
            let changes = self.plan.apply(&event);
            self.scheduler.observe(&self.plan, &changes);
            self.events += 1;
        }
    }

    fn run(&mut self, id: JobId, commit: &Commit) {
        loop {
            let job = self.plan.job(&id).unwrap();
            let attempt = job.attempt().map(|attempt| attempt.number);
            let report = match self.plan.next(job) {
                Step::Begin { .. } => {
                    self.ask(Command::Begin { job: id });
                    continue;
                }
                Step::Do(task) => Report::ActBegan(task.act),
                Step::UnderWay(task)
                    if task.act == Act::of(Phase::MergeFi) && task.attempt.worktree.is_none() =>
                {
                    Report::WorktreeReady {
                        path: format!(".worktrees/{id}"),
                        base: commit.clone(),
                        fresh: true,
                        sets_up: false,
                    }
                }
                Step::UnderWay(task) if task.act == Act::of(Phase::MergeRi) => match job.intent() {
                    None => Report::MergeIntended(MergeIntent {
                        target: Branch::parse("orchestra/x").unwrap(),
                        old: None,
                        new: commit.clone(),
                    }),
                    Some(_) => Report::Merged(commit.clone()),
                },
                Step::UnderWay(task) => Report::ActSucceeded {
                    act: task.act,
                    commit: Some(commit.clone()),
                    summary: None,
                    usage: Default::default(),
                    ended: None,
                },
                _ => return,
            };
            self.ask(Command::Report {
                job: id,
                attempt: attempt.unwrap(),
                report,
            });
        }
    }
}

/// Layers of sixteen; each job depends on up to three of the layer before.
fn jobs() -> Vec<JobSpec> {
    let producer = |at: usize| ProducerId::parse(&format!("job-{at:05}")).unwrap();
    let job = |at: usize| {
        let layer = at / 16;
        let mut before: Vec<usize> = match layer {
            0 => Vec::new(),
            _ => [at, at * 7, at * 13]
                .map(|other| (layer - 1) * 16 + other % 16)
                .to_vec(),
        };
        before.sort_unstable();
        before.dedup();
        JobSpec {
            dependencies: Dependencies::new(before.into_iter().map(producer).collect()).unwrap(),
            ..JobSpec::of(
                producer(at),
                Task::parse("Work").unwrap(),
                WorkSpec::parse("true").unwrap(),
            )
        }
    };
    (0..JOBS).map(job).collect()
}

/// Milliseconds until the graph is valid and until its end, and how many events that is.
fn round() -> (f64, f64, usize) {
    let mut settings = PlanSettings::of(Name::parse("Many").unwrap());
    settings.start_paused = false;
    settings.max_parallel = MaxParallel::new(16).unwrap();
    let new = NewPlan {
        id: PlanId::of_random([1; 16]),
        settings,
        jobs: jobs(),
        scaffolding: false,
        source: None,
        mark: None,
        sandboxed: false,
    };
    let mut ids = 0_u128;
    let mut next_id = || {
        ids += 1;
        JobId::of_random(ids.to_be_bytes())
    };
    let begin = Instant::now();
    let mut cx = Cx {
        now: Millis::new(1),
        policy: &Policy::default(),
        ids: &mut next_id,
        others: &|_| None,
    };
    let created = create(new, None, &mut cx).unwrap();
    let plan = Plan::start(&created).unwrap();
    let validated = begin.elapsed();
    let commit = Commit::parse(&"a".repeat(40)).unwrap();
    let mut world = World {
        plan,
        scheduler: Scheduler::new(),
        events: 1,
    };
    world.scheduler.load(&world.plan);
    world.ask(Command::BranchesReady(Branches {
        base: Branch::parse("main").unwrap(),
        base_commit: commit.clone(),
        target: Branch::parse("orchestra/x").unwrap(),
        target_made: true,
        snapshot: Branch::parse("orchestrator/snapshot/x").unwrap(),
    }));
    loop {
        let starts = world.scheduler.next(&Limits::default(), Millis::new(1));
        if starts.is_empty() {
            break;
        }
        for start in &starts {
            world.ask(Command::Schedule { job: start.job });
        }
        for start in starts {
            world.run(start.job, &commit);
        }
    }
    assert_eq!(world.plan.status(), PlanStatus::Succeeded);
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    (ms(validated), ms(begin.elapsed()), world.events)
}

pub(crate) fn measure(bars: &mut Bars) {
    let rounds: Vec<_> = (0..ROUNDS).map(|_| round()).collect();
    let of = |pick: fn(&(f64, f64, usize)) -> f64| {
        percentile(&mut rounds.iter().map(pick).collect::<Vec<_>>(), 50)
    };
    let (validated, whole) = (of(|round| round.0), of(|round| round.1));
    println!(
        "\n== {JOBS} jobs in memory: valid after {validated:.0} ms, at their end after {whole:.0} ms \
         ({} events), medians of {ROUNDS}",
        rounds[0].2
    );
    bars.at_most(
        "10 000 jobs validated and scheduled in memory",
        1000.0,
        "ms",
        whole,
    );
}
