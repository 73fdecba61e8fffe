//! Everything that fits the work at hand, within a budget: remembered texts, sessions, issues, plans.

use orchestra_board::{Body, Label, Slug, Timestamp};
use orchestra_store::{ContextItem, MemoryFilter, PageRequest, ReadError, Reader};

use super::query::Query;
use super::same::Said;
use super::score::Counter;
use super::tokens::{beginning_within, tokens};
use super::{Found, Near, Search, search, snippet};

/// How many of each kind are looked at.
const EACH: usize = 30;
/// What an item costs beside its texts: its id, its time, the names of its members.
const OVERHEAD: usize = 60;
/// What an answer costs beside its items.
const FRAME: usize = 8;
/// How many plans are looked at: those that were saved last.
const PLANS: u32 = 200;
/// How much is read of a plan, and of all of them together.
const PLAN_CHARS: usize = 16 * 1024;
const PLANS_BYTES: usize = 1024 * 1024;
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
    orchestra_sort::sort_by(&mut pieces, |a, b| b.score.total_cmp(&a.score));
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

fn other(counter: &Counter<'_>, kind: PieceKind) -> Option<Piece> {
    let PieceKind::Other { title, text, .. } = &kind else {
        return None;
    };
    let query = counter.query;
    let scored = query.score_counted(&counter.count_texts(title, text, ""));
    if scored.score <= 0.0 {
        return None;
    }
    let snippet = snippet::part(counter, if text.is_empty() { title } else { text });
    Some(Piece {
        score: scored.score,
        snippet,
        why: scored.why(query),
        kind,
        cut: false,
    })
}

/// Scores of things that are compared among themselves only: the best becomes [`BESIDE`].
fn beside(mut pieces: Vec<Piece>) -> Vec<Piece> {
    orchestra_sort::sort_by(&mut pieces, |a, b| b.score.total_cmp(&a.score));
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
    let counter = Counter::new(&query);
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
        other(&counter, kind)
    });
    Ok(beside(pieces.collect()))
}

fn plans(reader: &Reader<'_>, asked: &Asked<'_>) -> Result<Vec<Piece>, ReadError> {
    let mut query = Query::parse(asked.query, asked.now);
    query.weigh_alike();
    let counter = Counter::new(&query);
    let part = u32::try_from(PLAN_CHARS).unwrap_or(u32::MAX);
    let found = reader.latest_plans(asked.project, PLANS, part, PLANS_BYTES)?;
    let mut pieces = Vec::new();
    for (plan, text) in found {
        let is_part = text.chars().nth(PLAN_CHARS - 1).is_some();
        let kind = PieceKind::Other {
            kind: "plan",
            id: plan.id.to_string(),
            title: plan.title.to_string(),
            text,
            created_at: plan.created_at,
        };
        let Some(piece) = other(&counter, kind) else {
            continue;
        };
        pieces.push((piece, is_part.then_some(plan.id)));
    }
    orchestra_sort::sort_by(&mut pieces, |(a, _), (b, _)| b.score.total_cmp(&a.score));
    pieces.truncate(EACH);
    // One that may be shown whole is read whole; one that is too long for that is cut.
    for (piece, id) in &mut pieces {
        if let (PieceKind::Other { text, .. }, Some(id)) = (&mut piece.kind, id)
            && tokens(text) < asked.budget
            && let Some((_, whole)) = reader.plan(asked.project, id)?
        {
            *text = whole;
        }
    }
    Ok(beside(pieces.into_iter().map(|(piece, _)| piece).collect()))
}

/// Takes pieces as long as the budget lasts; one that is too large may still fit as its snippet, and
/// the first is made to fit.
fn fit(pieces: Vec<Piece>, asked: &Asked<'_>) -> Context {
    let mut kept: Vec<(Piece, Said)> = Vec::new();
    let (mut left, mut left_out) = (asked.budget.saturating_sub(FRAME), 0);
    for mut piece in pieces {
        let said = Said::of(match piece.text() {
            "" => piece.summary(),
            text => text,
        });
        let is_known = kept.iter().any(|(_, other)| said == *other);
        if kept.len() >= asked.limit || is_known {
            left_out += 1;
            continue;
        }
        piece.cut = piece.tokens() > left;
        if piece.cut && kept.is_empty() {
            piece.shorten(left);
        }
        let Some(rest) = left.checked_sub(piece.tokens()) else {
            left_out += 1;
            continue;
        };
        left = rest;
        kept.push((piece, said));
    }
    Context {
        pieces: kept.into_iter().map(|(piece, _)| piece).collect(),
        left_out,
    }
}

impl Piece {
    /// About how many tokens it costs to show it: all of it, or without its text where it is
    /// [`cut`](Self::cut).
    #[must_use]
    pub fn tokens(&self) -> usize {
        let text = if self.cut { 0 } else { tokens(self.text()) };
        let shown = tokens(self.summary()) + tokens(&self.snippet) + tokens(&self.why);
        OVERHEAD + self.names() + shown + text
    }

    /// What it says in short, which is shown whether it is cut or not.
    fn summary(&self) -> &str {
        match &self.kind {
            PieceKind::Remembered(ContextItem::Chunk(chunk)) => chunk.summary.as_str(),
            PieceKind::Remembered(ContextItem::Session(session)) => session.summary.as_str(),
            PieceKind::Other { title, .. } => title,
        }
    }

    /// What it says at length. Of a session that is its summary.
    fn text(&self) -> &str {
        match &self.kind {
            PieceKind::Remembered(ContextItem::Chunk(chunk)) => chunk.content.as_str(),
            PieceKind::Remembered(ContextItem::Session(_)) => "",
            PieceKind::Other { text, .. } => text,
        }
    }

    /// What its tags and origins cost.
    fn names(&self) -> usize {
        match &self.kind {
            PieceKind::Remembered(ContextItem::Chunk(chunk)) => {
                let origins = chunk.source.iter().chain(&chunk.source_id);
                let names = chunk.tags.iter().chain(origins).map(Label::as_str);
                names.map(|name| tokens(name) + 1).sum()
            }
            PieceKind::Remembered(ContextItem::Session(_)) | PieceKind::Other { .. } => 0,
        }
    }

    /// Makes one that is cut cost no more than so much, if it can be: of what it says in short and of
    /// its snippet only the beginnings are left, and no tags and origins that cost much.
    fn shorten(&mut self, most: usize) {
        if self.tokens() <= most {
            return;
        }
        let names = self.names();
        if let PieceKind::Remembered(ContextItem::Chunk(chunk)) = &mut self.kind
            && names > most / 8
        {
            chunk.tags.clear();
            (chunk.source, chunk.source_id) = (None, None);
        }
        let left = |piece: &Self| most.saturating_sub(OVERHEAD + piece.names());
        self.why = beginning_within(&self.why, left(self) / 4);
        let room = left(self).saturating_sub(tokens(&self.why));
        // A summary that is longer than half of that leaves the other half to the snippet.
        let short = room.saturating_sub(tokens(&self.snippet)).max(room / 2);
        let summary = beginning_within(self.summary(), short);
        self.snippet = beginning_within(&self.snippet, room - tokens(&summary));
        match &mut self.kind {
            PieceKind::Remembered(ContextItem::Chunk(chunk)) => {
                chunk.summary = Body::parse(&summary).unwrap_or_default();
            }
            PieceKind::Remembered(ContextItem::Session(session)) => {
                session.summary = Body::parse(&summary).unwrap_or_default();
            }
            PieceKind::Other { title, .. } => *title = summary,
        }
    }
}
