//! `orchestra mcp tap`: stands between a client and a server.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use orchestra_mcp::client::tap::{Redactor, Tap, TapConfig, TapFile};

use super::bridge;
use crate::{
    exit::{Exit, Failure},
    output,
};

/// Stand between a client and a server over stdio, and record what they say
///
/// In a client's configuration, put `orchestra mcp tap --file FILE --` before the server's command.
/// Bytes are passed on as they are, at once, in both directions. Without --file, a line for each
/// message goes to stderr.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Record whole messages here, a line of JSON each, secrets masked; put aside at 64 MiB
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show a line for each message on stderr: time, direction, server, id, method, bytes, ms
    #[arg(long)]
    trace: bool,
    /// Mask what arguments of this name hold; more than one may be given
    #[arg(long, value_name = "NAME")]
    mask: Vec<String>,
    /// What the server is called in the recording [default: the name of its program]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The server's command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Passes on and records until the server ends.
///
/// # Errors
/// When the server cannot be started, or ends with an error.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let (program, rest) = arguments
        .command
        .split_first()
        .ok_or_else(|| Failure::usage_text("which command starts the server?"))?;
    let name = arguments.name.unwrap_or_else(|| {
        let file = Path::new(program).file_name().unwrap_or(program);
        file.to_string_lossy().into_owned()
    });
    let trace = arguments.trace || arguments.file.is_none();
    let tap = Tap::open(TapConfig {
        file: arguments.file.clone().map(TapFile::at),
        trace: trace.then(|| Box::new(io::stderr()) as _),
        redactor: redactor(&arguments.mask),
    })
    .with_context(|| format!("recording to {}", shown(arguments.file.as_deref())))?;
    let ended = bridge::run(program, rest, &name, &tap);
    let totals = tap.finish();
    if totals.dropped > 0 {
        output::complain(&format!(
            "{} messages are not in the recording: they came faster than they could be written",
            totals.dropped
        ));
    }
    let status = ended?;
    if status.success() {
        return Ok(Exit::Ok);
    }
    Err(anyhow::anyhow!("the server ended with {status}").into())
}

/// Masks the secrets of our own environment, which the server inherits, and marked arguments.
pub(super) fn redactor(marked: &[String]) -> Redactor {
    let variables = std::env::vars_os();
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let redactor = Redactor::default().environment(variables);
    marked
        .iter()
        .fold(redactor, |redactor, name| redactor.argument(name))
}

fn shown(file: Option<&Path>) -> String {
    file.map_or_else(|| "stderr".to_owned(), |file| file.display().to_string())
}
