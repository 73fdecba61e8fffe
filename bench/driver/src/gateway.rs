//! Servers of others behind the gateway: an echo server of the official Rust SDK directly, through
//! us, and through the proxies that others have made.

mod killed;
mod many;
mod over_http;
mod over_stdio;

use std::{ffi::OsStr, fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Bench,
    bars::{Bars, Want},
    seed,
    server::program,
};

/// The server that is behind all of them.
const SERVER: &str = "bench-rmcp-echo";

/// How the server reads and writes its pipes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pipes {
    /// The SDK's transport for pipes.
    Ready,
    /// The SDK's transport for whatever stdin and stdout are, which reads and writes on threads of
    /// its own. With it the server over stdio does half of what it does over its own HTTP, whoever
    /// asks.
    Threads,
}

impl Pipes {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Ready => &["--pipes"],
            Self::Threads => &[],
        }
    }
}

/// How long servers may take to start, a hundred of them at once.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often each peer runs, in turn with the others.
const ROUNDS: usize = 5;

/// Measures every way to the server, and what many servers cost that nobody uses.
///
/// # Errors
/// When a peer cannot be run.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    over_stdio::run(&mut bench.bars).context("over stdio")?;
    over_http::run(&mut bench.bars).context("over HTTP")?;
    killed::run(&mut bench.bars).context("killed servers")?;
    many::run(&mut bench.bars).context("many servers")
}

/// A directory with a configuration of servers, where the program keeps what it keeps.
struct Home {
    directory: TempDir,
}

impl Home {
    fn new() -> Result<Self> {
        let directory = seed::directory()?;
        fs::create_dir(directory.path().join("work")).context("making a workspace")?;
        Ok(Self { directory })
    }

    /// A directory with one server, whose tools keep their names.
    fn of_one(pipes: Pipes) -> Result<Self> {
        let mut command = Command::new(program(SERVER)?);
        command.args(pipes.arguments());
        Self::of(&command)
    }

    /// A directory with one server that a command starts.
    fn of(command: &Command) -> Result<Self> {
        let home = Self::new()?;
        let words = |words: &OsStr| words.to_string_lossy().into_owned();
        let args: Vec<String> = command.get_args().map(words).collect();
        let program = words(command.get_program());
        let server = json!({"command": program, "args": args, "prefix": false});
        home.configure(&json!({"mcpServers": {"echo": server}}))?;
        Ok(home)
    }

    fn configure(&self, servers: &Value) -> Result<()> {
        let written = fs::write(self.configuration(), servers.to_string());
        written.context("writing the configuration")
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("mcp.json")
    }

    /// The program with these servers and no tools of its own.
    fn orchestra(&self, command: &str) -> Result<Command> {
        let mut orchestra = Command::new(program("orchestra")?);
        orchestra.arg(command).arg("--workspace");
        orchestra.arg(self.directory.path().join("work"));
        orchestra.arg("--mcp-config").arg(self.configuration());
        orchestra.arg("--only-servers");
        orchestra.env("HOME", self.directory.path());
        for variable in [
            "XDG_STATE_HOME",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
        ] {
            orchestra.env_remove(variable);
        }
        Ok(orchestra)
    }
}

/// What the way through us adds at one call at a time.
fn hold_added(bars: &mut Bars, over: &str, p50: f64, p99: f64) {
    let what = format!("gateway over {over}, added p50 on 1");
    bars.hold(what, Want::AtMost(60.0), "µs", p50);
    let what = format!("gateway over {over}, added p99 on 1");
    bars.hold(what, Want::AtMost(200.0), "µs", p99);
}
