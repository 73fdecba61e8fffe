//! A server behind the gateway that is killed again and again, and the time until it answers again.

use std::{
    env,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Home, PATIENCE, Pipes, SERVER};
use crate::{
    bars::{Bars, Want},
    numbers::{Samples, millis},
    process,
    server::{Server, program},
    table::{Table, say},
};

/// Number of times each server is killed.
const KILLS: usize = 20;

/// Pause between two kills.
const EVERY: Duration = Duration::from_secs(1);

/// Maximum time in milliseconds until a server that starts at once answers again.
const BACK: f64 = 500.0;

/// Maximum time in milliseconds, beside its own start, until an interpreted server answers again.
const BACK_BESIDE_START: f64 = 100.0;

/// A server that is killed.
struct Peer {
    name: &'static str,
    command: Command,
    is_interpreted: bool,
}

pub(super) fn run(bars: &mut Bars) -> Result<()> {
    say(&format!(
        "\nA server behind `orchestra stdio` that is killed {KILLS} times, from the kill to its next \
         answer, and from its start to its first answer without us.\n"
    ));
    let mut table = Table::new(&["server", "back p50 ms", "back p99 ms", "start p50 ms"]);
    for mut peer in peers()? {
        let home = Home::of(&peer.command)?;
        let mut gateway = Server::open(&mut home.orchestra("stdio")?)?;
        answered(&mut gateway)?;
        let (mut back, mut start) = (Samples::default(), Samples::default());
        for _ in 0..KILLS {
            thread::sleep(EVERY);
            let victim = process::youngest(gateway.pid());
            let victim = victim.context("the gateway has no server")?;
            process::kill(victim).context("killing the server")?;
            back.push(answered(&mut gateway)?);
            start.push(alone(&mut peer.command)?);
        }
        gateway.close()?;
        let [p50, p99, alone] = [back.p50(), back.p99(), start.p50()].map(millis);
        table.row(&[
            peer.name.to_owned(),
            format!("{p50:.1}"),
            format!("{p99:.1}"),
            format!("{alone:.1}"),
        ]);
        let limit = match peer.is_interpreted {
            true => alone + BACK_BESIDE_START,
            false => BACK,
        };
        let what = format!("killed server is back, p50 ({})", peer.name);
        bars.hold(what, Want::AtMost(limit), "ms", p50);
    }
    table.print();
    Ok(())
}

fn peers() -> Result<Vec<Peer>> {
    let mut rust = Command::new(program(SERVER)?);
    rust.args(Pipes::Ready.arguments());
    let mut peers = vec![Peer {
        name: "rmcp echo",
        command: rust,
        is_interpreted: false,
    }];
    if let Some(python) = env::var_os("BENCH_PYTHON") {
        let mut command = Command::new(python);
        let script = Path::new("bench/python/server.py").canonicalize();
        command.arg(script.context("finding the Python server")?);
        peers.push(Peer {
            name: "Python SDK",
            command,
            is_interpreted: true,
        });
    }
    Ok(peers)
}

/// Calls until the server answers; the time that it took.
fn answered(server: &mut Server) -> Result<Duration> {
    let started = Instant::now();
    while let Err(error) = server.call("echo", &json!({"text": "hello"})) {
        ensure!(
            started.elapsed() < PATIENCE,
            "it does not answer: {error:#}"
        );
        thread::sleep(Duration::from_millis(1));
    }
    Ok(started.elapsed())
}

/// Time from the start of a server to its first answer, without the gateway.
fn alone(command: &mut Command) -> Result<Duration> {
    let started = Instant::now();
    let mut server = Server::open(command)?;
    server.call("echo", &json!({"text": "hello"}))?;
    let took = started.elapsed();
    server.close()?;
    Ok(took)
}
