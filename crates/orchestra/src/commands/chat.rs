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
    cli::{self, Common, examples},
    config::{BackendKind, ChatFlags, Config, Overrides},
    exit::{Exit, Failure},
    logging, output,
    servers::ServerFlags,
    serving,
    trace::TraceFlags,
};

/// Chat with a model that can call every tool
///
/// In a terminal, starts a conversation; `/help` lists its commands. If stdin is not a terminal, reads queries from
/// it: a JSON object ({"query": …}), a list of such objects, one object per line, or lines of text. Prints one line
/// of JSON for each query, in order. The model can call the built-in tools and the tools of configured MCP servers
/// and plugins. With SCRIPT, --server, --stdio or --url, it can call only the tools of that server.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "chat",
    "chat --model llama3.1 -q 'List the open tasks of my-app'",
    "chat --resume",
    "chat server.js --config config.json",
]))]
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

/// Options of a conversation.
#[derive(Debug, Args)]
struct Talk {
    /// Kind of server that runs the model [default: chat.backend in orchestra.toml, else ollama]
    #[arg(long, value_enum)]
    backend: Option<BackendKind>,
    /// URL of the server that runs the model [default: OLLAMA_HOST or OPENAI_BASE_URL, else chat.host in
    /// orchestra.toml, else `http://127.0.0.1:11434` or `https://api.openai.com/v1`]
    #[arg(long, value_name = "URL")]
    host: Option<String>,
    /// Name of the model [default: chat.model in orchestra.toml, else the first installed model that supports
    /// tools]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// JSON file with the replies to give instead of a model, for --backend scripted
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Name of a configured MCP server. The model can call only the tools of the servers named so; may be repeated
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
    /// Number of seconds to wait until the servers of --server have started [default: start_timeout of each server
    /// if set, else 10]
    #[arg(long, value_name = "SECONDS", requires = "server", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: Option<u64>,
    /// Command that starts an MCP server. The model can call only the tools of this server
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["url", "server"])]
    stdio: Option<String>,
    /// URL of a remote MCP server. The model can call only the tools of this server
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    url: Option<String>,
    /// Additional environment variable for the server that SCRIPT or --stdio starts. Without a value, the variable
    /// is passed on; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Sandbox for the server that SCRIPT or --stdio starts [default: chat.sandbox in orchestra.toml, else none]
    #[arg(long, value_enum)]
    sandbox: Option<script::SandboxChoice>,
    /// Resource limit for the server that SCRIPT or --stdio starts, such as `files=64` or `address_space=1GiB`.
    /// Names are those of `limits` of a configured server; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    limit: Vec<String>,
    #[arg(long, value_name = "TOOLS", conflicts_with = "server", help = cli::tools_help())]
    tools: Option<String>,
    /// File that configures MCP servers. They need no approval, and replace servers of the same name in all other
    /// files. May be repeated
    #[arg(long, value_name = "FILE")]
    mcp_config: Vec<PathBuf>,
    /// File that lists plugins, in the format of plugins.yaml. They need no approval. May be repeated
    #[arg(long, value_name = "FILE")]
    plugins: Vec<PathBuf>,
    /// File with the system prompt that replaces the default one
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,
    /// Maximum number of rounds of tool calls per query, after which the model must answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    max_turns: Option<u32>,
    /// Maximum number of tokens per turn; 0 for no limit
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// Maximum number of seconds per turn; 0 for no limit
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    max_seconds: Option<u64>,
    /// Maximum cost per turn, calculated with chat.price_input and chat.price_output in orchestra.toml; 0 for no
    /// limit
    #[arg(long, value_name = "AMOUNT")]
    max_cost: Option<f64>,
    /// Maximum number of tokens in one request to the model
    #[arg(long, value_name = "TOKENS")]
    context: Option<usize>,
    /// Sampling temperature of the model
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// Random seed for sampling
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Make every tool call without asking
    #[arg(long, short, group = "approval")]
    yes: bool,
    /// Ask before each tool call that may change something [default in a terminal]
    #[arg(long, group = "approval")]
    ask: bool,
    /// Refuse every tool call that may change something [default without a terminal]
    #[arg(long, group = "approval")]
    deny: bool,
    /// Query to answer, with text from stdin appended. The command ends after the answer. May be repeated
    #[arg(long, short, value_name = "TEXT")]
    query: Vec<String>,
    /// Print all events as lines of JSON
    #[arg(long)]
    json: bool,
    /// Maximum number of queries that are answered at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// File in which to store the conversation; if it exists, its conversation is continued
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "no_session"])]
    session: Option<PathBuf>,
    /// Name of a stored conversation to continue; without a name, continues the last one
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    resume: Option<String>,
    /// Do not store the conversation
    #[arg(long, conflicts_with = "resume")]
    no_session: bool,
    /// Project in whose memory to save each question with its answer
    #[arg(long, value_name = "PROJECT")]
    remember: Option<String>,
    /// Print each message to (SENT) and from (RECEIVED) the MCP servers on stderr in full
    #[arg(long)]
    trace: bool,
    /// File in which to record all messages to and from MCP servers, one line of JSON each, with secrets masked
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
    /// Name of a tool argument whose values --trace-file masks, in addition to secrets; may be repeated
    #[arg(long, value_name = "NAME")]
    mask: Vec<String>,
    /// Script to run as an MCP server, and its arguments. It is run with node, python3 or java, depending on its
    /// extension; any other file is run as a program. The model can call only the tools of this server
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
