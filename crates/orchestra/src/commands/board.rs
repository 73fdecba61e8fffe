//! `orchestra board`: acceptance of a board that the user's programs did not create.

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    board,
    cli::Common,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
};

/// Manage the board that all worktrees share
///
/// Examples:
///   orchestra board trust
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Accept a board that your programs did not create, without its claims
    ///
    /// A board in a git directory may come from an archive. Until it is accepted it can be read, not changed.
    ///
    /// Examples:
    ///   orchestra board trust
    Trust {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Serialize)]
struct Answer {
    trusted: bool,
    /// Directory of a board that was not trusted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<String>,
}

/// Accepts the board of the workspace.
///
/// # Errors
/// When the board cannot be read or written.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let Command::Trust { json } = arguments.command;
    let config = Config::settle(common, Overrides::default())?;
    logging::start(logging::of_a_report(&config.log))?;
    let options = board::options(&config.workspace, config.memory.apply(Default::default()))?;
    let accepted = orchestra_store::accept(&config.workspace, &options)?;
    let answer = Answer {
        trusted: true,
        accepted: accepted.map(|directory| directory.display().to_string()),
    };
    Format::of_flag(json).print(&answer, |answer| {
        let text = match &answer.accepted {
            Some(directory) => {
                format!("the board in {directory} is accepted, without its claims\n")
            }
            None => "the board needs no acceptance\n".to_owned(),
        };
        output::printable(&text).into_owned()
    })?;
    Ok(Exit::Ok)
}
