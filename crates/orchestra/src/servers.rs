//! Where servers of others are looked for, and what they may refer to, for every command alike.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use orchestra_gateway::{approval::DecisionFile, discovery::Places, expand::Scope};
use sha2::{Digest as _, Sha256};

use crate::{config::user_directory, env::Variable, exit::Failure, trace::TraceFlags};

/// Which servers of others are offered.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServerFlags {
    /// A file of MCP servers, trusted as it is and stronger than all others; may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// Offer the servers alone, without the built-in tools
    #[arg(long)]
    pub(crate) only_servers: bool,
    #[command(flatten)]
    pub(crate) trace: TraceFlags,
}

impl ServerFlags {
    /// Refuses files that are not there: whoever names one means it.
    ///
    /// # Errors
    /// Which is not there.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.mcp_config.iter().find(|path| !path.is_file()) {
            None => Ok(()),
            Some(path) => Err(Failure::usage_text(format!(
                "--mcp-config {}: there is no such file",
                path.display()
            ))),
        }
    }

    /// The flags that were given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let flags = [
            (!self.mcp_config.is_empty(), "--mcp-config"),
            (self.only_servers, "--only-servers"),
            (self.trace.is_given(), "--trace"),
        ];
        let given = flags.into_iter().filter(|(is_given, _)| *is_given);
        given.map(|(_, flag)| flag)
    }
}

/// Where the servers of a workspace are looked for.
pub(crate) fn places(workspace: &Path, mcp_config: &[PathBuf]) -> Places {
    let paths = [Variable::McpPath, Variable::SdekMcpPath];
    let named = paths.into_iter().find_map(Variable::read);
    let environment = named.map(|paths| std::env::split_paths(&paths).collect());
    Places {
        command_line: mcp_config.to_vec(),
        plugins: Vec::new(),
        environment: environment.unwrap_or_default(),
        workspace: workspace.to_owned(),
        user: user_directory(),
        system: system_directory(),
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
    let home = Variable::Home.read().map(PathBuf::from);
    Scope::new(workspace, home.as_deref(), |name| std::env::var(name).ok())
}

/// A path for whoever may not know whose home it is in.
pub(crate) fn short(path: &Path) -> String {
    let home = Variable::Home.read();
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

/// Where the program keeps what it knows of servers between runs.
///
/// # Errors
/// When the user has no home.
pub(crate) fn state_directory() -> Result<PathBuf, Failure> {
    let state = Variable::StateHome.read().map(PathBuf::from);
    let usual = || {
        let home = Variable::Home.read()?;
        Some(Path::new(&home).join(".local/state"))
    };
    let directory = state.or_else(usual).ok_or_else(|| {
        Failure::usage_text("set HOME or XDG_STATE_HOME: decisions over servers are kept there")
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

/// Says that this program runs the servers of a workspace, for as long as the file is kept. Where
/// that cannot be said, nobody can ask for restarts.
pub(crate) fn serves(workspace: &Path) -> Option<File> {
    let hold = || {
        let directory = log_directory(workspace).map_err(|_| io::ErrorKind::NotFound)?;
        private_directory(&directory)?;
        let mut options = File::options();
        let options = options.create(true).truncate(false).write(true);
        let file = options.open(directory.join(SERVED))?;
        file.lock_shared()?;
        Ok(file)
    };
    hold()
        .map_err(|error: io::Error| tracing::warn!(%error, "restarts cannot be asked for"))
        .ok()
}

fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Whether a program runs the servers of a workspace now.
pub(crate) fn is_served(workspace: &Path) -> bool {
    let open = |directory: PathBuf| File::open(directory.join(SERVED)).ok();
    let file = log_directory(workspace).ok().and_then(open);
    file.is_some_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Where what servers of a workspace write to standard error is kept: out of the reach of servers
/// that may write in the workspace.
///
/// # Errors
/// When the user has no home.
pub(crate) fn log_directory(workspace: &Path) -> Result<PathBuf, Failure> {
    /// Longest part of the directory's name that is for people.
    const NAME_CHARS: usize = 40;
    let name = workspace.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().take(NAME_CHARS).collect();
    let digest = Sha256::digest(workspace.as_os_str().as_encoded_bytes());
    let short: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let logs = state_directory()?.join("mcp").join("logs");
    Ok(logs.join(format!("{name}-{short}")))
}
