//! What is remembered across sessions: texts, and summaries of sessions.

use orchestra_board::{Body, Label, SessionId, Slug, Timestamp};
use orchestra_store::{
    Action, Chunk, ChunkId, ContextItem, Cursor, Hit, Made, NewChunk, NewSession, NewSessionEvent,
    PageRequest, SessionRecord,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Arg, Limit, Number, texts};
use crate::failure::Failure;
use crate::services::{Services, page};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{List, time};

/// How many texts a search shows unless told: their contents are long.
const SEARCH_LIMIT: u32 = 10;
/// How many items `get_context` shows unless told.
const CONTEXT_LIMIT: u32 = 5;
/// How many sessions are listed unless told.
const SESSIONS_LIMIT: u32 = 20;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "save_memory",
            "Save memory",
            Effect::Set,
            "Remember a fact or decision.",
            save_memory,
        ),
        Tool::new(
            "search_memory",
            "Search memory",
            Effect::Read,
            "Memories that fit a query, best first.",
            search_memory,
        ),
        Tool::new(
            "get_context",
            "Get context",
            Effect::Read,
            "Memories and sessions that fit the work at hand.",
            get_context,
        ),
        Tool::new(
            "forget_memory",
            "Forget memory",
            Effect::Remove,
            "Forget a remembered text.",
            forget_memory,
        ),
        Tool::new(
            "save_session",
            "Save session",
            Effect::Set,
            "Keep the summary of a session; saving the same id again replaces it.",
            save_session,
        ),
        Tool::new(
            "list_sessions",
            "List sessions",
            Effect::Read,
            "Saved sessions, latest first.",
            list_sessions,
        ),
        Tool::new(
            "get_session",
            "Get session",
            Effect::Read,
            "A saved session with its events.",
            get_session,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SaveMemory {
    project: Arg<Slug>,
    content: Arg<Body>,
    summary: Arg<Body>,
    source: Option<Arg<Label>>,
    source_id: Option<Arg<Label>>,
    tags: Option<Vec<Arg<Label>>>,
}

/// A remembered text without its content, which the caller has just sent.
#[derive(Serialize, JsonSchema)]
struct Saved {
    id: String,
    project: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    created_at: String,
    /// The same text was remembered already, and the two are one now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    merged: bool,
}

fn save_memory(_: &Services, args: SaveMemory) -> Result<Step<Saved>, Failure> {
    let chunk = NewChunk {
        project: args.project.0,
        content: args.content.0,
        summary: args.summary.0,
        source: args.source.map(|source| source.0),
        source_id: args.source_id.map(|id| id.0),
        tags: texts(args.tags.unwrap_or_default()),
    };
    if chunk.content.is_empty() {
        return Err(Failure::text("argument `content`: must not be empty"));
    }
    Ok(Step::submit(
        None,
        Action::SaveMemory(chunk),
        |_, receipt| match receipt.made {
            Made::Chunk { chunk, merged } => Ok(Saved {
                id: chunk.id.to_string(),
                project: chunk.project.to_string(),
                summary: chunk.summary.to_string(),
                source: chunk.source.as_ref().map(Label::to_string),
                source_id: chunk.source_id.as_ref().map(Label::to_string),
                tags: names(&chunk.tags),
                created_at: time(chunk.created_at),
                merged,
            }),
            _ => Err(unanswered()),
        },
    ))
}

fn unanswered() -> Failure {
    Failure::text("it was saved, but what was saved is unknown; read it again")
}

fn names(labels: &[Label]) -> Vec<String> {
    labels.iter().map(Label::to_string).collect()
}

/// Something remembered that fits a query; one shape for texts and sessions.
#[derive(Serialize, JsonSchema)]
struct Found {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    created_at: String,
    score: f64,
}

/// Scores are compared, not measured: 1 for the best hit, the others in proportion, and three
/// decimals do. What the index counts is no measure of its own: with few texts it is next to nothing.
fn relative(fit: f64, best: f64) -> f64 {
    if best > 0.0 {
        (fit / best * 1_000.0).round() / 1_000.0
    } else {
        1.0
    }
}

fn best<T>(hits: &[Hit<T>]) -> f64 {
    hits.iter().map(|hit| hit.score).fold(0.0, f64::max)
}

fn found_chunk(chunk: &Chunk, score: f64) -> Found {
    Found {
        kind: "memory",
        id: chunk.id.to_string(),
        summary: chunk.summary.to_string(),
        content: Some(chunk.content.to_string()),
        source: chunk.source.as_ref().map(Label::to_string),
        source_id: chunk.source_id.as_ref().map(Label::to_string),
        tags: names(&chunk.tags),
        created_at: time(chunk.created_at),
        score,
    }
}

fn found_session(session: &SessionRecord, score: f64) -> Found {
    Found {
        kind: "session",
        id: session.id.to_string(),
        summary: session.summary.to_string(),
        content: None,
        source: None,
        source_id: None,
        tags: Vec::new(),
        created_at: time(session.started_at),
        score,
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchMemory {
    project: Arg<Slug>,
    query: String,
    limit: Option<Number<1, 100>>,
}

fn search_memory(services: &Services, args: SearchMemory) -> Result<Step<List<Found>>, Failure> {
    let limit = args.limit.map_or(SEARCH_LIMIT, Number::get);
    let hits =
        services.read(|reader| Ok(reader.search_memory(&args.project.0, &args.query, limit)?))?;
    let best = best(&hits);
    let found = hits
        .iter()
        .map(|Hit { item, score }| found_chunk(item, relative(*score, best)));
    Ok(Step::Done(List::whole(found.collect())))
}

fn get_context(services: &Services, args: SearchMemory) -> Result<Step<List<Found>>, Failure> {
    let limit = args.limit.map_or(CONTEXT_LIMIT, Number::get);
    let hits =
        services.read(|reader| Ok(reader.context(&args.project.0, &args.query, limit)?))?;
    let best = best(&hits);
    let found = hits.iter().map(|Hit { item, score }| match item {
        ContextItem::Chunk(chunk) => found_chunk(chunk, relative(*score, best)),
        ContextItem::Session(session) => found_session(session, relative(*score, best)),
    });
    Ok(Step::Done(List::whole(found.collect())))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForgetMemory {
    project: Arg<Slug>,
    memory_id: Arg<ChunkId>,
}

#[derive(Serialize, JsonSchema)]
struct Forgotten {
    forgotten: String,
}

fn forget_memory(_: &Services, args: ForgetMemory) -> Result<Step<Forgotten>, Failure> {
    let id = args.memory_id.0;
    let action = Action::ForgetMemory {
        project: args.project.0,
        id,
    };
    Ok(Step::submit(None, action, move |_, _| {
        Ok(Forgotten {
            forgotten: id.to_string(),
        })
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SaveSession {
    project: Arg<Slug>,
    session_id: Arg<SessionId>,
    summary: Arg<Body>,
    events: Option<Vec<Event>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Event {
    #[serde(rename = "type")]
    kind: Arg<Label>,
    summary: Arg<Body>,
    timestamp: Option<Arg<Timestamp>>,
}

/// A session in a list.
#[derive(Serialize, JsonSchema)]
struct SessionRow {
    session_id: String,
    summary: String,
    event_count: usize,
    started_at: String,
    ended_at: String,
}

impl SessionRow {
    fn new(session: &SessionRecord) -> Self {
        Self {
            session_id: session.id.to_string(),
            summary: session.summary.to_string(),
            event_count: session.events.len(),
            started_at: time(session.started_at),
            ended_at: time(session.ended_at),
        }
    }
}

fn save_session(_: &Services, args: SaveSession) -> Result<Step<SessionRow>, Failure> {
    let events = args
        .events
        .unwrap_or_default()
        .into_iter()
        .map(|event| NewSessionEvent {
            kind: event.kind.0,
            summary: event.summary.0,
            at: event.timestamp.map(|at| at.0),
        });
    let session = NewSession {
        project: args.project.0,
        id: args.session_id.0,
        summary: args.summary.0,
        events: events.collect(),
    };
    Ok(Step::submit(
        None,
        Action::SaveSession(session),
        |_, receipt| match receipt.made {
            Made::Session(session) => Ok(SessionRow::new(&session)),
            _ => Err(unanswered()),
        },
    ))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListSessions {
    project: Arg<Slug>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

fn list_sessions(
    services: &Services,
    args: ListSessions,
) -> Result<Step<List<SessionRow>>, Failure> {
    let limit = args.limit.map_or(SESSIONS_LIMIT, Limit::get);
    let request = PageRequest {
        limit,
        ..page(None, args.cursor)
    };
    let found = services.read(|reader| Ok(reader.sessions(&args.project.0, &request)?))?;
    Ok(Step::Done(List::of(found, |session| {
        SessionRow::new(&session)
    })))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetSession {
    project: Arg<Slug>,
    session_id: Arg<SessionId>,
}

#[derive(Serialize, JsonSchema)]
struct SessionFull {
    session_id: String,
    project: String,
    summary: String,
    events: Vec<EventOut>,
    started_at: String,
    ended_at: String,
}

#[derive(Serialize, JsonSchema)]
struct EventOut {
    #[serde(rename = "type")]
    kind: String,
    summary: String,
    timestamp: String,
}

fn get_session(services: &Services, args: GetSession) -> Result<Step<SessionFull>, Failure> {
    let (slug, id) = (args.project.0, args.session_id.0);
    let Some(session) = services.read(|reader| Ok(reader.session(&slug, &id)?))? else {
        return Err(Failure::text(format!(
            "session `{id}` not found in project `{slug}`; list_sessions shows them"
        )));
    };
    let events = session.events.iter().map(|event| EventOut {
        kind: event.kind.to_string(),
        summary: event.summary.to_string(),
        timestamp: time(event.at),
    });
    Ok(Step::Done(SessionFull {
        session_id: session.id.to_string(),
        project: session.project.to_string(),
        summary: session.summary.to_string(),
        events: events.collect(),
        started_at: time(session.started_at),
        ended_at: time(session.ended_at),
    }))
}
