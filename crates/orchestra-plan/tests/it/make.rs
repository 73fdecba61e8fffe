//! Makes plans and what they are made of.

use orchestra_plan::command::NewPlan;
use orchestra_plan::ids::{JobId, PlanId, ProducerId};
use orchestra_plan::spec::{Dependencies, JobSpec, Name, PlanSettings, Task};
use orchestra_plan::work::WorkSpec;

/// Numbers that are the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// True so many times of a hundred.
    pub(crate) fn percent(&mut self, times: usize) -> bool {
        self.below(100) < times
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

pub(crate) fn job_id(number: u64) -> JobId {
    let mut bytes = [7; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    JobId::of_random(bytes)
}

pub(crate) fn plan_id(number: u64) -> PlanId {
    let mut bytes = [9; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    PlanId::of_random(bytes)
}

pub(crate) fn producer(text: &str) -> ProducerId {
    ProducerId::parse(text).unwrap()
}

pub(crate) fn work(text: &str) -> WorkSpec {
    WorkSpec::parse(text).unwrap()
}

pub(crate) fn job(name: &str, dependencies: &[&str]) -> JobSpec {
    let mut spec = JobSpec::of(producer(name), Task::parse("do it").unwrap(), work("true"));
    let dependencies = dependencies.iter().map(|name| producer(name)).collect();
    spec.dependencies = Dependencies::new(dependencies).unwrap();
    spec
}

pub(crate) fn settings(name: &str) -> PlanSettings {
    let mut settings = PlanSettings::of(Name::parse(name).unwrap());
    settings.start_paused = false;
    settings
}

pub(crate) fn new_plan(number: u64, jobs: Vec<JobSpec>) -> NewPlan {
    NewPlan {
        id: plan_id(number),
        settings: settings(&format!("plan {number}")),
        jobs,
        scaffolding: false,
        source: None,
        mark: None,
        sandboxed: false,
    }
}

/// Jobs with random edges, works and rules.
pub(crate) fn random_jobs(dice: &mut Dice, most: usize) -> Vec<JobSpec> {
    let count = 1 + dice.below(most);
    let name = |at: usize| format!("job-{at}");
    let mut jobs = Vec::new();
    for at in 0..count {
        let mut dependencies: Vec<String> = Vec::new();
        for _ in 0..dice.below(4).min(at) {
            let other = name(dice.below(at));
            if !dependencies.contains(&other) {
                dependencies.push(other);
            }
        }
        let dependencies: Vec<&str> = dependencies.iter().map(String::as_str).collect();
        let mut spec = job(&name(at), &dependencies);
        spec.work = random_work(dice);
        spec.prechecks = dice.percent(25).then(|| random_work(dice));
        spec.postchecks = dice.percent(40).then(|| random_work(dice));
        spec.auto_heal = dice.percent(80);
        let groups = ["", "build", "build/linux", "test"];
        let group = dice.pick(&groups);
        spec.group = (!group.is_empty()).then(|| group.parse().unwrap());
        if dice.percent(10) {
            spec.budget = serde_json::from_str(r#"{"tokens": 500, "wallMs": 50000}"#).unwrap();
        }
        jobs.push(spec);
    }
    jobs
}

fn random_work(dice: &mut Dice) -> WorkSpec {
    let text = match dice.below(6) {
        0 => "@agent do it",
        1 => r#"{"type": "process", "executable": "true"}"#,
        2 => r#"{"type": "shell", "command": "true", "onFailure": {"noAutoHeal": true}}"#,
        3 => {
            r#"{"type": "shell", "command": "true", "onFailure": {"resumeFromPhase": "prechecks"}}"#
        }
        _ => "true",
    };
    work(text)
}
