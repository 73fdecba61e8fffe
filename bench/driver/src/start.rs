//! Time from the start of a program to the handshake, to the first answer and to the end of a hook.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::{
    Bench,
    bars::{Bars, Want},
    numbers::{Samples, millis},
    process, seed,
    server::{self, Server, program},
    table::Table,
};

const STARTS: usize = 40;
const HOOKS: usize = 200;
const LARGE: usize = 100_000;

/// Maximum difference in milliseconds between `orchestra stdio` and the floor, from spawn to the answer
/// of `initialize`.
const ABOVE_FLOOR: f64 = 6.0;

/// Program whose start is measured repeatedly.
struct Peer<'a> {
    name: &'static str,
    command: Box<dyn FnMut() -> Result<Command> + 'a>,
    handshake: Samples,
    cpu: Samples,
    faults: Vec<u64>,
}

/// Measurements of one workspace besides the handshake.
#[derive(Default)]
struct Starts {
    first_answer: Samples,
    resident: f64,
    hook: Samples,
}

/// Measures cold starts of the peers, and of `orchestra stdio` on a workspace without a board, an
/// empty and a large one, in turn.
///
/// # Errors
/// When a program cannot be run.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let empty = seed::directory()?;
    let new = seed::directory()?;
    let board = bench.boards.with_tasks(LARGE)?;
    let project = board.project.clone();
    let places = [("empty", empty.path()), ("100 000 tasks", board.path())];
    let mut peers = peers(new.path(), places)?;
    let mut starts = [Starts::default(), Starts::default()];
    for _ in 0..STARTS {
        for peer in &mut peers {
            peer.start()
                .with_context(|| format!("peer {}", peer.name))?;
        }
        for ((_, path), starts) in places.iter().zip(&mut starts) {
            first_answer(path, &project, starts)?;
        }
    }
    for _ in 0..HOOKS {
        for ((_, path), starts) in places.iter().zip(&mut starts) {
            hook(path, starts)?;
        }
    }
    print(&peers, places.map(|(name, _)| name), &starts);
    judge(
        &peers,
        places.map(|(name, _)| name),
        &starts,
        &mut bench.bars,
    );
    Ok(())
}

const FLOOR: &str = "floor";
/// Name of the row of `orchestra stdio` on a workspace.
const OURS: [&str; 2] = ["orchestra (empty)", "orchestra (100 000 tasks)"];

fn peers<'a>(new: &'a Path, places: [(&str, &'a Path); 2]) -> Result<Vec<Peer<'a>>> {
    let simple = |name, path: PathBuf| Peer::new(name, move || Ok(Command::new(&path)));
    let mut round = 0;
    let fresh = move || {
        round += 1;
        let workspace = new.join(round.to_string());
        fs::create_dir(&workspace).context("creating a workspace")?;
        server::orchestra(&workspace, &[])
    };
    let mut peers = vec![
        simple(FLOOR, program("bench-floor")?),
        simple("rmcp echo", program("bench-rmcp-echo")?),
        simple("our echo", program("examples/echo")?),
        Peer::new("orchestra (no board yet)", fresh),
    ];
    for (name, (_, path)) in OURS.into_iter().zip(places) {
        peers.push(Peer::new(name, move || server::orchestra(path, &[])));
    }
    Ok(peers)
}

impl<'a> Peer<'a> {
    fn new(name: &'static str, command: impl FnMut() -> Result<Command> + 'a) -> Self {
        Self {
            name,
            command: Box::new(command),
            handshake: Samples::default(),
            cpu: Samples::default(),
            faults: Vec::new(),
        }
    }

    /// Measures one start, from spawn to the answer of `initialize`.
    fn start(&mut self) -> Result<()> {
        let mut command = (self.command)()?;
        let started = Instant::now();
        let mut server = Server::start(&mut command)?;
        server.initialize()?;
        self.handshake.push(started.elapsed());
        self.cpu
            .push(process::cpu(server.pid()).unwrap_or_default());
        self.faults.extend(process::minor_faults(server.pid()));
        server.close()
    }

    fn faults(&self) -> u64 {
        let mut sorted = self.faults.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

fn print(peers: &[Peer<'_>], places: [&str; 2], starts: &[Starts]) {
    let mut table = Table::new(&[
        "start to initialize",
        "p50 ms",
        "p99 ms",
        "CPU ms",
        "page faults",
    ]);
    for peer in peers {
        table.row(&[
            peer.name.to_owned(),
            format!("{:.2}", millis(peer.handshake.p50())),
            format!("{:.2}", millis(peer.handshake.p99())),
            format!("{:.2}", millis(peer.cpu.p50())),
            peer.faults().to_string(),
        ]);
    }
    table.print();
    let mut table = Table::new(&["workspace", "from start to", "p50 ms", "p99 ms"]);
    for (name, starts) in places.into_iter().zip(starts) {
        let rows = [
            ("first board answer", &starts.first_answer),
            ("end of a hook", &starts.hook),
        ];
        for (what, samples) in rows {
            let figures = [samples.p50(), samples.p99()].map(|time| format!("{:.2}", millis(time)));
            let [p50, p99] = figures;
            table.row(&[name.to_owned(), what.to_owned(), p50, p99]);
        }
    }
    table.print();
}

fn judge(peers: &[Peer<'_>], places: [&str; 2], starts: &[Starts], bars: &mut Bars) {
    let median = |name: &str| {
        let peer = peers.iter().find(|peer| peer.name == name);
        peer.map_or(f64::NAN, |peer| millis(peer.handshake.p50()))
    };
    let floor = median(FLOOR);
    for ((ours, name), starts) in OURS.into_iter().zip(places).zip(starts) {
        let mut hold = |what: &str, limit, unit, figure| {
            let what = format!("{what} ({name})");
            bars.hold(what, Want::AtMost(limit), unit, figure);
        };
        let above = median(ours) - floor;
        hold(
            "start to initialize above the floor, median",
            ABOVE_FLOOR,
            "ms",
            above,
        );
        hold("resident after initialize", 20.0, "MiB", starts.resident);
        hold("orchestra hook, p99", 20.0, "ms", millis(starts.hook.p99()));
    }
    let first = millis(starts[1].first_answer.p50());
    let what = "start to first board answer, median (100 000 tasks)";
    bars.hold(what, Want::AtMost(50.0), "ms", first);
}

fn first_answer(path: &Path, project: &str, starts: &mut Starts) -> Result<()> {
    let mut command = server::orchestra(path, &[])?;
    let started = Instant::now();
    let mut server = Server::start(&mut command)?;
    server.initialize()?;
    let resident = process::peak_resident(server.pid()).unwrap_or(f64::NAN);
    starts.resident = starts.resident.max(resident);
    // The empty workspace answers with a refusal, which needs the board too.
    let arguments = json!({"name": "get_next_task", "arguments": {"project": project}});
    server.request("tools/call", &arguments)?;
    starts.first_answer.push(started.elapsed());
    server.close()
}

fn hook(path: &Path, starts: &mut Starts) -> Result<()> {
    let event = json!({
        "session_id": "bench", "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "cwd": path, "tool_input": {"command": "cargo test"},
        "tool_response": {"stdout": "test result: ok. 42 passed; 0 failed", "exit_code": 0},
    });
    let mut command = Command::new(program("orchestra")?);
    command.arg("hook").arg("--workspace").arg(path);
    server::use_state_of(path, &mut command);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().context("starting the hook")?;
    let mut input = child.stdin.take().context("no pipe to the hook")?;
    let written = input.write_all(event.to_string().as_bytes());
    written.context("writing the event")?;
    drop(input);
    let ended = child.wait_with_output().context("waiting for the hook")?;
    starts.hook.push(started.elapsed());
    // A hook always succeeds, so only its stderr shows whether the event was stored.
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(
        ended.status.success() && said.is_empty(),
        "the hook: {said}"
    );
    Ok(())
}
