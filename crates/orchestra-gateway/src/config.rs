//! What a server of somebody else is, in one form, whatever file it was written in.
//!
//! Texts that may hold `${…}` stay as they were written ([`Template`]): they are expanded when a
//! process is started or a request is sent, so that no secret is kept here.

mod bounds;
mod cut;
mod fields;
mod file;
mod limits;
mod loading;
mod misnamed;
mod name;
mod named;
mod namesake;
mod node;
mod oauth;
pub mod order;
mod origin;
mod plugin;
mod plugin_list;
mod report;
mod server;
mod shape;
mod template;
mod text;
mod transport;
mod tuning;
mod units;
mod write;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{approval::Covered, discovery::Writer};

pub use bounds::bounds;
pub use cut::CutError;
pub use file::{Contents, File, FileKind, Written};
pub(crate) use file::{MAX_WORKSPACE_BYTES, is_absent};
pub use limits::{Budget, Limits, ProcessLimits, Sandbox};
pub use loading::loads_code;
pub(crate) use loading::{names_code, names_data};
pub(crate) use name::PROGRAM_NAMES;
pub use name::{NameError, ServerName};
pub use named::NamedFile;
pub use oauth::{ClientProof, Enterprise, Grant, OAuth, OAuthClient, Secret, SecretSource};
pub use origin::{Diagnostic, Origin, Place, Severity, Source, Trust};
pub use plugin::{
    DEFAULT_SHUTDOWN, OrchestratorConfig, Permit, PluginConfig, PluginId, PluginIdError,
    host_and_port,
};
pub use plugin_list::PluginsFile;
pub use template::{Input, Template};
pub use text::merged;
pub use transport::{Auth, Connections, Flavour, HttpConfig, InheritEnv, StdioConfig, Transport};
pub use tuning::{
    Backoff, Circuit, Effect, Features, Grace, Health, Pins, Pool, Protocol, Restart, Retry, Rule,
    ToolFilter,
};
pub use units::nearest;
pub use write::{Values, Variables};

/// Everything that is set of one server, with defaults for what is not.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Its name.
    pub name: ServerName,
    /// Its name as it was written; differs from `name` where that permits fewer characters.
    pub shown_name: String,
    /// What it is, for people.
    pub description: Option<String>,
    /// Where it was written.
    pub origin: Origin,
    /// How it is reached.
    pub transport: Transport,
    /// How long a call may take.
    pub timeout: Duration,
    /// How long may pass from the start to the end of the handshake.
    pub start_timeout: Duration,
    /// How long it may be silent when it is asked which revision it speaks.
    pub probe_timeout: Duration,
    /// Left out by its file.
    pub disabled: bool,
    /// Started by the first call instead of at once.
    pub lazy: bool,
    /// Whether its tools are called `server__tool`; otherwise their names pass unchanged.
    pub prefix: bool,
    /// Which revision of MCP it is spoken to.
    pub protocol: Protocol,
    /// How what failed is tried again.
    pub retry: Retry,
    /// How starts that did not help are spaced.
    pub restart: Restart,
    /// When it is left alone because it fails again and again.
    pub circuit: Circuit,
    /// How many processes and calls it may have.
    pub pool: Pool,
    /// How long it may take to stop.
    pub grace: Grace,
    /// How it is looked after.
    pub health: Health,
    /// What it may use up.
    pub limits: Limits,
    /// Whether its process is confined.
    pub sandbox: Sandbox,
    /// How long answers of its read-only tools are kept; `None` for not at all.
    pub cache_ttl: Option<Duration>,
    /// Which of its tools are offered.
    pub tools: ToolFilter,
    /// Which of its calls are allowed; the first that matches decides.
    pub rules: Vec<Rule>,
    /// What becomes of a call that no rule is about, where its file says so.
    pub default: Option<Effect>,
    /// The same as the user's own files say of all servers. Not of its file.
    pub usual: Effect,
    /// The file of the user that could not be understood, where that is why `usual` is `deny`.
    pub misread: Option<Arc<Path>>,
    /// Words to choose servers by.
    pub tags: Vec<String>,
    /// Whether what it says of its own tools (`readOnlyHint` …) is believed.
    pub trust: bool,
    /// Whether a tool that is told anew must be approved anew.
    pub pins: Pins,
    /// How long a message of it may be, in bytes.
    pub max_message_bytes: usize,
    /// Lines in a row that are no messages after which it counts as in trouble.
    pub max_junk_lines: u32,
    /// What it may ask of its client.
    pub features: Features,
    /// Directories it is told as roots; the workspace when there are none.
    pub roots: Vec<Template>,
    /// It is stopped when it was not used for so long; `None` for never.
    pub idle_stop: Option<Duration>,
    /// What `${input:ID}` may mean in its texts.
    pub inputs: Arc<BTreeMap<String, Input>>,
    /// The files that it names and that were read for it, as they were: another content makes it
    /// another server. Empty as it is read from its file.
    pub named: Vec<NamedFile>,
    /// The files that its approval covers, as they were approved; `None` where it needs no approval. It is not started
    /// when one of them differs.
    pub covered: Option<Arc<Covered>>,
    /// Servers of the workspace in a sandbox that must not be able to write its code. Empty for a server that has a
    /// sandbox or needs no approval.
    pub writers: Arc<[Writer]>,
}

/// How long a call may take when nothing is said (as desktop clients have it).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a start may take when nothing is said: package runners download before they start.
pub const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a server may be silent when it is asked which revision it speaks, when nothing is said.
pub const DEFAULT_PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many lines in a row may be no messages when nothing is said.
pub const DEFAULT_JUNK_LINES: u32 = 20;

/// How long a message may be when nothing is said; the same as for those of our own clients.
pub const DEFAULT_MESSAGE_BYTES: usize = orchestra_mcp::client::MAX_MESSAGE_BYTES;

impl ServerConfig {
    /// What else the user can do about tools that changed since they were approved.
    #[must_use]
    pub fn follow_advice(&self) -> String {
        let name = &self.name;
        let what = match self.origin.trust {
            Trust::Trusted => {
                let file = self.origin.file.display();
                format!("`\"pins\": \"follow\"` of {name} in {file}")
            }
            Trust::Ask => format!("`orchestra mcp approve {name} --follow`"),
        };
        format!("If its descriptions change with every start, {what} accepts them")
    }

    /// A server of which nothing is set but how it is reached.
    #[must_use]
    pub fn new(name: ServerName, origin: Origin, transport: Transport) -> Self {
        Self {
            shown_name: name.to_string(),
            name,
            description: None,
            origin,
            // Whoever knows a plugin knows its tools by their names, but for those that are asked
            // for with a provider of models.
            prefix: match &transport {
                Transport::Plugin(plugin) => !plugin.provides_ai.is_empty(),
                _ => true,
            },
            transport,
            timeout: DEFAULT_TIMEOUT,
            start_timeout: DEFAULT_START_TIMEOUT,
            probe_timeout: DEFAULT_PROBE_TIMEOUT,
            disabled: false,
            lazy: false,
            protocol: Protocol::Auto,
            retry: Retry::default(),
            restart: Restart::default(),
            circuit: Circuit::default(),
            pool: Pool::default(),
            grace: Grace::default(),
            health: Health::default(),
            limits: Limits::default(),
            sandbox: Sandbox::None,
            cache_ttl: None,
            tools: ToolFilter::default(),
            rules: Vec::new(),
            default: None,
            usual: Effect::default(),
            misread: None,
            tags: Vec::new(),
            trust: false,
            pins: Pins::default(),
            max_message_bytes: DEFAULT_MESSAGE_BYTES,
            max_junk_lines: DEFAULT_JUNK_LINES,
            features: Features::default(),
            roots: Vec::new(),
            idle_stop: None,
            inputs: Arc::default(),
            named: Vec::new(),
            covered: None,
            writers: Arc::default(),
        }
    }

    /// What becomes of a call that no rule is about. A file that others may have written can be
    /// stricter than the user, and not laxer.
    #[must_use]
    pub fn default_effect(&self) -> Effect {
        match (self.default, self.origin.trust) {
            (None, _) => self.usual,
            (Some(own), Trust::Trusted) => own,
            (Some(own), Trust::Ask) => own.max(self.usual),
        }
    }

    /// The server whose name begins the shown names of its tools; `None` if they pass unchanged.
    pub(crate) fn shown_prefix(&self) -> Option<ServerName> {
        self.prefix.then(|| self.name.clone())
    }

    /// The directory that relative paths of its file start from, and where it runs when no other
    /// is set.
    #[must_use]
    pub fn directory(&self) -> &PathBuf {
        &self.origin.directory
    }
}
