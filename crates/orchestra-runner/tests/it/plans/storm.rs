//! Graphs at random, for real: jobs that fail, hang, fork and flood, and a runner, or all processes at once, that
//! are killed at any moment. Each job's effect is merged once, in order, and nothing is left behind.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read, Write},
    process::Child,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use orchestra_plan::{
    command::{Command, Retry},
    plan::Plan,
    spec::{IdempotencyKey, MaxParallel, PlanSpec},
    status::{JobStatus, PlanStatus},
    value::List,
};
use orchestra_runner::plans::{Caller, Plans};

use super::{
    graphs::{Node, Numbers, Trouble, flag, graph, jobs, prepare, serially},
    rig::{Rig, settings, succeeded, told},
    witness::{
        all_killed, logs_tell_all, nothing_is_kept, nothing_runs, picture, remove_locks_of_git,
    },
};

/// How many graphs there are and how many jobs each has at most: a few, or with `ORCHESTRA_SOAK` as many as
/// are promised.
fn size() -> (u64, u64) {
    match std::env::var_os("ORCHESTRA_SOAK") {
        Some(_) => (200, 16),
        None => (6, 8),
    }
}

/// How many graphs run beside each other: waiting takes longer than working.
const BESIDE: u64 = 3;

/// How long the last run of a graph may take, whose jobs hang for seconds at most.
const RUN: Duration = Duration::from_secs(240);

/// What has happened in all graphs.
#[derive(Default)]
struct Counts {
    graphs: AtomicU64,
    jobs: AtomicU64,
    attempts: AtomicU64,
    troubles: AtomicU64,
    kills: AtomicU64,
    cuts: AtomicU64,
    locks: AtomicU64,
    merges: AtomicU64,
    events: AtomicU64,
    failures: AtomicU64,
}

static COUNTS: Counts = Counts {
    graphs: AtomicU64::new(0),
    jobs: AtomicU64::new(0),
    attempts: AtomicU64::new(0),
    troubles: AtomicU64::new(0),
    kills: AtomicU64::new(0),
    cuts: AtomicU64::new(0),
    locks: AtomicU64::new(0),
    merges: AtomicU64::new(0),
    events: AtomicU64::new(0),
    failures: AtomicU64::new(0),
};

impl Counts {
    /// Says them, also where what tests print is not shown: `cargo xtask` gathers such lines.
    fn say(&self) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut out = io::stdout().lock();
        // Nobody may be there to read them.
        let _ = writeln!(
            out,
            "\ncounted: {} random graphs of {} jobs, {} of these with trouble, {} attempts, {} runners killed, \
             {} times all processes killed at once, {} locks of git left by them, {} merges checked, {} events replayed, {} graphs failed",
            count(&self.graphs),
            count(&self.jobs),
            count(&self.troubles),
            count(&self.attempts),
            count(&self.kills),
            count(&self.cuts),
            count(&self.locks),
            count(&self.merges),
            count(&self.events),
            count(&self.failures),
        );
    }

    fn add(count: &AtomicU64, more: usize) {
        count.fetch_add(more as u64, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_at_random_are_merged_once_whatever_is_killed() {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let (graphs, most) = size();
    // One that failed can be tried again by itself.
    let only = std::env::var("PLANS_GRAPH").ok();
    let only: Option<u64> = only.map(|seed| seed.parse().unwrap());
    let lanes: Vec<_> = (0..BESIDE)
        .map(|_| tokio::spawn(lane(&NEXT, graphs, most, only)))
        .collect();
    let mut failed = Vec::new();
    for lane in lanes {
        failed.extend(lane.await.unwrap());
    }
    COUNTS.say();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Runs one graph after the other. One that fails does not keep the others from being tried.
async fn lane(next: &AtomicU64, graphs: u64, most: u64, only: Option<u64>) -> Vec<String> {
    let mut failed = Vec::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed > graphs {
            return failed;
        }
        if only.is_some_and(|only| only != seed) {
            continue;
        }
        if let Err(error) = tokio::spawn(one(seed, most, &COUNTS)).await {
            Counts::add(&COUNTS.failures, 1);
            failed.push(format!("graph {seed}: {error}"));
        }
    }
}

/// Ends all of a rig when a graph has failed, so that the next ones have the machine.
struct Wreck<'a>(&'a Rig);

impl Drop for Wreck<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            all_killed(self.0);
        }
    }
}

async fn one(seed: u64, most: u64, counts: &Counts) {
    let numbers = &mut Numbers::new(seed);
    let rig = Rig::new();
    let _wreck = Wreck(&rig);
    // Who kills all may have a job do its work again in what it left.
    let is_cut = seed.is_multiple_of(3);
    let nodes = graph(numbers, most, is_cut);
    prepare(&rig, &nodes);
    let of = format!("graph {seed}");
    let tree = serially(&rig, &nodes);
    fs::write(rig.root.join("README"), "the user writes here\n").unwrap();
    let before = picture(&rig.root);
    run(&rig, &nodes, numbers, is_cut, counts).await;

    let plans = rig.plans();
    let all = plans.list().await.unwrap();
    assert_eq!(all.len(), 1, "{of}");
    let mut plan = all[0].clone();
    let fails = nodes.iter().any(|node| node.trouble == Trouble::Fails);
    if fails {
        as_expected(&plan, &nodes, &of);
        let refs = rig.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
        assert!(
            !refs.lines().any(|name| name == "refs/heads/result"),
            "{of}: {refs}"
        );
        plan = put_right(&rig, &plans, &plan, &nodes).await;
    }
    assert_eq!(
        plan.status(),
        PlanStatus::Succeeded,
        "{of}: {}",
        told(&plan)
    );
    Counts::add(&counts.events, logs_tell_all(&plans, *plan.id(), &of).await);
    // Who runs them next clears away what was left, and leaves.
    plans.attend().await.unwrap();
    nothing_is_kept(&rig, &["main", "result"], &of).await;
    plans.close(Duration::from_secs(20)).await.unwrap();
    nothing_runs(&rig, &of).await;
    let merges = merged_once(&rig, &plan, &nodes, &of);
    Counts::add(&counts.merges, merges);
    assert_eq!(
        rig.git(&["rev-parse", "result^{tree}"]),
        tree,
        "{of}: {}",
        told(&plan)
    );
    assert_eq!(picture(&rig.root), before, "{of}");
    Counts::add(&counts.graphs, 1);
    Counts::add(&counts.jobs, nodes.len());
    let troubled = nodes.iter().filter(|node| node.trouble != Trouble::None);
    Counts::add(&counts.troubles, troubled.count());
    let attempts = plan.jobs().iter().map(|job| job.attempts().len()).sum();
    Counts::add(&counts.attempts, attempts);
}

/// Runs the graph in processes that are killed, and at last in one that is not.
async fn run(rig: &Rig, nodes: &[Node], numbers: &mut Numbers, is_cut: bool, counts: &Counts) {
    let mut settings = settings("Storm");
    settings.max_parallel = MaxParallel::new(1 + numbers.below(5)).unwrap();
    settings.idempotency_key = Some(IdempotencyKey::parse("storm").unwrap());
    let spec = PlanSpec {
        settings,
        jobs: List::new(jobs(rig, nodes)).unwrap(),
    };
    let file = rig.home().join("plan.json");
    fs::write(&file, serde_json::to_vec(&spec).unwrap()).unwrap();
    let file = file.to_str().unwrap();
    for _ in 0..2 + numbers.below(8) {
        let mut process = rig.process(&["run", file]);
        // Moments of its own start, of the first commands, and of jobs at work.
        let most = [20, 150, 600][numbers.below(3) as usize];
        tokio::time::sleep(Duration::from_millis(numbers.below(most))).await;
        process.kill().unwrap();
        process.wait().unwrap();
        Counts::add(&counts.kills, 1);
        if is_cut && numbers.below(2) == 0 {
            all_killed(rig);
            Counts::add(&counts.cuts, 1);
            Counts::add(&counts.locks, remove_locks_of_git(rig));
        }
    }
    let said = finished(rig.process(&["run", file])).await;
    let (succeeded, said) = match said {
        Some(ended) => ended,
        None => panic!("no end: {}", told(&rig.plans().list().await.unwrap()[0])),
    };
    assert!(succeeded, "{said}");
}

/// Waits for the end of a process: whether it ended well, and what it has said.
async fn finished(mut process: Child) -> Option<(bool, String)> {
    let ended = tokio::task::spawn_blocking(move || {
        let mut said = String::new();
        let mut out = process.stdout.take().unwrap();
        out.read_to_string(&mut said).unwrap();
        (process.wait().unwrap().success(), said)
    });
    Some(tokio::time::timeout(RUN, ended).await.ok()?.unwrap())
}

/// What never works fails, what comes after it is blocked, and all else is done.
fn as_expected(plan: &Plan, nodes: &[Node], of: &str) {
    for node in nodes {
        let fails = |at: &usize| nodes[*at].trouble == Trouble::Fails;
        let expected = match (node.before.iter().any(fails), node.trouble) {
            (true, _) => JobStatus::Blocked,
            (false, Trouble::Fails) => JobStatus::Failed,
            _ => JobStatus::Succeeded,
        };
        let job = plan.find(&node.name).unwrap();
        assert_eq!(job.status(), expected, "{of}: {} {}", node.name, told(plan));
    }
    assert!(plan.status().is_ended(), "{of}");
    assert_ne!(plan.status(), PlanStatus::Succeeded, "{of}");
}

/// The user mends what does not work, and has it done again.
async fn put_right(rig: &Rig, plans: &Plans, plan: &Plan, nodes: &[Node]) -> std::sync::Arc<Plan> {
    let broken: Vec<&Node> = nodes
        .iter()
        .filter(|node| node.trouble == Trouble::Fails)
        .collect();
    for node in &broken {
        fs::write(flag(rig, node), "").unwrap();
    }
    let retry = Command::RetryPlan {
        jobs: None,
        retry: Retry::default(),
    };
    let caller = Caller::named("a user");
    // What was blocked may fail next, and is mended by now.
    plans.command(*plan.id(), retry, &caller).await.unwrap();
    succeeded(plans, *plan.id()).await
}

/// Every job that changes something is one commit of the result, or those that it made itself, after those
/// of all that it comes after. Gives how many were looked at.
fn merged_once(rig: &Rig, plan: &Plan, nodes: &[Node], of: &str) -> usize {
    let log = rig.git(&[
        "log",
        "--topo-order",
        "--reverse",
        "--format=%H %s",
        "main..result",
    ]);
    let mut seen = BTreeSet::new();
    for node in nodes {
        let job = plan.find(&node.name).unwrap();
        let commit = job.completed_commit().unwrap().to_string();
        assert!(
            rig.try_git(&["merge-base", "--is-ancestor", &commit, "result"])
                .status
                .success(),
            "{of}: {} is not merged",
            node.name
        );
        for other in &node.dependencies {
            let other = plan.find(&nodes[*other].name).unwrap();
            let other = other.completed_commit().unwrap().to_string();
            let is_before = rig.try_git(&["merge-base", "--is-ancestor", &other, &commit]);
            assert!(
                is_before.status.success(),
                "{of}: {} is out of order",
                node.name
            );
        }
        let subject = format!(" [Plan] Do {}", node.name);
        let times = log.lines().filter(|line| line.ends_with(&subject)).count();
        let expected = usize::from(!node.is_empty && !node.commits);
        assert_eq!(
            times,
            expected,
            "{of}: {}\n{log}\n{}",
            node.name,
            told(plan)
        );
        if !node.is_empty {
            assert!(seen.insert(commit), "{of}: {}", node.name);
        }
    }
    let own = nodes.iter().filter(|node| node.commits).count();
    let times = log
        .lines()
        .filter(|line| line.ends_with(" by the job"))
        .count();
    assert_eq!(times, own, "{of}\n{log}");
    nodes.len()
}
