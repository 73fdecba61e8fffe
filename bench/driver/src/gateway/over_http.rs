//! The echo server over HTTP: its own, ours before its stdio, and the proxies of others before it.

use std::{
    env,
    net::{SocketAddr, TcpListener},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use super::{Home, PATIENCE, Pipes, ROUNDS, SERVER, hold_added};
use crate::{
    awake::Awake,
    bars::{Bars, Want},
    http::{
        peer::{Listening, Prepared},
        wrk::{self, Load},
    },
    numbers::spread,
    process,
    server::{Era, program},
    table::{Table, say},
};

const CONNECTIONS: [usize; 2] = [1, 64];
const TEXT: usize = 100;
const TIME: Duration = Duration::from_secs(1);

const FIRST: f64 = 100_000.0;
const MANY: f64 = 1_000_000.0;

/// How a way is opened.
enum Way {
    /// The server's own HTTP, with these arguments.
    Direct(&'static str),
    Ours(Pipes),
    /// A program of others; the port stands at its place.
    Npm(Vec<String>),
    Pypi(String),
}

/// What a way of ours starts with, by how the server behind it reads.
struct Homes {
    ready: Home,
    threads: Home,
}

impl Homes {
    fn new() -> Result<Self> {
        Ok(Self {
            ready: Home::of_one(Pipes::Ready)?,
            threads: Home::of_one(Pipes::Threads)?,
        })
    }

    fn of(&self, pipes: Pipes) -> &Home {
        match pipes {
            Pipes::Ready => &self.ready,
            Pipes::Threads => &self.threads,
        }
    }
}

struct Peer {
    name: &'static str,
    way: Way,
    runs: Vec<[Load; 2]>,
}

pub(super) fn run(bars: &mut Bars) -> Result<()> {
    let homes = Homes::new()?;
    let mut peers = peers();
    let awake = Awake::keep()?;
    for _ in 0..ROUNDS {
        for peer in &mut peers {
            let run = round(peer, &homes).with_context(|| peer.name.to_owned())?;
            peer.runs.push(run);
        }
    }
    print(&peers, &awake);
    judge(&peers, bars);
    drop(awake);
    million(&homes, bars)
}

fn peers() -> Vec<Peer> {
    let mut peers = Vec::new();
    let mut add = |name, way| {
        peers.push(Peer {
            name,
            way,
            runs: Vec::new(),
        });
    };
    add("direct", Way::Direct("--http"));
    add("direct, JSON, no sessions", Way::Direct("--http-json"));
    add("orchestra up", Way::Ours(Pipes::Ready));
    add("orchestra up, on threads", Way::Ours(Pipes::Threads));
    let (node, npm) = (env::var("BENCH_NODE"), env::var("BENCH_NPM_PROXY"));
    if let (Ok(node), Ok(script)) = (node, npm) {
        add("npm mcp-proxy", Way::Npm(vec![node, script]));
    }
    if let Ok(program) = env::var("BENCH_PYPI_PROXY") {
        add("PyPI mcp-proxy", Way::Pypi(program));
    }
    peers
}

impl Way {
    fn open(&self, homes: &Homes) -> Result<Listening> {
        let (server, arguments) = (program(SERVER)?, Pipes::Ready.arguments());
        let address = free()?;
        let port = address.port().to_string();
        let mut command = match self {
            Self::Direct(argument) => {
                return Listening::start(Command::new(server).arg(argument));
            }
            Self::Ours(pipes) => {
                let mut command = homes.of(*pipes).orchestra("up")?;
                command.args(["--http", &address.to_string()]);
                command
            }
            Self::Npm(words) => {
                let mut command = Command::new(&words[0]);
                command
                    .args(&words[1..])
                    .args(["--host", "127.0.0.1", "--server", "stream"]);
                command.args(["--port", &port, "--"]).arg(server);
                command.args(arguments);
                command
            }
            Self::Pypi(program) => {
                let mut command = Command::new(program);
                command.args(["--host", "127.0.0.1", "--port", &port]);
                command.args(["--log-level", "ERROR", "--"]).arg(server);
                command.args(arguments);
                command
            }
        };
        Listening::start_at(&mut command, address, "/mcp")
    }
}

/// An address that nobody listens at now.
fn free() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(listener.local_addr()?)
}

fn round(peer: &Peer, homes: &Homes) -> Result<[Load; 2]> {
    let server = peer.way.open(homes)?;
    let call = prepare(&server)?;
    // The first calls of a process are dearer.
    wrk::load(&server, &call, CONNECTIONS[1], TIME)?;
    let one = wrk::load(&server, &call, CONNECTIONS[0], TIME)?;
    let many = wrk::load(&server, &call, CONNECTIONS[1], TIME)?;
    Ok([one, many])
}

/// A call of a session that was answered.
fn prepare(server: &Listening) -> Result<Prepared> {
    let text = "x".repeat(TEXT);
    let session = server.initialize()?;
    let call = Prepared::echo(Era::Session, session.as_deref(), &text);
    // The server behind a proxy may still start.
    let started = Instant::now();
    while let Err(error) = server.check(&call, &text) {
        ensure!(started.elapsed() < PATIENCE, "it does not start: {error:#}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(call)
}

impl Peer {
    fn figures(&self, figure: impl Fn(&[Load; 2]) -> f64) -> (f64, f64) {
        let figures: Vec<f64> = self.runs.iter().map(figure).collect();
        spread(&figures)
    }

    fn rate(&self) -> f64 {
        self.figures(|[_, many]| many.requests_per_second).1
    }

    fn p50(&self) -> f64 {
        self.figures(|[one, _]| one.p50_micros).0
    }

    fn p99(&self) -> f64 {
        self.figures(|[one, _]| one.p99_micros).0
    }
}

fn print(peers: &[Peer], awake: &Awake) {
    say(&format!(
        "\nThe same server over HTTP, by wrk, connections kept; best of {ROUNDS} rounds, the spread \
         in brackets; {}.\n",
        awake.describe()
    ));
    let mut table = Table::new(&[
        "way",
        "p50 µs on 1",
        "p99 µs on 1",
        "calls/s on 64",
        "p99 µs on 64",
    ]);
    for peer in peers {
        let (low, high) = peer.figures(|[one, _]| one.p50_micros);
        let (low_tail, high_tail) = peer.figures(|[one, _]| one.p99_micros);
        let (slow, fast) = peer.figures(|[_, many]| many.requests_per_second);
        let (tail, _) = peer.figures(|[_, many]| many.p99_micros);
        table.row(&[
            peer.name.to_owned(),
            format!("{low:.0} ({low:.0}–{high:.0})"),
            format!("{low_tail:.0} ({low_tail:.0}–{high_tail:.0})"),
            format!("{fast:.0} ({slow:.0}–{fast:.0})"),
            format!("{tail:.0}"),
        ]);
    }
    table.print();
}

/// The server's own HTTP is that of its SDK as it is by default: with sessions, as we have them.
/// What it reaches without sessions stands in the table.
fn judge(peers: &[Peer], bars: &mut Bars) {
    let of = |wanted: fn(&Way) -> bool| peers.iter().filter(move |peer| wanted(&peer.way));
    let ours = of(|way| matches!(way, Way::Ours(Pipes::Ready))).next();
    let direct = of(|way| matches!(way, Way::Direct("--http"))).next();
    let (Some(ours), Some(direct)) = (ours, direct) else {
        return;
    };
    let (p50, p99) = (ours.p50() - direct.p50(), ours.p99() - direct.p99());
    hold_added(bars, "HTTP", p50, p99);
    let what = "gateway calls/s on 64 against the server's own HTTP";
    let rate = ours.rate() / direct.rate();
    bars.hold(what, Want::AtLeast(0.6), "×", rate);
    let proxies = of(|way| matches!(way, Way::Npm(_) | Way::Pypi(_)));
    let better = proxies.map(Peer::rate).fold(0.0, f64::max);
    if better > 0.0 {
        let what = "gateway calls/s on 64 against the better mcp-proxy";
        bars.hold(what, Want::AtLeast(4.0), "×", ours.rate() / better);
    }
}

/// Whether memory stays flat over a million calls.
fn million(homes: &Homes, bars: &mut Bars) -> Result<()> {
    let server = Way::Ours(Pipes::Ready).open(homes)?;
    let call = prepare(&server)?;
    let mut count = 0.0;
    let mut until = |most: f64| -> Result<f64> {
        while count < most {
            count += wrk::load(&server, &call, CONNECTIONS[1], TIME)?.requests;
        }
        Ok(process::resident(server.pid()).unwrap_or(f64::NAN))
    };
    let (first, last) = (until(FIRST)?, until(MANY)?);
    say(&format!(
        "\nAfter {FIRST:.0} calls {first:.1} MiB, after {count:.0} {last:.1} MiB.\n"
    ));
    let what = "gateway resident after a million calls against a hundred thousand";
    bars.hold(what, Want::AtMost(1.1), "×", last / first);
    Ok(())
}
