//! `orchestra chat`: a model, and a person or a program, with every tool of the hub.

mod batch;
mod branch;
mod events;
mod export;
mod files;
mod model;
mod plain;
mod queries;
mod remember;
mod replay;
mod room;
mod script;
mod sessions;
mod talk;
mod tally;
mod terminal;

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, Subcommand};
use orchestra_chat::Approval;

use crate::{
    cli::{self, Common},
    config::{BackendKind, ChatFlags, Config, Overrides},
    exit::{Exit, Failure},
    logging, output,
    servers::ServerFlags,
    serving,
    trace::TraceFlags,
};

/// Talk to a model that has every tool of the hub
///
/// In a terminal it is a conversation; `/help` lists its commands. Where standard input is no terminal,
/// that is read as queries: JSON ({"query": …}), a list of it, lines of it, or lines of text; one line
/// of JSON is printed for each, in order. The built-in tools are there, and those of the configured
/// servers and plugins; with a script, --stdio or --url those of that server alone:
///
///   orchestra chat server.js --config config.json
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_precedence_over_arg = true
)]
#[command(
    override_usage = "orchestra chat [OPTIONS] [SCRIPT [ARGS]...]\n       orchestra chat <COMMAND>"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    talk: Talk,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sessions(sessions::Arguments),
    Replay(replay::Arguments),
    Export(export::Arguments),
    Branch(branch::Arguments),
}

/// How a conversation is held.
#[derive(Debug, Args)]
struct Talk {
    /// Which kind of server has the model [default: chat.backend of orchestra.toml, else ollama]
    #[arg(long, value_enum)]
    backend: Option<BackendKind>,
    /// Where it is [default: OLLAMA_HOST or OPENAI_BASE_URL, else chat.host, else `http://127.0.0.1:11434`
    /// or `https://api.openai.com/v1`]
    #[arg(long, value_name = "URL")]
    host: Option<String>,
    /// The model [default: chat.model, else the first that is installed and takes tools]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What the model says, with --backend scripted: a file of JSON
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Tools of this configured server alone; may be given again
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
    /// Seconds to wait for the servers of --server [default: their start_timeout where it is set, else 10]
    #[arg(long, value_name = "SECONDS", requires = "server", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: Option<u64>,
    /// Tools of a server alone that this command starts
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["url", "server"])]
    stdio: Option<String>,
    /// Tools of the server at this address alone
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    url: Option<String>,
    /// A variable that the script or --stdio has beside the usual ones; may be given again
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// What the script or --stdio may reach [default: chat.sandbox of orchestra.toml, else none]
    #[arg(long, value_enum)]
    sandbox: Option<script::SandboxChoice>,
    /// A limit of the script or --stdio, as limits of configured servers: `files=64`, `address_space=1GiB`;
    /// may be given again
    #[arg(long, value_name = "NAME=VALUE")]
    limit: Vec<String>,
    #[arg(long, value_name = "TOOLS", conflicts_with = "server", help = cli::tools_help())]
    tools: Option<String>,
    /// A file of MCP servers, trusted as it is and stronger than all others; may be given again
    #[arg(long, value_name = "FILE")]
    mcp_config: Vec<PathBuf>,
    /// A list of plugins, as a plugins.yaml is one, trusted as it is; may be given again
    #[arg(long, value_name = "FILE")]
    plugins: Vec<PathBuf>,
    /// What the model is told first, in place of the usual
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,
    /// How often tools may be called before the model has to answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    max_turns: Option<u32>,
    /// How many tokens a turn may use up; 0 for any number
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// How long a turn may take; 0 for any time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    max_seconds: Option<u64>,
    /// What a turn may cost, by chat.price_input and chat.price_output; 0 for anything
    #[arg(long, value_name = "AMOUNT")]
    max_cost: Option<f64>,
    /// How many tokens the model is given at once at most
    #[arg(long, value_name = "TOKENS")]
    context: Option<usize>,
    /// How much chance there is in what the model says
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// The number that its chance begins with
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Agree to every call
    #[arg(long, short, group = "approval")]
    yes: bool,
    /// Be asked about each call that may change something [default in a terminal]
    #[arg(long, group = "approval")]
    ask: bool,
    /// Refuse every call that may change something [default elsewhere]
    #[arg(long, group = "approval")]
    deny: bool,
    /// Ask this, print the answer, and end; what standard input holds is put below it. May be given again
    #[arg(long, short, value_name = "TEXT")]
    query: Vec<String>,
    /// Print everything that happens, as lines of JSON
    #[arg(long)]
    json: bool,
    /// How many queries are worked on at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Keep the conversation in this file, and go on with it where it is there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "no_session"])]
    session: Option<PathBuf>,
    /// Go on with a conversation: the last one, or that of this name
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    resume: Option<String>,
    /// Keep the conversation nowhere
    #[arg(long, conflicts_with = "resume")]
    no_session: bool,
    /// Save each question with its answer as a memory of this project
    #[arg(long, value_name = "PROJECT")]
    remember: Option<String>,
    /// Show each message of the servers on stderr, whole: SENT and RECEIVED
    #[arg(long)]
    trace: bool,
    /// Record whole messages of servers here, a line of JSON each, secrets masked
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
    /// Mask in recordings what arguments of this name hold; may be given again
    #[arg(long, value_name = "NAME")]
    mask: Vec<String>,
    /// A script that is a server, and its arguments: by its extension node, python3 or java runs it,
    /// else it is a program
    #[arg(
        value_name = "SCRIPT [ARGS]",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

/// Holds a conversation, or does something with one that was kept.
///
/// # Errors
/// When it cannot do what it was asked.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Some(Command::Sessions(arguments)) => sessions::run(common, &arguments),
        Some(Command::Replay(arguments)) => replay::run(common, &arguments),
        Some(Command::Export(arguments)) => export::run(common, &arguments),
        Some(Command::Branch(arguments)) => branch::run(common, &arguments),
        None => talk(common, arguments.talk),
    }
}

/// Where what is asked comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A person at a terminal.
    Terminal,
    /// The command line.
    Asked,
    /// Standard input.
    Batch,
}

fn talk(common: &Common, arguments: Talk) -> Result<Exit, Failure> {
    let alone = script::named(&arguments)?;
    let is_terminal =
        io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    let mode = match (arguments.query.is_empty(), is_terminal && !arguments.json) {
        (false, _) => Mode::Asked,
        (true, true) => Mode::Terminal,
        (true, false) => Mode::Batch,
    };
    let approval = match (arguments.yes, arguments.ask, arguments.deny, mode) {
        (true, ..) => Approval::Yes,
        (_, true, _, Mode::Terminal) => Approval::Ask,
        (_, true, ..) => {
            return Err(Failure::usage_text(
                "--ask asks in a conversation at a terminal; with --query or in a pipe --yes agrees to every call, --deny to none",
            ));
        }
        (_, _, false, Mode::Terminal) => Approval::Ask,
        _ => Approval::Deny,
    };
    let config = configured(common, &arguments, alone.is_some(), mode)?;
    // What is wrong with servers is said here.
    logging::start(logging::of_a_report(&config.log))?;
    config.chat.overreach().for_each(output::complain);
    let bound = |server| script::bounded(server, &arguments, &config.chat);
    let alone = alone.map(bound).transpose()?;
    let runtime = serving::runtime()?;
    let ended = runtime.block_on(held(&config, arguments, alone, mode, approval));
    // A thread that reads from a terminal may still be blocked there.
    runtime.shutdown_background();
    ended
}

/// The configuration with what the command line says.
fn configured(
    common: &Common,
    arguments: &Talk,
    is_alone: bool,
    mode: Mode,
) -> Result<Config, Failure> {
    let trace = TraceFlags::of(
        arguments.trace,
        arguments.trace_file.clone(),
        arguments.mask.clone(),
    );
    let trace = match mode {
        Mode::Terminal => trace.switched(),
        Mode::Asked | Mode::Batch => trace,
    };
    let servers = ServerFlags {
        mcp_config: arguments.mcp_config.clone(),
        plugins: arguments.plugins.clone(),
        trace: trace.whole(!is_alone),
        ..ServerFlags::default()
    };
    servers.check()?;
    let named: Vec<String> = arguments
        .server
        .iter()
        .map(|name| format!("server:{name}"))
        .collect();
    let tools = match named.is_empty() {
        true => arguments.tools.clone(),
        false => Some(named.join(",")),
    };
    let overrides = Overrides {
        tools,
        servers,
        chat: ChatFlags {
            backend: arguments.backend,
            host: arguments.host.clone(),
            model: arguments.model.clone(),
            sandbox: arguments
                .sandbox
                .map(|choice| choice == script::SandboxChoice::Workspace),
        },
        ..Overrides::default()
    };
    Config::settle(common, overrides)
}

async fn held(
    config: &Config,
    arguments: Talk,
    alone: Option<orchestra_gateway::config::ServerConfig>,
    mode: Mode,
    approval: Approval,
) -> Result<Exit, Failure> {
    let keep = files::Keep::of(config, &arguments, mode == Mode::Terminal)?;
    let source = model::Source::of(config, &arguments)?.going_on(keep.model());
    let manner = talk::Manner::of(config, &arguments, approval)?;
    let named = room::Named {
        servers: arguments.server.clone(),
        wait: arguments.wait.map(Duration::from_secs),
    };
    let room = room::Room::open(config, alone, named)?;
    let ended = async {
        remember::check(&room, manner.remember.as_deref()).await?;
        match mode {
            Mode::Terminal => terminal::run(&room, source, manner, keep).await,
            Mode::Asked => batch::asked(&room, source, manner, keep, &arguments).await,
            Mode::Batch => batch::run(&room, source, manner, keep, &arguments).await,
        }
    };
    let ended = ended.await;
    room.close().await;
    ended
}
