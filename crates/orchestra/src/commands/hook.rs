//! `orchestra hook`: one hook event of a client, from stdin into the store.

mod event;

use std::{
    io::{self, Read as _},
    path::PathBuf,
};

use clap::Args;
use orchestra_store::{Action, Options, Store};

use crate::{
    cli::Common,
    env::Variable,
    exit::{Exit, Failure},
    output, workspace,
};

/// The largest event that is read. What is kept of it is far smaller.
const MAX_EVENT_BYTES: u64 = 10 * 1024 * 1024;

/// Store one hook event that a client sends to stdin as JSON
///
/// Contents that were read or written are left out, secrets are masked. It never fails the client: what
/// cannot be stored is said on stderr, and the exit code is 0.
#[derive(Debug, Args)]
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
    // The readable copy is left to whichever program serves the board, so that this one ends in
    // milliseconds.
    let options = Options {
        watch: false,
        sweep: false,
        flush: false,
        ..Options::default()
    };
    let store = Store::open(&workspace, options)?;
    store.submit_blocking(None, Action::HookEvent(event))?;
    Ok(())
}
