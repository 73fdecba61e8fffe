//! Remembered texts.

mod reindex;
mod room;
mod sessions;
mod told;

use orchestra_board::{AgentName, Body, Label, Slug, Source, Timestamp, composed};
use rusqlite::params;
use sha2::{Digest, Sha256};

use super::{Write, Writing};
use crate::files::owner::Owner;
use crate::rows::{list_text, unknown};
use crate::{ActionError, Chunk, ChunkId, ChunkPatch, Made, NewChunk, Receipt};

/// The most bytes of remembered texts in one readable file.
const SEGMENT_BYTES: i64 = 256 * 1024;
/// The most that it may grow to by changes of its texts.
const GROWN_SEGMENT_BYTES: i64 = 4 * SEGMENT_BYTES;
/// What a remembered text takes in its file beside its content and summary, about.
pub(crate) const CHUNK_OVERHEAD: u64 = 128;

fn invalid<T>(text: impl Into<String>) -> Write<T> {
    Err(ActionError::Invalid(text.into()))
}

fn too_long(what: &str, body: &Body, limit: usize) -> Write<()> {
    if body.as_str().len() > limit {
        return invalid(format!(
            "{what} is too long: at most {limit} bytes; remember it in parts, or shorten it"
        ));
    }
    Ok(())
}

/// The first half of a hash of a text, white space, case and composition left out: texts that are
/// alike in the rest are the same.
pub(crate) fn text_hash(text: &str) -> Vec<u8> {
    let mut hash = Sha256::new();
    for word in composed(text).split_whitespace() {
        hash.update(word.to_lowercase());
        hash.update(b" ");
    }
    let mut hash = hash.finalize().to_vec();
    hash.truncate(16);
    hash
}

/// What a remembered text counts in a project: its content and summary.
fn said(chunk: &Chunk) -> u64 {
    let bytes = chunk.content.as_str().len() + chunk.summary.as_str().len();
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// What it takes in its file, about.
fn size(chunk: &Chunk) -> u64 {
    said(chunk).saturating_add(CHUNK_OVERHEAD)
}

/// Refuses what no remembered text can be.
fn check(content: &Body, summary: &Body, tags: &[Label]) -> Write<()> {
    too_long("content", content, NewChunk::MAX_BYTES)?;
    too_long("summary", summary, NewChunk::MAX_SUMMARY_BYTES)?;
    if content.as_str().trim().is_empty() {
        return invalid("content must not be empty");
    }
    if tags.len() > NewChunk::MAX_TAGS {
        return invalid(format!("at most {} tags", NewChunk::MAX_TAGS));
    }
    Ok(())
}

impl Writing<'_> {
    pub(super) fn save_chunk(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        new: &NewChunk,
    ) -> Write<Receipt> {
        let project = self.reader().project_id(&new.project)?;
        check(&new.content, &new.summary, &new.tags)?;
        if new.expires_at.is_some_and(|at| at <= self.now) {
            return invalid("expires_at is in the past; omit it or pass a later time");
        }
        self.check_superseded(new)?;
        self.remove_expired()?;
        let same = self.same_text(project, &new.content)?;
        let (chunk, segment) = match same {
            Some(id) => self.merge_chunk(project, id, new)?,
            None => self.add_chunk(project, new)?,
        };
        self.supersede(project, &new.project, chunk.id, &new.supersedes)?;
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

    /// The text that is remembered already and says the same; one that is found before others.
    fn same_text(&self, project: i64, content: &Body) -> Write<Option<ChunkId>> {
        Ok(self
            .reader()
            .number_of_text(project, content)?
            .map(ChunkId::new))
    }

    fn merge_chunk(&mut self, project: i64, id: ChunkId, new: &NewChunk) -> Write<(Chunk, u64)> {
        let mut chunk = self
            .reader()
            .chunk(&new.project, id)?
            .ok_or_else(|| unknown("remembered text"))?;
        let before = chunk.clone();
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
        // Who says it again holds it to be true; and of two ends the later one is meant.
        chunk.superseded_by = None;
        if let Some(at) = new.created_at {
            chunk.created_at = chunk.created_at.min(at);
        }
        chunk.expires_at = match (chunk.expires_at, new.expires_at) {
            (Some(a), Some(b)) => Some(a.max(b)),
            _ => None,
        };
        if chunk != before {
            chunk.updated_at = Some(self.now);
        }
        let segment = self.segment_of(project, id)?;
        self.put_chunk(project, segment, &chunk)?;
        Ok((chunk, segment))
    }

    fn segment_of(&self, project: i64, id: ChunkId) -> Write<u64> {
        let segment = self.find_number(
            "SELECT segment FROM chunk WHERE project = ?1 AND number = ?2",
            params![project, id.number()],
        )?;
        Ok(segment
            .and_then(|segment| u64::try_from(segment).ok())
            .unwrap_or(1))
    }

    fn add_chunk(&mut self, project: i64, new: &NewChunk) -> Write<(Chunk, u64)> {
        let mut chunk = Chunk {
            id: ChunkId::new(1),
            project: new.project.clone(),
            content: new.content.clone(),
            summary: new.summary.clone(),
            source: new.source.clone(),
            source_id: new.source_id.clone(),
            tags: new.tags.clone(),
            created_at: new.created_at.map_or(self.now, |at| at.min(self.now)),
            updated_at: None,
            expires_at: new.expires_at,
            superseded_by: None,
        };
        self.make_room(project, &new.project, 1, said(&chunk), &new.supersedes)?;
        let number: u64 = self
            .connection
            .prepare_cached("UPDATE project SET next_chunk = next_chunk + 1 WHERE id = ?1 RETURNING next_chunk - 1")?
            .query_row([project], |row| row.get(0))?;
        chunk.id = ChunkId::new(number);
        let segment = self.open_segment(project)?;
        self.put_chunk(project, segment, &chunk)?;
        Ok((chunk, segment))
    }

    pub(super) fn update_chunk(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        patch: &ChunkPatch,
    ) -> Write<Receipt> {
        let project = self.reader().project_id(&patch.project)?;
        let before = self.known_chunk(&patch.project, patch.id)?;
        if let Some(given) = patch.version
            && given != before.version()
        {
            return invalid(format!(
                "{} has changed: its version is {}, not {given}; read it again",
                before.id,
                before.version()
            ));
        }
        if let Some(by) = patch.superseded_by.flatten() {
            self.known_chunk(&patch.project, by)?;
        }
        let mut chunk = patched(&before, patch);
        check(&chunk.content, &chunk.summary, &chunk.tags)?;
        if patch.expires_at.flatten().is_some_and(|at| at <= self.now) {
            return invalid("expires_at is over already; forget_memory forgets it at once");
        }
        let same = self.find_number(
            "SELECT number FROM chunk WHERE project = ?1 AND hash = ?2 AND number <> ?3",
            params![
                project,
                text_hash(chunk.content.as_str()),
                chunk.id.number()
            ],
        )?;
        if let Some(other) = same
            && chunk.content != before.content
        {
            return invalid(format!(
                "mem-{other} already has this text; forget {} instead",
                chunk.id
            ));
        }
        if chunk != before {
            self.make_room(
                project,
                &patch.project,
                0,
                said(&chunk).saturating_sub(said(&before)),
                &[],
            )?;
            chunk.updated_at = Some(self.now);
            let old = self.segment_of(project, chunk.id)?;
            let segment = self.roomy_segment(project, old, size(&before), size(&chunk))?;
            self.put_chunk(project, segment, &chunk)?;
            self.log_side(
                "memory",
                agent,
                source,
                &patch.project,
                &chunk.id.to_string(),
            )?;
            self.dirty(&Owner::Chunks(patch.project.clone(), segment))?;
            if old != segment {
                self.dirty(&Owner::Chunks(patch.project.clone(), old))?;
            }
        }
        let made = Made::Chunk {
            chunk,
            merged: false,
        };
        Ok(Receipt {
            made,
            ..Receipt::default()
        })
    }

    /// Puts a remembered text of a merged board there, in the place of what has its id.
    pub(super) fn absorb_chunk(&mut self, project: i64, chunk: &Chunk) -> Write<()> {
        let known = self.reader().chunk(&chunk.project, chunk.id)?;
        let segment = match known {
            Some(_) => self.segment_of(project, chunk.id)?,
            None => self.open_segment(project)?,
        };
        self.put_chunk(project, segment, chunk)?;
        let (slug, id) = (&chunk.project, chunk.id.to_string());
        self.log_side("memory", None, Source::Import, slug, &id)?;
        self.dirty(&Owner::Chunks(slug.clone(), segment))
    }

    /// The segment for a text that changes its size: that which it is in, unless its file would grow
    /// far beyond what one is meant to be.
    fn roomy_segment(&self, project: i64, old: u64, before: u64, now: u64) -> Write<u64> {
        let bytes = self.find_number(
            "SELECT sum(bytes) FROM chunk WHERE project = ?1 AND segment = ?2",
            params![project, old],
        )?;
        let grown = bytes
            .unwrap_or(0)
            .saturating_add_unsigned(now)
            .saturating_sub_unsigned(before);
        if now > before && grown > GROWN_SEGMENT_BYTES {
            return self.open_segment(project);
        }
        Ok(old)
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
             created_at, updated_at, expires_at, superseded_by, summary, content) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
             ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, bytes = excluded.bytes, \
             hash = excluded.hash, source = excluded.source, source_id = excluded.source_id, \
             tags = excluded.tags, created_at = excluded.created_at, updated_at = excluded.updated_at, \
             expires_at = excluded.expires_at, superseded_by = excluded.superseded_by, \
             summary = excluded.summary, content = excluded.content",
            params![
                row,
                project,
                chunk.id.number(),
                segment,
                size(chunk),
                text_hash(content),
                chunk.source.as_ref().map(Label::as_str),
                chunk.source_id.as_ref().map(Label::as_str),
                list_text(chunk.tags.iter().map(Label::as_str)),
                chunk.created_at.unix_seconds(),
                chunk.updated_at.map(Timestamp::unix_seconds),
                chunk.expires_at.map(Timestamp::unix_seconds),
                chunk.superseded_by.map(ChunkId::number),
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

    /// A remembered text that is there.
    fn known_chunk(&self, project: &Slug, id: ChunkId) -> Write<Chunk> {
        match self.reader().chunk(project, id)? {
            Some(chunk) => Ok(chunk),
            None => invalid(format!(
                "{id} not found in project `{project}`; search_memory and list_memory show the stored memories"
            )),
        }
    }

    pub(super) fn forget_chunk(
        &mut self,
        agent: Option<&AgentName>,
        source: Source,
        project: &Slug,
        id: ChunkId,
    ) -> Write<Receipt> {
        let row = self.reader().project_id(project)?;
        self.known_chunk(project, id)?;
        self.remove(row, project, id)?;
        self.log_side("memory", agent, source, project, &id.to_string())?;
        Ok(Receipt {
            made: Made::Forgotten(id),
            ..Receipt::default()
        })
    }

    /// The time of this transaction.
    pub(super) const fn now(&self) -> Timestamp {
        self.now
    }
}

/// A text with a patch put on.
fn patched(before: &Chunk, patch: &ChunkPatch) -> Chunk {
    let mut chunk = before.clone();
    if let Some(content) = &patch.content {
        chunk.content.clone_from(content);
    }
    if let Some(summary) = &patch.summary {
        chunk.summary.clone_from(summary);
    }
    if let Some(source) = &patch.source {
        chunk.source.clone_from(source);
    }
    if let Some(id) = &patch.source_id {
        chunk.source_id.clone_from(id);
    }
    if let Some(tags) = &patch.tags {
        chunk.tags.clone_from(tags);
    }
    if let Some(at) = patch.expires_at {
        chunk.expires_at = at;
    }
    if let Some(by) = patch.superseded_by {
        chunk.superseded_by = by.filter(|by| *by != chunk.id);
    }
    chunk
}
