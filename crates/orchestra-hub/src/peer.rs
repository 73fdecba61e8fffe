//! How the programs of others are that providers speak for.

use std::time::{Duration, SystemTime};

use crate::ListKind;

/// How the program is that a provider speaks for, for people and for what watches over them. All
/// counters begin with the provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PeerReport {
    /// How it is reached: `stdio` or `http`.
    pub transport: &'static str,
    /// The revision of MCP that it speaks, once it was greeted.
    pub protocol: Option<&'static str>,
    /// Where it stands.
    pub status: PeerStatus,
    /// Whether it is known what it offers, be it from an earlier run.
    pub is_known: bool,
    /// What of it is not known although the rest is, because it could not be listed.
    pub unlisted: Vec<ListKind>,
    /// Why it stands there, where that is not as it should be, and what of it is not shown.
    pub reason: Option<String>,
    /// Its calls by their end.
    pub calls: PeerCalls,
    /// Calls that run.
    pub in_flight: usize,
    /// Starts after the first.
    pub restarts: u64,
    /// Bytes of parameters sent to it.
    pub bytes_out: u64,
    /// Bytes of results received from it.
    pub bytes_in: u64,
    /// How long its last calls took.
    pub latency: PeerLatency,
    /// What failed last, and when.
    pub last_error: Option<(SystemTime, String)>,
    /// For how long it has been ready without a break.
    pub uptime: Option<Duration>,
    /// The processes that run for it, by their ids.
    pub processes: Vec<u32>,
}

/// Where the program behind a provider stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PeerStatus {
    /// Nobody has needed it, or not for long.
    #[default]
    Idle,
    /// It is being started or greeted.
    Starting,
    /// It answers.
    Ready,
    /// It answers, but many calls fail.
    Degraded,
    /// It ended and is started again.
    Restarting,
    /// It failed too often and is tried again later.
    Offline,
    /// It lets nobody in without a sign-in.
    NeedsAuth,
    /// Its configuration cannot be used.
    Invalid,
    /// It was closed.
    Closed,
}

/// Calls by their end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerCalls {
    /// They brought a result.
    pub answered: u64,
    /// They brought a JSON-RPC error.
    pub refused: u64,
    /// They failed: the connection, the time, or what came was no answer.
    pub failed: u64,
    /// They were not sent, or cancelled.
    pub aside: u64,
}

/// How long calls took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerLatency {
    /// Mean of the last 100 calls; zero before the first.
    pub mean: Duration,
    /// Half of the last 1 024 calls took at most this long.
    pub p50: Duration,
    /// Nine of ten did.
    pub p90: Duration,
    /// 99 of 100 did.
    pub p99: Duration,
    /// The mean time that the last 100 calls waited for their turn before.
    pub queue: Duration,
}

impl PeerStatus {
    /// Whether it cannot be used now, and should be.
    #[must_use]
    pub const fn is_failed(self) -> bool {
        match self {
            Self::Restarting | Self::Offline | Self::NeedsAuth | Self::Invalid => true,
            Self::Idle | Self::Starting | Self::Ready | Self::Degraded | Self::Closed => false,
        }
    }

    /// All of them, in the order of a life.
    pub const ALL: [Self; 9] = [
        Self::Idle,
        Self::Starting,
        Self::Ready,
        Self::Degraded,
        Self::Restarting,
        Self::Offline,
        Self::NeedsAuth,
        Self::Invalid,
        Self::Closed,
    ];

    /// In a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Restarting => "restarting",
            Self::Offline => "offline",
            Self::NeedsAuth => "needs-auth",
            Self::Invalid => "invalid",
            Self::Closed => "closed",
        }
    }
}

impl PeerCalls {
    /// Each with its name.
    #[must_use]
    pub const fn by_end(self) -> [(&'static str, u64); 4] {
        [
            ("answered", self.answered),
            ("refused", self.refused),
            ("failed", self.failed),
            ("aside", self.aside),
        ]
    }
}
