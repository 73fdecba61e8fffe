//! What is remembered: texts, sessions, and the search over both.

use std::cmp::Ordering;

use orchestra_board::{Body, Label, SessionId, Slug, Timestamp};
use rusqlite::{OptionalExtension, Row, params};
use serde_json::Value;

use super::search::Index;
use super::{Reader, first_row, last_row};
use crate::page::Filling;
use crate::rows::{Read, body, label, list, unknown};
use crate::writing::{CHUNK_OVERHEAD, text_hash};
use crate::{
    Chunk, ChunkFilter, ChunkId, ContextItem, Cursor, Hit, Life, MemorySize, Page, PageRequest,
    SessionEvent, SessionRecord,
};

/// How many of the newest texts are looked at for words that very many texts have.
const NEWEST: i64 = 2_000;
/// The most that a search answers.
const MAX_HITS: u32 = 100;

pub(crate) const CHUNK: &str = "SELECT number, source, source_id, tags, created_at, summary, content, updated_at, expires_at, \
     superseded_by, id FROM chunk ";
pub(super) const SESSION: &str =
    "SELECT name, started_at, ended_at, summary, events, from_hooks FROM session ";

/// What holds of a remembered text that is found: at :now it has not expired, and, unless :superseded,
/// no text that is there supersedes it.
pub(super) const HOLDS: &str = "(expires_at IS NULL OR expires_at > :now) AND (superseded_by IS NULL OR :superseded \
     OR NOT EXISTS (SELECT 1 FROM chunk n WHERE n.project = chunk.project AND n.number = chunk.superseded_by \
     AND (n.expires_at IS NULL OR n.expires_at > :now)))";

/// The remembered text of a row of the full-text index, if it is one that is found: not expired at ?4,
/// and, where ?5 is 0, not superseded by a text that is there.
const FOUND: &str = "chunk c ON c.id = memory_text.rowid AND (c.expires_at IS NULL OR c.expires_at > ?4) \
     AND (c.superseded_by IS NULL OR ?5 OR NOT EXISTS (SELECT 1 FROM chunk n WHERE n.project = c.project \
     AND n.number = c.superseded_by AND (n.expires_at IS NULL OR n.expires_at > ?4)))";

/// What a search is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Chunks,
    Both,
}

/// Something that was found, by what orders it among equals.
#[derive(Debug)]
struct Found {
    score: f64,
    chunk: Option<u64>,
    session: Option<String>,
}

pub(crate) fn chunk_row(project: &Slug, row: &Row<'_>) -> Read<Chunk> {
    let tags: Option<String> = row.get(3)?;
    Ok(Chunk {
        id: ChunkId::new(row.get(0)?),
        project: project.clone(),
        content: body(&row.get::<_, String>(6)?)?,
        summary: body(&row.get::<_, String>(5)?)?,
        source: label(row.get(1)?)?,
        source_id: label(row.get(2)?)?,
        tags: list(tags.as_deref(), |text| Label::parse(text).ok())?,
        created_at: Timestamp::from_unix_seconds(row.get(4)?),
        updated_at: time(row.get(7)?),
        expires_at: time(row.get(8)?),
        superseded_by: row.get::<_, Option<u64>>(9)?.map(ChunkId::new),
    })
}

fn time(seconds: Option<i64>) -> Option<Timestamp> {
    seconds.map(Timestamp::from_unix_seconds)
}

pub(super) fn session_row(project: &Slug, row: &Row<'_>) -> Read<SessionRecord> {
    let events: String = row.get(4)?;
    Ok(SessionRecord {
        project: project.clone(),
        id: SessionId::parse(&row.get::<_, String>(0)?).map_err(|_| unknown("session id"))?,
        summary: body(&row.get::<_, String>(3)?)?,
        events: parse_events(&events).ok_or_else(|| unknown("session"))?,
        started_at: Timestamp::from_unix_seconds(row.get(1)?),
        ended_at: Timestamp::from_unix_seconds(row.get(2)?),
        from_hooks: row.get(5)?,
    })
}

/// The events of a session for their column.
pub(crate) fn events_text(events: &[SessionEvent]) -> String {
    let event = |event: &SessionEvent| -> Value {
        [
            event.kind.as_str().into(),
            event.at.unix_seconds().into(),
            Value::from(event.summary.as_str()),
        ]
        .into_iter()
        .collect()
    };
    events.iter().map(event).collect::<Value>().to_string()
}

pub(super) fn parse_events(text: &str) -> Option<Vec<SessionEvent>> {
    let events: Vec<(String, i64, String)> = serde_json::from_str(text).ok()?;
    let event = |(kind, at, summary): (String, i64, String)| {
        Some(SessionEvent {
            kind: Label::parse(&kind).ok()?,
            summary: Body::parse(&summary).ok()?,
            at: Timestamp::from_unix_seconds(at),
        })
    };
    events.into_iter().map(event).collect()
}

/// What the events in their column say.
pub(crate) fn events_said(text: &str) -> String {
    let events: Vec<(String, i64, String)> = serde_json::from_str(text).unwrap_or_default();
    let said: Vec<String> = events.into_iter().map(|(_, _, said)| said).collect();
    said.join("\n")
}

fn everything() -> ChunkFilter {
    ChunkFilter {
        life: Life::Any,
        ..ChunkFilter::default()
    }
}

/// What a filter asks of a row of `chunk`, where ?2 is the time, ?3 the source and ?4 the tag.
fn tests(life: Life) -> String {
    let by = "(SELECT 1 FROM chunk n WHERE n.project = chunk.project AND n.number = chunk.superseded_by \
              AND (n.expires_at IS NULL OR n.expires_at > ?2))";
    let expired = "expires_at IS NOT NULL AND expires_at <= ?2";
    let superseded = format!("superseded_by IS NOT NULL AND EXISTS {by}");
    let life = match life {
        Life::Current => format!("NOT ({expired}) AND NOT ({superseded})"),
        Life::Superseded => format!("NOT ({expired}) AND {superseded}"),
        Life::Expired => expired.to_owned(),
        Life::Any => "?2 IS NOT NULL".to_owned(),
    };
    format!(
        "{life} AND (?3 IS NULL OR source = ?3) \
         AND (?4 IS NULL OR EXISTS (SELECT 1 FROM json_each(tags) t WHERE t.value = ?4))"
    )
}

impl Reader<'_> {
    /// All remembered texts of a project, by id.
    ///
    /// # Errors
    /// When there is no such project, the database cannot be read or the cursor is of another list.
    pub fn chunks(&self, project: &Slug, page: &PageRequest) -> Read<Page<Chunk>> {
        self.chunks_that(project, &everything(), page)
    }

    /// The remembered texts of a project that a filter lets through, by id.
    ///
    /// # Errors
    /// As [`Reader::chunks`].
    pub fn chunks_that(
        &self,
        project: &Slug,
        filter: &ChunkFilter,
        page: &PageRequest,
    ) -> Read<Page<Chunk>> {
        let id = self.project_id(project)?;
        let after = page.after(Cursor::number)?.unwrap_or(0);
        let mut filling = Filling::new(page);
        let tests = tests(filter.life);
        let (now, source) = (self.now, filter.source.as_ref().map(Label::as_str));
        let tag = filter.tag.as_ref().map(Label::as_str);
        let total = if *filter == everything() {
            self.stored_size(id)?.chunks
        } else {
            let sql = format!("SELECT count(*) FROM chunk WHERE project = ?1 AND {tests}");
            self.count(&sql, params![id, now, source, tag])?
        };
        let sql = format!(
            "{CHUNK} WHERE project = ?1 AND {tests} AND number > ?5 ORDER BY number LIMIT ?6"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![id, now, source, tag, after, filling.wanted()])?;
        while let Some(row) = rows.next()? {
            let item = chunk_row(project, row)?;
            let bytes = item.content.as_str().len();
            if filling.push(item, bytes).is_break() {
                break;
            }
        }
        Ok(filling.finish(total, |chunk| Cursor::of_number(chunk.id.number())))
    }

    /// How much a project remembers.
    ///
    /// # Errors
    /// When there is no such project, or the database cannot be read.
    pub fn memory_size(&self, project: &Slug) -> Read<MemorySize> {
        let id = self.project_id(project)?;
        let count = |life| {
            let sql = format!(
                "SELECT count(*) FROM chunk WHERE project = ?1 AND {}",
                tests(life)
            );
            let no: Option<&str> = None;
            self.count(&sql, params![id, self.now, no, no])
        };
        Ok(MemorySize {
            superseded: count(Life::Superseded)?,
            expired: count(Life::Expired)?,
            ..self.stored_size(id)?
        })
    }

    /// How much a project remembers, without what part of their life the texts are in.
    pub(crate) fn stored_size(&self, project: i64) -> Read<MemorySize> {
        let mut statement = self.connection.prepare_cached(
            "SELECT chunks, chunk_bytes, sessions, session_bytes FROM memory_size WHERE project = ?1",
        )?;
        let found = statement.query_row([project], |row| {
            let (chunks, bytes): (u64, u64) = (row.get(0)?, row.get(1)?);
            Ok(MemorySize {
                chunks,
                // What each takes in its file beside what it says counts for the files alone.
                chunk_bytes: bytes.saturating_sub(chunks.saturating_mul(CHUNK_OVERHEAD)),
                sessions: row.get(2)?,
                session_bytes: row.get(3)?,
                ..MemorySize::default()
            })
        });
        Ok(found.optional()?.unwrap_or_default())
    }

    /// A remembered text.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn chunk(&self, project: &Slug, id: ChunkId) -> Read<Option<Chunk>> {
        let sql = format!(
            "{CHUNK} WHERE project = (SELECT id FROM project WHERE slug = ?1) AND number = ?2"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![project.as_str(), id.number()])?;
        rows.next()?.map(|row| chunk_row(project, row)).transpose()
    }

    /// The remembered text that says the same, white space and case left out; one that holds before
    /// others.
    ///
    /// # Errors
    /// When there is no such project, or the database cannot be read.
    pub fn chunk_of_text(&self, project: &Slug, content: &Body) -> Read<Option<Chunk>> {
        let id = self.project_id(project)?;
        match self.number_of_text(id, content)? {
            Some(number) => self.chunk(project, ChunkId::new(number)),
            None => Ok(None),
        }
    }

    /// The number of the remembered text that says the same.
    pub(crate) fn number_of_text(&self, project: i64, content: &Body) -> Read<Option<u64>> {
        let found = self
            .connection
            .prepare_cached(
                "SELECT number FROM chunk WHERE project = ?1 AND hash = ?2 \
                 ORDER BY superseded_by IS NOT NULL, number LIMIT 1",
            )?
            .query_row(params![project, text_hash(content.as_str())], |row| {
                row.get(0)
            })
            .optional()?;
        Ok(found)
    }

    /// The remembered texts of one segment, by id.
    pub(crate) fn segment(&self, project: &Slug, segment: u64) -> Read<Vec<Chunk>> {
        let sql = format!(
            "{CHUNK} WHERE project = (SELECT id FROM project WHERE slug = ?1) AND segment = ?2 ORDER BY number"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![project.as_str(), segment])?;
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            items.push(chunk_row(project, row)?);
        }
        Ok(items)
    }

    /// The remembered texts that fit a query best, at most 100; for an empty one the newest.
    ///
    /// # Errors
    /// When there is no such project, or the database cannot be read.
    pub fn search_memory(&self, project: &Slug, query: &str, limit: u32) -> Read<Vec<Hit<Chunk>>> {
        let mut hits = Vec::new();
        for found in self.remembered(project, query, limit, Wanted::Chunks)? {
            if let Some(number) = found.chunk
                && let Some(item) = self.chunk(project, ChunkId::new(number))?
            {
                hits.push(Hit {
                    item,
                    score: found.score,
                });
            }
        }
        Ok(hits)
    }

    /// The remembered texts and sessions that fit a query best, at most 100; for an empty one the
    /// newest.
    ///
    /// # Errors
    /// As [`Reader::search_memory`].
    pub fn context(&self, project: &Slug, query: &str, limit: u32) -> Read<Vec<Hit<ContextItem>>> {
        let mut hits = Vec::new();
        for found in self.remembered(project, query, limit, Wanted::Both)? {
            let item = match (found.chunk, found.session) {
                (Some(number), _) => self
                    .chunk(project, ChunkId::new(number))?
                    .map(ContextItem::Chunk),
                (None, Some(name)) => self
                    .session_named(project, &name)?
                    .map(ContextItem::Session),
                (None, None) => None,
            };
            hits.extend(item.map(|item| Hit {
                item,
                score: found.score,
            }));
        }
        Ok(hits)
    }

    fn remembered(
        &self,
        project: &Slug,
        query: &str,
        limit: u32,
        wanted: Wanted,
    ) -> Read<Vec<Found>> {
        let id = self.project_id(project)?;
        let (first, last) = (first_row(id), last_row(id));
        let newest = self
            .connection
            .prepare_cached("SELECT rowid FROM memory_text WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid DESC LIMIT 1")?
            .query_row([first, last], |row| row.get(0))
            .optional()?
            .unwrap_or(first);
        let newest = first.max(newest - NEWEST);
        let mut found = Vec::new();
        match self.words_of(Index::Memory, query)? {
            None if query.trim().is_empty() => self.collect(
                "SELECT 0.0, c.number, s.name FROM memory_text LEFT JOIN {FOUND} \
                 LEFT JOIN session s ON s.id = memory_text.rowid \
                 WHERE ?1 = '' AND memory_text.rowid BETWEEN ?2 AND ?3 ORDER BY memory_text.rowid DESC",
                ("", newest, last),
                &mut found,
            )?,
            None => {}
            Some(plan) if plan.common => self.collect(
                "SELECT 0.0, c.number, s.name FROM memory_text LEFT JOIN {FOUND} \
                 LEFT JOIN session s ON s.id = memory_text.rowid \
                 WHERE memory_text MATCH ?1 AND memory_text.rowid BETWEEN ?2 AND ?3 ORDER BY memory_text.rowid DESC",
                (&plan.any(), newest, last),
                &mut found,
            )?,
            Some(plan) => {
                self.collect(
                    "SELECT -bm25(memory_text, 3.0, 1.0, 2.0), c.number, s.name FROM memory_text \
                     LEFT JOIN {FOUND} LEFT JOIN session s ON s.id = memory_text.rowid \
                     WHERE memory_text MATCH ?1 AND memory_text.rowid BETWEEN ?2 AND ?3",
                    (&plan.any(), first, last),
                    &mut found,
                )?;
                let order = |a: &Found, b: &Found| b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
                // Among equals the newest text first, then sessions by name.
                found.sort_by(|a, b| order(a, b).then(b.chunk.cmp(&a.chunk)).then_with(|| a.session.cmp(&b.session)));
            }
        }
        found.retain(|found| {
            found.chunk.is_some() || (wanted == Wanted::Both && found.session.is_some())
        });
        found.truncate(limit.clamp(1, MAX_HITS) as usize);
        Ok(found)
    }

    fn collect(&self, sql: &str, key: (&str, i64, i64), found: &mut Vec<Found>) -> Read<()> {
        let sql = sql.replace("{FOUND}", FOUND);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let (query, first, last) = key;
        let mut rows = statement.query(params![query, first, last, self.now, self.superseded])?;
        while let Some(row) = rows.next()? {
            found.push(Found {
                score: row.get(0)?,
                chunk: row.get(1)?,
                session: row.get(2)?,
            });
        }
        Ok(())
    }

    /// The sessions of a project, the one saved last first.
    ///
    /// # Errors
    /// As [`Reader::chunks`].
    pub fn sessions(&self, project: &Slug, page: &PageRequest) -> Read<Page<SessionRecord>> {
        let id = self.project_id(project)?;
        let before = page.after(Cursor::numbered_name)?;
        let (ended_at, name) = before.unwrap_or((i64::MAX, ""));
        let mut filling = Filling::new(page);
        let total = self.stored_size(id)?.sessions;
        let sql = format!(
            "{SESSION} WHERE project = ?1 AND (ended_at < ?2 OR (ended_at = ?2 AND name > ?3)) \
             ORDER BY ended_at DESC, name LIMIT ?4"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![id, ended_at, name, filling.wanted()])?;
        while let Some(row) = rows.next()? {
            let item = session_row(project, row)?;
            let bytes = item
                .events
                .iter()
                .map(|event| event.summary.as_str().len())
                .sum::<usize>();
            let bytes = bytes + item.summary.as_str().len();
            if filling.push(item, bytes).is_break() {
                break;
            }
        }
        let key = |session: &SessionRecord| {
            Cursor::of_numbered_name(session.ended_at.unix_seconds(), session.id.as_str())
        };
        Ok(filling.finish(total, key))
    }

    /// A session.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn session(&self, project: &Slug, id: &SessionId) -> Read<Option<SessionRecord>> {
        self.session_named(project, id.as_str())
    }

    fn session_named(&self, project: &Slug, name: &str) -> Read<Option<SessionRecord>> {
        let sql = format!(
            "{SESSION} WHERE project = (SELECT id FROM project WHERE slug = ?1) AND name = ?2"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([project.as_str(), name])?;
        rows.next()?
            .map(|row| session_row(project, row))
            .transpose()
    }
}
