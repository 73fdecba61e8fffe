//! A segment of remembered texts, as its file has it.

use std::collections::HashMap;

use orchestra_board::{Slug, Source};
use rusqlite::params;

use crate::files::owner::Owner;
use crate::writing::memory::text_hash;
use crate::writing::{Write, Writing};
use crate::{ActionError, Chunk, ChunkId};

impl Writing<'_> {
    /// Puts all texts of a segment there, and removes those that it has no more.
    pub(super) fn put_segment(
        &mut self,
        project: &Slug,
        segment: u64,
        chunks: &[Chunk],
    ) -> Write<()> {
        let id = self.reader().project_id(project)?;
        let before = self.reader().segment(project, segment)?;
        for known in &before {
            match chunks.iter().find(|chunk| chunk.id == known.id) {
                None => {
                    self.remove(id, project, known.id)?;
                    self.tell_of_chunk(project, known.id)?;
                }
                // Its text is free for another from now on.
                Some(chunk) if chunk.content != known.content => drop(self.execute(
                    "UPDATE chunk SET hash = randomblob(16) WHERE project = ?1 AND number = ?2",
                    params![id, known.id.number()],
                )?),
                Some(_) => {}
            }
        }
        self.check_segment(id, segment, chunks)?;
        for chunk in chunks {
            self.put_chunk(id, segment, chunk)?;
            if !before.contains(chunk) {
                self.tell_of_chunk(project, chunk.id)?;
            }
            self.execute(
                "UPDATE project SET next_chunk = max(next_chunk, ?2 + 1) WHERE id = ?1",
                params![id, chunk.id.number()],
            )?;
        }
        self.dirty(&Owner::Chunks(project.clone(), segment))
    }

    /// Tells of a text that stands otherwise in its file than it was remembered. Who loads a whole
    /// board begins a log.
    fn tell_of_chunk(&self, project: &Slug, id: ChunkId) -> Write<()> {
        if self.loading {
            return Ok(());
        }
        self.log_side("memory", None, Source::File, project, &id.to_string())
    }

    /// Refuses texts that another file has under the same id, and the same text under two ids unless that is accepted.
    fn check_segment(&self, project: i64, segment: u64, chunks: &[Chunk]) -> Write<()> {
        let mut texts = HashMap::new();
        for chunk in chunks {
            let (number, hash) = (chunk.id.number(), text_hash(chunk.content.as_str()));
            let elsewhere = self.find_number(
                "SELECT segment FROM chunk WHERE project = ?1 AND number = ?2 AND segment <> ?3",
                params![project, number, segment],
            )?;
            if elsewhere.is_some() {
                let what = format!(
                    "{} is in another file of memories as well; remove it from one of them",
                    chunk.id
                );
                return Err(ActionError::Invalid(what));
            }
            if self.accepts_duplicates {
                continue;
            }
            // What only looks alike may stand there twice: somebody wrote it so.
            let known = self.find_number(
                "SELECT number FROM chunk WHERE project = ?1 AND hash = ?2 AND number <> ?3 AND content = ?4",
                params![project, hash, number, chunk.content.as_str()],
            )?;
            let known = known.and_then(|number| u64::try_from(number).ok());
            let same = known
                .map(ChunkId::new)
                .or_else(|| texts.insert(chunk.content.as_str(), chunk.id));
            if let Some(other) = same {
                let what = format!(
                    "{} has the same text as {other}; remove one of them",
                    chunk.id
                );
                return Err(ActionError::Invalid(what));
            }
        }
        Ok(())
    }
}
