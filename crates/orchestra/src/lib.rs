//! The program `orchestra`: reads the command line, settles the configuration, runs one command
//! and turns its outcome into an exit code. Each command is a module of `commands`.
//!
//! It is a library so that the program `orchestra-engine` has the same configuration, log and exit
//! codes: [`engine`] is what that one uses.

mod access;
mod board;
mod bundle;
mod cli;
mod commands;
mod config;
mod dashboard;
pub mod engine;
mod env;
mod exit;
mod files;
mod hex;
mod http;
mod init;
mod logging;
mod models;
mod orchestrator;
mod output;
mod secrets;
mod servers;
mod serving;
mod stopping;
mod sync;
mod trace;
mod workspace;

use std::process::ExitCode;

use orchestra_process::{CHILD_COMMAND, adopt_orphans, child_main, close_in_children};
use orchestra_runner::{agents::scripted, supervise};

/// Makes a write beyond the file size limit (`ulimit -f`) an error instead of the end of the process. A handler does
/// that without a change for child processes, which would inherit an ignored signal.
pub(crate) fn keep_running_at_file_size_limit() {
    #[cfg(unix)]
    {
        use signal_hook::{consts::SIGXFSZ, flag};
        // Where it cannot be handled, the system's default remains.
        let _ = flag::register(SIGXFSZ, std::sync::Arc::default());
    }
}

/// Runs the program to its end.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    // Between this program and its children stands this program: nothing else is looked at first. The
    // same holds for the jobs of plans, and for the agent that does what a script says.
    match words.next() {
        Some(word) if word == CHILD_COMMAND => {
            close_in_children();
            return child_main(words);
        }
        Some(word) if word == supervise::JOB_COMMAND => {
            close_in_children();
            keep_running_at_file_size_limit();
            return supervise::job_main();
        }
        Some(word) if word == scripted::COMMAND => return scripted::main(words),
        _ => {}
    }
    if let Err(error) = env::leave_relative_path() {
        output::complain(&format!(
            "error: the program cannot restart without the relative directories in PATH: {error}; remove them"
        ));
        return ExitCode::FAILURE;
    }
    // After the restart, which inherits the connection of a job to the board.
    close_in_children();
    keep_running_at_file_size_limit();
    secrets::install();
    // What is left of a child whose guard was killed is ours to end. Without it, one that has left
    // its group goes on.
    let _ = adopt_orphans();
    match cli::parse(std::env::args_os()) {
        Ok(invocation) => exit::report(commands::run(invocation)),
        Err(error) => exit::report_usage(&error),
    }
}
