//! What a project counts its ids with: never so low that one is given again.

use orchestra_board::{IssueId, Project, Slug};
use rusqlite::{Connection, params};

use crate::files::owner::Owner;
use crate::merge::MAX_CHUNK;
use crate::reader::Reader;
use crate::rows::Read;
use crate::toon::project::MAX_NUMBER;
use crate::writing::{Write, Writing};

/// What a project counts its issues, bugs and requests with, and the least that each may be. Numbers above
/// [`MAX_NUMBER`] do not count.
fn counters(connection: &Connection, project: i64) -> Read<([u64; 3], [u64; 3])> {
    let mut statement = connection.prepare_cached(
        "SELECT next_issue, next_bug, next_request, \
         (SELECT max(number) FROM issue WHERE project = p.id AND prefix = p.key AND number <= ?3), \
         (SELECT max(number) FROM alias WHERE project = p.id AND prefix = p.key AND number <= ?3), \
         (SELECT max(number) FROM tombstone WHERE project = p.id AND prefix = p.key AND number <= ?3), \
         (SELECT max(number) FROM issue WHERE project = p.id AND prefix = ?2 AND number <= ?3), \
         (SELECT max(number) FROM alias WHERE project = p.id AND prefix = ?2 AND number <= ?3), \
         (SELECT max(number) FROM tombstone WHERE project = p.id AND prefix = ?2 AND number <= ?3), \
         (SELECT max(number) FROM request WHERE project = p.id AND number <= ?3) \
         FROM project p WHERE p.id = ?1",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let above = |column| -> rusqlite::Result<u64> {
            Ok(row.get::<_, Option<u64>>(column)?.unwrap_or(0) + 1)
        };
        let now = [row.get(0)?, row.get(1)?, row.get(2)?];
        let issue = above(3)?.max(above(4)?).max(above(5)?);
        let bug = above(6)?.max(above(7)?).max(above(8)?);
        Ok((now, [issue, bug, above(9)?]))
    };
    Ok(statement.query_row(params![project, IssueId::BUG, MAX_NUMBER], read)?)
}

pub(super) const fn of(project: &Project) -> [u64; 3] {
    [project.next_issue, project.next_bug, project.next_request]
}

/// A project as a file or another board has it, with these counters in the place of those that would use up its ids.
pub(super) fn limited(project: &Project, least: [u64; 3]) -> Project {
    let [next_issue, next_bug, next_request] = limit(of(project), least);
    Project {
        next_issue,
        next_bug,
        next_request,
        ..project.clone()
    }
}

fn limit(mut next: [u64; 3], least: [u64; 3]) -> [u64; 3] {
    for (next, least) in next.iter_mut().zip(least) {
        if *next > MAX_NUMBER + 1 {
            *next = least;
        }
    }
    next
}

/// Lowers the counters of a database from elsewhere that would use up the ids of its projects.
pub(crate) fn limit_counters(connection: &Connection) -> Read<()> {
    let reader = Reader::new(connection);
    for slug in reader.slugs()? {
        let id = reader.project_id(&slug)?;
        let (now, least) = counters(connection, id)?;
        let [issue, bug, request] = limit(now, least);
        connection.execute(
            "UPDATE project SET next_issue = ?2, next_bug = ?3, next_request = ?4, \
             next_chunk = min(next_chunk, ?5) WHERE id = ?1",
            params![id, issue, bug, request, MAX_CHUNK],
        )?;
    }
    Ok(())
}

fn is_low(now: [u64; 3], least: [u64; 3]) -> bool {
    now.iter().zip(least).any(|(now, least)| *now < least)
}

impl Writing<'_> {
    pub(super) fn raise_all_counters(&mut self) -> Write<()> {
        for slug in self.reader().slugs()? {
            if self.raise_counters(&slug)? {
                self.dirty(&Owner::Project(slug))?;
            }
        }
        Ok(())
    }

    /// Raises the counters of a project above all ids that are in use; says whether that was
    /// needed.
    pub(super) fn raise_counters(&mut self, slug: &Slug) -> Write<bool> {
        let id = self.reader().project_id(slug)?;
        let (before, least) = counters(self.connection, id)?;
        if !is_low(before, least) {
            return Ok(false);
        }
        self.execute(
            "UPDATE project SET next_issue = max(next_issue, ?2), next_bug = max(next_bug, ?3), \
             next_request = max(next_request, ?4) WHERE id = ?1",
            params![id, least[0], least[1], least[2]],
        )?;
        Ok(true)
    }

    /// The projects whose counters would give an id again.
    pub(crate) fn low_counters(connection: &Connection) -> Read<Vec<Slug>> {
        let reader = Reader::new(connection);
        let mut low = Vec::new();
        for slug in reader.slugs()? {
            let (now, least) = counters(connection, reader.project_id(&slug)?)?;
            if is_low(now, least) {
                low.push(slug);
            }
        }
        Ok(low)
    }
}
