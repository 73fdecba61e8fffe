//! Everything that fits the work at hand, within a budget: remembered texts, sessions, issues, plans.

use std::collections::HashSet;

use orchestra_board::{Slug, Timestamp};
use orchestra_store::{ContextItem, MemoryFilter, PageRequest, ReadError, Reader, words_of};

use super::query::Query;
use super::score::Counter;
use super::{Found, Near, Search, search, snippet};

/// How many of each kind are looked at.
const EACH: usize = 30;
/// Two texts are nearly the same when so much of their words is in both.
const SAME: f64 = 0.8;
/// How many bytes a token has in English and in code, about.
const BYTES_OF_A_TOKEN: usize = 4;
/// What an item costs beside its texts: its id, its time, its names.
const OVERHEAD: usize = 40;
/// How much less an issue or a plan counts than a remembered text of the same rank: they are found
/// by other tools as well.
const BESIDE: f64 = 0.7;

/// What context is asked for.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// In which project.
    pub project: &'a Slug,
    /// For what.
    pub query: &'a str,
    /// How many pieces at most.
    pub limit: usize,
    /// How many tokens they may cost together.
    pub budget: usize,
    /// The time.
    pub now: Timestamp,
    /// Hits by meaning, best first.
    pub near: &'a [Near],
    /// How much those count, from 0 to 1.
    pub weight: f64,
}

/// What fits, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// The pieces.
    pub pieces: Vec<Piece>,
    /// How many fit the query but not the budget, or said nothing new.
    pub left_out: usize,
}

/// A piece of context.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// What it is.
    pub kind: PieceKind,
    /// How well it fits; the best has 1.
    pub score: f64,
    /// The part that fits.
    pub snippet: String,
    /// What made it fit.
    pub why: String,
    /// Whether only its snippet fits the budget.
    pub cut: bool,
}

/// What a piece of context is.
#[derive(Debug, Clone, PartialEq)]
pub enum PieceKind {
    /// A remembered text or a session.
    Remembered(ContextItem),
    /// An issue or a plan.
    Other {
        /// `issue` or `plan`.
        kind: &'static str,
        /// Its id or name.
        id: String,
        /// Its title.
        title: String,
        /// What it says.
        text: String,
        /// When it was made.
        created_at: Timestamp,
    },
}

/// About how many tokens a text costs.
#[must_use]
pub fn tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_OF_A_TOKEN)
}

/// Gathers what fits a query.
///
/// # Errors
/// As [`search`].
pub fn gather(reader: &Reader<'_>, asked: &Asked<'_>) -> Result<Context, ReadError> {
    let filter = MemoryFilter::default();
    let found = search(
        reader,
        &Search {
            project: asked.project,
            query: asked.query,
            filter: &filter,
            limit: EACH,
            sessions: true,
            now: asked.now,
            near: asked.near,
            weight: asked.weight,
        },
    )?;
    let mut pieces: Vec<Piece> = found.into_iter().map(remembered).collect();
    if !asked.query.trim().is_empty() {
        pieces.extend(issues(reader, asked)?);
        pieces.extend(plans(reader, asked)?);
    }
    pieces.sort_by(|a, b| b.score.total_cmp(&a.score));
    Ok(fit(pieces, asked))
}

fn remembered(found: Found) -> Piece {
    Piece {
        kind: PieceKind::Remembered(found.item),
        score: found.score,
        snippet: found.snippet,
        why: found.why,
        cut: false,
    }
}

fn other(query: &Query, kind: PieceKind) -> Option<Piece> {
    let PieceKind::Other { title, text, .. } = &kind else {
        return None;
    };
    let scored = query.score_counted(&Counter::new(query).count_texts(title, text, ""));
    let snippet = snippet::part(query, if text.is_empty() { title } else { text });
    (scored.score > 0.0).then(|| Piece {
        score: scored.score,
        snippet,
        why: scored.why(query),
        kind,
        cut: false,
    })
}

/// Scores of things that are compared among themselves only: the best becomes [`BESIDE`].
fn beside(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by(|a, b| b.score.total_cmp(&a.score));
    let best = pieces.first().map_or(1.0, |piece| piece.score);
    for piece in &mut pieces {
        piece.score = (BESIDE * piece.score / best * 1_000.0).round() / 1_000.0;
    }
    pieces.truncate(EACH);
    pieces
}

fn issues(reader: &Reader<'_>, asked: &Asked<'_>) -> Result<Vec<Piece>, ReadError> {
    let mut query = Query::parse(asked.query, asked.now);
    query.weigh_alike();
    let request = PageRequest {
        limit: u32::try_from(EACH).unwrap_or(u32::MAX),
        ..PageRequest::default()
    };
    let found = reader.search(asked.project, asked.query, &[], &request)?;
    let pieces = found.items.into_iter().filter_map(|record| {
        let issue = record.issue;
        let kind = PieceKind::Other {
            kind: "issue",
            id: issue.id.to_string(),
            title: issue.title.to_string(),
            text: issue.description.to_string(),
            created_at: issue.created_at,
        };
        other(&query, kind)
    });
    Ok(beside(pieces.collect()))
}

fn plans(reader: &Reader<'_>, asked: &Asked<'_>) -> Result<Vec<Piece>, ReadError> {
    let mut query = Query::parse(asked.query, asked.now);
    query.weigh_alike();
    let found = reader.plans(asked.project, &PageRequest::default())?;
    let mut pieces = Vec::new();
    for plan in found.items {
        let text = reader.plan(asked.project, &plan.id)?;
        let kind = PieceKind::Other {
            kind: "plan",
            id: plan.id.to_string(),
            title: plan.title.to_string(),
            text: text.map(|(_, text)| text).unwrap_or_default(),
            created_at: plan.created_at,
        };
        pieces.extend(other(&query, kind));
    }
    Ok(beside(pieces))
}

/// Takes pieces as long as the budget lasts; one that is too large may still fit as its snippet.
fn fit(pieces: Vec<Piece>, asked: &Asked<'_>) -> Context {
    let mut kept: Vec<(Piece, HashSet<String>)> = Vec::new();
    let (mut left, mut left_out) = (asked.budget, 0);
    for mut piece in pieces {
        let (summary, text) = piece.texts();
        let words = vocabulary(&text);
        let is_known = kept.iter().any(|(_, other)| alike(&words, other));
        let short = OVERHEAD + tokens(&summary) + tokens(&piece.snippet);
        let whole = short + tokens(&text);
        if kept.len() >= asked.limit || is_known || (short > left && !kept.is_empty()) {
            left_out += 1;
            continue;
        }
        piece.cut = whole > left;
        left = left.saturating_sub(if piece.cut { short } else { whole });
        kept.push((piece, words));
    }
    Context {
        pieces: kept.into_iter().map(|(piece, _)| piece).collect(),
        left_out,
    }
}

impl Piece {
    /// What it says in short, and all of what is shown.
    fn texts(&self) -> (String, String) {
        match &self.kind {
            PieceKind::Remembered(ContextItem::Chunk(chunk)) => {
                (chunk.summary.to_string(), chunk.content.to_string())
            }
            PieceKind::Remembered(ContextItem::Session(session)) => {
                (String::new(), session.summary.to_string())
            }
            PieceKind::Other { title, text, .. } => (title.clone(), text.clone()),
        }
    }
}

fn vocabulary(text: &str) -> HashSet<String> {
    let mut words = HashSet::new();
    words_of(&text[..text.floor_char_boundary(8 * 1024)], |_, word| {
        words.insert(word.to_owned());
    });
    words
}

#[expect(clippy::cast_precision_loss, reason = "counts of words of one text")]
fn alike(a: &HashSet<String>, b: &HashSet<String>) -> bool {
    let both = a.intersection(b).count() as f64;
    let all = (a.len() + b.len()) as f64 - both;
    // Two words or three say nothing about being the same.
    a.len() >= 4 && both / all >= SAME
}
