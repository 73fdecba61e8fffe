//! Plans of many jobs.

use std::time::Instant;

use orchestra_plan::command::{Command, Cx, Report, Request};
use orchestra_plan::decide::{create, decide};
use orchestra_plan::event::{Branches, Event, MergeIntent};
use orchestra_plan::ids::{Branch, Commit, JobId, Millis};
use orchestra_plan::outcome::Policy;
use orchestra_plan::phase::Phase;
use orchestra_plan::plan::{Plan, Step};
use orchestra_plan::schedule::{Limits, Scheduler};
use orchestra_plan::spec::MaxParallel;
use orchestra_plan::status::PlanStatus;

use crate::make::{Dice, job, job_id, new_plan};

/// How many jobs; in a build that is not optimised it takes several seconds already.
const JOBS: usize = 10_000;

struct Bench {
    plan: Plan,
    scheduler: Scheduler,
    events: usize,
}

impl Bench {
    fn ask(&mut self, command: Command) {
        let mut none = || unreachable!("no job is made");
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
        let mut told = false;
        loop {
            let job = self.plan.job(&id).unwrap();
            let attempt = job.attempt().map(|attempt| attempt.number);
            let report = match self.plan.next(job) {
                Step::Begin { .. } => {
                    self.ask(Command::Begin { job: id });
                    continue;
                }
                Step::Do(task) => Report::ActBegan(task.act),
                Step::UnderWay(task) if !told && task.act.phase == Phase::MergeFi => {
                    told = true;
                    Report::WorktreeReady {
                        path: "/w".to_owned(),
                        base: commit.clone(),
                        fresh: true,
                        sets_up: false,
                    }
                }
                Step::UnderWay(task) if task.act.phase == Phase::MergeRi => match job.intent() {
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

#[test]
fn ten_thousand_jobs_are_validated_and_run_to_their_end() {
    let mut dice = Dice::new(42);
    let name = |at: usize| format!("job-{at:05}");
    let mut jobs = Vec::new();
    for at in 0..JOBS {
        let dependencies: Vec<String> = (0..dice.below(4).min(at))
            .map(|_| name(at - 1 - dice.below(at.min(64))))
            .collect();
        let mut dependencies: Vec<&str> = dependencies.iter().map(String::as_str).collect();
        dependencies.sort_unstable();
        dependencies.dedup();
        jobs.push(job(&name(at), &dependencies));
    }
    let mut new = new_plan(1, jobs);
    new.settings.max_parallel = MaxParallel::new(16).unwrap();
    let begin = Instant::now();
    let mut ids = 0;
    let mut next_id = || {
        ids += 1;
        job_id(ids)
    };
    let mut cx = Cx {
        now: Millis::new(1),
        policy: &Policy::default(),
        ids: &mut next_id,
        others: &|_| None,
    };
    let created: Event = create(new, None, &mut cx).unwrap();
    let plan = Plan::start(&created).unwrap();
    let validated = begin.elapsed();
    let commit = Commit::parse(&"a".repeat(40)).unwrap();
    let mut bench = Bench {
        plan,
        scheduler: Scheduler::new(),
        events: 1,
    };
    bench.scheduler.load(&bench.plan);
    bench.ask(Command::BranchesReady(Branches {
        base: Branch::parse("main").unwrap(),
        base_commit: commit.clone(),
        target: Branch::parse("orchestra/x").unwrap(),
        target_made: true,
        snapshot: Branch::parse("orchestrator/snapshot/x").unwrap(),
    }));
    loop {
        let starts = bench.scheduler.next(&Limits::default(), Millis::new(1));
        if starts.is_empty() {
            break;
        }
        assert!(starts.len() <= 16);
        for start in &starts {
            bench.ask(Command::Schedule { job: start.job });
        }
        for start in starts {
            bench.run(start.job, &commit);
        }
    }
    let whole = begin.elapsed();
    println!(
        "{JOBS} jobs: validated in {validated:?}, at their end after {whole:?}, {} events",
        bench.events
    );
    assert_eq!(bench.plan.status(), PlanStatus::Succeeded);
    assert_eq!(bench.scheduler.active(), 0);
}
