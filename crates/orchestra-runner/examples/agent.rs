//! The program that tests of agents start: it guards what it is told to, and is the scripted agent.

use std::process::ExitCode;

use orchestra_process::{CHILD_COMMAND, child_main};
use orchestra_runner::agents::scripted;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    match first.to_str() {
        Some(CHILD_COMMAND) => child_main(arguments),
        Some(scripted::COMMAND) => scripted::main(arguments),
        _ => ExitCode::FAILURE,
    }
}
