//! Calls that a rule wants somebody asked about, in a shell.

use std::io::{self, BufRead as _, IsTerminal as _};

use serde_json::{Map, Value};

use crate::{exit::Failure, output};

/// The most of the arguments that is shown.
const SHOWN: usize = 500;

/// Asks at the terminal whether a tool may be called; where there is none, only `--yes` agrees, which
/// is for the caller to look at. Blocks.
///
/// # Errors
/// When nobody agrees.
pub(crate) fn ask(
    rule: &str,
    server: &str,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::denied(format!(
            "{tool} was not called: {rule} of the server {server} wants somebody asked, and there \
             is nobody to ask; --yes agrees"
        )));
    }
    let arguments = Value::from(arguments.clone()).to_string();
    let end = arguments.char_indices().nth(SHOWN);
    let shown = end.map_or_else(
        || arguments.clone(),
        |(end, _)| format!("{}…", &arguments[..end]),
    );
    let question = format!("{rule} of the server {server}: call {tool} with {shown}? [y/N]");
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
