//! Counters and latencies of a hub's calls. Reading them out in some format is left to faces.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// With an answer.
    Answered,
    /// With the result of a tool that says it failed.
    ToolError,
    /// With questions to the client.
    InputRequired,
    /// The tool, prompt or resource does not exist.
    Unknown,
    /// The rules do not permit the tool.
    Denied,
    /// The parameters are malformed.
    InvalidParams,
    /// The provider could not be reached.
    Unreachable,
    /// With a JSON-RPC error of the provider.
    Refused,
    /// The caller cancelled it, or went away.
    Cancelled,
    /// The deadline passed.
    DeadlineExceeded,
    /// The provider panicked.
    Panicked,
}

impl CallEnd {
    /// All ends.
    pub const ALL: [Self; 11] = [
        Self::Answered,
        Self::ToolError,
        Self::InputRequired,
        Self::Unknown,
        Self::Denied,
        Self::InvalidParams,
        Self::Unreachable,
        Self::Refused,
        Self::Cancelled,
        Self::DeadlineExceeded,
        Self::Panicked,
    ];

    /// Its name in records and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ToolError => "tool_error",
            Self::InputRequired => "input_required",
            Self::Unknown => "unknown",
            Self::Denied => "denied",
            Self::InvalidParams => "invalid_params",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Panicked => "panicked",
        }
    }
}

/// Counts calls; shared by all of them.
#[derive(Debug, Default)]
pub struct Metrics {
    ends: [AtomicU64; CallEnd::ALL.len()],
    waiting: AtomicU64,
    micros: AtomicU64,
    latency: Histogram,
}

/// Counts the calls of one tool.
#[derive(Debug, Default)]
pub struct ToolMetrics {
    calls: AtomicU64,
    failures: AtomicU64,
    micros: AtomicU64,
}

/// Latencies in classes that double: class n holds what took less than 2^n microseconds.
#[derive(Debug, Default)]
struct Histogram([AtomicU64; Self::CLASSES]);

/// What the counters say at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsReport {
    /// Calls by their end.
    pub ends: Vec<(CallEnd, u64)>,
    /// Calls that were polled and have not ended.
    pub waiting: u64,
    /// Time of all ended calls together.
    pub total: Duration,
    /// Latency classes: upper bound, and how many calls fell below it and not below the one
    /// before. The last class has no upper bound.
    pub latency: Vec<(Option<Duration>, u64)>,
}

/// What the counters of one tool say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReport {
    /// Name of the tool.
    pub name: String,
    /// Ended calls.
    pub calls: u64,
    /// Those that did not end with an answer.
    pub failures: u64,
    /// Time of all calls together.
    pub total: Duration,
}

impl Histogram {
    /// Up to 2^26 microseconds (67 s), and one class above.
    const CLASSES: usize = 28;

    fn record(&self, micros: u64) {
        let class = (u64::BITS - micros.leading_zeros()) as usize;
        self.0[class.min(Self::CLASSES - 1)].fetch_add(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn begin_waiting(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_waiting(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self, end: CallEnd, elapsed: Duration) {
        self.ends[end as usize].fetch_add(1, Ordering::Relaxed);
        let micros = micros(elapsed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.latency.record(micros);
    }

    /// What the counters say now.
    #[must_use]
    pub fn report(&self) -> MetricsReport {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let ends: Vec<_> = CallEnd::ALL
            .map(|end| (end, load(&self.ends[end as usize])))
            .into();
        let latency = self.latency.0.iter().enumerate().map(|(class, count)| {
            let bound = (class + 1 < Histogram::CLASSES).then(|| Duration::from_micros(1 << class));
            (bound, load(count))
        });
        MetricsReport {
            waiting: load(&self.waiting),
            total: Duration::from_micros(load(&self.micros)),
            ends,
            latency: latency.collect(),
        }
    }
}

impl ToolMetrics {
    pub(crate) fn end(&self, end: CallEnd, elapsed: Duration) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if end != CallEnd::Answered && end != CallEnd::InputRequired {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros(elapsed), Ordering::Relaxed);
    }

    pub(crate) fn report(&self, name: &str) -> ToolReport {
        ToolReport {
            name: name.to_owned(),
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            total: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
        }
    }
}

pub(crate) fn micros(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_their_own_counters() {
        for (at, end) in CallEnd::ALL.into_iter().enumerate() {
            assert_eq!(end as usize, at, "{end:?}");
        }
        let metrics = Metrics::default();
        metrics.begin_waiting();
        metrics.end(CallEnd::Panicked, Duration::from_micros(3));
        let report = metrics.report();
        assert_eq!(report.waiting, 1);
        assert_eq!(report.total, Duration::from_micros(3));
        assert_eq!(report.ends[10], (CallEnd::Panicked, 1));
        assert_eq!(report.latency[2], (Some(Duration::from_micros(4)), 1));
    }

    #[test]
    fn any_latency_has_a_class() {
        let histogram = Histogram::default();
        for micros in [0, 1, u64::MAX] {
            histogram.record(micros);
        }
        let counts: Vec<u64> = histogram
            .0
            .iter()
            .map(|n| n.load(Ordering::Relaxed))
            .collect();
        assert_eq!((counts[0], counts[1], counts[27]), (1, 1, 1));
    }
}
