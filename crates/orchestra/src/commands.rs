//! The commands, one file each.

mod arguments;
pub(crate) mod audit;
pub(crate) mod board;
pub(crate) mod certs;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
mod consent;
pub(crate) mod doctor;
pub(crate) mod engine;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod job;
pub(crate) mod job_board;
pub(crate) mod launched;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod plan;
pub(crate) mod plugin;
pub(crate) mod progress;
pub(crate) mod runner;
pub(crate) mod stdio;
pub(crate) mod sync;
mod table;
pub(crate) mod token;
mod told;
pub(crate) mod tool;
pub(crate) mod top;
pub(crate) mod up;

use crate::{
    cli::{Command, Invocation},
    exit::{Exit, Failure},
};

/// Runs one command to its end.
///
/// # Errors
/// When it cannot do what it was asked.
pub(crate) fn run(invocation: Invocation) -> Result<Exit, Failure> {
    let Invocation { common, command } = invocation;
    job::check(&common, &command)?;
    match command {
        Command::Up(arguments) => up::run(&common, *arguments),
        Command::Stdio(arguments) => stdio::run(&common, arguments),
        Command::Init(arguments) => init::run(&common, arguments),
        Command::Plan(arguments) => plan::run(&common, *arguments),
        Command::Runner(arguments) => runner::run(&common, arguments),
        Command::JobBoard(arguments) => job_board::run(&common, arguments),
        Command::Mcp(arguments) => mcp::run(&common, *arguments),
        Command::Chat(arguments) => chat::run(&common, *arguments),
        Command::Memory(arguments) => memory::run(&common, arguments),
        Command::Top(arguments) => top::run(&common, arguments),
        Command::Tool(arguments) => tool::run(&common, arguments),
        Command::Plugin(arguments) => plugin::run(&common, arguments),
        Command::Orchestrator(arguments) => launched::run(&common, arguments),
        Command::Token(arguments) => token::run(&common, arguments),
        Command::Certs(arguments) => certs::run(&common, arguments),
        Command::Engine(arguments) => engine::run(&common, arguments),
        Command::Hook(arguments) => hook::run(&common, arguments),
        Command::Doctor(arguments) => doctor::run(&common, arguments),
        Command::Board(arguments) => board::run(&common, arguments),
        Command::Sync(arguments) => sync::run(&common, arguments),
        Command::Log(arguments) => log::run(&common, arguments),
        Command::Audit(arguments) => audit::run(&common, arguments),
        Command::Import(arguments) => import::run(&common, arguments),
        Command::Config(arguments) => config::run(&common, arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => man::run(arguments),
    }
}
