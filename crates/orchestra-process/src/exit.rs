//! How a child ended.

use std::time::Duration;

use rustix::process::Signal;

use crate::{Limit, Limits, Sandbox, message};

/// Signals by which programs end that get no memory.
const MEMORY_SIGNALS: [Signal; 4] = [Signal::ABORT, Signal::BUS, Signal::SEGV, Signal::TRAP];

/// How a child ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it. With neither, its guard was killed and the child with it.
    pub signal: Option<i32>,
    /// The limit that it ran into, when that is known.
    pub limit: Option<LimitHit>,
    /// What it and all that descended from it have computed, when that is known.
    pub cpu: Option<Duration>,
}

/// A limit that a child ran into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitHit {
    /// Which.
    pub limit: Limit,
    /// Whether that is known or only likely.
    pub certainty: Certainty,
    /// The limit and its value, in words.
    pub text: String,
}

/// How much is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// The system or the guard said so.
    Known,
    /// It is the likely reason for what was seen.
    Probable,
}

impl Exit {
    pub(crate) fn of(ended: &message::Ended, limits: &Limits) -> Self {
        let out_of_time = match (limits.cpu_seconds(), ended.signal) {
            // SIGXCPU, then SIGKILL for those that do not mind.
            (Some(_), Some(signal)) if signal == Signal::XCPU.as_raw() => {
                Some((Limit::CpuTime, Certainty::Known))
            }
            (Some(limit), Some(signal))
                if signal == Signal::KILL.as_raw()
                    && ended.cpu_seconds.is_some_and(|used| used >= limit) =>
            {
                Some((Limit::CpuTime, Certainty::Probable))
            }
            _ => None,
        };
        let hit = ended.over.map(|limit| (limit, Certainty::Known));
        Self {
            code: ended.code,
            signal: ended.signal,
            limit: hit
                .or(out_of_time)
                .map(|(limit, certainty)| LimitHit::new(limit, certainty, limits)),
            cpu: ended.cpu_ms.map(Duration::from_millis),
        }
    }

    /// Whether it ended well: by itself, with 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Names the likely limit by the last words of the child, where the system does not tell: a
    /// program that gets no more memory or descriptors, or may not open a file, is told so by an
    /// error, and what it does then is its own affair.
    #[must_use]
    pub fn with_last_words(mut self, words: &str, limits: &Limits, sandbox: &Sandbox) -> Self {
        if self.limit.is_some() || self.is_success() {
            return self;
        }
        let said = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
        let sandboxed = *sandbox != Sandbox::None;
        let memory = said(&[
            "memory allocation of",
            "out of memory",
            "Out of memory",
            "MemoryError",
            "bad_alloc",
            "Cannot allocate memory",
            "ENOMEM",
        ]);
        let by_memory = self
            .signal
            .is_some_and(|signal| MEMORY_SIGNALS.iter().any(|known| known.as_raw() == signal));
        let likely = if limits.open_files.is_some() && said(&["Too many open files", "EMFILE"]) {
            Some(Limit::OpenFiles)
        } else if limits.address_space.is_some() && (memory || by_memory) {
            Some(Limit::AddressSpace)
        } else if sandboxed && said(&["Network is unreachable", "ENETUNREACH"]) {
            Some(Limit::Network)
        } else if sandboxed
            && said(&[
                "Permission denied",
                "EACCES",
                "Read-only file system",
                "EROFS",
            ])
        {
            Some(Limit::Files)
        } else {
            None
        };
        self.limit = likely.map(|limit| LimitHit::new(limit, Certainty::Probable, limits));
        self
    }
}

impl LimitHit {
    fn new(limit: Limit, certainty: Certainty, limits: &Limits) -> Self {
        Self {
            limit,
            certainty,
            text: limits.describe(limit),
        }
    }
}

impl std::fmt::Display for LimitHit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.certainty {
            Certainty::Known => f.write_str(&self.text),
            Certainty::Probable => write!(f, "probably {}", self.text),
        }
    }
}
