//! How long calls took, and how they ended.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use super::{ClientError, LinkCounters};

/// How many calls the mean goes over (seed 002, `TransportMetadata.Latency`).
const RECENT: usize = 100;

/// How many calls the rate of errors goes over.
const WINDOW: usize = 50;

/// How a call ended, as the counters have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With a result.
    Answered,
    /// With a JSON-RPC error.
    Refused,
    /// The server failed: a crash, a broken exchange, a timeout.
    Failed,
    /// It was never sent, or its caller cancelled it: it says nothing of the server.
    Aside,
}

/// Counters and latencies of one server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClientStats {
    /// Mean of the last 100 calls; zero before the first.
    pub mean: Duration,
    /// Half of the last 1 024 calls took at most this long.
    pub p50: Duration,
    /// Nine of ten did.
    pub p90: Duration,
    /// 99 of 100 did.
    pub p99: Duration,
    /// The mean time that the last 100 calls waited for their turn.
    pub queue: Duration,
    /// How long each of the last 60 calls took, oldest first.
    pub recent: Vec<Duration>,
    /// Calls that brought a result.
    pub answered: u64,
    /// Calls that brought a JSON-RPC error.
    pub refused: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls that were not sent or were cancelled.
    pub aside: u64,
    /// Part of the last 50 calls that failed, 0 to 1.
    pub error_rate: f64,
    /// Calls that run.
    pub in_flight: usize,
    /// Bytes of parameters sent.
    pub bytes_out: u64,
    /// Bytes of results received.
    pub bytes_in: u64,
    /// Starts after the first.
    pub restarts: u64,
    /// Starts that failed, the tries to reach a server on the network included.
    pub failed_starts: u64,
    /// Why it could not be used after the last start, until one has succeeded: one line.
    pub failing: Option<String>,
    /// What failed last, and when.
    pub last_error: Option<(SystemTime, String)>,
    /// Lines that its processes printed and that are no messages.
    pub junk_lines: u64,
    /// The first of them of the last process that printed any: its beginning, without secrets.
    pub junk: Option<String>,
    /// Since when the server is ready.
    pub ready_since: Option<Instant>,
}

/// Keeps [`ClientStats`].
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    recent: VecDeque<Duration>,
    /// Of `recent`.
    sum: Duration,
    queued: VecDeque<Duration>,
    /// For the percentiles.
    many: VecDeque<u32>,
    window: VecDeque<bool>,
    /// Of connections that may still go on.
    links: Vec<Arc<LinkCounters>>,
    stats: ClientStats,
}

/// How many of the last calls are shown one by one.
const SHOWN: usize = 60;

/// How many calls the percentiles go over.
const MANY: usize = 1_024;

impl Meter {
    /// A call begins.
    pub(crate) fn begin(&self, bytes_out: usize) {
        let mut inner = self.inner();
        inner.stats.in_flight += 1;
        inner.stats.bytes_out += bytes_out as u64;
    }

    /// A call has ended; `took` is the time from just before it was sent to its parsed reply.
    pub(crate) fn end(&self, how: Ended, took: Duration, queued: Duration, bytes_in: usize) {
        let mut inner = self.inner();
        let stats = &mut inner.stats;
        stats.in_flight = stats.in_flight.saturating_sub(1);
        stats.bytes_in += bytes_in as u64;
        match how {
            Ended::Answered => stats.answered += 1,
            Ended::Refused => stats.refused += 1,
            Ended::Failed => stats.failed += 1,
            Ended::Aside => {
                stats.aside += 1;
                return;
            }
        }
        inner.take_time(took, queued);
        push(&mut inner.window, how == Ended::Failed, WINDOW);
    }

    /// Something failed.
    pub(crate) fn failed(&self, text: String) {
        self.inner().stats.last_error = Some((SystemTime::now(), text));
    }

    /// There is a connection more.
    pub(crate) fn opened(&self, counters: Arc<LinkCounters>) {
        let mut inner = self.inner();
        // What is counted of those that are gone stays counted.
        let (gone, live) = std::mem::take(&mut inner.links)
            .into_iter()
            .partition::<Vec<_>, _>(|link| Arc::strong_count(link) == 1);
        inner.links = live;
        for link in gone {
            inner.stats.junk_lines += link.junk();
            if let Some(first) = link.first_junk() {
                inner.stats.junk = Some(first.to_owned());
            }
        }
        inner.links.push(counters);
    }

    /// A start failed.
    pub(crate) fn start_failed(&self) {
        self.inner().stats.failed_starts += 1;
    }

    /// A start helped nothing: the server is tried again.
    pub(crate) fn is_failing(&self, error: &ClientError) {
        let mut inner = self.inner();
        inner.stats.last_error = Some((SystemTime::now(), error.explain()));
        inner.stats.failing = Some(error.in_short());
    }

    /// The server is ready, again or for the first time, or is not any more.
    pub(crate) fn ready(&self, since: Option<Instant>, again: bool) {
        let stats = &mut self.inner().stats;
        stats.ready_since = since;
        if since.is_some() {
            stats.failing = None;
        }
        stats.restarts += u64::from(again);
    }

    /// The mean of the last 100 calls.
    pub(crate) fn mean(&self) -> Duration {
        self.inner().mean()
    }

    /// Part of the last 50 calls that failed, once there were ten.
    pub(crate) fn error_rate(&self) -> f64 {
        let inner = self.inner();
        if inner.window.len() < 10 {
            return 0.0;
        }
        inner.error_rate()
    }

    /// All counters now.
    pub(crate) fn stats(&self) -> ClientStats {
        let inner = self.inner();
        let mut sorted: Vec<u32> = inner.many.iter().copied().collect();
        sorted.sort_unstable();
        let part = |of: usize| {
            let at = (sorted.len() * of).div_ceil(100).saturating_sub(1);
            let micros = sorted.get(at).copied().unwrap_or_default();
            Duration::from_micros(u64::from(micros))
        };
        let queue: Duration = inner.queued.iter().sum();
        ClientStats {
            mean: inner.mean(),
            p50: part(50),
            p90: part(90),
            p99: part(99),
            queue: queue
                .checked_div(inner.queued.len() as u32)
                .unwrap_or_default(),
            recent: {
                let rest = inner.recent.len().saturating_sub(SHOWN);
                inner.recent.iter().skip(rest).copied().collect()
            },
            error_rate: inner.error_rate(),
            junk_lines: inner.stats.junk_lines
                + inner.links.iter().map(|link| link.junk()).sum::<u64>(),
            junk: {
                let mut firsts = inner.links.iter().rev().map(|link| link.first_junk());
                let first = firsts.find_map(|first| first.map(str::to_owned));
                first.or_else(|| inner.stats.junk.clone())
            },
            ..inner.stats.clone()
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take_time(&mut self, took: Duration, queued: Duration) {
        self.sum += took;
        if let Some(gone) = push(&mut self.recent, took, RECENT) {
            self.sum -= gone;
        }
        push(&mut self.queued, queued, RECENT);
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        push(&mut self.many, micros, MANY);
    }

    fn mean(&self) -> Duration {
        self.sum
            .checked_div(self.recent.len() as u32)
            .unwrap_or_default()
    }

    fn error_rate(&self) -> f64 {
        if self.window.is_empty() {
            return 0.0;
        }
        let failed = self.window.iter().filter(|failed| **failed).count();
        failed as f64 / self.window.len() as f64
    }
}

/// Appends to a ring; what has fallen out of it.
fn push<T>(ring: &mut VecDeque<T>, value: T, most: usize) -> Option<T> {
    let gone = if ring.len() == most {
        ring.pop_front()
    } else {
        None
    };
    ring.push_back(value);
    gone
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Seed 002: `Latency` is the mean of the last 100 calls.
        #[test]
        fn the_mean_goes_over_exactly_the_last_hundred_calls(
            calls in proptest::collection::vec((0u64..10_000_000, 0u8..4), 0..400),
        ) {
            let meter = Meter::default();
            let mut counted = Vec::new();
            for (micros, how) in calls {
                let took = Duration::from_micros(micros);
                let how = [Ended::Answered, Ended::Refused, Ended::Failed, Ended::Aside][usize::from(how)];
                meter.begin(1);
                meter.end(how, took, Duration::ZERO, 1);
                if how != Ended::Aside {
                    counted.push(took);
                }
                let last = &counted[counted.len().saturating_sub(100)..];
                let sum: Duration = last.iter().sum();
                let mean = sum.checked_div(last.len() as u32).unwrap_or_default();
                prop_assert_eq!(meter.mean(), mean);
            }
            prop_assert_eq!(meter.stats().in_flight, 0);
        }
    }

    #[test]
    fn percentiles_and_rates_are_of_the_calls_that_count() {
        let meter = Meter::default();
        assert_eq!(meter.stats().p99, Duration::ZERO);
        for millis in 1..=100 {
            meter.begin(0);
            let how = if millis > 90 {
                Ended::Failed
            } else {
                Ended::Answered
            };
            meter.end(how, Duration::from_millis(millis), Duration::ZERO, 0);
        }
        let stats = meter.stats();
        assert_eq!(stats.p50, Duration::from_millis(50));
        assert_eq!(stats.p99, Duration::from_millis(99));
        assert!((stats.error_rate - 0.2).abs() < 1e-9);
    }
}
