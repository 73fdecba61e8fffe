//! `orchestra mcp`: servers of others.

mod bridge;
mod tap;

use clap::{Args, Subcommand};

use crate::{
    cli::Common,
    exit::{Exit, Failure},
};

/// Look after MCP servers of others
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Tap(tap::Arguments),
}

/// Runs one of them.
///
/// # Errors
/// When it cannot do what it was asked.
pub(crate) fn run(_common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Tap(arguments) => tap::run(arguments),
    }
}
