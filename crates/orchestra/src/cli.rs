//! The command line: what it looks like, under both names of the program.

mod launchers;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::{commands, env::Variable, exit};

/// The earlier program's name; called so, the program is `stdio` or `init`.
const EARLIER_NAME: &str = "orchestra-mcp";

/// A board for coding agents and people, served over the Model Context Protocol.
#[derive(Debug, Parser)]
#[command(
    name = "orchestra",
    version,
    max_term_width = 100,
    subcommand_required = true
)]
#[command(arg_required_else_help = true, after_help = after_help(), infer_subcommands = false)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every command.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Common {
    /// Directory of the workspace [default: ORCHESTRATOR_WORKSPACE, else the nearest one upwards with
    /// .projects or .git, else the current one]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) workspace: Option<PathBuf>,
    /// What to log to stderr, for instance `info` or `orchestra_store=debug`
    #[arg(long, value_name = "FILTER", global = true)]
    pub(crate) log: Option<String>,
}

/// Commands that clients start often, without the description of the others, which takes
/// milliseconds to build.
#[derive(Debug, Parser)]
#[command(
    name = "orchestra",
    disable_help_flag = true,
    disable_help_subcommand = true
)]
struct QuickCli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: QuickCommand,
}

#[derive(Debug, Subcommand)]
enum QuickCommand {
    Stdio(commands::stdio::Arguments),
    Hook(commands::hook::Arguments),
}

/// What to do. The help of each stands at its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(Box<commands::up::Arguments>),
    Stdio(commands::stdio::Arguments),
    Init(commands::init::Arguments),
    Top(commands::top::Arguments),
    Tool(commands::tool::Arguments),
    Memory(commands::memory::Arguments),
    Plan(Box<commands::plan::Arguments>),
    Mcp(Box<commands::mcp::Arguments>),
    Chat(Box<commands::chat::Arguments>),
    Plugin(commands::plugin::Arguments),
    Token(commands::token::Arguments),
    Certs(commands::certs::Arguments),
    #[command(hide = true)]
    Orchestrator(commands::launched::Arguments),
    #[command(hide = true, name = commands::runner::NAME)]
    Runner(commands::runner::Arguments),
    #[command(hide = true, name = commands::job_board::NAME)]
    JobBoard(commands::job_board::Arguments),
    Engine(commands::engine::Arguments),
    Hook(commands::hook::Arguments),
    Doctor(commands::doctor::Arguments),
    Board(commands::board::Arguments),
    Sync(commands::sync::Arguments),
    Log(commands::log::Arguments),
    Audit(commands::audit::Arguments),
    Import(commands::import::Arguments),
    Config(commands::config::Arguments),
    Completions(commands::completions::Arguments),
    Man(commands::man::Arguments),
}

/// The earlier program's command line.
#[derive(Debug, Parser)]
#[command(name = EARLIER_NAME, version, disable_version_flag = true)]
#[command(
    about = "Serves the workspace over MCP on stdin and stdout; the same as `orchestra stdio`"
)]
struct EarlierCli {
    /// Directory of the workspace [default: ORCHESTRATOR_WORKSPACE, else the nearest one upwards with
    /// .projects or .git, else the current one]
    #[arg(long, value_name = "DIR", global = true)]
    workspace: Option<PathBuf>,
    /// Print version
    #[arg(short = 'v', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    #[command(subcommand)]
    command: Option<EarlierCommand>,
}

#[derive(Debug, Subcommand)]
enum EarlierCommand {
    /// Set a workspace up; the same as `orchestra init`
    Init,
}

/// A command line that was understood.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// Flags of every command.
    pub(crate) common: Common,
    /// What to do.
    pub(crate) command: Command,
}

/// Understands a command line, whose first word is the name the program was called by.
///
/// # Errors
/// When it cannot be understood, or asks for help or the version.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let name = words.first().map(Path::new).and_then(Path::file_stem);
    // It is started by this program, whatever that is called.
    let is_own = words
        .get(1)
        .is_some_and(|word| word == commands::runner::NAME || word == commands::job_board::NAME);
    let name = name.filter(|_| !is_own);
    if name == Some(OsStr::new(EARLIER_NAME)) {
        return EarlierCli::try_parse_from(words).map(EarlierCli::into_invocation);
    }
    if let Some(launched) = launchers::parse(name, &words) {
        return launched;
    }
    // A command line that it refuses is another command, a request for help, or an error, which the
    // whole description reports.
    if let Ok(quick) = QuickCli::try_parse_from(&words) {
        return Ok(quick.into_invocation());
    }
    let cli = Cli::try_parse_from(words)?;
    Ok(Invocation {
        common: cli.common,
        command: cli.command,
    })
}

/// The command line's description, for completions and the manual.
pub(crate) fn description() -> clap::Command {
    Cli::command()
}

/// What `--help` prints of the command that some words lead to.
pub(crate) fn help(words: &[&str]) -> String {
    let mut program = Cli::command();
    program.build();
    let found = words.iter().try_fold(&mut program, |command, word| {
        command.find_subcommand_mut(word)
    });
    found.map_or_else(String::new, |command| {
        command.render_long_help().to_string()
    })
}

/// The help of `--tools`.
pub(crate) fn tools_help() -> String {
    let groups: Vec<&str> = orchestra_tools::group_names().collect();
    format!(
        "Which built-in tools are seen: all, lean, search, or groups separated by commas, of {}. \
         Those of servers of others are seen beside them; server:NAME among the groups leaves only \
         the servers so named",
        groups.join(", ")
    )
}

impl QuickCli {
    fn into_invocation(self) -> Invocation {
        let command = match self.command {
            QuickCommand::Stdio(arguments) => Command::Stdio(arguments),
            QuickCommand::Hook(arguments) => Command::Hook(arguments),
        };
        Invocation {
            common: self.common,
            command,
        }
    }
}

impl EarlierCli {
    fn into_invocation(self) -> Invocation {
        let command = match self.command {
            None => Command::Stdio(commands::stdio::Arguments::default()),
            Some(EarlierCommand::Init) => Command::Init(commands::init::Arguments::default()),
        };
        let common = Common {
            workspace: self.workspace,
            log: None,
        };
        Invocation { common, command }
    }
}

/// The end of the help: exit codes and environment.
fn after_help() -> String {
    let mut text = exit::table();
    text.push_str("\nEnvironment:\n");
    for variable in Variable::ALL {
        text.push_str(&format!(
            "  {:<23}{}\n",
            variable.name(),
            variable.meaning()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Invocation, clap::Error> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_description_is_sound() {
        Cli::command().debug_assert();
        EarlierCli::command().debug_assert();
        QuickCli::command().debug_assert();
    }

    #[test]
    fn frequent_commands_are_parsed_without_the_other_commands() {
        for line in [
            "orchestra stdio",
            "orchestra --workspace /w stdio --tools lean --format toon",
            "orchestra hook --log info",
        ] {
            let words = line.split_whitespace().map(OsString::from);
            let quick = QuickCli::try_parse_from(words).unwrap().into_invocation();
            let whole = Cli::try_parse_from(line.split_whitespace()).unwrap();
            assert_eq!(
                format!("{:?} {:?}", quick.common, quick.command),
                format!("{:?} {:?}", whole.common, whole.command),
            );
        }
        for line in ["orchestra stdio --help", "orchestra up", "orchestra"] {
            assert!(
                QuickCli::try_parse_from(line.split_whitespace()).is_err(),
                "{line}"
            );
        }
    }

    #[test]
    fn the_earlier_name_serves_or_initialises() {
        for name in [
            "orchestra-mcp",
            "/usr/bin/orchestra-mcp",
            "orchestra-mcp.exe",
        ] {
            let serve = parsed(&format!("{name} --workspace /w")).unwrap();
            assert!(matches!(serve.command, Command::Stdio(_)), "{name}");
            assert_eq!(serve.common.workspace.as_deref(), Some(Path::new("/w")));
            let init = parsed(&format!("{name} init --workspace /w")).unwrap();
            assert!(matches!(init.command, Command::Init(_)), "{name}");
            assert_eq!(init.common.workspace.as_deref(), Some(Path::new("/w")));
        }
        let version = parsed("orchestra-mcp -v").unwrap_err();
        assert_eq!(version.kind(), clap::error::ErrorKind::DisplayVersion);
    }

    #[test]
    fn unknown_arguments_are_errors() {
        for line in [
            "orchestra-mcp --wrokspace /w",
            "orchestra-mcp serve",
            "orchestra stdio --nope",
            "orchestra sdtio",
            "orchestra init a b",
            "orchestra",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
