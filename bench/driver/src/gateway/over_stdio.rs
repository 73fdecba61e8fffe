//! The echo server over stdio, directly and through `orchestra stdio`.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Home, PATIENCE, Pipes, ROUNDS, SERVER, hold_added};
use crate::{
    awake::Awake,
    bars::Bars,
    load::{self, Calls},
    numbers::{Samples, micros, spread},
    process::{self, Place},
    server::{Era, Server, program},
    table::{Table, say},
};

const TEXT: usize = 100;
const WINDOW: usize = 64;
const WARM_UP: Duration = Duration::from_millis(300);
const SEQUENTIAL: Duration = Duration::from_millis(500);
const THROUGHPUT: Duration = Duration::from_millis(600);

struct Peer {
    name: &'static str,
    command: Command,
    runs: Vec<Run>,
}

struct Run {
    one_by_one: Samples,
    calls_per_second: f64,
}

pub(super) fn run(bars: &mut Bars) -> Result<()> {
    let homes = [Home::of_one(Pipes::Ready)?, Home::of_one(Pipes::Threads)?];
    let direct = |name, pipes: Pipes| -> Result<Peer> {
        let mut command = Command::new(program(SERVER)?);
        command.args(pipes.arguments());
        Ok(Peer::new(name, command))
    };
    let ours =
        |name, home: &Home| Ok::<_, anyhow::Error>(Peer::new(name, home.orchestra("stdio")?));
    let mut peers = [
        direct("direct", Pipes::Ready)?,
        ours("orchestra stdio", &homes[0])?,
        direct("direct, on threads", Pipes::Threads)?,
        ours("orchestra stdio, on threads", &homes[1])?,
    ];
    let awake = Awake::keep()?;
    for _ in 0..ROUNDS {
        for peer in &mut peers {
            let run = round(peer).with_context(|| peer.name.to_owned())?;
            peer.runs.push(run);
        }
    }
    print(&peers, &awake);
    let [direct, ours, direct_on_threads, ours_on_threads] = &peers;
    let mut hold = |over, direct: &Peer, ours: &Peer| {
        let added = |figure: fn(&Run) -> f64| ours.best(figure) - direct.best(figure);
        hold_added(bars, over, added(p50), added(p99));
    };
    hold("stdio", direct, ours);
    hold("stdio, on threads", direct_on_threads, ours_on_threads);
    Ok(())
}

fn round(peer: &mut Peer) -> Result<Run> {
    let mut server = Server::open(&mut peer.command)?;
    process::put(server.pid(), Place::Anywhere);
    // The server behind us may still start.
    let started = Instant::now();
    while let Err(error) = server.call("echo", &json!({"text": "hello"})) {
        ensure!(started.elapsed() < PATIENCE, "it does not start: {error:#}");
        thread::sleep(Duration::from_millis(10));
    }
    let mut calls = Calls::echo(TEXT, Era::Session);
    load::sequential(&mut server, &mut calls, WARM_UP)?;
    let one_by_one = load::sequential(&mut server, &mut calls, SEQUENTIAL)?;
    let throughput = load::pipelined(&mut server, &mut calls, WINDOW, THROUGHPUT)?;
    server.close()?;
    Ok(Run {
        one_by_one,
        calls_per_second: throughput.calls_per_second,
    })
}

fn p50(run: &Run) -> f64 {
    micros(run.one_by_one.p50())
}

fn p99(run: &Run) -> f64 {
    micros(run.one_by_one.p99())
}

impl Peer {
    fn new(name: &'static str, command: Command) -> Self {
        Self {
            name,
            command,
            runs: Vec::new(),
        }
    }

    fn figures(&self, figure: impl Fn(&Run) -> f64) -> (f64, f64) {
        let figures: Vec<f64> = self.runs.iter().map(figure).collect();
        spread(&figures)
    }

    fn best(&self, figure: impl Fn(&Run) -> f64) -> f64 {
        self.figures(figure).0
    }
}

fn print(peers: &[Peer], awake: &Awake) {
    say(&format!(
        "An rmcp echo server over stdio by the SDK's transport for pipes, and by its default one, \
         which reads and writes on threads; {TEXT} bytes, one by one and {WINDOW} in flight; best of \
         {ROUNDS} rounds, the spread in brackets; {}.\n",
        awake.describe()
    ));
    let mut table = Table::new(&["way", "p50 µs", "p99 µs", "calls/s on 64"]);
    for peer in peers {
        let (low, high) = peer.figures(p50);
        let (low_tail, high_tail) = peer.figures(p99);
        let (slow, fast) = peer.figures(|run| run.calls_per_second);
        table.row(&[
            peer.name.to_owned(),
            format!("{low:.1} ({low:.1}–{high:.1})"),
            format!("{low_tail:.1} ({low_tail:.1}–{high_tail:.1})"),
            format!("{fast:.0} ({slow:.0}–{fast:.0})"),
        ]);
    }
    table.print();
}
