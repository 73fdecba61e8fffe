//! The echo tool over stdio: our fixture, the SDKs' servers and the floor.

use std::{env, process::Command, time::Duration};

use anyhow::{Context as _, Result};

use crate::{
    bars::{Bars, Want},
    load::{self, Calls},
    numbers::{Samples, micros, spread},
    process,
    server::{Era, Server, program},
    table::{Table, say},
};

/// Each peer runs so often, in turn with the others.
const ROUNDS: usize = 5;
const WINDOW: usize = 64;
const SMALL: usize = 100;
const LARGE: usize = 1024 * 1024;

const WARM_UP: Duration = Duration::from_millis(200);
const THROUGHPUT: Duration = Duration::from_millis(800);
const SEQUENTIAL: Duration = Duration::from_millis(300);
const LARGE_TIME: Duration = Duration::from_millis(300);

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
    stateless_cpu_micros: Option<f64>,
    own_cpu_micros: f64,
    one_by_one: Samples,
    megabytes_per_second: f64,
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
pub(crate) fn run(bars: &mut Bars) -> Result<()> {
    let mut peers = peers()?;
    for _ in 0..ROUNDS {
        for peer in &mut peers {
            let run = round(peer).with_context(|| format!("peer {}", peer.name))?;
            peer.runs.push(run);
        }
    }
    print(&peers);
    judge(&peers, bars);
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
        peer(RMCP_PIPES, pipes, session),
        peer(RMCP, Command::new(program("bench-rmcp-echo")?), session),
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
    let one_by_one = load::sequential(&mut server, &mut small, SEQUENTIAL)?;
    // Before the large calls, whose buffers a server may keep.
    let peak = process::peak_resident(server.pid()).unwrap_or(f64::NAN);
    let large = load::sequential(
        &mut server,
        &mut Calls::echo(LARGE, Era::Session),
        LARGE_TIME,
    )?;
    server.close()?;

    let mut stateless = None;
    if peer.eras.contains(&Era::Stateless) {
        let mut server = Server::start(&mut peer.command)?;
        let mut calls = Calls::echo(SMALL, Era::Stateless);
        load::pipelined(&mut server, &mut calls, WINDOW, WARM_UP)?;
        stateless = load::pipelined(&mut server, &mut calls, WINDOW, THROUGHPUT)?.cpu_per_call;
        server.close()?;
    }
    // The best call counts: what the machine does to the others is not the server's.
    let best_large = large.quantile(0.1).as_secs_f64();
    Ok(Run {
        calls_per_second: throughput.calls_per_second,
        cpu_micros: throughput.cpu_per_call.map_or(f64::NAN, micros),
        stateless_cpu_micros: stateless.map(micros),
        own_cpu_micros: throughput.own_cpu_per_call.map_or(f64::NAN, micros),
        one_by_one,
        megabytes_per_second: LARGE as f64 / 1e6 / best_large,
        peak_mebibytes: peak,
    })
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

fn p50(run: &Run) -> f64 {
    micros(run.one_by_one.p50())
}

fn print(peers: &[Peer]) {
    say(&format!(
        "Echo over stdio: {WINDOW} in flight with {SMALL} bytes, one by one, 1 MiB; best of \
         {ROUNDS} rounds, the spread in brackets.\n"
    ));
    let mut table = Table::new(&[
        "peer",
        "calls/s",
        "p50 µs",
        "p99 µs",
        "1 MiB, MB/s",
        "CPU µs/call",
        "stateless CPU",
        "peak MiB",
        "driver CPU",
    ]);
    for peer in peers {
        let (slow, fast) = spread(&peer.figures(|run| run.calls_per_second));
        let (low, high) = spread(&peer.figures(p50));
        let (slow_large, fast_large) = spread(&peer.figures(|run| run.megabytes_per_second));
        let p99 = peer.lowest(|run| micros(run.one_by_one.p99()));
        let stateless = peer.lowest(|run| run.stateless_cpu_micros.unwrap_or(f64::INFINITY));
        let stateless = if stateless.is_finite() {
            format!("{stateless:.2}")
        } else {
            "–".to_owned()
        };
        table.row(&[
            peer.name.to_owned(),
            format!("{fast:.0} ({slow:.0}–{fast:.0})"),
            format!("{low:.1} ({low:.1}–{high:.1})"),
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
    let large = |peer: &Peer| peer.highest(|run| run.megabytes_per_second);
    hold(
        "echo of 1 MiB, MB/s against the floor",
        Want::AtLeast(0.7),
        large(ours) / large(floor),
    );
    let stateless = ours.lowest(|run| run.stateless_cpu_micros.unwrap_or(f64::NAN));
    hold(
        "CPU of a stateless call against the session era",
        Want::AtMost(1.3),
        stateless / ours.lowest(|run| run.cpu_micros),
    );
    bars.hold(
        "peak resident of the echo fixture",
        Want::AtMost(6.0),
        "MiB",
        ours.highest(|run| run.peak_mebibytes),
    );
}
