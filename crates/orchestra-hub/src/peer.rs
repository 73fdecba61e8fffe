//! How the programs of others are that providers speak for.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use crate::{Hub, ListKind, Provider, ProviderId, hub::Inner, reserved::SEPARATOR};

/// Maximum length of the reason in an error, in bytes.
const MAX_REASON: usize = 1024;

/// How the program is that a provider speaks for, for people and for what watches over them. All
/// counters begin with the provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PeerReport {
    /// How it is reached: `stdio`, `http` or `quic`; empty where that is not known.
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
    /// The same for errors that are not about it: without its text, which could mislead their readers.
    pub own_reason: Option<String>,
    /// Its calls by their end.
    pub calls: PeerCalls,
    /// Calls that run.
    pub in_flight: usize,
    /// Starts after the first.
    pub restarts: u64,
    /// Starts that failed, the tries to reach it over a network included.
    pub failed_starts: u64,
    /// Lines that it printed where messages go and that are none.
    pub junk_lines: u64,
    /// Tells one configuration of it from others; that of the configuration by which it runs.
    pub fingerprint: Option<String>,
    /// Bytes of parameters sent to it.
    pub bytes_out: u64,
    /// Bytes of results received from it.
    pub bytes_in: u64,
    /// How long its last calls took.
    pub latency: PeerLatency,
    /// The same of each of the last 60, oldest first.
    pub recent: Vec<Duration>,
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
    /// Nobody has approved it yet: it is not started.
    NeedsApproval,
    /// It is switched off.
    Disabled,
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
            Self::Idle
            | Self::Starting
            | Self::Ready
            | Self::Degraded
            | Self::NeedsApproval
            | Self::Disabled
            | Self::Closed => false,
        }
    }

    /// Whether it may soon be known what it offers, where that is not known yet.
    #[must_use]
    pub const fn is_late(self) -> bool {
        matches!(
            self,
            Self::Idle | Self::Starting | Self::Ready | Self::Degraded
        )
    }

    /// All of them, in the order of a life.
    pub const ALL: [Self; 11] = [
        Self::Idle,
        Self::Starting,
        Self::Ready,
        Self::Degraded,
        Self::Restarting,
        Self::Offline,
        Self::NeedsAuth,
        Self::Invalid,
        Self::NeedsApproval,
        Self::Disabled,
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
            Self::NeedsAuth => "needs_auth",
            Self::Invalid => "invalid",
            Self::NeedsApproval => "needs_approval",
            Self::Disabled => "disabled",
            Self::Closed => "closed",
        }
    }
}

/// Programs that nobody speaks for, as they were told.
#[derive(Debug, Default)]
pub(crate) struct UnusedPeers(Mutex<Vec<(ProviderId, PeerReport)>>);

/// Files that cannot be read now, as they were told.
#[derive(Debug, Default)]
pub(crate) struct UnreadFiles(Mutex<Vec<String>>);

impl Hub {
    /// How the programs are that providers speak for, in the order of their registration, and then
    /// those that are configured and that nobody speaks for.
    #[must_use]
    pub fn peers(&self) -> Vec<(ProviderId, PeerReport)> {
        let merged = self.0.merged();
        let reports = merged.slots().filter_map(|slot| {
            let report = slot.guarded(Provider::peer).flatten()?;
            Some((slot.id.clone(), report))
        });
        let mut peers: Vec<(ProviderId, PeerReport)> = reports.collect();
        let unused = self.0.unused_peers.0.lock();
        let unused = unused.unwrap_or_else(PoisonError::into_inner).clone();
        // One that has become usable since is told once.
        let spoken_for = peers.len();
        for (id, report) in unused {
            if peers[..spoken_for].iter().all(|(other, _)| *other != id) {
                peers.push((id, report));
            }
        }
        peers
    }

    /// These programs are configured and cannot be used as they are, so that no provider speaks for
    /// them: [`Hub::peers`] tells of them as well. They take the place of those told before.
    pub fn tell_unused_peers(&self, unused: Vec<(ProviderId, PeerReport)>) {
        let before = self.0.unused_peers.0.lock();
        *before.unwrap_or_else(PoisonError::into_inner) = unused;
    }

    /// The files in which programs are configured and that cannot be read or understood now.
    #[must_use]
    pub fn unread_files(&self) -> Vec<String> {
        let files = self.0.unread_files.0.lock();
        files.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These files cannot be read or understood now. They take the place of those told before.
    pub fn tell_unread_files(&self, files: Vec<String>) {
        let before = self.0.unread_files.0.lock();
        *before.unwrap_or_else(PoisonError::into_inner) = files;
    }
}

impl Inner {
    /// Returns the unused server that the name of a tool or prompt begins with, and the reason.
    pub(crate) fn unused_server(&self, name: &str) -> Option<String> {
        let unused = self.unused_peers.0.lock();
        let unused = unused.unwrap_or_else(PoisonError::into_inner);
        let has_tool = |id: &ProviderId| {
            let rest = name.strip_prefix(id.as_str());
            rest.is_some_and(|rest| rest.starts_with(SEPARATOR))
        };
        // The longest name, where several match.
        let named = unused.iter().filter(|(id, _)| has_tool(id));
        let (id, report) = named.max_by_key(|(id, _)| id.as_str().len())?;
        let reason = orchestra_secret::excerpt(report.reason.as_deref()?, MAX_REASON);
        Some(format!("{id} is not used: {reason}"))
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
