//! `orchestra board`: place of the board, and acceptance of one that the user's programs did not create.

mod convert;
mod merge;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{
    board::{self, BoardMode},
    cli::{Common, examples},
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
};

/// Manage the board that all worktrees share
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Move the board to the repository, shared by all worktrees, or back to the checkout
    ///
    /// Issues, history, claims and memory are preserved. Prints the resulting state of the files in git and the next
    /// git command. Refused while another program uses the board. The boards of linked worktrees are merged into a
    /// shared one, if you agree.
    #[command(after_help = examples(&["board convert", "board convert checkout"]))]
    Convert {
        /// New mode of the board
        #[arg(value_enum, default_value_t = BoardMode::Repository)]
        mode: BoardMode,
        /// Merge the boards of linked worktrees without a question
        #[arg(long, short)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Merge boards that linked worktrees have of their own into the one that all worktrees share
    ///
    /// Shows each worktree with the numbers of its issues and memories, and asks. Claims of a worktree are dropped, and
    /// its database stays as a stub. Worktrees of jobs, and databases that git tracks, are merged only if you name
    /// them. A board that another program uses is refused.
    #[command(after_help = examples(&["board merge", "board merge ../shop-fix --yes"]))]
    Merge {
        /// Directories of the worktrees [default: all]
        #[arg(value_name = "WORKTREE")]
        worktrees: Vec<PathBuf>,
        /// Do not ask for consent
        #[arg(long, short)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Accept a board that your programs did not create, without its claims
    ///
    /// A board in a git directory may come from an archive. It is read-only until you accept it.
    #[command(after_help = examples(&["board trust"]))]
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

/// Runs one of them.
///
/// # Errors
/// When the board cannot be read or written, and while another program uses one that is to be moved.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(logging::of_a_report(&config.log))?;
    match arguments.command {
        Command::Convert { mode, yes, json } => convert::run(&config, mode, yes, json),
        Command::Merge {
            worktrees,
            yes,
            json,
        } => merge::run(&config, &worktrees, yes, json),
        Command::Trust { json } => trust(&config, json),
    }
}

fn trust(config: &Config, json: bool) -> Result<Exit, Failure> {
    let options = board::options(config, config.memory.apply(Default::default()))?;
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
