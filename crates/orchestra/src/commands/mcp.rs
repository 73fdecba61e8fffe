//! `orchestra mcp`: servers of others: which there are, who approved them, and what they offer.

mod add;
mod bridge;
mod call;
mod check;
mod decide;
mod done;
mod edit;
mod export;
mod import;
mod list;
pub(in crate::commands) mod live;
mod login;
mod logs;
mod offers;
mod pending;
mod remove;
mod replay;
mod running;
mod shown;
mod tap;
mod validate;
pub(crate) mod words;

pub(super) use call::Unused;
pub(crate) use decide::switch_all;
pub(in crate::commands) use decide::{Restart as RestartArguments, restart};
pub(crate) use logs::Log;
pub(in crate::commands) use logs::{Arguments as LogArguments, run as logs};
pub(crate) use pending::Pending;
pub(in crate::commands) use running::{ASKS_TOKEN, Now, reach};
pub(crate) use shown::masked;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use orchestra_gateway::{
    approval::{DecisionFile, Decisions, DecisionsError},
    config::ServerName,
    connect::Connectors,
    discovery::{Found, Places, Server},
};

use orchestra_hub::ListKind;

use crate::{
    cli::{Common, examples},
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging, output, servers,
};

/// Manage upstream MCP servers
///
/// Servers are read from --mcp-config, ORCHESTRA_MCP_PATH, then orchestra.toml, .orchestra/mcp/*.json,
/// .mcp.json, mcp.json, .vscode/mcp.json and .cursor/mcp.json of the workspace, then orchestra.toml and
/// mcp.json of the user, and then /etc/orchestra/mcp.json and /etc/orchestra/mcp/*.json. If several files
/// define a server of the same name, the first definition applies. Servers of a workspace must be approved
/// once.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    files: servers::FileFlags,
    #[command(subcommand)]
    command: Command,
}

/// Subcommands. The arguments of each hold its help.
#[derive(Debug, Subcommand)]
enum Command {
    List(list::Arguments),
    Test(check::Arguments),
    /// List the tools of configured MCP servers
    #[command(after_help = examples(&["mcp tools", "mcp tools docs --verbose"]))]
    Tools(offers::Arguments),
    /// List the resources and resource templates of configured MCP servers
    #[command(after_help = examples(&["mcp resources", "mcp resources docs --json"]))]
    Resources(offers::Arguments),
    /// List the prompts of configured MCP servers
    #[command(after_help = examples(&["mcp prompts", "mcp prompts docs"]))]
    Prompts(offers::Arguments),
    Call(call::Arguments),
    Logs(logs::Arguments),
    Login(login::Login),
    Logout(login::Logout),
    Approve(decide::Approve),
    Enable(decide::Enable),
    Disable(decide::Disable),
    Restart(decide::Restart),
    Add(add::Arguments),
    Remove(remove::Arguments),
    Validate(validate::Arguments),
    Import(import::Arguments),
    Export(export::Arguments),
    Replay(replay::Arguments),
    Tap(tap::Arguments),
}

/// What is said of a server that a running program has of a file that cannot be read now.
const KEPT: &str =
    "its file cannot be read now; the running program continues with the previous content";

/// What is said of a server that a running program has of another file.
pub(in crate::commands) const ELSEWHERE: &str = "`orchestra up` runs it from a file that is not looked at here: name that with --plugins or \
     --mcp-config";

/// What a command has to do with.
pub(crate) struct Here {
    places: Places,
    file: DecisionFile,
    found: Found,
    /// The directory of certificates, or why nobody knows it.
    certs: Result<PathBuf, String>,
}

/// Runs one of the commands.
///
/// # Errors
/// When it cannot do what it was asked.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    // Needs no configuration, and writes nothing of its own to where a server writes.
    let command = match arguments.command {
        Command::Replay(arguments) if arguments.server.is_none() => {
            return replay::run(None, &arguments);
        }
        Command::Tap(arguments) if arguments.server.is_none() => return tap::run(None, arguments),
        command => command,
    };
    let flags = servers::ServerFlags::from(arguments.files);
    flags.check()?;
    let overrides = Overrides {
        servers: flags.clone(),
        ..Overrides::default()
    };
    let config = Config::settle(common, overrides)?;
    logging::start(match command {
        // Says nothing by itself while it stands between two others.
        Command::Tap(_) => &config.log.value,
        _ => logging::of_a_report(&config.log),
    })?;
    let here = Here::of(&config, &flags)?;
    match command {
        Command::Replay(arguments) => replay::run(Some(&here), &arguments),
        Command::Tap(arguments) => tap::run(Some(&here), arguments),
        Command::List(arguments) => list::run(&here, &config, &arguments),
        Command::Test(arguments) => check::run(&here, &arguments),
        Command::Tools(arguments) => offers::run(&here, ListKind::Tools, arguments),
        Command::Resources(arguments) => offers::run(&here, ListKind::Resources, arguments),
        Command::Prompts(arguments) => offers::run(&here, ListKind::Prompts, arguments),
        Command::Call(arguments) => call::run(&here, &config, arguments),
        Command::Login(arguments) => login::login(&here, &arguments),
        Command::Logout(arguments) => login::logout(&here, &arguments),
        Command::Logs(arguments) => logs::run(&here, &config, &arguments),
        Command::Approve(arguments) => decide::approve(&here, &config, &arguments),
        Command::Enable(arguments) => decide::enable(&here, &config, &arguments),
        Command::Disable(arguments) => decide::disable(&here, &config, &arguments),
        Command::Restart(arguments) => decide::restart(&here, &config, &arguments),
        Command::Add(arguments) => add::run(&here, arguments),
        Command::Remove(arguments) => remove::run(&here, &arguments),
        Command::Validate(arguments) => validate::run(&here, &arguments),
        Command::Import(arguments) => import::run(&here, &arguments),
        Command::Export(arguments) => export::run(&here, &arguments),
    }
}

impl Here {
    /// Looks for the servers of a workspace, and in the files that a command line names.
    pub(crate) fn of(config: &Config, flags: &servers::ServerFlags) -> Result<Self, Failure> {
        Self::look(servers::places(config, flags), config.quic.directory())
    }

    /// Looks again.
    pub(crate) fn again(&self) -> Result<Self, Failure> {
        Self::look(self.places.clone(), self.certs.clone())
    }

    /// Where was looked.
    pub(crate) const fn places(&self) -> &Places {
        &self.places
    }

    /// What was found.
    pub(crate) const fn found(&self) -> &Found {
        &self.found
    }

    /// How servers are reached.
    pub(in crate::commands) fn connectors(&self) -> Result<Connectors, Failure> {
        live::connectors(self)
    }

    /// The directory of certificates, or why nobody knows it.
    pub(in crate::commands) fn certs(&self) -> Result<&Path, &str> {
        self.certs.as_deref().map_err(String::as_str)
    }

    /// Looks for servers.
    fn look(places: Places, certs: Result<PathBuf, String>) -> Result<Self, Failure> {
        let file = servers::decisions()?;
        let decisions = file.read().map_err(unreadable)?;
        let scope = servers::scope(&places.workspace);
        let found = places.find(&scope, &decisions);
        Ok(Self {
            places,
            file,
            found,
            certs,
        })
    }

    /// A server by its name.
    ///
    /// # Errors
    /// When there is none: with those that there are, first the one that may have been meant.
    pub(crate) fn server(&self, name: &str) -> Result<&Server, Failure> {
        let server = self.found.server(name);
        server.ok_or_else(|| no_server(&self.found, name))
    }

    /// The name of a server: of one that is there, or that a running program has of a file that
    /// cannot be read now, or that nobody named here.
    ///
    /// # Errors
    /// When there is none, as [`server`](Self::server).
    fn known(&self, config: &Config, name: &str) -> Result<ServerName, Failure> {
        let failure = match self.server(name) {
            Ok(server) => return Ok(server.name.clone()),
            Err(failure) => failure,
        };
        let running = running::ask(config).unwrap_or_default();
        let server = ServerName::of_text(name);
        if !running.contains_key(server.as_str()) {
            return Err(failure);
        }
        let why = match self.found.broken().next() {
            Some(_) => KEPT,
            None => ELSEWHERE,
        };
        output::complain(&output::printable(&format!("{name}: {why}")));
        Ok(server)
    }

    /// Keeps a decision.
    pub(crate) fn decide<T>(&self, change: impl FnOnce(&mut Decisions) -> T) -> Result<T, Failure> {
        self.file.change(change).map_err(unreadable)
    }

    /// Says on stderr what is wrong with the files.
    pub(in crate::commands) fn complain(&self) {
        for diagnostic in &self.found.diagnostics {
            output::complain(&output::printable(&diagnostic.to_string()));
        }
    }
}

/// Whether a program runs a server in the workspace, whether it is found here or not.
pub(super) fn is_running(config: &Config, name: &str) -> bool {
    let running = running::ask(config).unwrap_or_default();
    running.contains_key(ServerName::of_text(name).as_str())
}

/// There is no server of a name: those that there are, first the one that may have been meant.
pub(crate) fn no_server(found: &Found, name: &str) -> Failure {
    /// As many as a person reads; `orchestra mcp list` has all.
    const MAX_NAMED: usize = 20;
    let all = found.servers.iter();
    let names: Vec<&str> = all.map(|server| server.name.as_str()).collect();
    let meant = found.nearest(name);
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?"));
    let there = match names.split_at_checked(MAX_NAMED) {
        _ if names.is_empty() => "there are none, `orchestra mcp add` adds one".to_owned(),
        Some((first, rest)) if !rest.is_empty() => format!(
            "there are {} and {} more, `orchestra mcp list` lists them",
            first.join(", "),
            rest.len()
        ),
        _ => format!("there are {}", names.join(", ")),
    };
    let meant = meant.unwrap_or_else(|| ":".to_owned());
    let mut text = format!("no server `{name}`{meant} {there}");
    for path in found.broken() {
        text.push_str(&format!("; {} cannot be read now", path.display()));
    }
    Failure::usage_text(output::printable(&text))
}

/// What was decided cannot be read or kept.
pub(crate) fn unreadable(error: DecisionsError) -> Failure {
    match error {
        DecisionsError::Foreign { .. } => Failure::Refused(error.into()),
        DecisionsError::File(_) => Failure::Failed(error.into()),
    }
}
