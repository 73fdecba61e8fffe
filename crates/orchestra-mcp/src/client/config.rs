//! How a client treats its server.

use std::{sync::Arc, time::Duration};

use orchestra_hub::{ClientFeatures, Clients};
use orchestra_wire::{Era, RawJson, Revision};
use tokio::sync::{Semaphore, watch};

/// How a client treats its server. The defaults are those for a server that nothing is known of.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The server's name, for logs.
    pub name: String,
    /// What the server is told about us.
    pub client_info: ClientInfo,
    /// Whether callers that say who they are are named to the server in our place, in revisions that
    /// name the client with each request; and answered as it would answer them, which matters where a call
    /// may become a task and its caller knows none.
    pub names_callers: bool,
    /// Which revisions are spoken.
    pub protocol: ProtocolChoice,
    /// The clients whose calls are passed on, where there are any. A server that speaks both eras is
    /// spoken to in the era of each caller ([`Cx::era`](orchestra_hub::Cx::era)) then, and is offered
    /// roots where [`roots`](Self::roots) are configured or the caller has some, over connections of their
    /// own where callers differ. Without them such a server is spoken to in the newest revision.
    pub clients: Option<watch::Receiver<Clients>>,
    /// How long the first client is waited for before a server is greeted.
    pub clients_wait: Duration,
    /// How long a call may be silent; reports of its progress begin it anew.
    pub call_timeout: Duration,
    /// How long a call waits for a server that cannot be called; when nothing is said, as long as a
    /// whole start may take, or as it would wait for an answer.
    pub patience: Option<Duration>,
    /// Places for starts that go on at once, where servers share the processors of a machine.
    pub starts: Option<Arc<Semaphore>>,
    /// How long a start may take, the handshake included.
    pub start_timeout: Duration,
    /// How long a server may be silent when it is asked which era it speaks.
    pub probe_timeout: Duration,
    /// How long a health check may take.
    pub health_timeout: Duration,
    /// An idle server is asked this often whether it is well.
    pub health_interval: Duration,
    /// After this many calls in a row that were not answered in time it is started anew.
    pub max_timeouts: u32,
    /// Requests that one process or endpoint answers at once; more wait.
    pub outstanding: usize,
    /// Processes; more than one only for a server without a state of its own.
    pub pool: usize,
    /// How calls are tried again.
    pub retry: Retry,
    /// How restarts are spaced that did not help.
    pub backoff: Backoff,
    /// How failures in a row are taken.
    pub circuit: Circuit,
    /// How a server on the network is reached again that was well.
    pub reconnect: Reconnect,
    /// What a session-era server is told that it may ask for.
    pub features: ClientFeatures,
    /// Whether callers may have roots. If not, a server is offered roots only where [`roots`](Self::roots) are configured.
    pub callers_have_roots: bool,
    /// Answer to `roots/list` where the caller has no roots.
    pub roots: Vec<Root>,
    /// When an idle server is stopped until it is needed again; never by default.
    pub idle_stop: Option<Duration>,
    /// Whether the server is started when it is first needed, and not before.
    pub lazy: bool,
    /// How long calls that run may go on when somebody wants the server anew.
    pub drain: Duration,
    /// How long a call waits for answers to a question of its server.
    pub answer_timeout: Duration,
    /// Whether its questions may have fields for secrets.
    pub secrets: bool,
}

/// `clientInfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// Programmatic name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// Which revisions a server is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProtocolChoice {
    /// Whatever it speaks; it is asked.
    #[default]
    Auto,
    /// An era only.
    Era(Era),
    /// One revision only.
    Only(Revision),
}

/// How a call is tried again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// Attempts in all.
    pub attempts: u32,
    /// The pauses between them.
    pub backoff: Backoff,
    /// Whether a call that is not safe may be repeated when the server says by 429 or 503 with
    /// `Retry-After` that it did not run.
    pub unsafe_calls: bool,
}

/// Pauses that grow: `min(cap, first × factor^n)`, and by chance a part more or less.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// How the next pause follows.
    pub growth: Growth,
    /// The longest pause.
    pub cap: Duration,
    /// The part by which a pause may be longer or shorter, 0 to 1.
    pub jitter: f64,
}

/// How pauses grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Growth {
    /// Each is this many times the one before.
    Exponential(f64),
    /// The n-th is n times the first.
    Linear,
    /// All are the same.
    Constant,
}

/// How failures in a row are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circuit {
    /// After this many the server is left alone.
    pub failures: u32,
    /// For this long; then it is tried once.
    pub pause: Duration,
    /// After this many successes it is trusted again.
    pub successes: u32,
}

/// How a server on the network is reached again that was well before. The first attempt is at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reconnect {
    /// The pauses between attempts.
    pub backoff: Backoff,
    /// After this time it is left alone as [`Circuit::pause`] says, but for calls that come.
    pub window: Duration,
    /// A call that comes while nobody is there makes for an attempt at once, not more often than
    /// this.
    pub at_most: Duration,
}

/// A directory that a server may work in (MCP, `Root`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// A name for people.
    pub name: Option<String>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            name: "server".to_owned(),
            client_info: ClientInfo {
                name: "orchestra".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            names_callers: false,
            protocol: ProtocolChoice::Auto,
            clients: None,
            clients_wait: Duration::ZERO,
            call_timeout: Duration::from_secs(30),
            patience: None,
            starts: None,
            start_timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(2),
            health_timeout: Duration::from_secs(10),
            health_interval: Duration::from_secs(60),
            max_timeouts: 3,
            outstanding: 64,
            pool: 1,
            retry: Retry::default(),
            backoff: Backoff::default(),
            circuit: Circuit::default(),
            reconnect: Reconnect::default(),
            features: ClientFeatures {
                elicitation: true,
                elicitation_url: true,
                sampling: true,
                sampling_tools: true,
                roots: true,
            },
            callers_have_roots: true,
            roots: Vec::new(),
            idle_stop: None,
            lazy: false,
            drain: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(10 * 60),
            secrets: false,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            backoff: Backoff::default(),
            unsafe_calls: false,
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            growth: Growth::Exponential(2.0),
            cap: Duration::from_secs(30),
            jitter: 0.2,
        }
    }
}

/// Each pause is about a quarter of the time that the server is away already, and a second at most,
/// so that one that is back is used within about a second.
impl Default for Reconnect {
    fn default() -> Self {
        Self {
            backoff: Backoff {
                first: Duration::from_millis(100),
                growth: Growth::Exponential(1.25),
                cap: Duration::from_secs(1),
                jitter: 0.2,
            },
            window: Duration::from_secs(60),
            at_most: Duration::from_millis(500),
        }
    }
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

impl Backoff {
    /// The pause before attempt `n` + 1, counted from 0; `chance` is a number from 0 to 1 that
    /// decides its jitter.
    #[must_use]
    pub fn pause(&self, n: u32, chance: f64) -> Duration {
        let times = match self.growth {
            Growth::Exponential(factor) => {
                factor.max(1.0).powi(i32::try_from(n).unwrap_or(i32::MAX))
            }
            Growth::Linear => f64::from(n) + 1.0,
            Growth::Constant => 1.0,
        };
        let seconds = (self.first.as_secs_f64() * times).min(self.cap.as_secs_f64());
        let jitter = self.jitter.clamp(0.0, 1.0) * (2.0 * chance.clamp(0.0, 1.0) - 1.0);
        Duration::from_secs_f64(seconds * (1.0 + jitter))
    }

    /// As [`pause`](Self::pause), by chance.
    pub(crate) fn next(&self, n: u32) -> Duration {
        let mut bytes = [0; 2];
        // Without randomness the pause is one without jitter.
        let chance = match getrandom::fill(&mut bytes) {
            Ok(()) => f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX),
            Err(_) => 0.5,
        };
        self.pause(n, chance)
    }
}

impl ClientConfig {
    /// What is known of the clients; `None` where calls of no client are passed on.
    pub(crate) fn clients(&self) -> Option<Clients> {
        self.clients.as_ref().map(|clients| *clients.borrow())
    }
}

impl ProtocolChoice {
    /// Parses `auto`, `modern`, `legacy` or a revision's date; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "modern" => Some(Self::Era(Era::Stateless)),
            "legacy" => Some(Self::Era(Era::Session)),
            date => Revision::parse(date).map(Self::Only),
        }
    }

    /// Whether it may be spoken in an era.
    pub(crate) fn permits(self, era: Era) -> bool {
        match self {
            Self::Auto => true,
            Self::Era(only) => only == era,
            Self::Only(revision) => revision.era() == era,
        }
    }

    /// Whether it may be spoken in a revision.
    pub(crate) fn permits_revision(self, revision: Revision) -> bool {
        match self {
            Self::Only(only) => only == revision,
            _ => self.permits(revision.era()),
        }
    }
}

impl Root {
    /// The answer to `roots/list`.
    pub(crate) fn answer(roots: &[Self]) -> RawJson {
        let roots: Vec<_> = roots
            .iter()
            .map(|root| match &root.name {
                Some(name) => serde_json::json!({"uri": root.uri, "name": name}),
                None => serde_json::json!({"uri": root.uri}),
            })
            .collect();
        RawJson::of(&serde_json::json!({ "roots": roots })).expect("a JSON value has a JSON form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spec of the pauses: 1 s, 2, 4, … up to 30, each ±20 %.
    #[test]
    fn pauses_double_up_to_their_cap_and_jitter() {
        let backoff = Backoff::default();
        let middle: Vec<u64> = (0..7).map(|n| backoff.pause(n, 0.5).as_secs()).collect();
        assert_eq!(middle, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(backoff.pause(0, 0.0), Duration::from_millis(800));
        assert_eq!(backoff.pause(9, 1.0), Duration::from_secs(36));
        assert_eq!(backoff.pause(u32::MAX, 0.5), Duration::from_secs(30));
        let linear = Backoff {
            growth: Growth::Linear,
            ..backoff
        };
        let constant = Backoff {
            growth: Growth::Constant,
            ..backoff
        };
        assert_eq!(linear.pause(2, 0.5), Duration::from_secs(3));
        assert_eq!(constant.pause(9, 0.5), Duration::from_secs(1));
        for n in 0..20 {
            let pause = backoff.next(n).as_secs_f64();
            assert!((0.8..=36.0).contains(&pause), "{pause}");
        }
    }

    #[test]
    fn a_protocol_is_an_era_or_a_date() {
        assert_eq!(ProtocolChoice::parse("auto"), Some(ProtocolChoice::Auto));
        let only = ProtocolChoice::parse("2025-06-18").unwrap();
        assert!(only.permits(Era::Session) && !only.permits(Era::Stateless));
        assert!(!only.permits_revision(Revision::V2025_11_25));
        assert_eq!(ProtocolChoice::parse("newest"), None);
    }
}
