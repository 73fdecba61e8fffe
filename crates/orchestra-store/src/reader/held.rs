//! What a search reads of the rows that it chose: what is remembered there, and what was around it.

use std::ops::RangeInclusive;

use orchestra_board::{Label, Slug};
use rusqlite::named_params;

use super::memory::{CHUNK, HOLDS, SESSION, chunk_row, session_row};
use super::{Reader, first_row, last_row};
use crate::rows::Read;
use crate::{Chunk, ContextItem};

impl Reader<'_> {
    /// What is remembered in rows of a project, in their order; without what has expired or is
    /// superseded, and without rows of other projects.
    ///
    /// # Errors
    /// When there is no such project, or the database cannot be read.
    pub fn remembered_in(&self, project: &Slug, rows: &[i64]) -> Read<Vec<(i64, ContextItem)>> {
        let id = self.project_id(project)?;
        let of_project = first_row(id)..=last_row(id);
        let chunk = [CHUNK, "WHERE id = :row AND ", HOLDS].concat();
        let mut chunk = self.connection.prepare_cached(&chunk)?;
        let session = [SESSION, "WHERE id = ?1"].concat();
        let mut session = self.connection.prepare_cached(&session)?;
        let mut items = Vec::with_capacity(rows.len());
        for &row in rows.iter().filter(|row| of_project.contains(row)) {
            let key =
                named_params! { ":row": row, ":now": self.now, ":superseded": self.superseded };
            let mut found = chunk.query(key)?;
            if let Some(found) = found.next()? {
                items.push((row, ContextItem::Chunk(chunk_row(project, found)?)));
                continue;
            }
            let mut found = session.query([row])?;
            if let Some(found) = found.next()? {
                items.push((row, ContextItem::Session(session_row(project, found)?)));
            }
        }
        Ok(items)
    }

    /// What is remembered in a row of a project, as [`Reader::remembered_in`] reads it.
    ///
    /// # Errors
    /// As [`Reader::remembered_in`].
    pub fn remembered_at(&self, project: &Slug, row: i64) -> Read<Option<ContextItem>> {
        let mut found = self.remembered_in(project, &[row])?;
        Ok(found.pop().map(|(_, item)| item))
    }

    /// The texts of one source with numbers in a range, in order, and their rows; without what has
    /// expired or is superseded.
    ///
    /// # Errors
    /// As [`Reader::remembered_in`].
    pub fn remembered_of(
        &self,
        project: &Slug,
        source: &Label,
        numbers: &RangeInclusive<u64>,
    ) -> Read<Vec<(i64, Chunk)>> {
        let sql = format!(
            "{CHUNK} WHERE project = :project AND number BETWEEN :first AND :last \
             AND source_id = :source AND {HOLDS} ORDER BY number"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! {
            ":project": self.project_id(project)?,
            ":first": i64::try_from(*numbers.start()).unwrap_or(i64::MAX),
            ":last": i64::try_from(*numbers.end()).unwrap_or(i64::MAX),
            ":source": source.as_str(),
            ":now": self.now,
            ":superseded": self.superseded,
        })?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((row.get("id")?, chunk_row(project, row)?));
        }
        Ok(found)
    }
}
