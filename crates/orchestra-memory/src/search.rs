//! Search over what is remembered: what the store recalls for a query, read and ranked.
//!
//! The store finds rows by their rarest words and touches few of them. The best are read here, and
//! what decides is their text: which words it has and how rare they are, where they stand, what the
//! turns around it say, and a little how old it is. [`fuse`] adds hits by meaning, which come from
//! elsewhere or not at all.

mod context;
mod date;
mod fuse;
mod mend;
mod query;
mod score;
mod snippet;

use std::collections::HashMap;

use orchestra_board::{Slug, Timestamp};
use orchestra_store::{ContextItem, MemoryFilter, ReadError, Reader, rarity};

pub use context::{Asked, Context, Piece, PieceKind, gather, tokens};
pub use fuse::{Near, fuse};
use query::Query;
use score::{Counted, Counter, Scored};

/// How many rows are read and ranked by their texts.
const READ: usize = 100;
/// For how many of the best texts what was said around them is read as well.
const WITH_TURNS: usize = 24;
/// The longest text that is a turn of talk, in bytes; longer ones say themselves what they are about.
const TURN: usize = 320;
/// How many turns before and after a text are looked at.
const REACH: u64 = 4;
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
    /// How much those count beside the words, from 0 to 1.
    pub weight: f64,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What.
    pub item: ContextItem,
    /// How well it fits: the best has 1, the others less.
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
    if query.words.is_empty() && ask.near.is_empty() {
        return if ask.query.trim().is_empty() {
            newest(reader, ask, limit)
        } else {
            // Only a check that the project is there.
            reader.newest_remembered(ask.project, ask.filter, 0)?;
            Ok(Vec::new())
        };
    }
    let rows = recall(reader, ask, &mut query)?;
    let counter = Counter::new(&query);
    let mut pool = read(reader, ask, &counter, &rows)?;
    pool.sort_by(order);
    add_turns(reader, &counter, &mut pool)?;
    score::lend(&query, &mut pool);
    for candidate in &mut pool {
        candidate.scored = query.score(&candidate.item, &candidate.counted);
    }
    pool.retain(|candidate| admitted(ask, &candidate.item));
    pool.sort_by(order);
    let lexical: Vec<i64> = pool
        .iter()
        .filter(|candidate| candidate.scored.score > 0.0)
        .map(|candidate| candidate.row)
        .collect();
    let fused = fuse(&lexical, ask.near, ask.weight);
    Ok(told(&query, pool, &fused, !ask.near.is_empty(), limit))
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

fn newest(reader: &Reader<'_>, ask: &Search<'_>, limit: usize) -> Result<Vec<Found>, ReadError> {
    let mut found = Vec::new();
    for row in reader.newest_remembered(ask.project, ask.filter, READ.max(2 * limit))? {
        if let Some(item) = reader.remembered_at(ask.project, row)?
            && admitted(ask, &item)
            && found.len() < limit
        {
            found.push(Found {
                snippet: snippet::beginning(&item),
                item,
                score: 1.0,
                why: "among the newest".to_owned(),
            });
        }
    }
    Ok(found)
}

/// The rows to read. Words that no text has are mended first: completed, or taken for misspelt.
fn recall(reader: &Reader<'_>, ask: &Search<'_>, query: &mut Query) -> Result<Vec<i64>, ReadError> {
    let recalled = reader.recall(ask.project, &query.wanted(), ask.filter, READ)?;
    let missing: Vec<usize> = (0..query.words.len())
        .filter(|&at| recalled.frequencies[at] == 0.0)
        .collect();
    let mended = mend::mend(reader, query, &missing)?;
    let recalled = if mended {
        reader.recall(ask.project, &query.wanted(), ask.filter, READ)?
    } else {
        recalled
    };
    for (word, frequency) in query.words.iter_mut().zip(&recalled.frequencies) {
        word.rarity = rarity(recalled.texts, *frequency) * if word.tells { 1.0 } else { 0.15 };
    }
    let mut rows = recalled.rows;
    let near = ask.near.iter().take(READ).map(|near| near.row);
    rows.extend(near);
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}

fn read(
    reader: &Reader<'_>,
    ask: &Search<'_>,
    counter: &Counter<'_>,
    rows: &[i64],
) -> Result<Vec<Candidate>, ReadError> {
    let mut pool = Vec::with_capacity(rows.len());
    for &row in rows {
        if let Some(item) = reader.remembered_at(ask.project, row)?
            && admitted(ask, &item)
        {
            pool.push(candidate(counter, row, item));
        }
    }
    Ok(pool)
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
    counter: &Counter<'_>,
    pool: &mut Vec<Candidate>,
) -> Result<(), ReadError> {
    let mut known: HashMap<u64, ()> = HashMap::new();
    let mut wanted = Vec::new();
    for (place, candidate) in pool.iter().enumerate() {
        if let ContextItem::Chunk(chunk) = &candidate.item {
            known.insert(chunk.id.number(), ());
            let is_turn = chunk.source_id.is_some() && chunk.content.as_str().len() <= TURN;
            if place < WITH_TURNS && is_turn {
                wanted.push((candidate.row, chunk.clone()));
            }
        }
    }
    for (row, chunk) in wanted {
        for turn in reader.remembered_around(&chunk, REACH)? {
            if known.insert(turn.id.number(), ()).is_none() {
                // Rows and numbers of texts need not count alike: sessions have rows as well.
                let row = reader.row_of(&turn)?.unwrap_or(row);
                pool.push(candidate(counter, row, ContextItem::Chunk(turn)));
            }
        }
    }
    Ok(())
}

fn told(
    query: &Query,
    pool: Vec<Candidate>,
    fused: &[(i64, f64)],
    by_meaning: bool,
    limit: usize,
) -> Vec<Found> {
    let best = pool.iter().map(|c| c.scored.score).fold(0.0, f64::max);
    let most = fused.first().map_or(1.0, |(_, score)| *score);
    let mut by_row: HashMap<i64, Candidate> = pool.into_iter().map(|c| (c.row, c)).collect();
    let mut found = Vec::new();
    for (row, score) in fused {
        let Some(candidate) = by_row.remove(row) else {
            continue;
        };
        let score = if by_meaning {
            score / most
        } else {
            candidate.scored.score / best
        };
        let mut why = candidate.scored.why(query);
        if why.is_empty() {
            why = "similar in meaning".to_owned();
        }
        found.push(Found {
            snippet: snippet::around(query, &candidate.item),
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
