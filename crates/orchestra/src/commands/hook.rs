//! `orchestra hook`: one hook event of a client, from stdin into the store.

mod event;

use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use orchestra_store::{Action, Options, Store};

use crate::{
    board,
    cli::{Common, examples},
    config::{self, BoardSettings},
    env::Variable,
    exit::{Exit, Failure},
    output, workspace,
};

/// The largest event that is read. What is kept of it is far smaller.
const MAX_EVENT_BYTES: u64 = 10 * 1024 * 1024;

/// How long the client waits for the readable copy at most: longer than it takes another hook that keeps
/// the files to end and this one to take its place.
const READABLE_WITHIN: Duration = Duration::from_millis(400);

/// Length at which the database's log is moved into the database: reading a log that nobody has
/// open costs about a millisecond a megabyte.
const LONG_LOG_BYTES: u64 = 1024 * 1024;

/// Store a hook event of a coding agent, read as JSON from stdin
///
/// The contents of files that the agent read or wrote are omitted, and secrets are masked. Errors are printed on
/// stderr and the exit code is always 0, so that the command never blocks the agent. If the workspace has no board,
/// nothing is stored.
#[derive(Debug, Args)]
#[command(after_help = examples(&["hook < event.json"]))]
pub(crate) struct Arguments {}

/// Stores the event.
///
/// # Errors
/// Never; what goes wrong is said on stderr.
pub(crate) fn run(common: &Common, Arguments {}: Arguments) -> Result<Exit, Failure> {
    if let Err(error) = store(common) {
        output::complain(&format!("orchestra hook: event not stored: {error:#}"));
    }
    Ok(Exit::Ok)
}

fn store(common: &Common) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .take(MAX_EVENT_BYTES + 1)
        .read_to_end(&mut bytes)?;
    anyhow::ensure!(
        bytes.len() as u64 <= MAX_EVENT_BYTES,
        "it is larger than {MAX_EVENT_BYTES} bytes"
    );
    let event = event::understand(&bytes)?;
    let named = common.workspace.clone();
    let chosen = named.or_else(|| Variable::ClaudeProjectDir.read().map(PathBuf::from));
    let workspace = workspace::find(chosen.as_deref())?;
    let settings = config::board_settings(&workspace);
    let options = Options {
        watch: false,
        sweep: false,
        ..Options::default()
    };
    // The end of a session makes a summary, for which others may have to go.
    let limited = settings.limit_memory(options.clone());
    let limited = limited.map_err(|failure| failure.text());
    let home = board::home_by(&workspace, settings);
    if !workspace::has_board_at(&workspace, home.as_ref().ok()) {
        return Ok(());
    }
    let options = limited.unwrap_or_else(|error| {
        output::complain(&format!("orchestra hook: {error}"));
        BoardSettings::hardly_limit_memory(options)
    });
    // The user sees no report of a hook, so none is spent on it.
    let home = home.map_err(|failure| anyhow::Error::msg(failure.text()))?;
    let options = Options { home, ..options };
    let store = Store::open(&workspace, options)?;
    store.submit_blocking(None, Action::HookEvent(event))?;
    if let Err(error) = store.settle(READABLE_WITHIN) {
        // The event is stored; the next program that opens the board writes the readable copy.
        tracing::debug!("the readable files are not up to date: {error}");
    }
    // The event is durable. Closing the database as well would move its log into it, which costs
    // several more waits for the disk; that is done once for many events, or by another program.
    if log_bytes(&store) < LONG_LOG_BYTES {
        std::mem::forget(store);
    }
    Ok(())
}

/// How long the database's log is. SQLite names it so.
fn log_bytes(store: &Store) -> u64 {
    let log = store.directory().join("board.db-wal");
    fs::metadata(log).map_or(0, |metadata| metadata.len())
}
