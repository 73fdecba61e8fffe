//! Calls that a rule wants somebody asked about, in a shell.

use std::io::{self, BufRead as _, IsTerminal as _};

use orchestra_gateway::rules;
use orchestra_wire::RawJson;

use crate::{exit::Failure, output};

/// Asks at the terminal whether a tool may be called; where there is none, only `--yes` agrees, which
/// is for the caller to look at. Blocks.
///
/// # Errors
/// When nobody agrees.
pub(crate) fn ask(
    rule: &str,
    server: &str,
    tool: &str,
    arguments: &RawJson,
) -> Result<(), Failure> {
    // The words of a file and of a server make no lines of their own.
    let tool = output::in_a_line(&rules::in_question(tool));
    let rule = output::in_a_line(rule);
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::denied(format!(
            "{tool} was not called: {rule} of the server {server} requires consent, and there is no terminal to ask on; --yes agrees"
        )));
    }
    // All of them: what is not shown is not agreed to.
    let arguments = output::in_a_line(arguments.as_str());
    let question = format!("{rule} of the server {server}: call {tool} with {arguments}? [y/N]");
    output::complain(&output::printable(&question));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match matches!(answer.trim(), "y" | "Y" | "yes") {
        true => Ok(()),
        false => Err(Failure::denied(format!(
            "{tool} was not called: you did not agree"
        ))),
    }
}
