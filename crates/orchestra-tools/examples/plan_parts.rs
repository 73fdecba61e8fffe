//! A program for the tests of plans that run for real: supervisor, guard and scripted agent, as the program
//! itself is.

use std::process::ExitCode;

use orchestra_process::{CHILD_COMMAND, child_main};
use orchestra_runner::{
    agents::scripted,
    supervise::{JOB_COMMAND, job_main},
};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    match first.to_str() {
        Some(CHILD_COMMAND) => child_main(arguments),
        Some(JOB_COMMAND) => job_main(),
        Some(scripted::COMMAND) => scripted::main(arguments),
        _ => ExitCode::FAILURE,
    }
}
