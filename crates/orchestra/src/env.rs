//! Every environment variable the program reads, in one registry.

use std::{
    ffi::OsString, fmt, io, os::unix::process::CommandExt as _, path::PathBuf, process::Command,
};

use orchestra_runner::supervise::SOCKET_VARIABLE;

/// An environment variable the program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    /// What to log, in the syntax of `--log`.
    Log,
    /// The token that callers over HTTP must show.
    Token,
    /// The workspace, where `--workspace` does not name it.
    Workspace,
    /// Where plans are kept.
    Storage,
    /// The descriptor over which a job in a sandbox reaches the board.
    Socket,
    /// The workspace of a hook event, set by the client that runs the hook.
    ClaudeProjectDir,
    /// Where the user's `orchestra/orchestra.toml` is.
    ConfigHome,
    /// Where `.config` is, when [`Variable::ConfigHome`] is not set.
    Home,
    /// The user who started `sudo`.
    SudoUid,
    /// Where clients look for programs.
    Path,
    /// Where what the user decided is kept.
    StateHome,
    /// Files of servers.
    McpPath,
    /// The same, by the name that an earlier program gave it.
    SdekMcpPath,
    /// Where servers are that all users of this machine have.
    SystemDirectory,
    /// Whether there is a memory engine.
    Engine,
    /// Where a memory engine listens if it can.
    EnginePort,
    /// The model that finds by meaning.
    Model,
    /// Where the user's models are.
    DataHome,
    /// Where models are fetched from.
    ModelHub,
    /// Where Ollama is.
    OllamaHost,
    /// The key that a server of Ollama is shown.
    OllamaKey,
    /// Where a server is that takes what OpenAI's takes.
    OpenAiUrl,
    /// The key that it is shown.
    OpenAiKey,
    /// Whether a terminal is told of no colours.
    NoColor,
    /// What kind of terminal there is.
    Terminal,
    /// Which program it is.
    TerminalProgram,
    /// Which window of Kitty it is.
    KittyWindow,
}

impl Variable {
    /// All of them.
    pub(crate) const ALL: [Self; 27] = [
        Self::Log,
        Self::Token,
        Self::Workspace,
        Self::Storage,
        Self::Socket,
        Self::ClaudeProjectDir,
        Self::ConfigHome,
        Self::Home,
        Self::SudoUid,
        Self::Path,
        Self::StateHome,
        Self::McpPath,
        Self::SdekMcpPath,
        Self::SystemDirectory,
        Self::Engine,
        Self::EnginePort,
        Self::Model,
        Self::DataHome,
        Self::ModelHub,
        Self::OllamaHost,
        Self::OllamaKey,
        Self::OpenAiUrl,
        Self::OpenAiKey,
        Self::NoColor,
        Self::Terminal,
        Self::TerminalProgram,
        Self::KittyWindow,
    ];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Log => "RUST_LOG",
            Self::Token => "ORCHESTRA_TOKEN",
            Self::Workspace => "ORCHESTRATOR_WORKSPACE",
            Self::Storage => "ORCHESTRATOR_STORAGE",
            Self::Socket => SOCKET_VARIABLE,
            Self::ClaudeProjectDir => "CLAUDE_PROJECT_DIR",
            Self::ConfigHome => "XDG_CONFIG_HOME",
            Self::Home => "HOME",
            Self::SudoUid => "SUDO_UID",
            Self::Path => "PATH",
            Self::StateHome => "XDG_STATE_HOME",
            Self::McpPath => "ORCHESTRA_MCP_PATH",
            Self::SdekMcpPath => "SDEK_MCP_PATH",
            Self::SystemDirectory => "ORCHESTRA_SYSTEM",
            Self::Engine => "ORCHESTRA_ENGINE",
            Self::EnginePort => "ORCHESTRA_ENGINE_PORT",
            Self::Model => "ORCHESTRA_MODEL",
            Self::DataHome => "XDG_DATA_HOME",
            Self::ModelHub => "HF_ENDPOINT",
            Self::OllamaHost => "OLLAMA_HOST",
            Self::OllamaKey => "OLLAMA_API_KEY",
            Self::OpenAiUrl => "OPENAI_BASE_URL",
            Self::OpenAiKey => "OPENAI_API_KEY",
            Self::NoColor => "NO_COLOR",
            Self::Terminal => "TERM",
            Self::TerminalProgram => "TERM_PROGRAM",
            Self::KittyWindow => "KITTY_WINDOW_ID",
        }
    }

    /// What it does.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Log => "log filter; see --log",
            Self::Token => "token that clients of `orchestra up` must send; see --token-file",
            Self::Workspace => "workspace directory, if --workspace is not given",
            Self::Storage => {
                "directory of the plans (relative to the workspace), else the git directory"
            }
            Self::Socket => "file descriptor through which a sandboxed job reaches the board",
            Self::ClaudeProjectDir => "workspace directory of `orchestra hook`",
            Self::ConfigHome => "directory that contains the user's orchestra/orchestra.toml",
            Self::Home => "parent of .config, if XDG_CONFIG_HOME is not set",
            Self::SudoUid => "user whose workspaces root may use; set by `sudo`",
            Self::Path => {
                "search path of clients; `orchestra init` warns if orchestra is not in it"
            }
            Self::StateHome => "directory of approvals and of your token, else ~/.local/state",
            Self::McpPath => "additional files of MCP servers, and directories of such files",
            Self::SdekMcpPath => "used instead of ORCHESTRA_MCP_PATH if that is not set",
            Self::SystemDirectory => "directory of the system's mcp.json, else /etc/orchestra",
            Self::Engine => "when to use the memory engine; see --engine",
            Self::EnginePort => "port of the memory engine if it is free, else 50051",
            Self::Model => "model for search by meaning; see memory.model",
            Self::DataHome => "directory of installed models, else ~/.local/share",
            Self::ModelHub => "address of the model hub, else https://huggingface.co",
            Self::NoColor => "turns colours off, with any value",
            Self::Terminal => "terminal type; on `dumb`, `plan watch` and `chat` print plain lines",
            Self::OllamaHost => "address of Ollama for `orchestra chat`; see --host",
            Self::OllamaKey => "key for Ollama, if it requires one",
            Self::OpenAiUrl => {
                "address of the server of `orchestra chat --backend openai`; see --host"
            }
            Self::OpenAiKey => "key for the server of `orchestra chat --backend openai`",
            Self::TerminalProgram => "name of the terminal program; some can show images",
            Self::KittyWindow => "set in Kitty, a terminal program that can show images",
        }
    }

    /// Its value; `None` when it is not set or empty.
    pub(crate) fn read(self) -> Option<OsString> {
        std::env::var_os(self.name()).filter(|value| !value.is_empty())
    }

    /// Its value as the path of a directory; `None` when it is not set, empty or relative. The specification of the XDG
    /// directories asks to ignore relative paths: they would name directories of the workspace.
    pub(crate) fn directory(self) -> Option<PathBuf> {
        self.read()
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    }
}

/// Restarts the program without the relative parts of `PATH`, if it has any. They name directories of the workspace, in
/// which git, jobs and servers would find programs.
///
/// # Errors
/// When the program cannot restart.
pub(crate) fn leave_relative_path() -> io::Result<()> {
    let Some(path) = std::env::var_os(Variable::Path.name()) else {
        return Ok(());
    };
    let (absolute, relative): (Vec<PathBuf>, Vec<PathBuf>) =
        std::env::split_paths(&path).partition(|path| path.is_absolute());
    if relative.is_empty() {
        return Ok(());
    }
    let mut words = std::env::args_os();
    // direct: this process becomes the same program.
    let mut program = Command::new(std::env::current_exe()?);
    if let Some(name) = words.next() {
        program.arg0(name);
    }
    match absolute.is_empty() {
        // An empty one names the working directory.
        true => program.env_remove(Variable::Path.name()),
        false => {
            let path = std::env::join_paths(absolute).map_err(io::Error::other)?;
            program.env(Variable::Path.name(), path)
        }
    };
    Err(program.args(words).exec())
}

/// The value of a variable that the user's own configuration names; `None` when it is not set, empty or
/// no text.
pub(crate) fn of_user(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Finds a program that is started by its name.
pub(crate) fn program_in_path(name: &str) -> Option<PathBuf> {
    let path = Variable::Path.read()?;
    let directories = std::env::split_paths(&path).filter(|path| path.is_absolute());
    let mut found = directories.map(|directory| directory.join(name));
    found.find(|path| path.is_file())
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
