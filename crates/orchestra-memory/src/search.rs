//! Search over what is remembered: what the store recalls for a query, read and ranked.
//!
//! The store finds rows by their rarest words and touches few of them. The best are read here, and
//! what decides is their text: which words it has and how rare they are, where they stand, what the
//! turns around it say, and a little how old it is. [`fuse`] adds hits by meaning, which come from
//! elsewhere or not at all.

mod answers;
mod context;
mod date;
mod fuse;
mod mend;
mod query;
mod same;
mod score;
mod snippet;
mod tokens;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use orchestra_board::{Label, Slug, Timestamp};
use orchestra_store::{ContextItem, MemoryFilter, ReadError, Reader, Recall, WantedWord, rarity};

pub use context::{Asked, Context, Piece, PieceKind, gather};
pub use fuse::{ByWords, Near, fuse, weight};
pub use query::MAX_QUERY_BYTES;
use query::Query;
use score::{Counted, Counter, Scored};
pub use tokens::tokens;

/// How many rows are read and ranked by their texts.
const READ: usize = 100;
/// For how many of the best texts what was said around them is read as well.
const WITH_TURNS: usize = 24;
/// The longest text that is a turn of talk, in bytes; longer ones say themselves what they are about.
const TURN: usize = 320;
/// How many turns before and after a text are looked at.
const REACH: u64 = 4;
/// Why something was found that has no word that tells texts apart.
const NEAR_ALONE: &str = "similar in meaning";
const COMMON_ALONE: &str = "has common words alone";
/// The best score of what has no word of the query.
const MOST_BY_MEANING: f64 = 0.999;
/// The most that a search answers.
pub const MAX_HITS: usize = 100;

/// What is searched for.
#[derive(Debug, Clone)]
pub struct Search<'a> {
    /// In which project.
    pub project: &'a Slug,
    /// By what words; the newest texts are found where there are none.
    pub query: &'a str,
    /// Among which texts.
    pub filter: &'a MemoryFilter,
    /// How many, at most [`MAX_HITS`].
    pub limit: usize,
    /// Whether sessions are found as well, where nothing is filtered.
    pub sessions: bool,
    /// The time, which says how old a text is.
    pub now: Timestamp,
    /// Hits by meaning, best first.
    pub near: &'a [Near],
    /// How much those count beside the words, from 0 to 1, as [`weight`] says.
    pub weight: f64,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What.
    pub item: ContextItem,
    /// How well it fits: the best has 1, the others less. Where words find nothing of the best, how near
    /// in meaning it is, which is always less than 1.
    pub score: f64,
    /// The part of it that fits.
    pub snippet: String,
    /// What made it fit, for people and models.
    pub why: String,
}

/// A text that is ranked.
struct Candidate {
    row: i64,
    item: ContextItem,
    counted: Counted,
    scored: Scored,
}

/// Finds what fits a query best, best first; the same every time as long as nothing changes.
///
/// # Errors
/// When there is no such project, or the store cannot be read.
pub fn search(reader: &Reader<'_>, ask: &Search<'_>) -> Result<Vec<Found>, ReadError> {
    let limit = ask.limit.clamp(1, MAX_HITS);
    let mut query = Query::parse(ask.query, ask.now);
    // Where nothing is said, nothing is near to it, whatever a model makes of marks and pictures.
    if query.words.is_empty() {
        return if ask.query.trim().is_empty() {
            newest(reader, ask, limit)
        } else {
            // Only a check that the project is there.
            reader.newest_remembered(ask.project, &ask.recall(&[], 0))?;
            Ok(Vec::new())
        };
    }
    let near = nearest(reader, ask)?;
    let mut rows = recall(reader, ask, &mut query)?;
    rows.extend(near.iter().map(|near| near.row));
    rows.sort_unstable();
    rows.dedup();
    let counter = Counter::new(&query);
    let mut pool = read(reader, ask, &counter, &rows)?;
    orchestra_sort::sort_by(&mut pool, order);
    add_turns(reader, ask, &counter, &mut pool)?;
    score::lend(&query, &mut pool);
    for candidate in &mut pool {
        candidate.scored = query.score(&candidate.item, &candidate.counted);
    }
    pool.retain(|candidate| admitted(ask, &candidate.item));
    orchestra_sort::sort_by(&mut pool, order);
    let hits: Vec<(i64, f64)> = pool
        .iter()
        .filter(|candidate| candidate.scored.score > 0.0)
        // What has common words alone is found where nothing says more.
        .filter(|candidate| candidate.scored.tells() || near.is_empty() || !query.tells())
        .map(|candidate| (candidate.row, candidate.scored.score))
        .collect();
    let by_words = ByWords {
        hits: &hits,
        whole: query.whole(),
    };
    let fused = fuse(by_words, &near, ask.weight);
    Ok(told(&counter, pool, &fused, &near, limit))
}

fn order(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let scores = b.scored.score.total_cmp(&a.scored.score);
    scores.then(b.row.cmp(&a.row))
}

fn admitted(ask: &Search<'_>, item: &ContextItem) -> bool {
    match item {
        ContextItem::Chunk(chunk) => ask.filter.admits(chunk),
        ContextItem::Session(_) => ask.sessions && *ask.filter == MemoryFilter::default(),
    }
}

impl Search<'_> {
    fn recall<'a>(&'a self, words: &'a [WantedWord], most: usize) -> Recall<'a> {
        Recall {
            words,
            filter: self.filter,
            sessions: self.sessions,
            most,
        }
    }
}

fn newest(reader: &Reader<'_>, ask: &Search<'_>, limit: usize) -> Result<Vec<Found>, ReadError> {
    let rows = reader.newest_remembered(ask.project, &ask.recall(&[], limit))?;
    let items = reader.remembered_in(ask.project, &rows)?;
    let found = items.into_iter().map(|(_, item)| Found {
        snippet: snippet::beginning(&item),
        item,
        score: 1.0,
        why: "among the newest".to_owned(),
    });
    Ok(found.collect())
}

/// The rows to read. Words that no text has are mended first: completed, or taken for misspelt.
fn recall(reader: &Reader<'_>, ask: &Search<'_>, query: &mut Query) -> Result<Vec<i64>, ReadError> {
    let recalled = reader.recall(ask.project, &ask.recall(&query.wanted(), READ))?;
    let missing: Vec<usize> = (0..query.words.len())
        .filter(|&at| recalled.frequencies[at] == 0.0)
        .collect();
    let mended = mend::mend(reader, query, &missing)?;
    let recalled = if mended {
        reader.recall(ask.project, &ask.recall(&query.wanted(), READ))?
    } else {
        recalled
    };
    for (word, frequency) in query.words.iter_mut().zip(&recalled.frequencies) {
        word.rarity = rarity(recalled.texts, *frequency) * if word.tells { 1.0 } else { 0.15 };
    }
    Ok(recalled.rows)
}

/// The nearest hits by meaning that can be found: what was removed a moment ago, is superseded, over or
/// filtered out takes nobody's place, and nothing of another project is near.
fn nearest(reader: &Reader<'_>, ask: &Search<'_>) -> Result<Vec<Near>, ReadError> {
    let rows: Vec<i64> = ask.near.iter().map(|near| near.row).collect();
    let rows = reader.recallable(ask.project, &rows, &ask.recall(&[], READ))?;
    let rows: HashSet<i64> = rows.into_iter().collect();
    let near = ask.near.iter().filter(|near| rows.contains(&near.row));
    Ok(near.copied().collect())
}

fn read(
    reader: &Reader<'_>,
    ask: &Search<'_>,
    counter: &Counter<'_>,
    rows: &[i64],
) -> Result<Vec<Candidate>, ReadError> {
    let items = reader.remembered_in(ask.project, rows)?;
    let admitted = items.into_iter().filter(|(_, item)| admitted(ask, item));
    Ok(admitted
        .map(|(row, item)| candidate(counter, row, item))
        .collect())
}

fn candidate(counter: &Counter<'_>, row: i64, item: ContextItem) -> Candidate {
    let counted = counter.count(&item);
    let scored = counter.query.score(&item, &counted);
    Candidate {
        row,
        item,
        counted,
        scored,
    }
}

/// Adds the turns around the best texts, so that an answer is found which shares no word with its
/// question.
fn add_turns(
    reader: &Reader<'_>,
    ask: &Search<'_>,
    counter: &Counter<'_>,
    pool: &mut Vec<Candidate>,
) -> Result<(), ReadError> {
    let mut known: HashSet<i64> = HashSet::new();
    let mut wanted: BTreeMap<Label, Vec<u64>> = BTreeMap::new();
    for (place, candidate) in pool.iter().enumerate() {
        known.insert(candidate.row);
        if let ContextItem::Chunk(chunk) = &candidate.item
            && let Some(source) = &chunk.source_id
            && place < WITH_TURNS
            && chunk.content.as_str().len() <= TURN
        {
            let numbers = wanted.entry(source.clone()).or_default();
            numbers.push(chunk.id.number());
        }
    }
    for (source, mut numbers) in wanted {
        numbers.sort_unstable();
        for stretch in stretches(&numbers) {
            for (row, turn) in reader.remembered_of(ask.project, &source, &stretch)? {
                if known.insert(row) {
                    pool.push(candidate(counter, row, ContextItem::Chunk(turn)));
                }
            }
        }
    }
    Ok(())
}

/// What is within [`REACH`] of ordered numbers, each stretch once.
fn stretches(numbers: &[u64]) -> Vec<RangeInclusive<u64>> {
    let mut stretches: Vec<RangeInclusive<u64>> = Vec::new();
    for number in numbers {
        let (first, last) = (number.saturating_sub(REACH), number.saturating_add(REACH));
        match stretches.last_mut() {
            Some(stretch) if first <= *stretch.end() => *stretch = *stretch.start()..=last,
            _ => stretches.push(first..=last),
        }
    }
    stretches
}

fn told(
    counter: &Counter<'_>,
    pool: Vec<Candidate>,
    fused: &[(i64, f64)],
    near: &[Near],
    limit: usize,
) -> Vec<Found> {
    let best = pool.iter().map(|c| c.scored.score).fold(0.0, f64::max);
    let by_words = |row: i64| pool.iter().any(|c| c.row == row && c.scored.tells());
    // What is the nearest of all is not the best there could be: where no word of it fits, its score
    // says how near it is.
    let most = fused.first().map_or(
        1.0,
        |(row, score)| {
            if by_words(*row) { *score } else { 1.0 }
        },
    );
    let mut by_row: HashMap<i64, Candidate> = pool.into_iter().map(|c| (c.row, c)).collect();
    let near: HashSet<i64> = near.iter().map(|near| near.row).collect();
    let mut found = Vec::new();
    for (row, score) in fused {
        let Some(candidate) = by_row.remove(row) else {
            continue;
        };
        let score = if near.is_empty() {
            candidate.scored.score / best
        } else if candidate.scored.tells() {
            (score / most).min(1.0)
        } else {
            (score / most).min(MOST_BY_MEANING)
        };
        let mut why = candidate.scored.why(counter.query);
        if why.is_empty() {
            let is_near = near.contains(row);
            why = if is_near { NEAR_ALONE } else { COMMON_ALONE }.to_owned();
        }
        found.push(Found {
            snippet: snippet::around(counter, &candidate.item),
            item: candidate.item,
            score: (score * 1_000.0).round() / 1_000.0,
            why,
        });
        if found.len() == limit {
            break;
        }
    }
    found
}
