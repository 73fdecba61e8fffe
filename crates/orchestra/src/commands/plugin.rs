//! `orchestra plugin`: plugins are made, looked at, and run by hand.
//!
//! A plugin is a server of others whose transport is the plugin protocol. What is done with servers
//! (finding, approving, reaching, logs, restarts) is done with plugins by the same code.

mod inspect;
mod list;
mod manifest;
mod new;
mod run;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use orchestra_gateway::{
    config::{File, FileKind, PluginConfig, ServerConfig, Source, Transport, Trust},
    discovery::Server,
};

use super::mcp::{self, Here};
use crate::{
    cli::{Common, examples},
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging, output,
    servers::{FileFlags, ServerFlags},
};

/// Create, inspect and run plugins
///
/// A plugin is a program that offers tools over QUIC, with a certificate of its own. It is configured below
/// [plugins."ID"] in orchestra.toml, or in a plugins.yaml. The commands of `orchestra mcp` for servers
/// (approve, enable, test, call and more) apply to plugins as well.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    files: FileFlags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::Arguments),
    List(list::Arguments),
    Run(run::Arguments),
    /// Print what a plugin wrote to standard error
    ///
    /// Includes what the plugin wrote in every Orchestra process that started it in this workspace.
    #[command(after_help = examples(&["plugin logs tools.hello --follow"]))]
    Logs(mcp::LogArguments),
    /// Restart plugins in all Orchestra processes of this workspace
    #[command(after_help = examples(&["plugin restart tools.hello"]))]
    Restart(mcp::RestartArguments),
    Inspect(inspect::Arguments),
}

/// Runs one of the commands.
///
/// # Errors
/// When it cannot do what it was asked.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let flags = ServerFlags::from(arguments.files);
    flags.check()?;
    let overrides = Overrides {
        servers: flags.clone(),
        ..Overrides::default()
    };
    let config = Config::settle(common, overrides)?;
    logging::start(logging::of_a_report(&config.log))?;
    let here = Here::of(&config, &flags)?;
    match arguments.command {
        Command::New(arguments) => new::run(&here, &arguments),
        Command::List(arguments) => list::run(&here, &config, &arguments),
        Command::Run(arguments) => run::run(&here, arguments),
        Command::Logs(arguments) => {
            ensure_plugin(&here, &config, arguments.name())?;
            mcp::logs(&here, &config, &arguments)
        }
        Command::Restart(arguments) => {
            for name in arguments.names() {
                ensure_plugin(&here, &config, name)?;
            }
            mcp::restart(&here, &config, &arguments)
        }
        Command::Inspect(arguments) => inspect::run(&here, arguments),
    }
}

/// The plugin that a server is, if it is one.
fn plugin_of(server: &Server) -> Option<&PluginConfig> {
    match &server.config()?.transport {
        Transport::Plugin(plugin) => Some(plugin),
        _ => None,
    }
}

/// Whether a server is a plugin, also one whose configuration is wrong.
fn is_plugin(server: &Server) -> bool {
    match server.config() {
        Some(_) => plugin_of(server).is_some(),
        // What stands in a list of plugins is none other.
        None => FileKind::of_name(&server.origin.file) == FileKind::Plugins,
    }
}

/// A plugin by its id or name.
fn named<'a>(here: &'a Here, name: &str) -> Result<&'a Server, Failure> {
    let server = here.found().server(name).ok_or_else(|| {
        match name.contains(std::path::MAIN_SEPARATOR) {
            true => Failure::usage_text(output::printable(&format!("no such file: {name}"))),
            false => no_plugin(here, name),
        }
    })?;
    match server.config().is_none() || is_plugin(server) {
        true => Ok(server),
        false => Err(Failure::usage_text(output::printable(&format!(
            "{name} is a server, not a plugin; `orchestra mcp` has the same commands for servers"
        )))),
    }
}

/// Refuses what is a server and no plugin. What is not known here may still be known to a program
/// that runs.
fn ensure_plugin(here: &Here, config: &Config, name: &str) -> Result<(), Failure> {
    match here.found().server(name) {
        Some(_) => named(here, name).map(drop),
        None if mcp::is_running(config, name) => Ok(()),
        None => Err(no_plugin(here, name)),
    }
}

fn no_plugin(here: &Here, name: &str) -> Failure {
    let plugins = here
        .found()
        .servers
        .iter()
        .filter(|server| is_plugin(server));
    let ids: Vec<&str> = plugins.map(|server| server.shown_name.as_str()).collect();
    let there = match ids.is_empty() {
        true => "there are none, `orchestra plugin new` makes one, and --plugins FILE names a list"
            .to_owned(),
        false => format!("there are {}", ids.join(", ")),
    };
    Failure::usage_text(output::printable(&format!("no plugin `{name}`: {there}")))
}

/// A plugin that is configured nowhere: a program, by its path.
///
/// # Errors
/// When the path is no text, or the id is none.
fn by_hand(id: &str, binary: &Path, args: &[String]) -> Result<ServerConfig, Failure> {
    let binary = std::path::absolute(binary)?;
    let Some(binary) = binary.to_str() else {
        return Err(Failure::usage_text(
            "the path of the program is not UTF-8 text",
        ));
    };
    let literal = |text: &str| toml::Value::from(text.replace('$', "$$"));
    let args: Vec<toml::Value> = args.iter().map(|arg| literal(arg)).collect();
    let text = format!(
        "[plugins.{}]\nbinary = {}\nargs = {}\n",
        toml::Value::from(id),
        literal(binary),
        toml::Value::from(args)
    );
    let file = File {
        path: Path::new(crate::config::FILE).into(),
        source: Source::CommandLine,
        trust: Trust::Trusted,
        directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
        kind: FileKind::Servers,
        owners: None,
    };
    let read = file.understand(&text).servers.into_iter().next();
    match read.map(|written| written.config) {
        Some(Ok(config)) => Ok(*config),
        Some(Err(why)) => Err(Failure::usage_text(why)),
        None => Err(Failure::usage_text(format!("{id:?} is not a plugin id"))),
    }
}
