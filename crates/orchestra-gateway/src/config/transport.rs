//! How a server is reached.

use std::{collections::BTreeMap, time::Duration};

use orchestra_mcp::client::TransportType;

use super::{OAuth, OrchestratorConfig, PluginConfig, Template};

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks over its stdin and stdout.
    Stdio(StdioConfig),
    /// A server on the network.
    Http(HttpConfig),
    /// A process that speaks the plugin protocol.
    Plugin(PluginConfig),
    /// An orchestrator elsewhere, by the plugin protocol.
    Orchestrator(OrchestratorConfig),
}

impl Transport {
    /// `stdio`, `http`, `plugin` or `orchestrator`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
            Self::Plugin(_) => "plugin",
            Self::Orchestrator(_) => "orchestrator",
        }
    }

    /// Returns whether the server is reached by MCP itself, and not as a plugin or another orchestrator.
    pub(crate) const fn is_mcp(&self) -> bool {
        matches!(self, Self::Stdio(_) | Self::Http(_))
    }

    /// What carries its messages, as people are told.
    pub(crate) const fn carried_by(&self) -> TransportType {
        match self {
            Self::Stdio(_) => TransportType::Stdio,
            Self::Http(_) => TransportType::Http,
            Self::Plugin(_) | Self::Orchestrator(_) => TransportType::Quic,
        }
    }
}

/// A child process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioConfig {
    /// The program: a name that is looked up in `PATH`, or a path (one with a slash that is not
    /// absolute starts from `cwd`). No shell.
    pub command: Template,
    /// Its arguments.
    pub args: Vec<Template>,
    /// Where it runs; the directory of its file when nothing is said. Relative to that.
    pub cwd: Option<Template>,
    /// Its environment, beside what it inherits.
    pub env: BTreeMap<String, Template>,
    /// A file of `NAME=VALUE` lines, weaker than `env`. Relative to the directory of its file.
    pub env_file: Option<Template>,
    /// What it inherits of our environment.
    pub inherit_env: InheritEnv,
}

/// What a child inherits of our environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InheritEnv {
    /// What every program needs: `HOME`, `LANG`, `LC_*`, `LOGNAME`, `PATH`, `SHELL`, `TERM`,
    /// `TMPDIR`, `USER`.
    #[default]
    Default,
    /// All of it.
    All,
    /// Nothing.
    None,
}

/// A server on the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where it is.
    pub url: Template,
    /// How it is spoken to.
    pub flavour: Flavour,
    /// Headers of every request.
    pub headers: Vec<(String, Template)>,
    /// How we say who we are.
    pub auth: Option<Auth>,
    /// Certificates that are trusted beside the system's, as PEM.
    pub ca_file: Option<Template>,
    /// Our certificate and its key, as PEM; both in one file when there is one.
    pub client_cert: Option<(Template, Option<Template>)>,
    /// Whether plain HTTP may go to other machines.
    pub allow_insecure: bool,
    /// How long connections may take, and how many are kept.
    pub connections: Connections,
}

/// How long connections may take, and how many are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Until one is open, TLS included.
    pub connect: Duration,
    /// From there to the head of a response.
    pub first_byte: Duration,
    /// Between two pieces of a response.
    pub idle: Duration,
    /// Kept open for the next calls, of those that nothing uses.
    pub kept: usize,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(300),
            kept: 64,
        }
    }
}

/// How a server is spoken to over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavour {
    /// Streamable HTTP, else the older pair of event stream and posts.
    #[default]
    Auto,
    /// Streamable HTTP: each message is posted to the URL exactly as given.
    Streamable,
    /// Plain JSON-RPC, posted to the URL with `/rpc` appended (seed 002).
    Rpc,
    /// The event stream and posts of revision 2024-11-05.
    Sse,
}

impl Flavour {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Streamable => "streamable",
            Self::Rpc => "rpc",
            Self::Sse => "sse",
        }
    }
}

/// How we say who we are to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// A token, sent as `Authorization: Bearer …`.
    Bearer(Template),
    /// The token that a variable of our environment holds.
    Env(String),
    /// The token that a program prints.
    Command {
        /// The program.
        command: Template,
        /// Its arguments.
        args: Vec<Template>,
    },
    /// A sign-in as MCP has it.
    OAuth(OAuth),
}
