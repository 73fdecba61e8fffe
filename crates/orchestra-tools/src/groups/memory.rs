//! What is remembered across sessions: texts, and summaries of sessions.

mod find;
mod life;

use orchestra_board::{Label, SessionId, Slug, Timestamp};
use orchestra_store::{
    Action, ChunkId, Cursor, Made, NewChunk, NewSession, NewSessionEvent, PageRequest,
    SessionRecord,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Arg, Limit, Many, Short};
use crate::failure::Failure;
use crate::services::{Services, page};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{List, time};

/// How many sessions are listed unless told.
const SESSIONS_LIMIT: u32 = 20;

pub(super) fn tools() -> Vec<Tool> {
    let mut tools = vec![
        Tool::new(
            "save_memory",
            "Save memory",
            Effect::Set,
            "Save a fact or decision; memories that it supersedes are hidden.",
            save_memory,
        ),
        Tool::finding(
            "search_memory",
            "Search memory",
            Effect::Read,
            "Find memories that match a query, best first.",
            find::by_meaning,
            find::search_memory,
        )
        // A hundred texts and more are read and looked through.
        .heavy(),
        Tool::finding(
            "get_context",
            "Get context",
            Effect::Read,
            "Return memories, sessions, issues and plans that fit the current work.",
            find::context_by_meaning,
            find::get_context,
        )
        .heavy(),
        Tool::new(
            "forget_memory",
            "Forget memory",
            Effect::Remove,
            "Delete a memory.",
            forget_memory,
        ),
        Tool::new(
            "save_session",
            "Save session",
            Effect::Remove,
            "Save the summary of a session; the same id again replaces it.",
            save_session,
        ),
        Tool::new(
            "list_sessions",
            "List sessions",
            Effect::Read,
            "List saved sessions, newest first.",
            list_sessions,
        ),
        Tool::new(
            "get_session",
            "Get session",
            Effect::Read,
            "Return a saved session with its events.",
            get_session,
        ),
    ];
    tools.extend(life::tools());
    tools
}

/// As many tags as a text can have.
type Tags = Many<Label, { NewChunk::MAX_TAGS }>;
/// A text that is remembered, and what it says in short.
type Content = Short<{ NewChunk::MAX_BYTES }>;
type Summary = Short<{ NewChunk::MAX_SUMMARY_BYTES }>;

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct SaveMemory {
    project: Arg<Slug>,
    /// At most 65536 bytes.
    content: Arg<Content>,
    summary: Arg<Summary>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    source: Option<Arg<Label>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    source_id: Option<Arg<Label>>,
    tags: Option<Tags>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    expires_at: Option<Arg<Timestamp>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    expires_in_days: Option<life::Days>,
    supersedes: Option<Many<ChunkId, { NewChunk::MAX_SUPERSEDED }>>,
}

/// A remembered text without its content, which the caller has just sent.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// The same text was remembered already, and the two are one now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    merged: bool,
}

fn save_memory(services: &Services, args: SaveMemory) -> Result<Step<Saved>, Failure> {
    let at = args.expires_at.map(|at| at.0);
    let chunk = NewChunk {
        summary: args.summary.0.0,
        source: args.source.map(|source| source.0),
        source_id: args.source_id.map(|id| id.0),
        tags: args.tags.unwrap_or_default().0,
        expires_at: life::expiry(services, at, args.expires_in_days)?,
        supersedes: args.supersedes.unwrap_or_default().0,
        ..NewChunk::of(args.project.0, args.content.0.0)
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
                expires_at: chunk.expires_at.map(time),
                merged,
            }),
            _ => Err(unanswered()),
        },
    ))
}

fn unanswered() -> Failure {
    Failure::text("it was saved, but cannot be returned; read it again")
}

fn names(labels: &[Label]) -> Vec<String> {
    labels.iter().map(Label::to_string).collect()
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ForgetMemory {
    project: Arg<Slug>,
    memory_id: Arg<ChunkId>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct SaveSession {
    project: Arg<Slug>,
    session_id: Arg<SessionId>,
    summary: Arg<Short<{ NewSession::MAX_SUMMARY_BYTES }>>,
    events: Option<Vec<Event>>,
    started_at: Option<Arg<Timestamp>>,
    ended_at: Option<Arg<Timestamp>>,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Event {
    #[serde(rename = "type")]
    kind: Arg<Label>,
    summary: Arg<Short<{ NewSession::MAX_EVENT_BYTES }>>,
    timestamp: Option<Arg<Timestamp>>,
}

/// A session in a list.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct SessionRow {
    session_id: String,
    summary: String,
    event_count: usize,
    started_at: String,
    ended_at: String,
    /// Nobody saved it: its summary was made of hook events.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    from_hooks: bool,
}

impl SessionRow {
    fn new(session: &SessionRecord) -> Self {
        Self {
            session_id: session.id.to_string(),
            summary: session.summary.to_string(),
            event_count: session.events.len(),
            started_at: time(session.started_at),
            ended_at: time(session.ended_at),
            from_hooks: session.from_hooks,
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
            summary: event.summary.0.0,
            at: event.timestamp.map(|at| at.0),
        });
    let session = NewSession {
        project: args.project.0,
        id: args.session_id.0,
        summary: args.summary.0.0,
        events: events.collect(),
        started_at: args.started_at.map(|at| at.0),
        ended_at: args.ended_at.map(|at| at.0),
        from_hooks: false,
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

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct GetSession {
    project: Arg<Slug>,
    session_id: Arg<SessionId>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct SessionFull {
    session_id: String,
    project: String,
    summary: String,
    events: Vec<EventOut>,
    started_at: String,
    ended_at: String,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
