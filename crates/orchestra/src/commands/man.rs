//! `orchestra man`: the manual page on stdout.

use clap::Args;

use crate::{
    cli::{self, examples},
    exit::{Exit, Failure},
    output,
};

/// Print a manual page in roff format, for `man`
#[derive(Debug, Args)]
#[command(after_help = examples(&["man | man -l -", "man tool call | man -l -"]))]
pub(crate) struct Arguments {
    /// Command whose manual page to print, such as `init` or `tool call` [default: the whole program]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// Prints the page.
///
/// # Errors
/// When there is no such command, or stdout cannot be written to.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut program = cli::description();
    program.build();
    // A page names others as `orchestra-tool-call`; no command has a dash of its own.
    let words = arguments.command.iter().flat_map(|name| {
        let name = name.strip_prefix("orchestra-").unwrap_or(name);
        name.split('-')
    });
    let mut described = &program;
    for word in words {
        described = described.find_subcommand(word).ok_or_else(|| {
            let names = arguments.command.join(" ");
            Failure::usage_text(format!(
                "no command `{names}`; `orchestra --help` lists them"
            ))
        })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(described.clone()).render(&mut page)?;
    output::raw(&page)?;
    Ok(Exit::Ok)
}
