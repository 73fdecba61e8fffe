//! How a server is dealt with: revisions, tries, processes, checks, rules.

use std::time::Duration;

use orchestra_wire::Revision;

/// Which revision of MCP a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Whichever it knows; where it knows both eras, that of each client whose calls are passed on.
    #[default]
    Auto,
    /// The newest stateless one.
    Modern,
    /// By `initialize`, the newest that it knows.
    Legacy,
    /// This one.
    Revision(Revision),
}

/// How what failed is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all.
    pub attempts: u32,
    /// How delays grow.
    pub backoff: Backoff,
    /// The first delay.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
    /// Whether calls that may change something are repeated where the server says that they did
    /// not run.
    pub repeat_unsafe: bool,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            backoff: Backoff::Exponential,
            initial: Duration::from_secs(1),
            max: Duration::from_secs(30),
            repeat_unsafe: false,
        }
    }
}

/// How delays between tries grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backoff {
    /// Each is twice the one before.
    #[default]
    Exponential,
    /// Each is longer by the first.
    Linear,
    /// All are alike.
    Constant,
}

/// How starts that did not help are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// How pauses grow.
    pub backoff: Backoff,
    /// The first pause.
    pub initial: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            backoff: Backoff::Exponential,
            initial: Duration::from_secs(1),
            max: Duration::from_secs(30),
        }
    }
}

/// When a server is left alone that fails again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circuit {
    /// After so many starts or calls in a row that failed.
    pub failures: u32,
    /// For how long; then it is tried once.
    pub pause: Duration,
    /// After so many successes it is used as before.
    pub successes: u32,
}

impl Default for Circuit {
    fn default() -> Self {
        Self {
            failures: 5,
            pause: Duration::from_secs(60),
            successes: 2,
        }
    }
}

/// How many processes and calls a server may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Processes, or connections over HTTP.
    pub max: u32,
    /// Whether it keeps nothing between calls, so that any of its processes may answer any.
    pub stateless: bool,
    /// Calls that one process is given at once.
    pub outstanding: u32,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            max: 1,
            stateless: false,
            outstanding: 64,
        }
    }
}

/// How long a process may take to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace {
    /// After its stdin was closed, until it is told to end.
    pub stdin: Duration,
    /// After it was told to end, until it is killed.
    pub term: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self {
            stdin: Duration::from_secs(2),
            term: Duration::from_secs(3),
        }
    }
}

/// How a server is looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// How long it may be idle until it is asked how it is; `None` for never asking.
    pub interval: Option<Duration>,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// Timeouts in a row until its process is replaced.
    pub max_timeouts: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            interval: Some(Duration::from_secs(30)),
            timeout: Duration::from_secs(10),
            max_timeouts: 3,
        }
    }
}

/// Which tools of a server are offered. Patterns know `*` (any characters) and `?` (one).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFilter {
    /// Only these; all when it is empty.
    pub allow: Vec<String>,
    /// None of these.
    pub deny: Vec<String>,
}

/// A rule over calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What becomes of the call.
    pub effect: Effect,
    /// The tools it is about, as a pattern.
    pub tool: String,
    /// What arguments must look like for it to be about a call: a dotted path into them and a
    /// pattern.
    pub arguments: Vec<(String, String)>,
}

/// What becomes of a call, the strictest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Effect {
    /// It is made.
    #[default]
    Allow,
    /// The user is asked.
    Ask,
    /// It is refused.
    Deny,
}

impl Effect {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// What is done when a server tells a tool other than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pins {
    /// The tool is offered again when the change was approved.
    #[default]
    Ask,
    /// The change is taken.
    Follow,
}

/// What a server may ask of its client, where the client can do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// To know the roots.
    pub roots: bool,
    /// To have text generated.
    pub sampling: bool,
    /// To ask the user something.
    pub elicitation: bool,
    /// To ask the user for secrets, which only a file that the user chose can allow.
    pub secrets: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            roots: true,
            sampling: true,
            elicitation: true,
            secrets: false,
        }
    }
}
