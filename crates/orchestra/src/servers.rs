//! Where servers of others are looked for, and what they may refer to, for every command alike.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use orchestra_fs::{Directory, Lock};
use orchestra_gateway::{
    approval::DecisionFile,
    config::{
        DEFAULT_START_TIMEOUT, File as ServerFile, FileKind, PluginsFile, ServerConfig, Severity,
        Source, Trust,
    },
    discovery::Places,
    expand::Scope,
};
use orchestra_place::{Choice, IN_GIT, Place};
use sha2::{Digest as _, Sha256};

use crate::hex::hex;
use crate::{
    config::{Config, user_directory},
    env::Variable,
    exit::Failure,
    output,
    trace::TraceFlags,
    workspace,
};

/// How long a command waits for a server that it was given by name.
pub(crate) const WAIT: Duration = Duration::from_secs(10);

/// How long a command waits for a server: as it was told, or as the server's `start_timeout` says where
/// that is set.
pub(crate) fn wait_for(config: &ServerConfig, asked: Option<Duration>) -> Duration {
    let configured = Some(config.start_timeout).filter(|time| *time != DEFAULT_START_TIMEOUT);
    asked.or(configured).unwrap_or(WAIT)
}

/// Selection of upstream MCP servers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServerFlags {
    /// File that configures MCP servers. They need no approval, and replace servers of the same name in all other
    /// files. May be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// File that lists plugins, in the format of plugins.yaml. They need no approval. May be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) plugins: Vec<PathBuf>,
    /// Offer only the tools of upstream MCP servers, without the built-in tools
    #[arg(long)]
    pub(crate) only_servers: bool,
    #[command(flatten)]
    pub(crate) trace: TraceFlags,
    /// Read no files except those given here.
    #[arg(skip)]
    pub(crate) only_named: bool,
}

/// Files of servers and plugins, for commands with subcommands.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FileFlags {
    /// File that configures MCP servers. They need no approval, and replace servers of the same name in all other
    /// files. May be repeated
    #[arg(long, value_name = "FILE", global = true)]
    mcp_config: Vec<PathBuf>,
    /// File that lists plugins, in the format of plugins.yaml. They need no approval. May be repeated
    #[arg(long, value_name = "FILE", global = true)]
    plugins: Vec<PathBuf>,
}

impl From<FileFlags> for ServerFlags {
    fn from(files: FileFlags) -> Self {
        Self {
            mcp_config: files.mcp_config,
            plugins: files.plugins,
            ..Self::default()
        }
    }
}

impl ServerFlags {
    /// Refuses files that are not there: whoever names one means it.
    ///
    /// # Errors
    /// Which is not there, or is no list of plugins.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Some(path) = self.mcp_config.iter().find(|path| !path.is_file()) {
            return Err(Failure::usage_text(format!(
                "--mcp-config {}: there is no such file",
                path.display()
            )));
        }
        self.lists().map(drop)
    }

    /// What the named lists of plugins say beside their plugins, strongest first.
    ///
    /// # Errors
    /// Which of them is not there, or is none. Launchers rely on it that this is not a wrong command
    /// line but something that broke.
    pub(crate) fn lists(&self) -> Result<Vec<PluginsFile>, Failure> {
        let lists = self.plugins.iter().map(|path| {
            let broken = |why: &str| {
                let path = path.display();
                let text = format!("the list of plugins {path}: {why}");
                Failure::Failed(anyhow::Error::msg(output::printable(&text).into_owned()))
            };
            let read = list(path).read();
            let read = read.ok_or_else(|| broken("there is no such file"))?;
            // What is wrong with one plugin harms no other.
            let mut wrong = read.diagnostics.iter().filter(|told| {
                let is_of_all = matches!(&*told.path, "" | "plugins");
                told.severity == Severity::Error && is_of_all
            });
            match (wrong.next(), read.plugins_file) {
                (None, Some(list)) if !read.is_broken => Ok(list),
                (Some(wrong), _) => Err(broken(&format!(
                    "line {}, column {}: {}",
                    wrong.place.line, wrong.place.column, wrong.message
                ))),
                _ => Err(broken("it cannot be parsed")),
            }
        });
        lists.collect()
    }

    /// The flags that were given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let flags = [
            (!self.mcp_config.is_empty(), "--mcp-config"),
            (!self.plugins.is_empty(), "--plugins"),
            (self.only_servers, "--only-servers"),
            (self.trace.is_given(), "--trace"),
        ];
        let given = flags.into_iter().filter(|(is_given, _)| *is_given);
        given.map(|(_, flag)| flag)
    }
}

/// A list of plugins that the command line names, as its file is read.
fn list(path: &Path) -> ServerFile {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    ServerFile {
        path: path.into(),
        source: Source::CommandLine,
        trust: Trust::Trusted,
        directory: absolute.parent().map(Path::to_owned).unwrap_or_default(),
        kind: FileKind::Plugins,
        owners: None,
    }
}

/// Where the servers of a workspace are looked for.
pub(crate) fn places(config: &Config, flags: &ServerFlags) -> Places {
    let paths = [Variable::McpPath, Variable::SdekMcpPath];
    let named = paths.into_iter().find_map(Variable::read);
    let environment = named.map(|paths| std::env::split_paths(&paths).collect());
    Places {
        command_line: flags.mcp_config.clone(),
        plugins: flags.plugins.clone(),
        environment: environment.unwrap_or_default(),
        workspace: config.workspace.clone(),
        owners: config.owners.clone(),
        user: user_directory(),
        system: system_directory(),
        only_named: flags.only_named,
        trusted_by: config.trusted_by().map(Arc::from),
        ports: config.own_ports(),
    }
}

/// The directory whose servers all users of this machine have, whether it is there or not.
fn system_directory() -> Option<PathBuf> {
    let named = Variable::SystemDirectory.read().map(PathBuf::from);
    let usual = cfg!(unix).then(|| PathBuf::from("/etc/orchestra"));
    named.or(usual)
}

/// What the texts of servers may refer to: our environment, the workspace, the home.
pub(crate) fn scope(workspace: &Path) -> Scope {
    let home = Variable::Home.directory();
    let scope = Scope::new(workspace, home.as_deref(), |name| std::env::var(name).ok());
    scope.with_closed(closed(workspace))
}

/// Directories with private state and the user's configuration, which no sandbox may reach.
pub(crate) fn closed(workspace: &Path) -> Vec<PathBuf> {
    let state = state_directory().ok();
    let closed = state.into_iter().chain(user_directory());
    closed.chain(private_in_git(workspace)).collect()
}

/// The directories of private state in the git directories of a workspace, whether they are there or not.
fn private_in_git(workspace: &Path) -> Vec<PathBuf> {
    let found = workspace::place(workspace).ok();
    let place = found.filter(Place::is_in_repository);
    let find = || Place::find(workspace, None, Choice::Repository).ok();
    let Some(place) = place.or_else(find) else {
        return Vec::new();
    };
    let others = place.other_checkouts().into_iter().map(|other| other.own);
    let all = [place.shared().to_owned(), place.own().to_owned()];
    let all = all.into_iter().chain(others);
    all.filter_map(|path| {
        let mut above = path.ancestors();
        above
            .find(|above| above.ends_with(IN_GIT))
            .map(Path::to_owned)
    })
    .collect()
}

/// A path for whoever may not know whose home it is in.
pub(crate) fn short(path: &Path) -> String {
    let home = Variable::Home.directory();
    let within = home.and_then(|home| path.strip_prefix(home).ok());
    match within {
        Some(within) => Path::new("~").join(within).display().to_string(),
        None => path.display().to_string(),
    }
}

/// Where decisions of the user are kept.
///
/// # Errors
/// When the user has no home.
pub(crate) fn decisions() -> Result<DecisionFile, Failure> {
    Ok(DecisionFile::new(&state_directory()?))
}

/// Directory of what the program knows between runs: decisions over servers, tokens, slots of jobs.
///
/// # Errors
/// When the user has no home.
pub(crate) fn state_directory() -> Result<PathBuf, Failure> {
    let usual = || Some(Variable::Home.directory()?.join(".local/state"));
    let directory = Variable::StateHome.directory().or_else(usual);
    let directory = directory.ok_or_else(|| {
        Failure::usage_text(
            "set HOME or XDG_STATE_HOME, which determine the directory of approvals and of your token",
        )
    })?;
    Ok(directory.join("orchestra"))
}

/// Where what sign-ins brought is kept.
///
/// # Errors
/// When the user has no home.
pub(crate) fn token_directory() -> Result<PathBuf, Failure> {
    Ok(state_directory()?.join("tokens"))
}

/// The file, beside their logs, that every program holds that runs the servers of a workspace.
const SERVED: &str = "served.lock";

/// Records that this program runs the servers of a workspace, for as long as the lock is held. Without it, restarts
/// cannot be requested.
pub(crate) fn serves(workspace: &Path) -> Option<Lock> {
    let hold = || {
        let directory = Directory::private(&log_directory(workspace).ok()?);
        Some(directory.and_then(|directory| Lock::share(&directory.path().join(SERVED))))
    };
    hold()?
        .map_err(|error| {
            let error = std::io::Error::from(error);
            tracing::warn!(%error, "cannot accept requests to restart servers");
        })
        .ok()
}

/// Whether a program runs the servers of a workspace now.
pub(crate) fn is_served(workspace: &Path) -> bool {
    let directory = log_directory(workspace).ok();
    directory
        .is_some_and(|directory| orchestra_fs::is_shared(&directory.join(SERVED)).unwrap_or(false))
}

/// Where what servers of a workspace write to standard error is kept: out of the reach of servers
/// that may write in the workspace.
///
/// # Errors
/// When the user has no home.
pub(crate) fn log_directory(workspace: &Path) -> Result<PathBuf, Failure> {
    let logs = state_directory()?.join("mcp").join("logs");
    Ok(logs.join(name_of(workspace)))
}

/// What the directories of a workspace are called in the user's state directory.
pub(crate) fn name_of(workspace: &Path) -> String {
    /// Longest part of the directory's name that is for people.
    const NAME_CHARS: usize = 40;
    let name = workspace.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().take(NAME_CHARS).collect();
    let digest = Sha256::digest(workspace.as_os_str().as_encoded_bytes());
    format!("{name}-{}", hex(&digest[..8]))
}
