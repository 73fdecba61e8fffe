//! `orchestra engine`: replaces itself by `orchestra-engine`, which serves the memory of a workspace.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context as _;
use clap::Args;
use orchestra_memory::engine::{self, Address, AddressError};

use crate::{
    cli::{Common, examples},
    config::{Config, Overrides},
    env::Variable,
    exit::{Exit, Failure},
    output::printable,
};

/// Subcommands of `orchestra-engine` that open models for this program.
pub(crate) const MODEL_INSTALL: &str = "model-install";
pub(crate) const MODEL_CHECK: &str = "model-check";

/// Maximum length of a shown error of the engine in bytes.
const MAX_ERROR: usize = 16 * 1024;

/// Start `orchestra-engine`, which serves the memory of the workspace over gRPC
///
/// The engine serves `orchestra.memory.v1.MemoryService` to programs of this machine until SIGINT, SIGTERM or
/// SIGHUP. It prints its address and the file with the token for clients, which `orchestra token --engine`
/// prints as well. `orchestra up` starts it by itself. If another engine already serves the workspace, this one
/// reports it and ends.
#[derive(Debug, Args)]
#[command(after_help = examples(&["engine", "engine --addr 50100"]))]
pub(crate) struct Arguments {
    /// Address to listen on, such as 127.0.0.1:50051, localhost:50051 or 50051. If the port is in use, the
    /// engine does not start [default: port 50051 if it is free, else any]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) addr: Option<Address>,
    /// Accept requests of every program on this machine, even without the token
    #[arg(long)]
    pub(crate) no_token: bool,
    /// Model for search by meaning. Its forms are those of memory.model in orchestra.toml
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

fn address(text: &str) -> Result<Address, AddressError> {
    text.parse()
}

/// Replaces this process by the engine of the workspace.
///
/// # Errors
/// When the configuration is wrong, or the engine is not installed.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    let mut words: Vec<OsString> = vec!["--workspace".into(), config.workspace.clone().into()];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(
            value
                .into_iter()
                .flat_map(|value| [name.into(), value.into()]),
        );
    };
    option("--log", common.log.clone());
    option("--addr", arguments.addr.map(|address| address.to_string()));
    option("--model", arguments.model);
    if arguments.no_token {
        words.push("--no-token".into());
    }
    become_it(&config.workspace, words)
}

/// Replaces this process by the engine with the given arguments.
///
/// # Errors
/// When the engine is not installed or cannot be started.
pub(crate) fn become_it(workspace: &Path, words: Vec<OsString>) -> Result<Exit, Failure> {
    let program = find(workspace)?;
    // direct: it replaces this process.
    let mut command = Command::new(&program);
    command.args(words);
    #[cfg(unix)]
    {
        let error = std::os::unix::process::CommandExt::exec(&mut command);
        let error = anyhow::Error::new(error).context(format!("start {}", program.display()));
        Err(error.into())
    }
    #[cfg(not(unix))]
    {
        let status = command
            .status()
            .with_context(|| format!("start {}", program.display()))?;
        std::process::exit(status.code().unwrap_or(1))
    }
}

/// Runs a short subcommand of the engine to its end.
///
/// # Errors
/// When the engine is not installed, or fails: a refusal with its error message.
pub(crate) fn ask(workspace: &Path, words: &[&OsStr]) -> Result<(), Failure> {
    let program = find(workspace)?;
    // direct: our own program, which ends by itself.
    let output = Command::new(&program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    if output.status.code() != Some(i32::from(Exit::Refused.code())) && output.stderr.is_empty() {
        let why = format!("{} ended: {}", program.display(), output.status);
        return Err(anyhow::Error::msg(why).into());
    }
    let printed = &output.stderr[..output.stderr.len().min(MAX_ERROR)];
    let printed = String::from_utf8_lossy(printed);
    let text = printed.trim().trim_start_matches("error: ");
    Err(Failure::refused(printable(text)))
}

fn find(workspace: &Path) -> Result<PathBuf, Failure> {
    let this = env::current_exe().context("find this program")?;
    let search_path = Variable::Path.read();
    Ok(engine::find(&this, search_path.as_deref(), workspace)?)
}
