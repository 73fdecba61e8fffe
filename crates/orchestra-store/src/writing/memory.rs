//! Remembered texts and sessions.

use orchestra_board::{AgentName, Body, Label, Slug, Source, Timestamp};
use rusqlite::params;
use sha2::{Digest, Sha256};

use super::{Write, Writing};
use crate::files::owner::Owner;
use crate::reader::events_text;
use crate::rows::{list_text, unknown};
use crate::{
    ActionError, Chunk, ChunkId, Made, NewChunk, NewSession, Receipt, SessionEvent, SessionRecord,
};

/// The most bytes of remembered texts in one readable file.
const SEGMENT_BYTES: i64 = 256 * 1024;
/// What a remembered text counts beside its content and summary.
const CHUNK_OVERHEAD: usize = 128;

fn too_long(what: &str, body: &Body, limit: usize) -> Write<()> {
    if body.as_str().len() > limit {
        return Err(ActionError::Invalid(format!(
            "{what} is too long: at most {limit} bytes"
        )));
    }
    Ok(())
}

/// The first half of a hash of a text.
pub(super) fn text_hash(text: &str) -> Vec<u8> {
    let mut hash = Sha256::digest(text).to_vec();
    hash.truncate(16);
    hash
}

impl Writing<'_> {
    pub(super) fn save_chunk(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        new: &NewChunk,
    ) -> Write<Receipt> {
        let project = self.reader().project_id(&new.project)?;
        too_long("content", &new.content, NewChunk::MAX_BYTES)?;
        too_long("summary", &new.summary, NewChunk::MAX_SUMMARY_BYTES)?;
        if new.content.as_str().trim().is_empty() {
            return Err(ActionError::Invalid("content must not be empty".to_owned()));
        }
        if new.tags.len() > NewChunk::MAX_TAGS {
            return Err(ActionError::Invalid(format!(
                "at most {} tags",
                NewChunk::MAX_TAGS
            )));
        }
        let same = self.find_number(
            "SELECT number FROM chunk WHERE project = ?1 AND hash = ?2",
            params![project, text_hash(new.content.as_str())],
        )?;
        let (chunk, segment) = match same.and_then(|number| u64::try_from(number).ok()) {
            Some(number) => self.merge_chunk(project, ChunkId::new(number), new)?,
            None => self.add_chunk(project, new)?,
        };
        self.log_side("memory", agent, source, &new.project, &chunk.id.to_string())?;
        self.dirty(&Owner::Chunks(new.project.clone(), segment))?;
        let made = Made::Chunk {
            chunk,
            merged: same.is_some(),
        };
        Ok(Receipt {
            made,
            ..Receipt::default()
        })
    }

    fn merge_chunk(&mut self, project: i64, id: ChunkId, new: &NewChunk) -> Write<(Chunk, u64)> {
        let mut chunk = self
            .reader()
            .chunk(&new.project, id)?
            .ok_or_else(|| unknown("remembered text"))?;
        for tag in &new.tags {
            if chunk.tags.len() < NewChunk::MAX_TAGS && !chunk.tags.contains(tag) {
                chunk.tags.push(tag.clone());
            }
        }
        if !new.summary.is_empty() {
            chunk.summary = new.summary.clone();
        }
        if new.source.is_some() {
            chunk.source.clone_from(&new.source);
            chunk.source_id.clone_from(&new.source_id);
        }
        let segment = self.find_number(
            "SELECT segment FROM chunk WHERE project = ?1 AND number = ?2",
            params![project, id.number()],
        )?;
        let segment = segment
            .and_then(|segment| u64::try_from(segment).ok())
            .unwrap_or(1);
        self.put_chunk(project, segment, &chunk)?;
        Ok((chunk, segment))
    }

    fn add_chunk(&mut self, project: i64, new: &NewChunk) -> Write<(Chunk, u64)> {
        let kept = self
            .reader()
            .count("SELECT count(*) FROM chunk WHERE project = ?1", [project])?;
        if kept >= self.limits.chunks {
            let text = format!(
                "{kept} texts are remembered already, which is the limit; forget some with forget_memory"
            );
            return Err(ActionError::Invalid(text));
        }
        let number: u64 = self
            .connection
            .prepare_cached("UPDATE project SET next_chunk = next_chunk + 1 WHERE id = ?1 RETURNING next_chunk - 1")?
            .query_row([project], |row| row.get(0))?;
        let chunk = Chunk {
            id: ChunkId::new(number),
            project: new.project.clone(),
            content: new.content.clone(),
            summary: new.summary.clone(),
            source: new.source.clone(),
            source_id: new.source_id.clone(),
            tags: new.tags.clone(),
            created_at: self.now,
        };
        let segment = self.open_segment(project)?;
        self.put_chunk(project, segment, &chunk)?;
        Ok((chunk, segment))
    }

    /// The segment that the next text goes to.
    fn open_segment(&self, project: i64) -> Write<u64> {
        let mut statement = self.connection.prepare_cached(
            "SELECT coalesce(max(segment), 1), coalesce(sum(bytes), 0) FROM chunk WHERE project = ?1 \
             AND segment = (SELECT max(segment) FROM chunk WHERE project = ?1)",
        )?;
        let (last, bytes): (u64, i64) =
            statement.query_row([project], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(if bytes < SEGMENT_BYTES {
            last
        } else {
            last + 1
        })
    }

    /// Writes a remembered text, in the place of what has its id.
    pub(super) fn put_chunk(&mut self, project: i64, segment: u64, chunk: &Chunk) -> Write<()> {
        let (content, summary) = (chunk.content.as_str(), chunk.summary.as_str());
        let known = self.find_number(
            "SELECT id FROM chunk WHERE project = ?1 AND number = ?2",
            params![project, chunk.id.number()],
        )?;
        let row = match known {
            Some(row) => row,
            None => self.new_row(project)?,
        };
        self.execute(
            "INSERT INTO chunk (id, project, number, segment, bytes, hash, source, source_id, tags, \
             created_at, summary, content) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
             ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, bytes = excluded.bytes, \
             hash = excluded.hash, source = excluded.source, source_id = excluded.source_id, \
             tags = excluded.tags, created_at = excluded.created_at, summary = excluded.summary, \
             content = excluded.content",
            params![
                row,
                project,
                chunk.id.number(),
                segment,
                content.len() + summary.len() + CHUNK_OVERHEAD,
                text_hash(content),
                chunk.source.as_ref().map(Label::as_str),
                chunk.source_id.as_ref().map(Label::as_str),
                list_text(chunk.tags.iter().map(Label::as_str)),
                chunk.created_at.unix_seconds(),
                summary,
                content,
            ],
        )?;
        let marks: Vec<&str> = chunk
            .tags
            .iter()
            .chain(&chunk.source_id)
            .map(Label::as_str)
            .collect();
        self.index_memory(row, summary, content, &marks.join(" "))
    }

    pub(super) fn forget_chunk(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        project: &Slug,
        id: ChunkId,
    ) -> Write<Receipt> {
        let row = self.reader().project_id(project)?;
        let mut statement = self.connection.prepare_cached(
            "DELETE FROM chunk WHERE project = ?1 AND number = ?2 RETURNING id, segment",
        )?;
        let mut rows = statement.query(params![row, id.number()])?;
        let Some(found) = rows.next()? else {
            let text = format!(
                "{id} not found in project `{project}`; search_memory shows what is remembered"
            );
            return Err(ActionError::Invalid(text));
        };
        let (chunk, segment): (i64, u64) = (found.get(0)?, found.get(1)?);
        drop(rows);
        self.unindex_memory(chunk)?;
        self.log_side("memory", agent, source, project, &id.to_string())?;
        self.dirty(&Owner::Chunks(project.clone(), segment))?;
        Ok(Receipt {
            made: Made::Forgotten(id),
            ..Receipt::default()
        })
    }

    pub(super) fn save_session(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        new: &NewSession,
    ) -> Write<Receipt> {
        self.reader().project_id(&new.project)?;
        too_long("summary", &new.summary, NewSession::MAX_SUMMARY_BYTES)?;
        if new.events.len() > NewSession::MAX_EVENTS {
            return Err(ActionError::Invalid(format!(
                "at most {} events",
                NewSession::MAX_EVENTS
            )));
        }
        for event in &new.events {
            too_long(
                "the summary of an event",
                &event.summary,
                NewSession::MAX_EVENT_BYTES,
            )?;
        }
        let now = self.now;
        let event = |event: &crate::NewSessionEvent| SessionEvent {
            kind: event.kind.clone(),
            summary: event.summary.clone(),
            at: event.at.unwrap_or(now),
        };
        let before = self.reader().session(&new.project, &new.id)?;
        let started_at = before.as_ref().map_or(now, |session| session.started_at);
        let kept = before
            .map(|session| session.events)
            .filter(|_| new.events.is_empty());
        let session = SessionRecord {
            project: new.project.clone(),
            id: new.id.clone(),
            summary: new.summary.clone(),
            events: kept.unwrap_or_else(|| new.events.iter().map(event).collect()),
            started_at,
            ended_at: now,
        };
        self.put_session(&session)?;
        self.log_side("session", agent, source, &new.project, new.id.as_str())?;
        Ok(Receipt {
            made: Made::Session(session),
            ..Receipt::default()
        })
    }

    /// Writes a session, in the place of what has its id.
    pub(super) fn put_session(&mut self, session: &SessionRecord) -> Write<()> {
        let project = self.reader().project_id(&session.project)?;
        let known = self.find_number(
            "SELECT id FROM session WHERE project = ?1 AND name = ?2",
            params![project, session.id.as_str()],
        )?;
        let row = match known {
            Some(row) => row,
            None => {
                let kept = self
                    .reader()
                    .count("SELECT count(*) FROM session WHERE project = ?1", [project])?;
                if kept >= self.limits.chunks {
                    return Err(ActionError::Invalid(format!(
                        "{kept} sessions are kept already, which is the limit"
                    )));
                }
                self.new_row(project)?
            }
        };
        self.execute(
            "INSERT OR REPLACE INTO session (id, project, name, started_at, ended_at, summary, events) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                row,
                project,
                session.id.as_str(),
                session.started_at.unix_seconds(),
                session.ended_at.unix_seconds(),
                session.summary.as_str(),
                events_text(&session.events),
            ],
        )?;
        let events: Vec<&str> = session
            .events
            .iter()
            .map(|event| event.summary.as_str())
            .collect();
        self.index_memory(row, session.summary.as_str(), &events.join("\n"), "")?;
        self.dirty(&Owner::Session(session.project.clone(), session.id.clone()))
    }

    /// The time of this transaction.
    pub(super) const fn now(&self) -> Timestamp {
        self.now
    }
}
