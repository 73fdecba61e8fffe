//! The program `orchestra`: reads the command line, settles the configuration, runs one command
//! and turns its outcome into an exit code. What a command does stands in `commands/`.

mod access;
mod bundle;
mod cli;
mod commands;
mod config;
mod env;
mod exit;
mod files;
mod http;
mod init;
mod logging;
mod output;
mod serving;
mod workspace;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::parse(std::env::args_os()) {
        Ok(invocation) => exit::report(commands::run(invocation)),
        Err(error) => exit::report_usage(&error),
    }
}
