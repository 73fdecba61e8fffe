//! A call of a plugin as the orchestrator makes it, and the same call over gRPC.
//!
//! Server and caller are a process each, the caller the same program for both. Both read the
//! arguments from the same message and write the result into the same one.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{PLUGIN, ROUNDS};
use crate::{
    awake::Awake,
    bars::{Bars, Want},
    numbers::spread,
    seed,
    server::program,
    table::{Table, say},
};

const CALLS: &str = "bench-calls";

const SMALL: usize = 100;
const LARGE: usize = 1024 * 1024;
const WINDOW: usize = 64;

/// What a server writes before its address when it listens.
const READY: &str = "READY ";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Quic,
    Grpc,
}

struct Peer {
    name: &'static str,
    way: Way,
    runs: Vec<Figures>,
}

/// What a round came to.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figures {
    cold_p50_ms: f64,
    p50_us: f64,
    p99_us: f64,
    calls_per_second: f64,
    /// The time that one in ten of the large calls keeps to.
    large_p10_us: f64,
}

pub(super) fn run(bars: &mut Bars) -> Result<()> {
    let certs = seed::directory()?;
    let mut making = Command::new(program(CALLS)?);
    let made = making.arg("certs").arg(certs.path()).status();
    let made = made.context("making certificates")?;
    ensure!(made.success(), "making certificates: {made}");
    let peer = |name, way| Peer {
        name,
        way,
        runs: Vec::new(),
    };
    let mut peers = [
        peer("plugin, QUIC", Way::Quic),
        peer("gRPC, tonic", Way::Grpc),
    ];
    let awake = Awake::keep()?;
    for _ in 0..ROUNDS {
        for peer in &mut peers {
            let run = peer.way.round(certs.path());
            peer.runs.push(run.with_context(|| peer.name.to_owned())?);
        }
    }
    print(&peers, &awake);
    let [ours, grpc] = &peers;
    judge(ours, grpc, bars);
    Ok(())
}

impl Way {
    fn round(self, certs: &Path) -> Result<Figures> {
        let server = self.serve(certs)?;
        let mut load = Command::new(program(CALLS)?);
        let way = match self {
            Self::Quic => "quic",
            Self::Grpc => "grpc",
        };
        load.args(["load", way, &server.address]).arg(certs);
        load.args([SMALL, LARGE, WINDOW].map(|number| number.to_string()));
        let output = load.stderr(Stdio::inherit()).output();
        let output = output.context("starting the load")?;
        ensure!(output.status.success(), "the load: {}", output.status);
        read(&output.stdout)
    }

    fn serve(self, certs: &Path) -> Result<Serving> {
        let mut command = match self {
            Self::Quic => Command::new(program(PLUGIN)?),
            Self::Grpc => Command::new(program(CALLS)?),
        };
        match self {
            Self::Quic => command.arg("--certs-dir").arg(certs),
            Self::Grpc => command.arg("serve").arg(certs),
        };
        Serving::start(&mut command)
    }
}

/// A server that listens, killed when dropped.
struct Serving {
    child: Child,
    address: String,
    _told: BufReader<ChildStderr>,
}

impl Serving {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let told = child.stderr.take().context("no pipe from the server")?;
        let mut serving = Self {
            child,
            address: String::new(),
            _told: BufReader::new(told),
        };
        let mut line = String::new();
        while serving._told.read_line(&mut line)? > 0 {
            if let Some(address) = line.strip_prefix(READY) {
                address.trim().clone_into(&mut serving.address);
                return Ok(serving);
            }
            line.clear();
        }
        bail!("the server ended before it listened")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}

fn read(said: &[u8]) -> Result<Figures> {
    let told: Value = serde_json::from_slice(said)
        .with_context(|| format!("no figures: {}", String::from_utf8_lossy(said)))?;
    let figure = |name: &str| {
        let found = told[name].as_f64().filter(|figure| *figure > 0.0);
        found.with_context(|| format!("no {name} in {told}"))
    };
    Ok(Figures {
        cold_p50_ms: figure("cold_p50_ms")?,
        p50_us: figure("p50_us")?,
        p99_us: figure("p99_us")?,
        calls_per_second: figure("calls_per_second")?,
        large_p10_us: figure("large_p10_us")?,
    })
}

impl Figures {
    /// MB of argument a second.
    fn large(&self) -> f64 {
        LARGE as f64 / self.large_p10_us
    }
}

impl Peer {
    fn figures(&self, figure: impl Fn(&Figures) -> f64) -> (f64, f64) {
        let figures: Vec<f64> = self.runs.iter().map(figure).collect();
        spread(&figures)
    }

    fn lowest(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        self.figures(figure).0
    }

    fn highest(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        self.figures(figure).1
    }
}

fn print(peers: &[Peer], awake: &Awake) {
    say(&format!(
        "An echo plugin of the kit over QUIC, and the same messages over gRPC by tonic; both over TLS \
         1.3 with the same Ed25519 certificates from both sides, on loopback, a process for each \
         side; {SMALL} bytes one by one and {WINDOW} in flight, 1 MiB one by one, and connections \
         made anew until their first answer; best of {ROUNDS} rounds, the spread in brackets; {}.\n",
        awake.describe()
    ));
    let mut table = Table::new(&[
        "way",
        "p50 µs",
        "p99 µs",
        "calls/s on 64",
        "1 MiB, MB/s",
        "cold, ms",
    ]);
    for peer in peers {
        let low_first = |figure: fn(&Figures) -> f64, digits: usize| {
            let (low, high) = peer.figures(figure);
            format!("{low:.digits$} ({low:.digits$}–{high:.digits$})")
        };
        let high_first = |figure: fn(&Figures) -> f64| {
            let (low, high) = peer.figures(figure);
            format!("{high:.0} ({low:.0}–{high:.0})")
        };
        table.row(&[
            peer.name.to_owned(),
            low_first(|run| run.p50_us, 1),
            low_first(|run| run.p99_us, 1),
            high_first(|run| run.calls_per_second),
            high_first(Figures::large),
            low_first(|run| run.cold_p50_ms, 2),
        ]);
    }
    table.print();
}

fn judge(ours: &Peer, grpc: &Peer, bars: &mut Bars) {
    let p50 = ours.lowest(|run| run.p50_us);
    bars.hold("plugin call p50 on 1", Want::AtMost(150.0), "µs", p50);
    let p99 = ours.lowest(|run| run.p99_us);
    bars.hold("plugin call p99 on 1", Want::AtMost(600.0), "µs", p99);
    let against_grpc = |figure: fn(&Figures) -> f64| ours.highest(figure) / grpc.highest(figure);
    let rate = against_grpc(|run| run.calls_per_second);
    let what = "plugin calls/s on 64 against gRPC";
    bars.hold(what, Want::AtLeast(1.0), "×", rate);
    let rate = against_grpc(Figures::large);
    let what = "plugin calls of 1 MiB against gRPC";
    bars.hold(what, Want::AtLeast(1.0), "×", rate);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let said = br#"{"cold_p50_ms":1.5,"p50_us":100.0,"p99_us":250,"calls_per_second":2e4,"large_p10_us":4096}"#;
        let figures = read(said).unwrap();
        assert_eq!(
            (figures.p99_us, figures.calls_per_second),
            (250.0, 20_000.0)
        );
        assert_eq!(figures.large(), 256.0);
    }

    #[test]
    fn a_figure_that_is_missing_or_nothing_is_no_figure() {
        for said in ["", "{}", r#"{"cold_p50_ms":0}"#] {
            assert!(read(said.as_bytes()).is_err(), "{said}");
        }
    }
}
