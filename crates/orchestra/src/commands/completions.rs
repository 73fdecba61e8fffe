//! `orchestra completions`: a shell's completion script on stdout.

use clap::Args;
use clap_complete::Shell;

use crate::{
    cli::{self, examples},
    exit::{Exit, Failure},
    output,
};

/// Print a script that completes commands and options in a shell
///
/// For bash: source <(orchestra completions bash)
#[derive(Debug, Args)]
#[command(after_help = examples(&["completions zsh > _orchestra"]))]
pub(crate) struct Arguments {
    /// Name of the shell
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut cli::description(),
        "orchestra",
        &mut script,
    );
    output::raw(&script)?;
    Ok(Exit::Ok)
}
