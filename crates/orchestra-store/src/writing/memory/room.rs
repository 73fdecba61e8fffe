//! The end of remembered texts: what others supersede, what expires, and what goes when a project
//! is full.

use std::collections::BTreeSet;

use orchestra_board::{Slug, Source};
use rusqlite::params;

use super::{invalid, said};
use crate::files::owner::Owner;
use crate::rows::slug;
use crate::writing::{Write, Writing};
use crate::{ChunkId, MemorySize, NewChunk};

/// How many expired texts one change removes besides: so it costs about the same however many
/// there are.
const EXPIRED_AT_ONCE: u64 = 64;
/// How many texts go at once when a project is full.
const SURPLUS_AT_ONCE: u64 = 256;

impl Writing<'_> {
    /// Refuses to supersede what is not there.
    pub(super) fn check_superseded(&self, new: &NewChunk) -> Write<()> {
        if new.supersedes.len() > NewChunk::MAX_SUPERSEDED {
            return invalid(format!(
                "at most {} texts are superseded at once",
                NewChunk::MAX_SUPERSEDED
            ));
        }
        for id in &new.supersedes {
            self.known_chunk(&new.project, *id)?;
        }
        Ok(())
    }

    /// Notes that a text says better what others say.
    pub(super) fn supersede(
        &mut self,
        project: i64,
        slug: &Slug,
        by: ChunkId,
        old: &[ChunkId],
    ) -> Write<()> {
        for id in old.iter().filter(|id| **id != by) {
            let segment = self.find_number(
                "UPDATE chunk SET superseded_by = ?3 WHERE project = ?1 AND number = ?2 RETURNING segment",
                params![project, id.number(), by.number()],
            )?;
            if let Some(segment) = segment.and_then(|segment| u64::try_from(segment).ok()) {
                self.dirty(&Owner::Chunks(slug.clone(), segment))?;
            }
        }
        Ok(())
    }

    /// Removes a text; those that it superseded hold again.
    pub(in crate::writing) fn remove(
        &mut self,
        project: i64,
        slug: &Slug,
        id: ChunkId,
    ) -> Write<()> {
        let mut statement = self.connection.prepare_cached(
            "DELETE FROM chunk WHERE project = ?1 AND number = ?2 RETURNING id, segment",
        )?;
        let mut rows = statement.query(params![project, id.number()])?;
        let Some(found) = rows.next()? else {
            return Ok(());
        };
        let (row, segment): (i64, u64) = (found.get(0)?, found.get(1)?);
        drop(rows);
        self.unindex_memory(row)?;
        self.dirty(&Owner::Chunks(slug.clone(), segment))?;
        let mut statement = self.connection.prepare_cached(
            "UPDATE chunk SET superseded_by = NULL WHERE project = ?1 AND superseded_by = ?2 RETURNING segment",
        )?;
        let segments: Vec<u64> = statement
            .query_map(params![project, id.number()], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for segment in segments {
            self.dirty(&Owner::Chunks(slug.clone(), segment))?;
        }
        Ok(())
    }

    /// Removes a text that nobody asked to forget.
    fn remove_and_tell(&mut self, project: i64, slug: &Slug, id: ChunkId) -> Write<()> {
        self.remove(project, slug, id)?;
        self.log_side("memory", None, Source::Tool, slug, &id.to_string())
    }

    /// Removes a few of the texts whose time is over, of whatever project; says how many.
    pub(super) fn remove_expired(&mut self) -> Write<u64> {
        let mut statement = self.connection.prepare_cached(
            "SELECT c.project, p.slug, c.number FROM chunk c JOIN project p ON p.id = c.project \
             WHERE c.expires_at <= ?1 ORDER BY c.expires_at LIMIT ?2",
        )?;
        let over: Vec<(i64, String, u64)> = statement
            .query_map(params![self.now.unix_seconds(), EXPIRED_AT_ONCE], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?
            .collect::<Result<_, _>>()?;
        for (project, name, number) in &over {
            self.remove_and_tell(*project, &slug(name)?, ChunkId::new(*number))?;
        }
        Ok(u64::try_from(over.len()).unwrap_or(u64::MAX))
    }

    /// Sees to it that a project has room for so much more: what has expired goes first, then what
    /// others supersede, the oldest first, then what the new text itself supersedes, where that is
    /// enough. Only what has expired goes, where the limits say so.
    pub(super) fn make_room(
        &mut self,
        project: i64,
        name: &Slug,
        more: u64,
        bytes: u64,
        superseded: &[ChunkId],
    ) -> Write<()> {
        if self.has_room(project, more, bytes)? {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT number FROM chunk INDEXED BY chunk_by_number WHERE project = ?1 \
             AND (expires_at <= ?2 OR superseded_by IS NOT NULL AND ?4) \
             ORDER BY expires_at IS NULL OR expires_at > ?2, number LIMIT ?3",
        )?;
        let surplus: Vec<u64> = statement
            .query_map(
                params![
                    project,
                    self.now.unix_seconds(),
                    SURPLUS_AT_ONCE,
                    self.limits.makes_room
                ],
                |row| row.get(0),
            )?
            .collect::<Result<_, _>>()?;
        for number in surplus {
            self.remove_and_tell(project, name, ChunkId::new(number))?;
            if self.has_room(project, more, bytes)? {
                return Ok(());
            }
        }
        let size = self.reader().stored_size(project)?;
        let (mut gone, mut gone_bytes) = (BTreeSet::new(), 0);
        for id in superseded {
            if let Some(old) = self.reader().chunk(name, *id)?
                && gone.insert(id.number())
            {
                gone_bytes += said(&old);
            }
        }
        let left = MemorySize {
            chunks: size.chunks.saturating_sub(gone.len() as u64),
            chunk_bytes: size.chunk_bytes.saturating_sub(gone_bytes),
            ..size
        };
        // Nothing is taken from whoever is refused.
        if self.limits.makes_room && self.fits(&left, more, bytes) {
            for number in gone {
                self.remove_and_tell(project, name, ChunkId::new(number))?;
                if self.has_room(project, more, bytes)? {
                    return Ok(());
                }
            }
        }
        let (chunks, limit) = (self.limits.chunks, self.limits.memory_bytes);
        invalid(format!(
            "the project has {} memories with {} bytes, and the limit is {chunks} with {limit} bytes; forget some with forget_memory, or raise the limits of [memory] in orchestra.toml",
            size.chunks, size.chunk_bytes
        ))
    }

    fn has_room(&self, project: i64, more: u64, bytes: u64) -> Write<bool> {
        let size = self.reader().stored_size(project)?;
        Ok(self.fits(&size, more, bytes))
    }

    const fn fits(&self, size: &MemorySize, more: u64, bytes: u64) -> bool {
        size.chunks.saturating_add(more) <= self.limits.chunks
            && size.chunk_bytes.saturating_add(bytes) <= self.limits.memory_bytes
    }
}
