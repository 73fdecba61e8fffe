//! What the calls and kills of a run come to, and what must hold of them.

use std::{collections::HashMap, time::Duration};

use super::bench::{Bench, Kill, Seen};

/// Counts of a run, to be told.
pub(super) struct Tally {
    calls: usize,
    kills: usize,
    /// Calls that failed because of a kill, and say so.
    told: usize,
    /// Calls that were answered although a kill came in between.
    through: usize,
    /// Calls that may run twice and did.
    repeated: usize,
    slowest: Duration,
}

/// A server's kills, in their order.
struct Kills<'b>(Vec<&'b Kill>);

impl Kills<'_> {
    /// Whether a call ran into one: it was not over before the kill and began before the server
    /// was back.
    fn concern(&self, call: &Seen) -> bool {
        let later = self.0.partition_point(|kill| kill.at <= call.ended);
        later > 0 && self.0[later - 1].back >= call.began
    }
}

impl Tally {
    /// Looks at each call of the load and at what the servers have written down.
    pub(super) fn of(bench: &Bench, seen: &[Seen]) -> Self {
        let kept = bench.kills.lock().unwrap();
        let of = |server| {
            let mut kills: Vec<_> = kept.iter().filter(|kill| kill.server == server).collect();
            kills.sort_unstable_by_key(|kill| kill.at);
            Kills(kills)
        };
        let kills: Vec<Kills<'_>> = (0..bench.servers.len()).map(of).collect();
        let runs: Vec<_> = (0..bench.servers.len())
            .map(|server| runs(&bench.journal(server)))
            .collect();
        let mut tally = Self {
            calls: seen.len(),
            kills: kept.len(),
            told: 0,
            through: 0,
            repeated: 0,
            slowest: Duration::ZERO,
        };
        for call in seen {
            let ran = runs[call.server].get(&call.number).copied();
            tally.add(
                bench,
                call,
                kills[call.server].concern(call),
                ran.unwrap_or(0),
            );
        }
        tally
    }

    fn add(&mut self, bench: &Bench, call: &Seen, is_concerned: bool, ran: u32) {
        let server = &bench.servers[call.server];
        let what = || {
            let (number, name, error) = (call.number, server.name, &call.error);
            format!("call {number} of {name}: {error:?}")
        };
        self.slowest = self.slowest.max(call.ended - call.began);
        if let Some(error) = &call.error {
            assert!(is_concerned, "nothing was killed; {}", what());
            assert!(
                !server.is_trusted,
                "it may run twice, and failed; {}",
                what()
            );
            assert!(
                error.contains("The call "),
                "it does not say what became of it; {}",
                what()
            );
            assert!(
                ran == 0 || error.contains("may have run"),
                "it ran; {}",
                what()
            );
            self.told += 1;
        } else {
            assert!(ran > 0, "it never ran; {}", what());
            self.through += usize::from(is_concerned);
        }
        assert!(
            ran <= 1 || server.is_trusted,
            "it ran {ran} times; {}",
            what()
        );
        self.repeated += usize::from(ran > 1);
    }

    pub(super) fn told(&self) -> String {
        format!(
            "{} calls, the slowest {:?}; {} kills; {} calls told of a kill, {} answered past one; \
             {} that may ran twice, 0 others",
            self.calls, self.slowest, self.kills, self.told, self.through, self.repeated,
        )
    }

    /// Whether the load met the kills at all.
    pub(super) const fn is_of_use(&self) -> bool {
        self.through > 0
    }
}

/// How often each call was run.
fn runs(journal: &str) -> HashMap<u64, u32> {
    let mut runs = HashMap::new();
    for line in journal.lines() {
        let number = line
            .split_once("\"n")
            .and_then(|(_, rest)| rest.split_once('.'));
        if let Some((number, _)) = number {
            *runs.entry(number.parse().unwrap()).or_default() += 1;
        }
    }
    runs
}

/// Durations in their order.
pub(super) struct Spread(Vec<Duration>);

impl Spread {
    pub(super) fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    /// So many percent of them took at most this long.
    pub(super) fn at(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |percent| self.at(percent).as_secs_f64() * 1_000.0;
        let (median, most, high, worst) = (at(50), at(90), at(99), at(100));
        write!(
            f,
            "median {median:.0} ms, p90 {most:.0} ms, p99 {high:.0} ms, worst {worst:.0} ms"
        )
    }
}
