//! `orchestra top`: the board, the plans and the servers of a workspace in the terminal, as they change.

mod clock;
mod details;
mod draw;
mod feed;
mod frames;
mod lanes;
mod model;
mod screen;
mod snapshot;
mod source;
mod terminal;
mod wire;

use std::io::IsTerminal as _;

use clap::Args;

use crate::{
    cli::{Common, examples},
    config::{Config, Overrides},
    env::Variable,
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
    serving,
};
use source::{NotReached, Source};

/// Watch the board, the plans and the servers in the terminal
///
/// Shows changes as they happen, from the `orchestra up` of the workspace, and reconnects when that restarts.
/// `?` shows the keys. If stdin or stdout is not a terminal, prints the current state and ends.
#[derive(Debug, Args)]
#[command(after_help = examples(&["top", "top --project my-app", "top --once"]))]
pub(crate) struct Arguments {
    /// Slug of the project whose board is shown first [default: the first project]
    #[arg(long, value_name = "SLUG")]
    project: Option<String>,
    /// Print the current state and end
    #[arg(long)]
    once: bool,
    /// Print the current state as JSON
    #[arg(long)]
    json: bool,
}

/// Shows the workspace until somebody leaves, or once.
///
/// # Errors
/// When nobody serves the workspace, or it cannot be shown.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(logging::of_a_report(&config.log))?;
    let runtime = serving::runtime()?;
    let done = runtime.block_on(shown(&config, &arguments));
    // The thread that waits for keys is not waited for.
    runtime.shutdown_background();
    done
}

async fn shown(config: &Config, arguments: &Arguments) -> Result<Exit, Failure> {
    let source = match Source::reach(config) {
        Ok(source) => source,
        Err(NotReached::Nobody) => {
            let workspace = output::in_a_line(&config.workspace.display().to_string());
            output::complain(&format!(
                "no program serves {workspace}; run `orchestra up` in another terminal"
            ));
            return Ok(Exit::Problems);
        }
        Err(NotReached::Other(error)) => return Err(error.into()),
    };
    let asked = arguments.project.as_deref();
    if arguments.once || arguments.json || !is_terminal() {
        return snapshot::print(&source, asked, Format::of_flag(arguments.json)).await;
    }
    // What keeps us out is said before the screen is another.
    source.get("/api/board").await?;
    terminal::run(config, asked).await
}

/// Whether there is a terminal on which something can be drawn.
fn is_terminal() -> bool {
    let is_dumb = Variable::Terminal.read().is_some_and(|kind| kind == "dumb");
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !is_dumb
}
