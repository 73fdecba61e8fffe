//! The echo tool over HTTP: our fixture, the SDKs' servers and a bare handler, loaded by wrk.

pub(crate) mod peer;
pub(crate) mod wrk;

use std::{env, process::Command, time::Duration};

use anyhow::{Context as _, Result};

use self::{
    peer::{Listening, Prepared},
    wrk::Load,
};
use crate::{
    Bench,
    awake::Awake,
    bars::{Bars, Want},
    numbers::spread,
    process,
    server::{Era, program},
    table::{Table, say},
};

/// Each peer runs so often, in turn with the others.
const ROUNDS: usize = 3;
const CONNECTIONS: [usize; 3] = [1, 64, 256];
/// The place of 64 among them.
const MIDDLE: usize = 1;
const TEXT: usize = 100;
const TIME: Duration = Duration::from_secs(1);

/// Sessions that are open at once.
const SESSIONS: usize = 10_000;
const MANY: f64 = 1_000_000.0;
const FIRST: f64 = 100_000.0;

/// A server in one era.
struct Peer {
    name: &'static str,
    era: Era,
    command: Command,
    /// A round, for each number of connections.
    runs: Vec<[Load; 3]>,
    peak_mebibytes: f64,
}

const OURS: &str = "orchestra";
const FLOOR: &str = "axum handler";
const RMCP: &str = "rmcp, JSON";

/// Measures every peer and holds ours against the bars.
///
/// # Errors
/// When a peer or wrk cannot be run.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let mut peers = peers()?;
    let awake = Awake::keep()?;
    for _ in 0..ROUNDS {
        for peer in &mut peers {
            let round = round(peer);
            round.with_context(|| format!("peer {}, {:?} era", peer.name, peer.era))?;
        }
    }
    print(&peers, &awake);
    for era in [Era::Session, Era::Stateless] {
        judge(&peers, era, &mut bench.bars);
    }
    drop(awake);
    sessions(&mut bench.bars)?;
    requests(&mut bench.bars)
}

fn peers() -> Result<Vec<Peer>> {
    let mut peers = Vec::new();
    let mut add = |name, era, command| {
        peers.push(Peer {
            name,
            era,
            command,
            runs: Vec::new(),
            peak_mebibytes: 0.0,
        });
    };
    let rmcp = |mode| {
        let mut command = Command::new(program("bench-rmcp-echo")?);
        command.arg(mode);
        Ok::<_, anyhow::Error>(command)
    };
    for era in [Era::Session, Era::Stateless] {
        add(FLOOR, era, Command::new(program("bench-http-floor")?));
        add(OURS, era, ours()?);
        add(RMCP, era, rmcp("--http-json")?);
    }
    add("rmcp, default", Era::Session, rmcp("--http")?);
    if let (Some(node), Some(script)) = (
        env::var_os("BENCH_NODE"),
        env::var_os("BENCH_TYPESCRIPT_HTTP"),
    ) {
        let mut command = Command::new(node);
        command.arg(script);
        add("TypeScript SDK", Era::Session, command);
    }
    Ok(peers)
}

fn ours() -> Result<Command> {
    let mut command = Command::new(program("examples/echo")?);
    command.args(["--http", "127.0.0.1:0"]);
    Ok(command)
}

fn round(peer: &mut Peer) -> Result<()> {
    let server = Listening::start(&mut peer.command)?;
    let call = prepare(&server, peer.name, peer.era)?;
    let mut loads = Vec::new();
    for connections in CONNECTIONS {
        loads.push(wrk::load(&server, &call, connections, TIME)?);
    }
    let loads = <[Load; 3]>::try_from(loads).ok();
    peer.runs
        .push(loads.context("one load a number of connections")?);
    let peak = process::peak_resident(server.pid()).unwrap_or(f64::NAN);
    peer.peak_mebibytes = peer.peak_mebibytes.max(peak);
    Ok(())
}

/// A call of the echo tool that was answered.
fn prepare(server: &Listening, name: &str, era: Era) -> Result<Prepared> {
    let text = "x".repeat(TEXT);
    // The bare handler knows no sessions.
    let session = match era {
        Era::Session if name != FLOOR => server.initialize()?,
        Era::Session | Era::Stateless => None,
    };
    let call = Prepared::echo(era, session.as_deref(), &text);
    server.check(&call, &text)?;
    Ok(call)
}

impl Peer {
    fn rates(&self, connections: usize) -> (f64, f64) {
        let runs = self.runs.iter();
        let rates: Vec<f64> = runs
            .map(|run| run[connections].requests_per_second)
            .collect();
        spread(&rates)
    }

    fn p99(&self, connections: usize) -> f64 {
        let runs = self.runs.iter();
        let times: Vec<f64> = runs.map(|run| run[connections].p99_micros).collect();
        spread(&times).0
    }
}

fn print(peers: &[Peer], awake: &Awake) {
    say(&format!(
        "Echo of {TEXT} bytes over HTTP, connections kept, by wrk on one thread; best of {ROUNDS} rounds, \
         the spread in brackets; {}.\n",
        awake.describe()
    ));
    let mut table = Table::new(&[
        "peer",
        "era",
        "requests/s on 1",
        "on 64",
        "on 256",
        "p99 µs on 1",
        "on 64",
        "on 256",
        "peak MiB",
    ]);
    for peer in peers {
        let mut row = vec![peer.name.to_owned(), format!("{:?}", peer.era)];
        for connections in 0..CONNECTIONS.len() {
            let (slow, fast) = peer.rates(connections);
            row.push(format!("{fast:.0} ({slow:.0}–{fast:.0})"));
        }
        row.extend(
            (0..CONNECTIONS.len()).map(|connections| format!("{:.0}", peer.p99(connections))),
        );
        row.push(format!("{:.1}", peer.peak_mebibytes));
        table.row(&row);
    }
    table.print();
}

fn judge(peers: &[Peer], era: Era, bars: &mut Bars) {
    let find = |name| {
        peers
            .iter()
            .find(|peer| peer.name == name && peer.era == era)
    };
    let (Some(ours), Some(floor), Some(rmcp)) = (find(OURS), find(FLOOR), find(RMCP)) else {
        return;
    };
    let rate = |peer: &Peer| peer.rates(MIDDLE).1;
    let mut hold = |what, want, measured| {
        bars.hold(format!("{what} ({era:?} era)"), want, "×", measured);
    };
    hold(
        "HTTP requests/s on 64 against rmcp in JSON",
        Want::AtLeast(2.0),
        rate(ours) / rate(rmcp),
    );
    hold(
        "HTTP requests/s on 64 against a bare axum handler",
        Want::AtLeast(0.6),
        rate(ours) / rate(floor),
    );
    hold(
        "HTTP p99 on 64 against rmcp in JSON",
        Want::AtMost(0.5),
        ours.p99(MIDDLE) / rmcp.p99(MIDDLE),
    );
}

/// What open sessions cost, and what is left when their clients have gone.
fn sessions(bars: &mut Bars) -> Result<()> {
    let server = Listening::start(&mut ours()?)?;
    let resident = || process::resident(server.pid()).unwrap_or(f64::NAN);
    let empty = resident();
    let mut waves = Vec::new();
    for _ in 0..3 {
        let ids = (0..SESSIONS).map(|_| server.initialize());
        let ids: Vec<Option<String>> = ids.collect::<Result<_>>()?;
        let open = resident();
        for id in ids.iter().flatten() {
            server.leave(id)?;
        }
        waves.push((open, resident()));
    }
    let told: Vec<String> = waves
        .iter()
        .map(|(open, left)| format!("{open:.1}, then {left:.1}"))
        .collect();
    say(&format!(
        "\n{SESSIONS} sessions opened and left, three times: {empty:.1} MiB before; {}.\n",
        told.join("; ")
    ));
    let (first, last) = (waves[0], waves[waves.len() - 1]);
    let what = format!("resident with {SESSIONS} open sessions");
    bars.hold(what, Want::AtMost(200.0), "MiB", first.0);
    let what = format!("resident after {SESSIONS} sessions left, third time against first");
    bars.hold(what, Want::AtMost(1.1), "×", last.1 / first.1);
    Ok(())
}

/// Whether memory stays flat over a million requests.
fn requests(bars: &mut Bars) -> Result<()> {
    let server = Listening::start(&mut ours()?)?;
    let calls = [Era::Session, Era::Stateless];
    let calls = calls.map(|era| prepare(&server, OURS, era));
    let [session, stateless] = calls;
    let (calls, mut count) = ([session?, stateless?], 0.0);
    let mut until = |most: f64| -> Result<f64> {
        while count < most {
            for call in &calls {
                count += wrk::load(&server, call, CONNECTIONS[MIDDLE], TIME)?.requests;
            }
        }
        Ok(process::resident(server.pid()).unwrap_or(f64::NAN))
    };
    let (first, last) = (until(FIRST)?, until(MANY)?);
    say(&format!(
        "After {FIRST:.0} requests {first:.1} MiB, after {count:.0} {last:.1} MiB.\n"
    ));
    let what = "resident after a million requests against a hundred thousand";
    bars.hold(what, Want::AtMost(1.1), "×", last / first);
    Ok(())
}
