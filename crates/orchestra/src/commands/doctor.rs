//! `orchestra doctor`: compares the database with the readable files, and mends them.

use std::time::Duration;

use clap::Args;
use orchestra_store::{Fix, Options, Store};
use serde::Serialize;

use crate::{
    cli::Common,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
};

/// How long the sweep for edited files may take.
const CATCHING_UP: Duration = Duration::from_secs(30);

/// How long the readable files may take to catch up at the end.
const CLOSING: Duration = Duration::from_secs(5);

/// Compares the board's database with its readable files.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Mend what can be mended without losing anything
    #[arg(long)]
    fix: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    healthy: bool,
    /// What was found.
    findings: Vec<String>,
    /// What of it is still there after mending.
    remaining: Vec<String>,
}

/// Compares, and mends if asked.
///
/// # Errors
/// When either side cannot be read at all.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(&config.log.value)?;
    let options = Options {
        watch: false,
        ..Options::default()
    };
    let store = Store::open(&config.workspace, options)?;
    // Edits are taken in first: an edit is no difference.
    if let Err(error) = store.settle(CATCHING_UP) {
        tracing::warn!(%error, "edits of the readable files may not be seen yet");
    }
    let (findings, remaining) = if arguments.fix {
        let mended = store.doctor(Fix::Mend)?.findings;
        (mended, store.doctor(Fix::Nothing)?.findings)
    } else {
        let found = store.doctor(Fix::Nothing)?.findings;
        (found.clone(), found)
    };
    store.close(CLOSING);
    let answer = Answer {
        healthy: remaining.is_empty(),
        findings,
        remaining,
    };
    Format::of_flag(arguments.json).print(&answer, text)?;
    Ok(if answer.healthy {
        Exit::Ok
    } else {
        Exit::Problems
    })
}

fn text(answer: &Answer) -> String {
    let list = |findings: &[String]| -> String {
        findings
            .iter()
            .map(|finding| format!("- {finding}\n"))
            .collect()
    };
    let mut text = String::new();
    if answer.healthy {
        text.push_str(&list(&answer.findings));
        text.push_str("everything is in order\n");
    } else {
        text.push_str(&list(&answer.remaining));
    }
    output::printable(&text).into_owned()
}
