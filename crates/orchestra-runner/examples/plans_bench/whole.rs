//! Whole plans of jobs that do nothing: what is left is what it costs to run a plan.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use orchestra_plan::{
    event::What,
    ids::ProducerId,
    plan::Plan,
    schedule::Limits,
    spec::{Dependencies, JobSpec, MaxParallel, Name, PlanSettings, Task},
    status::PlanStatus,
    work::WorkSpec,
};
use orchestra_process::Launcher;
use orchestra_runner::{
    git::{GitSettings, GitTimes},
    plans::{Caller, Options, Placed, Plans, Trust},
    supervise::JOB_COMMAND,
};

use tempfile::TempDir;

use super::{
    bars::{Bars, percentile},
    git,
    peer::{Peer, Took},
    repository, trace,
};

const JOBS: usize = 500;
const FEW: usize = 100;
const WIDTH: usize = 16;
/// How often plan and peer are measured, in turns.
const ROUNDS: usize = 3;
/// How many jobs follow each other where it is measured how soon the next one begins.
const CHAIN: usize = 60;

fn producer(at: usize) -> ProducerId {
    ProducerId::parse(&format!("job-{at:04}")).unwrap()
}

/// Chains side by side.
fn jobs(count: usize, width: usize) -> Vec<JobSpec> {
    let job = |at: usize| JobSpec {
        dependencies: Dependencies::new(at.checked_sub(width).map(producer).into_iter().collect())
            .unwrap(),
        expects_no_changes: true,
        ..JobSpec::of(
            producer(at),
            Task::parse("Nothing").unwrap(),
            WorkSpec::parse("true").unwrap(),
        )
    };
    (0..count).map(job).collect()
}

/// A plan that has run.
struct Run {
    wall: Duration,
    times: GitTimes,
    /// What git said of itself, where it was asked.
    processes: Vec<trace::Process>,
    plan: Arc<Plan>,
    events: Vec<Placed>,
    used: Used,
    /// Where it ran.
    home: TempDir,
}

/// What was used of a processor.
#[derive(Debug, Clone, Copy)]
struct Used {
    /// By this process itself.
    own: Duration,
    /// By those that it has started, and those that these have, once they were waited for.
    others: Duration,
}

/// Milliseconds since the day began.
fn of_day() -> f64 {
    const DAY: f64 = 24.0 * 60.0 * 60.0 * 1000.0;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_secs_f64() * 1000.0 % DAY
}

impl Used {
    /// So far. It is counted in ticks of ten milliseconds.
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields = text.rsplit(')').next().unwrap().split_whitespace();
        let ticks: Vec<u64> = fields
            .skip(11)
            .take(4)
            .map(|field| field.parse().unwrap())
            .collect();
        let time = |ticks: &[u64]| Duration::from_millis(ticks.iter().sum::<u64>() * 10);
        Self {
            own: time(&ticks[..2]),
            others: time(&ticks[2..]),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            own: self.own - before.own,
            others: self.others - before.others,
        }
    }
}

async fn run(count: usize, width: usize, traced: bool) -> Run {
    let home = tempfile::tempdir().unwrap();
    let root = root_of(&home);
    std::fs::create_dir(&root).unwrap();
    repository(&root);
    let file = home.path().join("trace.jsonl");
    let limit = u32::try_from(width).unwrap();
    let this = std::env::current_exe().unwrap();
    let environment = match traced {
        true => trace::variables(&file),
        false => Vec::new(),
    };
    let plans = Plans::new(Options {
        limits: Limits {
            total: limit,
            ..Limits::default()
        },
        supervisor: Some(Launcher::new(this, [JOB_COMMAND])),
        git: GitSettings {
            environment,
            ..GitSettings::default()
        },
        trust: Trust::Any,
        ..Options::new(&root, &root.join(".orchestrator/plans"))
    });
    let settings = PlanSettings {
        start_paused: false,
        max_parallel: MaxParallel::new(u64::from(limit)).unwrap(),
        ..PlanSettings::of(Name::parse("Measure").unwrap())
    };
    let before = Used::now();
    let (begin, began) = (Instant::now(), of_day());
    let caller = Caller::default();
    let made = plans.create(settings, jobs(count, width), false, &caller);
    let made = made.await.unwrap();
    let plan = plans.wait(made.plan).await.unwrap();
    let (wall, ended) = (begin.elapsed(), of_day());
    let used = Used::now().since(before);
    let times = plans.git_times().unwrap_or_default();
    assert_eq!(plan.status(), PlanStatus::Succeeded);
    let mut events = Vec::new();
    loop {
        let after = events.last().map_or(0, |placed: &Placed| placed.seq);
        let page = plans.events(after, 1_000).await.unwrap();
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    plans.close(Duration::from_secs(20)).await.unwrap();
    let processes = match traced {
        // Worktrees are put away while nobody waits any more.
        true => trace::between(trace::processes(&file), began, ended),
        false => Vec::new(),
    };
    unchanged(&root);
    Run {
        wall,
        times,
        processes,
        plan,
        events,
        used,
        home,
    }
}

fn unchanged(root: &Path) {
    assert_eq!(git(root, &["status", "--porcelain"]), "");
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn root_of(home: &TempDir) -> PathBuf {
    home.path().join("work")
}

/// What the commands of git of a plan take without the plan.
struct Bare {
    wall: Duration,
    used: Used,
}

/// Does the commands of a plan again, on its repository made anew.
fn bare(run: &Run, peer: &Peer) -> Bare {
    let root = root_of(&run.home);
    std::fs::remove_dir_all(&root).unwrap();
    std::fs::create_dir(&root).unwrap();
    repository(&root);
    let before = Used::now();
    let Took { wall, strayed } = peer.run();
    assert_eq!(
        strayed, 0,
        "commands of git ended otherwise than in the plan"
    );
    Bare {
        wall,
        used: Used::now().since(before),
    }
}

/// The ids of the jobs of each chain.
fn chains(plan: &Plan, count: usize, width: usize) -> Vec<Vec<String>> {
    let id = |at| {
        plan.jobs()
            .iter()
            .find(|job| job.definition().producer_id == producer(at))
    };
    let chain = |first| {
        (first..count)
            .step_by(width)
            .map(|at| id(at).unwrap().id().to_string())
    };
    (0..width).map(|first| chain(first).collect()).collect()
}

pub(crate) async fn measure(bars: &mut Bars) {
    // Once, so that files are in memory.
    run(20, WIDTH, false).await;
    println!("\n== plans of jobs that do nothing, each `true` (ms per job)");
    println!(
        "{:<34} {:>7} {:>10} {:>9} {:>9} {:>9}",
        "", "wall", "git added", "git runs", "own CPU", "children"
    );
    let few = run(FEW, WIDTH, false).await;
    told("100 jobs, width 16", FEW, &few);
    let traced = run(JOBS, WIDTH, true).await;
    told("500 jobs, width 16, git traced", JOBS, &traced);
    let peer = Peer::of(
        &root_of(&traced.home),
        &traced.processes,
        &chains(&traced.plan, JOBS, WIDTH),
    );
    let (mut ours, mut theirs, mut differences, mut beside) = (vec![], vec![], vec![], vec![]);
    let per_job = |time: Duration| ms(time) / JOBS as f64;
    let mut growth = 0.0;
    for _ in 0..ROUNDS {
        let many = run(JOBS, WIDTH, false).await;
        told("500 jobs, width 16", JOBS, &many);
        let bare = bare(&traced, &peer);
        println!(
            "{:<34} {:>7.2} {:>10} {:>9.2} {:>9.2} {:>9.2}",
            "the same commands of git, bare",
            per_job(bare.wall),
            "",
            peer.len() as f64 / JOBS as f64,
            per_job(bare.used.own),
            per_job(bare.used.others),
        );
        let per = |run: &Run, jobs: usize| run.times.processes as f64 / jobs as f64;
        growth = per(&many, JOBS) / per(&few, FEW);
        ours.push(per_job(many.wall));
        theirs.push(per_job(bare.wall));
        differences.push(per_job(many.wall) - per_job(bare.wall));
        beside.push(per_job(many.used.others) - per_job(bare.used.others));
    }
    let [ours, theirs, outside, beside] =
        [ours, theirs, differences, beside].map(|mut values| percentile(&mut values, 50));
    println!(
        "a job takes {ours:.2} ms; its git alone, by a driver that does nothing else, {theirs:.2} ms \
         (medians of {ROUNDS});\nsupervisors, guards and shells use {beside:.2} ms of a processor"
    );
    let covered = trace::union(&traced.processes);
    println!(
        "traced: for {:.2} ms of {:.2} no git runs at all",
        (ms(traced.wall) - covered) / JOBS as f64,
        per_job(traced.wall)
    );
    bars.at_most(
        "wall time of a job beyond that of its git alone, 500 jobs, width 16",
        5.0,
        "ms",
        outside,
    );
    bars.at_most("git processes of a job, 500 jobs to 100", 1.1, "", growth);
    one_by_one(bars).await;
}

/// How soon the next one begins, and what a job takes that has the machine for itself.
async fn one_by_one(bars: &mut Bars) {
    let chain = run(CHAIN, 1, true).await;
    told("60 jobs, one by one, git traced", CHAIN, &chain);
    let peer = Peer::of(
        &root_of(&chain.home),
        &chain.processes,
        &chains(&chain.plan, CHAIN, 1),
    );
    let bare = bare(&chain, &peer);
    let per_job = |time: f64| time / CHAIN as f64;
    println!(
        "one by one: for {:.2} ms of {:.2} no git runs; its git alone takes {:.2} ms",
        per_job(ms(chain.wall) - trace::union(&chain.processes)),
        per_job(ms(chain.wall)),
        per_job(ms(bare.wall)),
    );
    let mut gaps = gaps(&chain);
    let (middle, most) = (percentile(&mut gaps, 50), percentile(&mut gaps, 95));
    println!("from the end of a job to git for the next: {middle:.1} ms median, {most:.1} ms p95");
    bars.at_most(
        "from the end of a job to the first git of the next, p95",
        20.0,
        "ms",
        most,
    );
    commands(&chain);
}

fn told(what: &str, jobs: usize, run: &Run) {
    let per = |value: f64| value / jobs as f64;
    println!(
        "{what:<34} {:>7.2} {:>10.2} {:>9.2} {:>9.2} {:>9.2}",
        per(ms(run.wall)),
        per(ms(run.times.spent)),
        per(run.times.processes as f64),
        per(ms(run.used.own)),
        per(ms(run.used.others)),
    );
}

/// From each job's end, as its event says, to the first git that names the next one.
fn gaps(run: &Run) -> Vec<f64> {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let mut gaps = Vec::new();
    for placed in &run.events {
        let Some(event) = &placed.event else {
            continue;
        };
        let What::AttemptEnded { job, .. } = &event.what else {
            continue;
        };
        let job = run.plan.job(job).unwrap();
        let ended = (event.at.get() % DAY) as f64;
        for next in run.plan.dependents(job) {
            let name = next.id().to_string();
            let mut named = run
                .processes
                .iter()
                .filter(|process| process.words.contains(&name));
            if let Some(first) = named.next() {
                gaps.push((first.began - ended).max(0.0));
            }
        }
    }
    gaps
}

/// Which commands of git a job costs.
fn commands(run: &Run) {
    let mut counts = std::collections::BTreeMap::<&str, (usize, f64)>::new();
    for process in &run.processes {
        let name = trace::command(&process.arguments);
        let count = counts.entry(name).or_default();
        count.0 += 1;
        count.1 += process.ended - process.began;
    }
    let per = |(name, (count, spent)): (&&str, &(usize, f64))| {
        format!(
            "{name} {:.1} ({:.1} ms)",
            *count as f64 / CHAIN as f64,
            spent / CHAIN as f64
        )
    };
    println!(
        "git of a job: {}",
        counts.iter().map(per).collect::<Vec<_>>().join(", ")
    );
}
