//! `orchestra completions`: a shell's completion script on stdout.

use clap::Args;
use clap_complete::Shell;

use crate::{
    cli,
    exit::{Exit, Failure},
    output,
};

/// Print a shell's completion script
///
/// For bash: source <(orchestra completions bash)
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// For which shell
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
