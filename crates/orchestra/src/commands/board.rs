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

/// Move or merge boards, or accept a board that you did not create
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Move the board to where all worktrees share it, or back into the checkout
    ///
    /// Issues, history, claims and memory are preserved. Prints the resulting state of the files in git and the
    /// next git command. Fails while another program uses the board. If linked worktrees have boards of their own,
    /// asks whether to merge them into the shared board.
    #[command(after_help = examples(&["board convert", "board convert checkout"]))]
    Convert {
        /// Where to store the board
        #[arg(value_enum, default_value_t = BoardMode::Repository)]
        mode: BoardMode,
        /// Merge the boards of linked worktrees into the shared board without asking
        #[arg(long, short)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Merge the separate boards of linked worktrees into the shared board
    ///
    /// Shows how many issues and memories each worktree has, and asks before it merges them. Claims in these boards
    /// are dropped. The old database of a worktree is replaced by a stub. Worktrees of plan jobs, and worktrees
    /// whose database git tracks, are merged only if you name them. Fails for a board that another program uses.
    #[command(after_help = examples(&["board merge", "board merge ../shop-fix --yes"]))]
    Merge {
        /// Directories of the worktrees whose boards to merge [default: all linked worktrees]
        #[arg(value_name = "WORKTREE")]
        worktrees: Vec<PathBuf>,
        /// Do not ask for consent
        #[arg(long, short)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Accept a board that came with a copied repository, so that it can be changed
    ///
    /// A git directory that was copied or unpacked from an archive can contain a board that Orchestra did not
    /// create for you. The board is read-only until you accept it with this command. Its claims are dropped.
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
