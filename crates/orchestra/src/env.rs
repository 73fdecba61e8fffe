//! Every environment variable the program reads, in one registry.

use std::{ffi::OsString, fmt, path::PathBuf};

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
            Self::Log => "what to log, as --log",
            Self::Token => "the token that callers of `orchestra up` must show; see --token-file",
            Self::Workspace => "the workspace, where --workspace does not name it",
            Self::Storage => {
                "where plans are kept, from the workspace on, else in its git directory"
            }
            Self::Socket => "in a job that is in a sandbox, the descriptor to reach the board by",
            Self::ClaudeProjectDir => "the workspace of `orchestra hook`",
            Self::ConfigHome => "directory of the user's orchestra/orchestra.toml",
            Self::Home => "where .config is, without XDG_CONFIG_HOME",
            Self::SudoUid => "the user whose workspaces root may use, as `sudo` sets it",
            Self::Path => {
                "where clients look for orchestra; `orchestra init` warns when it is not there"
            }
            Self::StateHome => {
                "where decisions over servers and your token are kept, else ~/.local/state"
            }
            Self::McpPath => "more files of MCP servers, and directories of them",
            Self::SdekMcpPath => "the same, where ORCHESTRA_MCP_PATH is not set",
            Self::SystemDirectory => "directory of the system's mcp.json, else /etc/orchestra",
            Self::Engine => "whether there is a memory engine, as --engine",
            Self::EnginePort => "the port of the memory engine where it is free, else 50051",
            Self::Model => "the model that finds by meaning, as memory.model",
            Self::DataHome => "where installed models are kept, else ~/.local/share",
            Self::ModelHub => "where models are fetched from, else https://huggingface.co",
            Self::NoColor => "set to anything, nothing is printed in colours",
            Self::Terminal => {
                "the kind of terminal; on `dumb`, `orchestra plan watch` and `chat` print lines"
            }
            Self::OllamaHost => "where `orchestra chat` finds Ollama, as --host",
            Self::OllamaKey => "the key that it is shown there, if it wants one",
            Self::OpenAiUrl => {
                "where `orchestra chat --backend openai` finds its server, as --host"
            }
            Self::OpenAiKey => "the key that it is shown there",
            Self::TerminalProgram => "which terminal it is: some can show images",
            Self::KittyWindow => "the same, of Kitty",
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

/// The value of a variable that the user's own configuration names; `None` when it is not set, empty or
/// no text.
pub(crate) fn of_user(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
