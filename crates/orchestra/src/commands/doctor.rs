//! `orchestra doctor`: compares the database with the readable files, and mends them.

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
    findings: Vec<String>,
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
        sweep: false,
        ..Options::default()
    };
    let store = Store::open(&config.workspace, options)?;
    let fix = if arguments.fix {
        Fix::Mend
    } else {
        Fix::Nothing
    };
    let report = store.doctor(fix)?;
    let healthy = report.findings.is_empty();
    let answer = Answer {
        healthy,
        findings: report.findings,
    };
    Format::of_flag(arguments.json).print(&answer, text)?;
    Ok(if healthy || arguments.fix {
        Exit::Ok
    } else {
        Exit::Problems
    })
}

fn text(answer: &Answer) -> String {
    if answer.healthy {
        return "everything is in order\n".to_owned();
    }
    let lines: String = answer
        .findings
        .iter()
        .map(|finding| format!("- {finding}\n"))
        .collect();
    output::printable(&lines).into_owned()
}
