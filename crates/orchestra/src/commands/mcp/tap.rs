//! `orchestra mcp tap`: stands between a client and a server.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::Args;
use orchestra_gateway::config::Transport;
use orchestra_mcp::client::{
    ChildConfig,
    tap::{Tap, TraceForm},
};
use orchestra_process::{Command, Environment};
use orchestra_secret::Masker;

use super::{Here, bridge, live};
use crate::{
    cli::examples,
    exit::{Exit, Failure},
    trace::{self, finish, masker},
};

/// Record the messages between a client and a server over stdio
///
/// Put `orchestra mcp tap --file FILE --` before the command of the server in the configuration of a client. Or
/// name a server that Orchestra has configured. All bytes are forwarded unchanged and at once, in both directions.
/// Without --file, prints a line for each message on stderr.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "mcp tap docs",
    "mcp tap --file docs.jsonl -- docs-server --stdio",
]))]
pub(crate) struct Arguments {
    /// Name of a configured server to start, instead of a command
    #[arg(conflicts_with = "command", required_unless_present = "command")]
    pub(super) server: Option<String>,
    /// File in which to record all messages, one line of JSON each, with secrets masked; rotated at 64 MiB
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print a line on stderr for each message: time, direction, server, id, method, bytes, milliseconds
    #[arg(long)]
    trace: bool,
    /// Name of a tool argument whose values are masked, in addition to secrets; may be repeated
    #[arg(long, value_name = "NAME")]
    mask: Vec<String>,
    /// Name to record the server under [default: the name of the configured server, or of the program]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Command that starts the server
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Passes on and records until the server ends. `here` is there where a configured one was named.
///
/// # Errors
/// When the server cannot be started, or ends with an error.
pub(crate) fn run(here: Option<&Here>, arguments: Arguments) -> Result<Exit, Failure> {
    let masks = masker(&arguments.mask);
    if let (Some(here), Some(name)) = (here, &arguments.server) {
        return configured(here, name, &arguments, masks);
    }
    let (program, rest) = arguments
        .command
        .split_first()
        .ok_or_else(|| Failure::usage_text("missing the command that starts the server"))?;
    let name = arguments.name.clone().unwrap_or_else(|| {
        let file = Path::new(program).file_name().unwrap_or(program);
        file.to_string_lossy().into_owned()
    });
    let tap = open(&arguments, masks)?;
    // direct: it is the command of a guarded child. It stands in our place, so it has what we have.
    let command = Command::new(program)
        .args(rest)
        .name(&name)
        .environment(Environment::All);
    pass(&command, program, &name, &tap)
}

/// The same with a server that is configured: with its own environment, limits and sandbox.
fn configured(
    here: &Here,
    name: &str,
    arguments: &Arguments,
    masks: Masker,
) -> Result<Exit, Failure> {
    let server = here.server(name)?;
    let config = match live::startable(server) {
        Ok(config) => config,
        Err(trouble) => {
            trouble.complain();
            return Ok(trouble.exit);
        }
    };
    if let Transport::Plugin(_) = config.transport {
        return Err(Failure::usage_text(format!(
            "{name} is a plugin, so it exchanges no messages on its standard input and output"
        )));
    }
    let connectors = live::connectors(here)?;
    let child: ChildConfig = connectors.child(&config).map_err(|error| {
        Failure::usage_text(format!(
            "{name}: {}; to record the messages of a server on the network, run \
             `orchestra mcp test {name} --trace-file FILE`",
            error.explain()
        ))
    })?;
    let tap = open(arguments, connectors.masker(&config, masks))?;
    let shown = arguments.name.as_deref().unwrap_or(name);
    pass(&child.command(), &child.command, shown, &tap)
}

/// Runs it to its end, and says how it ended unless that was well.
fn pass(command: &Command, program: &OsStr, name: &str, tap: &Tap) -> Result<Exit, Failure> {
    let ended = bridge::run(command, program, name, tap);
    finish(tap);
    let exit = ended?;
    if exit.is_success() {
        return Ok(Exit::Ok);
    }
    let why = match (exit.code, exit.signal, exit.limit) {
        (_, _, Some(limit)) => limit.to_string(),
        (Some(code), _, None) => format!("exit code {code}"),
        (None, Some(signal), None) => format!("signal {signal}"),
        (None, None, None) => "its guard".to_owned(),
    };
    Err(anyhow::anyhow!("the server ended with {why}").into())
}

fn open(arguments: &Arguments, masker: Masker) -> Result<Tap, Failure> {
    let shows = arguments.trace || arguments.file.is_none();
    let shown = shows.then(TraceForm::default);
    trace::open(arguments.file.as_deref(), shown, masker)
}
