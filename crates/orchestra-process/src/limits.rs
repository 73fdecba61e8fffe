//! How much of the system a child may take.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::tree;

/// What a child may take; nothing is limited unless said. Limits hold for each process of it, but
/// for the number of processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of address space (`RLIMIT_AS`): what a process has mapped, which for runtimes that
    /// reserve much is far more than they use. Linux only.
    pub address_space: Option<u64>,
    /// Descriptors that are open at once (`RLIMIT_NOFILE`).
    pub open_files: Option<u64>,
    /// Processes at once: the child and whatever descends from it, whatever group or session it
    /// moves to. They are counted every few milliseconds and all killed past the limit, for
    /// `RLIMIT_NPROC` would count all that its user runs, and root's not at all. Linux only.
    pub processes: Option<u64>,
    /// Time that a process may compute (`RLIMIT_CPU`), in whole seconds, rounded up.
    pub cpu_time: Option<Duration>,
}

/// One of the things that a child may have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// [`Limits::address_space`].
    AddressSpace,
    /// [`Limits::open_files`].
    OpenFiles,
    /// [`Limits::processes`].
    Processes,
    /// [`Limits::cpu_time`].
    CpuTime,
    /// Files outside of what the sandbox lets it reach.
    Files,
    /// The network, which the sandbox does not let it reach.
    Network,
}

impl Limits {
    /// Whether this system can hold [`Self::processes`]: it tells who descends from whom.
    #[must_use]
    pub fn can_count_processes() -> bool {
        cfg!(target_os = "linux") && tree::is_visible()
    }

    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn cpu_seconds(&self) -> Option<u64> {
        let time = self.cpu_time?;
        Some(time.as_secs() + u64::from(time.subsec_nanos() > 0))
    }

    /// The first limit that this system cannot hold.
    pub(crate) fn unsupported(&self) -> Option<Limit> {
        if cfg!(target_os = "linux") {
            return None;
        }
        let address_space = self.address_space.map(|_| Limit::AddressSpace);
        address_space.or(self.processes.map(|_| Limit::Processes))
    }

    /// The limit with its value, in words.
    pub(crate) fn describe(&self, limit: Limit) -> String {
        let value = match limit {
            Limit::AddressSpace => self.address_space.map(|bytes| format!("{bytes} bytes")),
            Limit::OpenFiles => self.open_files.map(|files| files.to_string()),
            Limit::Processes => self.processes.map(|processes| processes.to_string()),
            Limit::CpuTime => self.cpu_seconds().map(|seconds| format!("{seconds} s")),
            Limit::Files | Limit::Network => None,
        };
        match value {
            Some(value) => format!("{limit} ({value})"),
            None => limit.to_string(),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddressSpace => "address space",
            Self::OpenFiles => "open files",
            Self::Processes => "processes",
            Self::CpuTime => "CPU time",
            Self::Files => "files outside of its sandbox",
            Self::Network => "network, which its sandbox closes",
        })
    }
}
