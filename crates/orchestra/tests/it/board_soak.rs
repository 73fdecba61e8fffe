//! Many clients in worktrees on one board, while git, kills and removals disturb them.
//!
//! Each client records what is acknowledged; the end compares that with the board. The test is short. With
//! `ORCHESTRA_SOAK_MINUTES`, as `cargo xtask soak board` sets it, it is long.

mod caller;
mod claims;
mod client;
mod fault;
mod ledger;

use std::{
    fs,
    path::PathBuf,
    process::Stdio,
    sync::{
        Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    one_board::{Repository, git},
    support::Running,
};
use caller::{Caller, Kind};
use claims::{Claims, Looks, Times};
use client::Client;
use fault::Faults;
use ledger::Ledger;

/// Project of all tasks.
const PROJECT: &str = "my-app";

/// Story of the tasks that belong to no client.
const STORY: &str = "MA-2";

/// Changes of a client in a phase of a short run.
const CHANGES: u64 = 6;

/// Duration of the phases of each minute of a long run: without and with faults.
const PHASES: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(45)];

/// Bound of the time in which 99 of 100 claims are visible to connected clients in a long run.
const VISIBLE_WITHIN: Duration = Duration::from_millis(200);

/// End of a phase.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// Each client has changed the board so many times.
    Changes(u64),
    Instant(Instant),
}

/// Numbers that look random and are the same for a seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // Knuth's MMIX generator; its high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Everything that clients and faults share.
struct World {
    repository: Repository,
    /// Present paths of the linked worktrees.
    worktrees: Vec<RwLock<PathBuf>>,
    up: Mutex<Running>,
    /// Address of `orchestra up`.
    address: RwLock<String>,
    ledger: Mutex<Ledger>,
    /// Tasks that all clients try to claim.
    contested: Mutex<Vec<String>>,
    /// Number of changes that clients have made.
    progress: AtomicU64,
    /// Number of clients that have changes left in this phase.
    working: AtomicUsize,
    refused: AtomicU64,
    unanswered: AtomicU64,
}

impl World {
    fn new(worktrees: usize) -> Self {
        let repository = Repository::new("board = \"repository\"\n");
        repository.fill();
        let main = repository.main();
        // As `orchestra init` does.
        let info = main.join(".git/info");
        fs::create_dir_all(&info).expect("a writable repository");
        fs::write(info.join("exclude"), "/.projects/\n").expect("a writable repository");
        let paths = (0..worktrees).map(|number| main.with_file_name(format!("worktree-{number}")));
        let paths: Vec<PathBuf> = paths.collect();
        for path in &paths {
            let path = path.to_str().expect("a path in UTF-8");
            git(&main, &["worktree", "add", "--quiet", path]);
        }
        let (up, address) = start_up(&repository);
        Self {
            repository,
            worktrees: paths.into_iter().map(RwLock::new).collect(),
            up: Mutex::new(up),
            address: RwLock::new(address),
            ledger: Mutex::default(),
            contested: Mutex::default(),
            progress: AtomicU64::default(),
            working: AtomicUsize::default(),
            refused: AtomicU64::default(),
            unanswered: AtomicU64::default(),
        }
    }

    /// Path of a linked worktree, which is neither moved nor removed until the guard is dropped.
    fn stay(&self, worktree: usize) -> RwLockReadGuard<'_, PathBuf> {
        let path = self.worktrees[worktree].read();
        path.unwrap_or_else(PoisonError::into_inner)
    }

    /// Path of a linked worktree, to move or remove it.
    fn leave(&self, worktree: usize) -> RwLockWriteGuard<'_, PathBuf> {
        let path = self.worktrees[worktree].write();
        path.unwrap_or_else(PoisonError::into_inner)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contested(&self) -> MutexGuard<'_, Vec<String>> {
        let contested = self.contested.lock();
        contested.unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self) -> String {
        let address = self.address.read();
        address.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kills `orchestra up` and starts it again.
    fn restart_up(&self) {
        let mut up = self.up.lock().unwrap_or_else(PoisonError::into_inner);
        up.kill();
        let (started, address) = start_up(&self.repository);
        *up = started;
        let mut held = self.address.write().unwrap_or_else(PoisonError::into_inner);
        *held = address;
    }

    fn stop_up(&self) {
        let mut up = self.up.lock().unwrap_or_else(PoisonError::into_inner);
        up.kill();
    }

    /// Findings of `orchestra doctor`, without removed files of the mirror, and problems that it cannot fix.
    fn findings(&self) -> Vec<String> {
        let doctor = |words: &[&str], key: &str| {
            let examined = self.repository.run(&self.repository.main(), words);
            let answer: Value = serde_json::from_str(&examined.out)
                .unwrap_or_else(|error| panic!("{error}: {examined:?}"));
            let findings = answer[key].as_array().expect("a list").iter();
            let text = |finding: &Value| finding.as_str().unwrap_or_default().to_owned();
            findings.map(text).collect::<Vec<String>>()
        };
        let mut found = doctor(&["doctor", "--json"], "findings");
        found.retain(|finding| !finding.contains("missing"));
        found.extend(doctor(&["doctor", "--fix", "--json"], "remaining"));
        found
    }
}

/// Starts `orchestra up` in the main checkout. Returns the process and its address.
fn start_up(repository: &Repository) -> (Running, String) {
    let words = ["up", "--http", "127.0.0.1:0", "--quic", "off", "--json"];
    let command = repository.command(&repository.main(), &words);
    let up = Running::with_stderr(command, Stdio::null());
    let ready = up.json();
    let address = ready["http"].as_str().expect("an address");
    let address = address.trim_start_matches("http://").to_owned();
    (up, address)
}

/// Has clients work until the end of a phase. Returns the times until claims were visible.
fn phase<'w>(
    world: &'w World,
    clients: &mut [Client<'w>],
    claims: &mut Claims<'w>,
    faults: Option<&mut Faults<'w>>,
    until: Until,
) -> [Looks; 2] {
    world.working.store(clients.len(), Ordering::Relaxed);
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(move || {
                client.work(until);
                world.working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        if let Some(faults) = faults {
            scope.spawn(move || faults.disturb(until));
        }
        claims.measure(until)
    })
}

/// Runs clients of all kinds in each worktree, and compares what was acknowledged with the board. Without minutes, each
/// client makes a few changes without and with faults. Returns the counters, and the differences where one is not 0.
fn soak(worktrees: usize, minutes: Option<u32>, seed: u64) -> (String, Option<String>) {
    let world = World::new(worktrees);
    let mut seeds = Chance::new(seed);
    let places = (0..worktrees).flat_map(|at| Kind::ALL.map(|kind| (at, kind)));
    let clients = places.map(|(at, kind)| Client::new(&world, kind, at, seeds.below(u64::MAX)));
    let mut clients: Vec<Client<'_>> = clients.collect();
    let victims = clients.iter().map(|client| client.caller().victim());
    let mut faults = Faults::new(&world, victims.collect(), seed);
    let mut claims = Claims::new(&world);
    let mut times = <[[Times; 2]; 2]>::default();
    for _ in 0..minutes.unwrap_or(1) {
        for (place, duration) in PHASES.into_iter().enumerate() {
            let until = match minutes {
                None => Until::Changes(CHANGES),
                Some(_) => Until::Instant(Instant::now() + duration),
            };
            let faults = (place == 1).then_some(&mut faults);
            let seen = phase(&world, &mut clients, &mut claims, faults, until);
            for (times, seen) in times[place].iter_mut().zip(seen) {
                times.add(seen);
            }
        }
    }
    // While the programs live: the database may have been removed a moment ago.
    let mut reader = Caller::new(&world, Kind::Stdio, 0);
    reader.call_until_acknowledged("list_projects", &json!({}));
    let found = world.ledger().compare(&mut reader);
    let caused = format!("{:?}", faults.counts);
    drop((reader, clients, faults, claims));
    world.stop_up();
    let findings = world.findings();
    let [calm, disturbed] = &times;
    let is_slow = |times: &&[Times; 2]| times[0].p99() > VISIBLE_WITHIN;
    let slow = minutes.map_or(0, |_| times.iter().filter(is_slow).count());
    let counts = [
        (slow, "kinds of phases with claims visible too late"),
        (found.lost.len(), "acknowledged changes lost"),
        (found.double_claims.len(), "double claims"),
        (found.ids_given_twice.len(), "ids given twice"),
        (findings.len(), "findings of doctor"),
    ];
    let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).into();
    let (refused, unanswered) = (&world.refused, &world.unanswered);
    let report = format!(
        "counted: seed {seed}: {worktrees} worktrees with {} clients each: {}; {} refused, {} unanswered; faults {caused}\n\
         counted: {}\n\
         counted: claims visible to connected clients: {}; with faults: {} (to be: p99 {VISIBLE_WITHIN:?})\n\
         counted: claims visible to commands: {}; with faults: {}",
        Kind::ALL.len(),
        world.ledger().summary(),
        refused.load(Ordering::Relaxed),
        unanswered.load(Ordering::Relaxed),
        counts.join(", "),
        calm[0],
        disturbed[0],
        calm[1],
        disturbed[1],
    );
    let is_clean = counts.iter().all(|count| count.starts_with("0 "));
    let differences = format!("{}\n{}", found.shown(), findings.join("\n"));
    (report, (!is_clean).then_some(differences))
}

/// A number in the environment.
pub(crate) fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text}")))
}

#[test]
fn acknowledged_changes_survive_git_kills_and_removals() {
    let seed = number("ORCHESTRA_SOAK_SEED").unwrap_or(1);
    let (report, differences) = match number("ORCHESTRA_SOAK_MINUTES") {
        None => soak(2, None, seed),
        minutes => soak(8, minutes, seed),
    };
    println!("{report}");
    assert_eq!(differences, None, "{report}");
}
