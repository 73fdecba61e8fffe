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
    /// Workspace directory [default: ORCHESTRATOR_WORKSPACE, else the nearest directory upwards with .projects
    /// or .git, else the current directory]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) workspace: Option<PathBuf>,
    /// Log filter for stderr, such as `info` or `orchestra_store=debug`
    #[arg(long, value_name = "FILTER", global = true)]
    pub(crate) log: Option<String>,
}

/// Commands that clients start often. Building the description of all commands takes milliseconds.
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

/// Subcommands. The arguments of each hold its help.
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
#[command(about = "Serve the workspace over MCP on stdin and stdout; same as `orchestra stdio`")]
struct EarlierCli {
    /// Workspace directory [default: ORCHESTRATOR_WORKSPACE, else the nearest directory upwards with .projects
    /// or .git, else the current directory]
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
    /// Set up a workspace; same as `orchestra init`
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

/// Help of `--tools`.
pub(crate) fn tools_help() -> String {
    let groups: Vec<&str> = orchestra_tools::group_names().collect();
    format!(
        "Built-in tools to offer: all, lean (the tools for daily work), search (two tools, which find and \
         call the rest), or a comma-separated list of groups: {}. The tools of all upstream MCP servers are \
         offered as well; with server:NAME in the list, only the tools of the named servers are",
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

/// The `Examples:` section of a command's help. The lines do not repeat the name of the program.
pub(crate) fn examples(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| format!("\n  orchestra {line}"));
    std::iter::once("Examples:".to_owned())
        .chain(lines)
        .collect()
}

/// End of the help: exit codes and environment.
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

    /// Words of a command line of a shell, up to a pipe or a redirection.
    fn shell_words(line: &str) -> Vec<OsString> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for c in line.chars() {
            match c {
                c if quote == Some(c) => quote = None,
                '\'' | '"' if quote.is_none() => quote = Some(c),
                ' ' if quote.is_none() => words.push(String::new()),
                c => words.last_mut().expect("there is a first word").push(c),
            }
        }
        let words = words.into_iter();
        let words = words.take_while(|word| !["|", ">", "<"].contains(&word.as_str()));
        words.map(OsString::from).collect()
    }

    #[test]
    fn every_command_has_examples_that_are_parsed() {
        let mut program = description();
        // Options may refer to those of all commands.
        program.build();
        let mut open = vec![program];
        while let Some(command) = open.pop() {
            let below = command.get_subcommands();
            let below = below.filter(|command| command.get_name() != "help");
            open.extend(below.cloned());
            if command.is_subcommand_required_set() || command.is_hide_set() {
                continue;
            }
            let name = command.get_name().to_owned();
            let help = command.term_width(0).render_long_help().to_string();
            let (_, examples) = help.split_once("Examples:").unwrap_or_default();
            let examples = examples.lines().map(str::trim);
            let examples: Vec<&str> = examples
                .filter(|line| line.starts_with("orchestra "))
                .collect();
            assert!(!examples.is_empty(), "{name}: {help}");
            for example in examples {
                let parsed = Cli::try_parse_from(shell_words(example));
                assert!(example.contains(&name), "{name}: {example}");
                assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
            }
        }
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
