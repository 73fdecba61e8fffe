//! The last exchange of a board, and the last commit without one, each in a file of the run directory: the programs of a
//! workspace space them by it, and `orchestra doctor` reports a failed exchange.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use orchestra_fs::Access;
use serde::{Deserialize, Serialize};

use crate::{config::Config, workspace};

/// Work that the programs of a workspace repeat, one of them at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Exchange of the board with a remote.
    Exchange,
    /// Commit of the board to the local reference.
    Commit,
}

impl Work {
    /// Name of the file of its last attempt.
    const fn file(self) -> &'static str {
        match self {
            Self::Exchange => "sync.json",
            Self::Commit => "commit.json",
        }
    }
}

/// Longest file.
const MAX_BYTES: u64 = 64 * 1024;

/// Most characters of an error.
const MAX_ERROR: usize = 2_000;

/// Longest time between two attempts after failures.
const MAX_PAUSE: Duration = Duration::from_secs(3_600);

/// An attempt to exchange or commit the board.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// Time in seconds since the Unix epoch.
    at: u64,
    /// Number of failures since the last success.
    failures: u32,
    /// Reason of the last failure.
    error: Option<String>,
}

impl Attempt {
    /// The last attempt. A file that cannot be read or parsed is none.
    pub(crate) fn last(config: &Config, work: Work) -> Self {
        let read = || {
            let run = workspace::run_directory(config).ok()?.open().ok()??;
            let content = run.read(work.file(), MAX_BYTES).ok()??;
            serde_json::from_slice(&content).ok()
        };
        read().unwrap_or_default()
    }

    /// The attempt after this one, which ended now.
    pub(crate) fn next(&self, outcome: Result<(), String>) -> Self {
        let at = now();
        match outcome {
            Ok(()) => Self {
                at,
                ..Self::default()
            },
            Err(error) => Self {
                at,
                failures: self.failures.saturating_add(1),
                error: Some(error.chars().take(MAX_ERROR).collect()),
            },
        }
    }

    /// An attempt for which no earlier repetition can succeed. It ended now, and the next one is due after the longest pause.
    pub(crate) fn impossible(reason: &str) -> Self {
        Self {
            at: now(),
            failures: u32::MAX,
            error: Some(reason.to_owned()),
        }
    }

    /// Ends the pause after failures, since the board was exchanged.
    pub(crate) fn end_failures(config: &Config, work: Work) {
        let last = Self::last(config, work);
        if last.error().is_some() {
            last.next(Ok(())).record(config, work);
        }
    }

    /// Records it for other programs. A failure is logged.
    pub(crate) fn record(&self, config: &Config, work: Work) {
        let write = || -> anyhow::Result<()> {
            let run = workspace::run_directory(config)?.make()?;
            Ok(run.write(work.file(), &serde_json::to_vec(self)?, Access::Private)?)
        };
        if let Err(error) = write() {
            tracing::debug!(?work, "the attempt is not recorded: {error:#}");
        }
    }

    /// Reason why it failed.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Time from now until the next attempt: what is left of the interval, which doubles with each failure.
    pub(crate) fn pause(&self, interval: Duration) -> Duration {
        self.pause_at(now(), interval)
    }

    fn pause_at(&self, now: u64, interval: Duration) -> Duration {
        let doubled = interval.saturating_mul(1 << self.failures.min(10));
        let pause = doubled.min(MAX_PAUSE).max(interval);
        // A clock that was set back makes no longer pause.
        let since = Duration::from_secs(now.saturating_sub(self.at));
        pause.saturating_sub(since)
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_with_each_failure_up_to_an_hour() {
        let minute = Duration::from_secs(60);
        let failed = |failures| Attempt {
            at: 1_000,
            failures,
            error: None,
        };
        assert_eq!(failed(0).pause_at(1_000, minute), minute);
        assert_eq!(failed(0).pause_at(1_050, minute), Duration::from_secs(10));
        assert_eq!(failed(2).pause_at(1_000, minute), 4 * minute);
        assert_eq!(failed(u32::MAX).pause_at(1_000, minute), MAX_PAUSE);
        let day = Duration::from_secs(86_400);
        assert_eq!(failed(3).pause_at(1_000, day), day);
        assert_eq!(
            Attempt::default().pause_at(1_000_000, minute),
            Duration::ZERO
        );
    }

    #[test]
    fn impossible_attempt_is_repeated_after_an_hour() {
        let minute = Duration::from_secs(60);
        let impossible = Attempt::impossible("no reference");
        assert_eq!(impossible.pause_at(impossible.at, minute), MAX_PAUSE);
        assert_eq!(impossible.error(), Some("no reference"));
        assert_eq!(impossible.next(Ok(())).failures, 0);
    }

    #[test]
    fn success_ends_the_failures() {
        let failed = Attempt::default().next(Err("no route".to_owned()));
        let failed = failed.next(Err("no route".to_owned()));
        assert_eq!((failed.failures, failed.error()), (2, Some("no route")));
        let done = failed.next(Ok(()));
        assert_eq!((done.failures, done.error()), (0, None));
    }
}
