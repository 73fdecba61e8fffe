//! The figures: recall among five and ten, and the mean reciprocal rank.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use anyhow::Result;

use crate::rankers::Ranker;
use crate::set::Set;

/// Every how many queries one is held out.
const HELD_OUT: usize = 3;

/// The answers of one ranker, query by query.
pub(crate) struct Judged(Vec<Vec<String>>);

/// Sums over queries.
#[derive(Default)]
struct Sums {
    queries: f64,
    recall_5: f64,
    recall_10: f64,
    reciprocal: f64,
}

impl Sums {
    #[expect(clippy::cast_precision_loss, reason = "counts of a few hundred")]
    fn add(&mut self, relevant: &[String], answer: &[String]) {
        let within = |limit: usize| {
            let found = answer
                .iter()
                .take(limit)
                .filter(|id| relevant.contains(id))
                .count();
            found as f64 / relevant.len().min(limit) as f64
        };
        self.queries += 1.0;
        self.recall_5 += within(5);
        self.recall_10 += within(10);
        if let Some(rank) = answer.iter().position(|id| relevant.contains(id)) {
            self.reciprocal += 1.0 / (rank + 1) as f64;
        }
    }

    fn line(&self, name: &str) {
        let share = |sum: f64| 100.0 * sum / self.queries.max(1.0);
        say(&format!(
            "  {name:<22}{:>8}{:>10.1}{:>10.1}{:>10.1}",
            self.queries,
            share(self.recall_5),
            share(self.recall_10),
            share(self.reciprocal)
        ));
    }
}

/// Asks a ranker every query.
pub(crate) fn judge(set: &Set, ranker: &dyn Ranker) -> Result<Judged> {
    let answers = set.queries.iter().map(|query| ranker.rank(query));
    Ok(Judged(answers.collect::<Result<_>>()?))
}

/// Prints the figures of one ranker.
pub(crate) fn print(set: &Set, name: &str, judged: &Judged) {
    let mut kinds: BTreeMap<&str, Sums> = BTreeMap::new();
    let [mut all, mut held_out] = [Sums::default(), Sums::default()];
    for (at, (query, answer)) in set.queries.iter().zip(&judged.0).enumerate() {
        let kind = kinds.entry(&query.kind).or_default();
        kind.add(&query.relevant, answer);
        all.add(&query.relevant, answer);
        if at % HELD_OUT == 0 {
            held_out.add(&query.relevant, answer);
        }
    }
    say(&format!(
        "{name:<24}{:>8}{:>10}{:>10}{:>10}",
        "queries", "recall@5", "recall@10", "MRR"
    ));
    for (kind, sums) in &kinds {
        sums.line(kind);
    }
    held_out.line("held out");
    all.line("all");
}

/// Prints the queries that were not answered among the first five, without those held out.
pub(crate) fn missed(set: &Set, judged: &Judged) {
    for (at, (query, answer)) in set.queries.iter().zip(&judged.0).enumerate() {
        let first = answer.iter().take(5);
        if at % HELD_OUT != 0 && first.filter(|id| query.relevant.contains(id)).count() == 0 {
            let wanted = query.relevant.join(" ");
            let instead = answer.join(" ");
            say(&format!(
                "{}: {} [{wanted}] {instead}",
                query.kind, query.query
            ));
        }
    }
}

/// Prints a line; a reader who has gone is no error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
