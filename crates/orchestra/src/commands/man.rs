//! `orchestra man`: the manual page on stdout.

use clap::Args;

use crate::{
    cli,
    exit::{Exit, Failure},
    output,
};

/// Print the manual page, in roff
///
/// To read it: orchestra man | man -l -
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The page of one command, such as `init`, instead of the whole program's
    command: Option<String>,
}

/// Prints the page.
///
/// # Errors
/// When there is no such command, or stdout cannot be written to.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut program = cli::description();
    program.build();
    let described = match &arguments.command {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name);
            found
                .cloned()
                .ok_or_else(|| Failure::usage_text(format!("no command `{name}`")))?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(described).render(&mut page)?;
    output::raw(&page)?;
    Ok(Exit::Ok)
}
