//! Finding what is remembered: search, and context for the work at hand.

use orchestra_board::{Label, Slug, Timestamp};
use orchestra_memory::{
    engine::NearAnswer,
    search::{
        Asked, Found, MAX_QUERY_BYTES, Near, Piece, PieceKind, Search, gather, search, weight,
    },
};
use orchestra_store::{Chunk, ContextItem, MemoryFilter, SessionRecord};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Tags, names};
use crate::args::{Arg, Number};
use crate::failure::Failure;
use crate::services::{NearQuery, Services};
use crate::tool::Step;
use crate::wire::{List, time};

/// How many texts a search shows unless told: their contents are long.
const SEARCH_LIMIT: u32 = 10;
/// How many items `get_context` shows unless told.
const CONTEXT_LIMIT: u32 = 8;
/// How many tokens `get_context` may cost unless told: little beside what a model can hold, and
/// enough for a handful of remembered texts.
const CONTEXT_BUDGET: u32 = 2_000;

/// How many rows are asked for that are near a query: enough to be weighed against those that hold its
/// words, where sessions and superseded texts are among them.
const NEAR_LIMIT: u32 = 200;
/// How many where a filter will let few of them through.
const FILTERED_NEAR_LIMIT: u32 = 1_000;

/// Something that fits a query; one shape, whatever it is and whatever found it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(super) struct Hit {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The part that fits, where the content is longer or left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    snippet: Option<String>,
    /// What made it fit.
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    created_at: String,
    score: f64,
}

impl Hit {
    fn of_chunk(chunk: &Chunk, snippet: String, why: String, score: f64) -> Self {
        let content = chunk.content.to_string();
        Self {
            kind: "memory",
            id: chunk.id.to_string(),
            summary: chunk.summary.to_string(),
            snippet: (snippet != content.trim()).then_some(snippet),
            content: Some(content),
            why,
            source: chunk.source.as_ref().map(Label::to_string),
            source_id: chunk.source_id.as_ref().map(Label::to_string),
            tags: names(&chunk.tags),
            created_at: time(chunk.created_at),
            score,
        }
    }

    fn of_session(session: &SessionRecord, snippet: String, why: String, score: f64) -> Self {
        let summary = session.summary.to_string();
        Self {
            kind: "session",
            id: session.id.to_string(),
            snippet: (snippet != summary.trim()).then_some(snippet),
            summary,
            content: None,
            why,
            source: None,
            source_id: None,
            tags: Vec::new(),
            created_at: time(session.started_at),
            score,
        }
    }

    fn of_item(item: &ContextItem, snippet: String, why: String, score: f64) -> Self {
        match item {
            ContextItem::Chunk(chunk) => Self::of_chunk(chunk, snippet, why, score),
            ContextItem::Session(session) => Self::of_session(session, snippet, why, score),
        }
    }

    fn of_piece(piece: Piece) -> Self {
        let Piece {
            kind,
            score,
            snippet,
            why,
            cut,
        } = piece;
        let mut hit = match kind {
            PieceKind::Remembered(item) => Self::of_item(&item, snippet.clone(), why, score),
            PieceKind::Other {
                kind,
                id,
                title,
                text,
                created_at,
            } => Self {
                kind,
                id,
                summary: title,
                snippet: (snippet != text.trim()).then_some(snippet.clone()),
                content: (!text.is_empty()).then_some(text),
                why,
                source: None,
                source_id: None,
                tags: Vec::new(),
                created_at: time(created_at),
                score,
            },
        };
        if cut {
            hit.content = None;
            hit.snippet = Some(snippet);
        }
        hit
    }
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct SearchMemory {
    project: Arg<Slug>,
    query: String,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    source: Option<Arg<Label>>,
    tags: Option<Tags>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    since: Option<Arg<Timestamp>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    until: Option<Arg<Timestamp>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    include_superseded: Option<bool>,
    limit: Option<Number<1, 100>>,
}

/// What is asked of a model: as much of a query as is looked for by words.
fn near_query(project: &Slug, text: &str) -> NearQuery {
    NearQuery {
        project: project.clone(),
        text: text[..text.floor_char_boundary(MAX_QUERY_BYTES)].to_owned(),
        limit: NEAR_LIMIT,
    }
}

/// How much meaning counts beside words.
const fn near_weight(answer: &NearAnswer) -> f64 {
    weight(answer.kind)
}

fn hits_by_meaning(answer: Option<NearAnswer>) -> Vec<Near> {
    let hits = answer.map(|answer| answer.hits).unwrap_or_default();
    hits.iter()
        .map(|hit| Near {
            row: hit.row,
            similarity: f64::from(hit.similarity),
        })
        .collect()
}

pub(super) fn by_meaning(args: &SearchMemory) -> NearQuery {
    let mut query = near_query(&args.project.0, &args.query);
    if args.source.is_some() || args.tags.is_some() || args.since.is_some() || args.until.is_some()
    {
        query.limit = FILTERED_NEAR_LIMIT;
    }
    query
}

pub(super) fn search_memory(
    services: &Services,
    args: SearchMemory,
    near: Option<NearAnswer>,
) -> Result<Step<List<Hit>>, Failure> {
    let filter = MemoryFilter {
        source: args.source.map(|source| source.0),
        tags: args.tags.unwrap_or_default().0,
        since: args.since.map(|at| at.0),
        until: args.until.map(|at| at.0),
        ..MemoryFilter::default()
    };
    let ask = Search {
        project: &args.project.0,
        query: &args.query,
        filter: &filter,
        limit: args.limit.map_or(SEARCH_LIMIT, Number::get) as usize,
        sessions: false,
        now: services.now(),
        weight: near.as_ref().map_or(0.0, near_weight),
        near: &hits_by_meaning(near),
    };
    let found = services.read(|reader| {
        let reader = match args.include_superseded {
            Some(true) => reader.with_superseded(),
            _ => reader.clone(),
        };
        Ok(search(&reader, &ask)?)
    })?;
    let hits = found.into_iter().map(
        |Found {
             item,
             score,
             snippet,
             why,
         }| Hit::of_item(&item, snippet, why, score),
    );
    Ok(Step::Done(List::whole(hits.collect())))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct GetContext {
    project: Arg<Slug>,
    query: String,
    limit: Option<Number<1, 100>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    max_tokens: Option<Number<100, 100_000>>,
}

pub(super) fn context_by_meaning(args: &GetContext) -> NearQuery {
    near_query(&args.project.0, &args.query)
}

pub(super) fn get_context(
    services: &Services,
    args: GetContext,
    near: Option<NearAnswer>,
) -> Result<Step<List<Hit>>, Failure> {
    let asked = Asked {
        project: &args.project.0,
        query: &args.query,
        limit: args.limit.map_or(CONTEXT_LIMIT, Number::get) as usize,
        budget: args.max_tokens.map_or(CONTEXT_BUDGET, Number::get) as usize,
        now: services.now(),
        weight: near.as_ref().map_or(0.0, near_weight),
        near: &hits_by_meaning(near),
    };
    let context = services.read(|reader| Ok(gather(reader, &asked)?))?;
    let hits = context.pieces.into_iter().map(Hit::of_piece);
    Ok(Step::Done(List::whole(hits.collect())))
}

#[cfg(test)]
mod tests {
    use orchestra_board::Slug;

    use super::near_query;

    #[test]
    fn as_much_of_a_query_is_near_as_is_looked_for() {
        let project = Slug::parse("demo").unwrap();
        assert_eq!(near_query(&project, "cache").text, "cache");
        let long = near_query(&project, &"缓".repeat(100_000)).text;
        assert_eq!(long.len(), 4_095);
    }
}
