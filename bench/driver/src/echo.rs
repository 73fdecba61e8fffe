//! The echo tool over stdio: our fixture, the SDKs' servers and the floor.

use std::{env, process::Command, time::Duration};

use anyhow::{Context as _, Result};

use crate::{
    Bench,
    awake::Awake,
    bars::{Bars, Want},
    load::{self, Calls, Throughput},
    numbers::{Samples, micros, spread},
    process::{self, Place},
    server::{Era, Server, program},
    table::{Table, say},
};

/// Each peer runs so often, in turn with the others.
const ROUNDS: usize = 8;
const WINDOW: usize = 64;
const SMALL: usize = 100;
const LARGE: usize = 1024 * 1024;

const WARM_UP: Duration = Duration::from_millis(100);
const THROUGHPUT: Duration = Duration::from_millis(600);
const SEQUENTIAL: Duration = Duration::from_millis(150);
const LARGE_TIME: Duration = Duration::from_millis(200);

/// A server that is measured.
struct Peer {
    name: &'static str,
    command: Command,
    /// Whether it serves stateless requests beside a session.
    eras: &'static [Era],
    runs: Vec<Run>,
}

/// One round of one peer.
struct Run {
    calls_per_second: f64,
    cpu_micros: f64,
    stateless: Option<Throughput>,
    own_cpu_micros: f64,
    one_by_one: [Samples; 2],
    large: [Samples; 2],
    peak_mebibytes: f64,
}

const OURS: &str = "orchestra";
const FLOOR: &str = "floor";
const RMCP_PIPES: &str = "rmcp, stdio_pipes()";
const RMCP: &str = "rmcp, stdio()";

/// Measures every peer and holds ours against the bars.
///
/// # Errors
/// When a peer cannot be run.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let mut peers = peers()?;
    let awake = Awake::keep()?;
    for _ in 0..ROUNDS {
        for peer in &mut peers {
            let run = round(peer).with_context(|| format!("peer {}", peer.name))?;
            peer.runs.push(run);
        }
    }
    print(&peers, &awake);
    judge(&peers, &mut bench.bars);
    Ok(())
}

fn peers() -> Result<Vec<Peer>> {
    let both = &[Era::Session, Era::Stateless];
    let peer = |name, command, eras| Peer {
        name,
        command,
        eras,
        runs: Vec::new(),
    };
    let mut pipes = Command::new(program("bench-rmcp-echo")?);
    pipes.arg("--pipes");
    let session: &[Era] = &[Era::Session];
    let mut peers = vec![
        peer(FLOOR, Command::new(program("bench-floor")?), session),
        peer(OURS, Command::new(program("examples/echo")?), both),
        peer(RMCP_PIPES, pipes, both),
        peer(RMCP, Command::new(program("bench-rmcp-echo")?), both),
    ];
    if let (Some(node), Some(script)) = (env::var_os("BENCH_NODE"), env::var_os("BENCH_TYPESCRIPT"))
    {
        let mut command = Command::new(node);
        command.arg(script);
        peers.push(peer("TypeScript SDK", command, session));
    }
    if let Some(python) = env::var_os("BENCH_PYTHON") {
        let mut command = Command::new(python);
        command.arg("bench/python/server.py");
        peers.push(peer("Python SDK", command, session));
    }
    Ok(peers)
}

fn round(peer: &mut Peer) -> Result<Run> {
    let mut server = Server::open(&mut peer.command)?;
    let mut small = Calls::echo(SMALL, Era::Session);
    load::pipelined(&mut server, &mut small, WINDOW, WARM_UP)?;
    let throughput = load::pipelined(&mut server, &mut small, WINDOW, THROUGHPUT)?;
    let small_times = one_by_one(&mut server, &mut small, SEQUENTIAL)?;
    // Before the large calls, whose buffers a server may keep.
    let peak = process::peak_resident(server.pid()).unwrap_or(f64::NAN);
    let mut calls = Calls::echo(LARGE, Era::Session);
    let large = one_by_one(&mut server, &mut calls, LARGE_TIME)?;
    server.close()?;

    let mut stateless = None;
    if peer.eras.contains(&Era::Stateless) {
        let mut server = Server::start(&mut peer.command)?;
        let mut calls = Calls::echo(SMALL, Era::Stateless);
        load::pipelined(&mut server, &mut calls, WINDOW, WARM_UP)?;
        stateless = Some(load::pipelined(
            &mut server,
            &mut calls,
            WINDOW,
            THROUGHPUT,
        )?);
        server.close()?;
    }
    Ok(Run {
        calls_per_second: throughput.calls_per_second,
        cpu_micros: throughput.cpu_per_call.map_or(f64::NAN, micros),
        stateless,
        own_cpu_micros: throughput.own_cpu_per_call.map_or(f64::NAN, micros),
        one_by_one: small_times,
        large,
        peak_mebibytes: peak,
    })
}

/// One call after the other, first on all processors, then on one.
fn one_by_one(server: &mut Server, calls: &mut Calls, time: Duration) -> Result<[Samples; 2]> {
    let free = load::sequential(server, calls, time)?;
    process::put(server.pid(), Place::Together);
    let together = load::sequential(server, calls, time);
    process::put(server.pid(), Place::Anywhere);
    Ok([free, together?])
}

impl Peer {
    fn figures(&self, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.runs.iter().map(figure).collect()
    }

    fn highest(&self, figure: impl Fn(&Run) -> f64) -> f64 {
        spread(&self.figures(figure)).1
    }

    fn lowest(&self, figure: impl Fn(&Run) -> f64) -> f64 {
        spread(&self.figures(figure)).0
    }
}

/// The better median of the two places, in µs.
fn p50(run: &Run) -> f64 {
    let [free, together] = &run.one_by_one;
    micros(free.p50().min(together.p50()))
}

/// What one call in ten reaches in the better of the two places, in MB/s of argument.
fn large(run: &Run) -> f64 {
    let [free, together] = &run.large;
    let best = free.quantile(0.1).min(together.quantile(0.1));
    LARGE as f64 / micros(best)
}

fn stateless_cpu(run: &Run) -> f64 {
    let cpu = run.stateless.and_then(|stateless| stateless.cpu_per_call);
    cpu.map_or(f64::NAN, micros)
}

fn stateless_rate(run: &Run) -> f64 {
    run.stateless
        .map_or(f64::NAN, |stateless| stateless.calls_per_second)
}

fn print(peers: &[Peer], awake: &Awake) {
    say(&format!(
        "Echo over stdio: {WINDOW} in flight with {SMALL} bytes, one by one (on all \
         CPUs and on one), 1 MiB; best of {ROUNDS} rounds, the spread in brackets; {}.\n",
        awake.describe()
    ));
    let mut table = Table::new(&[
        "peer",
        "calls/s",
        "p50 µs",
        "on one CPU",
        "p99 µs",
        "1 MiB, MB/s",
        "CPU µs/call",
        "stateless calls/s, CPU",
        "peak MiB",
        "driver CPU",
    ]);
    for peer in peers {
        let (slow, fast) = spread(&peer.figures(|run| run.calls_per_second));
        let (low, high) = spread(&peer.figures(|run| micros(run.one_by_one[0].p50())));
        let (low_one, high_one) = spread(&peer.figures(|run| micros(run.one_by_one[1].p50())));
        let (slow_large, fast_large) = spread(&peer.figures(large));
        let p99 = peer.lowest(|run| micros(run.one_by_one[0].p99()));
        let stateless = if peer.eras.contains(&Era::Stateless) {
            let (rate, cpu) = (peer.highest(stateless_rate), peer.lowest(stateless_cpu));
            format!("{rate:.0}, {cpu:.2}")
        } else {
            "–".to_owned()
        };
        table.row(&[
            peer.name.to_owned(),
            format!("{fast:.0} ({slow:.0}–{fast:.0})"),
            format!("{low:.1} ({low:.1}–{high:.1})"),
            format!("{low_one:.1} ({low_one:.1}–{high_one:.1})"),
            format!("{p99:.1}"),
            format!("{fast_large:.0} ({slow_large:.0}–{fast_large:.0})"),
            format!("{:.2}", peer.lowest(|run| run.cpu_micros)),
            stateless,
            format!("{:.1}", peer.highest(|run| run.peak_mebibytes)),
            format!("{:.2}", peer.lowest(|run| run.own_cpu_micros)),
        ]);
    }
    table.print();
}

fn judge(peers: &[Peer], bars: &mut Bars) {
    let find = |name| peers.iter().find(|peer| peer.name == name);
    let (Some(ours), Some(floor), Some(pipes), Some(rmcp)) =
        (find(OURS), find(FLOOR), find(RMCP_PIPES), find(RMCP))
    else {
        return;
    };
    let rate = |peer: &Peer| peer.highest(|run| run.calls_per_second);
    let mut hold = |what, want, measured| bars.hold(what, want, "×", measured);
    hold(
        "echo calls/s against rmcp on stdio_pipes()",
        Want::AtLeast(4.0),
        rate(ours) / rate(pipes),
    );
    hold(
        "echo calls/s against rmcp on stdio()",
        Want::AtLeast(10.0),
        rate(ours) / rate(rmcp),
    );
    hold(
        "echo calls/s against the floor",
        Want::AtLeast(0.5),
        rate(ours) / rate(floor),
    );
    hold(
        "echo p50 one by one against the floor",
        Want::AtMost(2.0),
        ours.lowest(p50) / floor.lowest(p50),
    );
    hold(
        "echo of 1 MiB, MB/s against the floor",
        Want::AtLeast(0.7),
        ours.highest(large) / floor.highest(large),
    );
    hold(
        "CPU of a stateless call against the session era",
        Want::AtMost(1.3),
        ours.lowest(stateless_cpu) / ours.lowest(|run| run.cpu_micros),
    );
    bars.hold(
        "peak resident of the echo fixture",
        Want::AtMost(6.0),
        "MiB",
        ours.highest(|run| run.peak_mebibytes),
    );
}
