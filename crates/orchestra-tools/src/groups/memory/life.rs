//! The life of what is remembered: looking at it one by one, changing and forgetting it.

use orchestra_board::{Label, SessionId, Slug, Timestamp, Version};
use orchestra_store::{
    Action, Chunk, ChunkFilter, ChunkId, ChunkPatch, Cursor, Life, Made, PageRequest,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Content, Forgotten, Summary, Tags, names, unanswered};
use crate::args::{Arg, FromText, Limit, Number, not_one_of};
use crate::failure::Failure;
use crate::services::{Services, page};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{List, filled, time};

/// How many texts are listed unless told.
const LIST_LIMIT: u32 = 20;
/// How much of a text a list shows where it has no summary.
const SHOWN_CHARS: usize = 200;
/// The seconds of a day.
const DAY: i64 = 86_400;

/// After how many days a text expires: up to a hundred years.
pub(super) type Days = Number<1, 36_500>;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "list_memory",
            "List memory",
            Effect::Read,
            "List memories by id without their full text, by default only valid ones.",
            list_memory,
        ),
        Tool::new(
            "get_memory",
            "Get memory",
            Effect::Read,
            "Return a memory with its full text and version.",
            get_memory,
        ),
        Tool::new(
            "update_memory",
            "Update memory",
            Effect::Remove,
            "Change a memory; omitted fields stay, `none` removes source or expiry.",
            update_memory,
        ),
        Tool::new(
            "forget_session",
            "Forget session",
            Effect::Remove,
            "Delete a saved session.",
            forget_session,
        ),
    ]
}

impl FromText for Life {
    fn from_text(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|life| life.as_str() == text)
            .ok_or_else(|| not_one_of(text, &Self::choices()))
    }

    fn choices() -> Vec<&'static str> {
        Self::ALL.iter().map(|life| life.as_str()).collect()
    }
}

/// A value, or `none` to remove it.
struct OrNone<T>(Option<T>);

impl<T: FromText> FromText for OrNone<T> {
    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            text => T::from_text(text).map(|value| Self(Some(value))),
        }
    }
}

/// When a text expires, as it was told in one of two ways.
pub(super) fn expiry(
    services: &Services,
    at: Option<Timestamp>,
    days: Option<Days>,
) -> Result<Option<Timestamp>, Failure> {
    match (at, days) {
        (Some(_), Some(_)) => Err(two_ends()),
        (at, None) => Ok(at),
        (None, Some(days)) => {
            let seconds = i64::from(days.get()) * DAY;
            Ok(Some(services.now().plus_seconds(seconds)))
        }
    }
}

fn two_ends() -> Failure {
    Failure::text("pass expires_at or expires_in_days, not both")
}

/// A remembered text in a list.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct MemoryRow {
    id: String,
    /// What it says in short; its beginning, where nobody said that.
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<String>,
}

impl MemoryRow {
    fn new(chunk: &Chunk) -> Self {
        let summary = match filled(chunk.summary.as_str()) {
            Some(summary) => summary,
            None => {
                let mut start = chunk.content.as_str().chars();
                let mut shown: String = start.by_ref().take(SHOWN_CHARS).collect();
                if start.next().is_some() {
                    shown.push('…');
                }
                shown
            }
        };
        Self {
            id: chunk.id.to_string(),
            summary,
            source: chunk.source.as_ref().map(Label::to_string),
            tags: names(&chunk.tags),
            created_at: time(chunk.created_at),
            expires_at: chunk.expires_at.map(time),
            superseded_by: chunk.superseded_by.map(|id| id.to_string()),
        }
    }
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ListMemory {
    project: Arg<Slug>,
    state: Option<Arg<Life>>,
    source: Option<Arg<Label>>,
    tag: Option<Arg<Label>>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

fn list_memory(services: &Services, args: ListMemory) -> Result<Step<List<MemoryRow>>, Failure> {
    let request = PageRequest {
        limit: args.limit.map_or(LIST_LIMIT, Limit::get),
        ..page(None, args.cursor)
    };
    let filter = ChunkFilter {
        life: args.state.map_or(Life::Current, |state| state.0),
        source: args.source.map(|source| source.0),
        tag: args.tag.map(|tag| tag.0),
    };
    let found =
        services.read(|reader| Ok(reader.chunks_that(&args.project.0, &filter, &request)?))?;
    Ok(Step::Done(List::of(found, |chunk| MemoryRow::new(&chunk))))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct GetMemory {
    project: Arg<Slug>,
    memory_id: Arg<ChunkId>,
}

/// A remembered text with all that is known of it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct MemoryFull {
    id: String,
    project: String,
    content: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<String>,
    /// A fingerprint; update_memory refuses when it is given an older one.
    version: String,
}

impl MemoryFull {
    fn new(chunk: &Chunk) -> Self {
        Self {
            id: chunk.id.to_string(),
            project: chunk.project.to_string(),
            content: chunk.content.to_string(),
            summary: chunk.summary.to_string(),
            source: chunk.source.as_ref().map(Label::to_string),
            source_id: chunk.source_id.as_ref().map(Label::to_string),
            tags: names(&chunk.tags),
            created_at: time(chunk.created_at),
            updated_at: chunk.updated_at.map(time),
            expires_at: chunk.expires_at.map(time),
            superseded_by: chunk.superseded_by.map(|id| id.to_string()),
            version: chunk.version().to_string(),
        }
    }
}

fn get_memory(services: &Services, args: GetMemory) -> Result<Step<MemoryFull>, Failure> {
    let (slug, id) = (args.project.0, args.memory_id.0);
    match services.read(|reader| Ok(reader.chunk(&slug, id)?))? {
        Some(chunk) => Ok(Step::Done(MemoryFull::new(&chunk))),
        None => Err(Failure::text(format!(
            "{id} not found in project `{slug}`; list_memory lists the memories"
        ))),
    }
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct UpdateMemory {
    project: Arg<Slug>,
    memory_id: Arg<ChunkId>,
    /// At most 65536 bytes.
    content: Option<Arg<Content>>,
    summary: Option<Arg<Summary>>,
    source: Option<Arg<OrNone<Label>>>,
    source_id: Option<Arg<OrNone<Label>>>,
    tags: Option<Tags>,
    expires_at: Option<Arg<OrNone<Timestamp>>>,
    expires_in_days: Option<Days>,
    version: Option<Arg<Version>>,
}

fn update_memory(services: &Services, args: UpdateMemory) -> Result<Step<MemoryFull>, Failure> {
    let expires_at = match (args.expires_at, args.expires_in_days) {
        (Some(_), Some(_)) => return Err(two_ends()),
        (Some(Arg(OrNone(at))), None) => Some(at),
        (None, days) => expiry(services, None, days)?.map(Some),
    };
    let patch = ChunkPatch {
        content: args.content.map(|content| content.0.0),
        summary: args.summary.map(|summary| summary.0.0),
        source: args.source.map(|source| source.0.0),
        source_id: args.source_id.map(|id| id.0.0),
        tags: args.tags.map(|list| list.0),
        expires_at,
        version: args.version.map(|version| version.0),
        ..ChunkPatch::of(args.project.0, args.memory_id.0)
    };
    let action = Action::UpdateMemory(Box::new(patch));
    Ok(Step::submit(None, action, |_, receipt| {
        match receipt.made {
            Made::Chunk { chunk, .. } => Ok(MemoryFull::new(&chunk)),
            _ => Err(unanswered()),
        }
    }))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ForgetSession {
    project: Arg<Slug>,
    session_id: Arg<SessionId>,
}

fn forget_session(_: &Services, args: ForgetSession) -> Result<Step<Forgotten>, Failure> {
    let id = args.session_id.0;
    let action = Action::ForgetSession {
        project: args.project.0,
        id: id.clone(),
    };
    Ok(Step::submit(None, action, move |_, _| {
        Ok(Forgotten {
            forgotten: id.to_string(),
        })
    }))
}
