//! Servers that are killed again and again under load: nobody else notices, and each of them is
//! back before anybody could ask.

mod bench;
mod processes;
mod tally;

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};

use crate::played::until;
use bench::{Bench, DEADLINE, Seen};
use processes::{Counting, servers};
use tally::{Spread, Tally};

/// Callers at once.
const CALLERS: usize = 50;

/// How often each server is killed.
const EVERY: Duration = Duration::from_secs(1);

/// The tools of a server are changed before one of so many of its kills.
const CHANGE_ONE_OF: usize = 3;

/// How much is tried: a little, or with `ORCHESTRA_SOAK` all of it.
struct Size {
    length: Duration,
    /// One of so many kills is preceded by a start without the gateway, to compare with.
    compare_one_of: usize,
}

impl Size {
    fn chosen() -> Self {
        match crate::rig::is_soak() {
            true => Self {
                length: Duration::from_secs(600),
                compare_one_of: 2,
            },
            false => Self {
                length: Duration::from_secs(6),
                compare_one_of: 1,
            },
        }
    }
}

/// What became of the kills of one server.
struct Killed {
    server: usize,
    /// How long it took until it was back, and how long it takes to start by itself.
    back: Vec<Duration>,
    alone: Vec<Duration>,
    calls: Vec<Seen>,
    /// How often its tools changed.
    changes: usize,
}

/// Changes the tools of a server, and hears of it once.
async fn change(bench: &Bench, killed: &mut Killed, told: &mut watch::Receiver<usize>) {
    let attachment = bench.attach();
    let nothing = json!({});
    let changed = bench.run(&attachment, killed.server, "change_tools", &nothing);
    assert_eq!(changed.await, None);
    heard(bench, killed, told, "generation_1").await;
}

/// Waits until it is told once more that tools have changed, and looks at what they are.
async fn heard(bench: &Bench, killed: &mut Killed, told: &mut watch::Receiver<usize>, tool: &str) {
    killed.changes += 1;
    let changes = killed.changes;
    let heard = timeout(DEADLINE, told.wait_for(|count| *count >= changes)).await;
    let count = *heard.expect("a change is told in time").unwrap();
    assert_eq!(count, changes, "told when nothing had changed");
    let name = bench.servers[killed.server].name;
    assert!(bench.offers(&format!("{name}__{tool}")), "{tool} is shown");
}

/// Kills one server once a second.
async fn killer(
    bench: Arc<Bench>,
    server: usize,
    size: Size,
    mut told: watch::Receiver<usize>,
) -> Killed {
    let attachment = bench.attach();
    let mut killed = Killed {
        server,
        back: Vec::new(),
        alone: Vec::new(),
        calls: Vec::new(),
        changes: 0,
    };
    // Not all at the same moment.
    let first = Instant::now() + EVERY * u32::try_from(server).unwrap() / 10;
    let mut ticks = interval_at(first, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let end = first + size.length;
    for round in 0.. {
        if ticks.tick().await >= end {
            break;
        }
        if round % size.compare_one_of == 0 {
            killed.alone.push(bench.start_alone(server).await);
        }
        let changes = bench.servers[server].changes && round % CHANGE_ONE_OF == 1;
        if changes {
            change(&bench, &mut killed, &mut told).await;
        }
        let (took, calls) = bench.kill(&attachment, server).await;
        killed.back.push(took);
        killed.calls.extend(calls);
        if changes {
            // The next one has its tools as they were at first.
            heard(&bench, &mut killed, &mut told, "generation_0").await;
        }
    }
    killed
}

/// How long one server took to be back, and to start without the gateway.
fn report(bench: &Bench, killed: Killed) -> String {
    let (back, alone) = (Spread::new(killed.back), Spread::new(killed.alone));
    let name = bench.servers[killed.server].name;
    format!("{name}: back after {back}; without the gateway it starts within {alone}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_killed_are_back_and_nobody_else_notices() {
    let bench = Bench::start().await;
    let told = bench.count_changes();
    let counting = Counting::begin(bench.directory().to_owned());
    let mut callers = JoinSet::new();
    for seed in 0..CALLERS {
        callers.spawn(Arc::clone(&bench).caller(seed));
    }
    let mut killers = JoinSet::new();
    for server in (0..bench.servers.len()).filter(|server| bench.servers[*server].is_killed) {
        killers.spawn(killer(
            Arc::clone(&bench),
            server,
            Size::chosen(),
            told.clone(),
        ));
    }
    let (mut seen, mut changes) = (Vec::new(), 0);
    let mut killed = Vec::new();
    while let Some(one) = killers.join_next().await {
        let mut one = one.unwrap();
        seen.append(&mut one.calls);
        changes += one.changes;
        killed.push(one);
    }
    bench.stop();
    seen.extend(callers.join_all().await.into_iter().flatten());
    let census = counting.end().await;
    let mut late = told.clone();
    late.mark_unchanged();
    // Nothing to wait for: what must not come.
    let late = timeout(EVERY, late.changed()).await;
    assert!(late.is_err(), "a change was told that nobody had made");
    assert_eq!(*told.borrow(), changes, "changes that were told");
    let tally = Tally::of(&bench, &seen);
    bench.gateway.close(DEADLINE).await;
    until(|| census.left().is_empty() && servers(bench.directory()).is_empty()).await;
    println!("{}", tally.told());
    println!(
        "{} processes and guards seen, at most {} of a server at once, 0 left; tools changed {changes} times, told {changes} times",
        census.seen(),
        census.most,
    );
    killed.sort_by_key(|one| one.server);
    for one in killed {
        println!("{}", report(&bench, one));
    }
    assert!(tally.is_of_use(), "no call met a kill");
    if cfg!(target_os = "linux") {
        assert_eq!(census.most, 1, "processes of one server at once");
    }
}
