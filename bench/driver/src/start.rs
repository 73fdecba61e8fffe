//! How soon a program is of use: the handshake, the first answer, a hook.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::{
    Bench,
    bars::Want,
    numbers::{Samples, millis},
    process, seed,
    server::{self, Server, program},
    table::Table,
};

const STARTS: usize = 40;
const HOOKS: usize = 200;
const LARGE: usize = 100_000;

/// Times of starts on one workspace.
#[derive(Default)]
struct Starts {
    handshake: Samples,
    first_answer: Samples,
    resident: f64,
    hook: Samples,
}

/// Measures an empty and a large workspace in turn.
///
/// # Errors
/// When a program cannot be run.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let empty = seed::directory()?;
    let board = bench.boards.with_tasks(LARGE)?;
    let project = board.project.clone();
    let places = [("empty", empty.path()), ("100 000 tasks", board.path())];
    let mut starts = [Starts::default(), Starts::default()];
    for _ in 0..STARTS {
        for ((_, path), starts) in places.iter().zip(&mut starts) {
            start(path, &project, starts)?;
        }
    }
    for _ in 0..HOOKS {
        for ((_, path), starts) in places.iter().zip(&mut starts) {
            hook(path, starts)?;
        }
    }
    let mut table = Table::new(&["workspace", "from start to", "p50 ms", "p99 ms", "MiB"]);
    for ((name, _), starts) in places.iter().zip(&starts) {
        let mut row = |what: &str, samples: &Samples, resident: String| {
            let (p50, p99) = (millis(samples.p50()), millis(samples.p99()));
            let figures = [format!("{p50:.2}"), format!("{p99:.2}"), resident];
            let [p50, p99, resident] = figures;
            table.row(&[(*name).to_owned(), what.to_owned(), p50, p99, resident]);
        };
        let resident = format!("{:.1}", starts.resident);
        row("initialize answered", &starts.handshake, resident);
        row("first board answer", &starts.first_answer, String::new());
        row("end of a hook", &starts.hook, String::new());
    }
    table.print();
    for ((name, _), starts) in places.iter().zip(&starts) {
        let mut hold = |what: &str, limit, unit, figure| {
            let what = format!("{what} ({name})");
            bench.bars.hold(what, Want::AtMost(limit), unit, figure);
        };
        let handshake = millis(starts.handshake.p50());
        hold("start to initialize, median", 10.0, "ms", handshake);
        hold("resident after initialize", 20.0, "MiB", starts.resident);
        hold("orchestra hook, p99", 20.0, "ms", millis(starts.hook.p99()));
    }
    let first = millis(starts[1].first_answer.p50());
    let what = "start to first board answer, median (100 000 tasks)";
    bench.bars.hold(what, Want::AtMost(50.0), "ms", first);
    Ok(())
}

fn start(path: &Path, project: &str, starts: &mut Starts) -> Result<()> {
    let mut command = server::orchestra(path, &[])?;
    let started = Instant::now();
    let mut server = Server::start(&mut command)?;
    server.initialize()?;
    starts.handshake.push(started.elapsed());
    let resident = process::peak_resident(server.pid()).unwrap_or(f64::NAN);
    starts.resident = starts.resident.max(resident);
    // On the empty workspace this is a refusal, which is an answer of the board as well.
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
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().context("starting the hook")?;
    let mut input = child.stdin.take().context("no pipe to the hook")?;
    let written = input.write_all(event.to_string().as_bytes());
    written.context("writing the event")?;
    drop(input);
    let ended = child.wait_with_output().context("waiting for the hook")?;
    starts.hook.push(started.elapsed());
    // It never fails its client, so only what it says tells whether the event was stored.
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(
        ended.status.success() && said.is_empty(),
        "the hook: {said}"
    );
    Ok(())
}
