//! What a server may use up, and what it is confined to.

use std::time::Duration;

use super::Template;

/// What a server may use up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// Of the system, for each of its processes.
    pub process: ProcessLimits,
    /// Of calls.
    pub budget: Budget,
}

/// What each process of a server may use up; `None` for as much as we may ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessLimits {
    /// Address space in bytes.
    pub address_space: Option<u64>,
    /// Files open at once.
    pub open_files: Option<u64>,
    /// Processes and threads of the user at once.
    pub processes: Option<u64>,
    /// Time on a processor.
    pub cpu_time: Option<Duration>,
}

/// How much a server may be called; `None` for any number.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    /// Calls a second, on average.
    pub requests_per_second: Option<f64>,
    /// Calls at once after a pause; as many as `requests_per_second`, rounded up, when not said.
    pub burst: Option<u32>,
    /// Calls that run at once.
    pub concurrency: Option<u32>,
    /// Calls in a day (UTC).
    pub daily_quota: Option<u64>,
    /// Size of a result; a larger one is kept as a resource.
    pub result_bytes: Option<u64>,
    /// Whether a call waits within its deadline instead of being refused.
    pub wait: bool,
}

/// What a process is confined to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// Nothing.
    #[default]
    None,
    /// Its directory and the listed paths, without the network (Linux).
    Workspace {
        /// More paths that it may read, relative to its directory.
        read: Vec<Template>,
        /// More paths that it may read and write.
        write: Vec<Template>,
    },
}
