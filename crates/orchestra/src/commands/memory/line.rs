//! A line of an export: a memory or a session, as JSON.

use orchestra_board::{Body, Label, SessionId, Slug, Timestamp};
use orchestra_store::{
    Chunk, ChunkId, NewChunk, NewSession, NewSessionEvent, SessionEvent, SessionRecord,
};
use serde::{Deserialize, Serialize};

/// One line. Which of the members count is told by the type.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Line {
    Memory(Memory),
    Session(Session),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Memory {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) project: String,
    pub(super) content: String,
    #[serde(default)]
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) superseded_by: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Session {
    session_id: String,
    pub(super) project: String,
    summary: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Nobody saved it: it was made of hook events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    from_hooks: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
}

/// Parses a member, and names it when it is wrong.
fn parsed<T, E: std::fmt::Display>(
    name: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, String> {
    parse(text).map_err(|error| format!("{name}: {error}"))
}

fn maybe<T, E: std::fmt::Display>(
    name: &str,
    text: Option<&String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, String> {
    text.map(|text| parsed(name, text, parse)).transpose()
}

impl From<&Chunk> for Memory {
    fn from(chunk: &Chunk) -> Self {
        let text = |label: &Option<Label>| label.as_ref().map(Label::to_string);
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            id: Some(chunk.id.to_string()),
            project: chunk.project.to_string(),
            content: chunk.content.to_string(),
            summary: chunk.summary.to_string(),
            source: text(&chunk.source),
            source_id: text(&chunk.source_id),
            tags: chunk.tags.iter().map(Label::to_string).collect(),
            created_at: Some(chunk.created_at.to_string()),
            updated_at: time(chunk.updated_at),
            expires_at: time(chunk.expires_at),
            superseded_by: chunk.superseded_by.map(|id| id.to_string()),
        }
    }
}

impl From<&SessionRecord> for Session {
    fn from(session: &SessionRecord) -> Self {
        let event = |event: &SessionEvent| Event {
            kind: event.kind.to_string(),
            summary: event.summary.to_string(),
            timestamp: Some(event.at.to_string()),
        };
        Self {
            session_id: session.id.to_string(),
            project: session.project.to_string(),
            summary: session.summary.to_string(),
            events: session.events.iter().map(event).collect(),
            started_at: Some(session.started_at.to_string()),
            ended_at: Some(session.ended_at.to_string()),
            from_hooks: session.from_hooks,
        }
    }
}

impl Memory {
    /// As it is to be remembered in a project.
    pub(super) fn new_chunk(&self, project: Slug) -> Result<NewChunk, String> {
        let mut tags = Vec::new();
        for tag in &self.tags {
            let tag = parsed("tags", tag, Label::parse)?;
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        let content = parsed("content", &self.content, Body::parse)?;
        Ok(NewChunk {
            summary: parsed("summary", &self.summary, Body::parse)?,
            source: maybe("source", self.source.as_ref(), Label::parse)?,
            source_id: maybe("source_id", self.source_id.as_ref(), Label::parse)?,
            tags,
            created_at: maybe("created_at", self.created_at.as_ref(), Timestamp::parse)?,
            expires_at: maybe("expires_at", self.expires_at.as_ref(), Timestamp::parse)?,
            ..NewChunk::of(project, content)
        })
    }

    /// The id it had.
    pub(super) fn old_id(&self) -> Result<Option<ChunkId>, String> {
        maybe("id", self.id.as_ref(), ChunkId::parse)
    }

    /// The id that the one had that supersedes it.
    pub(super) fn old_superseder(&self) -> Result<Option<ChunkId>, String> {
        maybe("superseded_by", self.superseded_by.as_ref(), ChunkId::parse)
    }
}

impl Session {
    /// As it is to be kept in a project.
    pub(super) fn new_session(&self, project: Slug) -> Result<NewSession, String> {
        let event = |event: &Event| -> Result<NewSessionEvent, String> {
            Ok(NewSessionEvent {
                kind: parsed("events.type", &event.kind, Label::parse)?,
                summary: parsed("events.summary", &event.summary, Body::parse)?,
                at: maybe(
                    "events.timestamp",
                    event.timestamp.as_ref(),
                    Timestamp::parse,
                )?,
            })
        };
        Ok(NewSession {
            project,
            id: parsed("session_id", &self.session_id, SessionId::parse)?,
            summary: parsed("summary", &self.summary, Body::parse)?,
            events: self.events.iter().map(event).collect::<Result<_, _>>()?,
            started_at: maybe("started_at", self.started_at.as_ref(), Timestamp::parse)?,
            ended_at: maybe("ended_at", self.ended_at.as_ref(), Timestamp::parse)?,
            from_hooks: self.from_hooks,
        })
    }
}
