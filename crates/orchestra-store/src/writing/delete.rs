//! Deleting: what goes takes along all that follows from it.

use orchestra_board::{Issue, IssueId, Slug, Timestamp, Uid};
use rusqlite::params;

use super::issues::Step;
use super::{Write, Writing};
use crate::files::owner::Owner;
use crate::reader::{first_row, last_row};
use crate::rows::id_of;
use crate::toon::project::Tombstone;

/// The most tombstones of a project that are kept: its file lists them, and is written with every
/// change.
const MAX_TOMBSTONES: u32 = 512;

impl Writing<'_> {
    /// Deletes an issue and everything below it. Where a time is given, tombstones stay behind.
    pub(super) fn delete_issue(
        &mut self,
        project: i64,
        slug: &Slug,
        id: &IssueId,
        buried_at: Option<Timestamp>,
    ) -> Write<()> {
        let reader = self.reader();
        let Some(found) = reader.find_issue(slug, id)? else {
            return Ok(());
        };
        self.dirty(&Owner::Issue(slug.clone(), found.record.issue.id.clone()))?;
        if let Some(parent) = &found.record.issue.parent {
            self.dirty(&Owner::Issue(slug.clone(), parent.clone()))?;
        }
        let mut going = vec![found.row];
        let mut at = 0;
        while let Some(&row) = going.get(at) {
            let mut statement = self
                .connection
                .prepare_cached("SELECT id FROM issue WHERE parent = ?1")?;
            let below = statement.query_map([row], |row| row.get(0))?;
            going.extend(below.collect::<Result<Vec<i64>, _>>()?);
            at += 1;
        }
        // The lowest first: each is counted out of a parent that is still there.
        for row in going.into_iter().rev() {
            let gone = self.remove_row(project, slug, row)?;
            if let (Some(at), Some(gone)) = (buried_at, gone)
                && let Some(uid) = gone.uid
            {
                let id = gone.id;
                self.put_tombstone(project, &Tombstone { id, uid, at })?;
            }
        }
        if buried_at.is_some() {
            self.prune_tombstones(project)?;
        }
        Ok(())
    }

    pub(super) fn put_tombstone(&self, project: i64, stone: &Tombstone) -> Write<()> {
        self.execute(
            "INSERT OR REPLACE INTO tombstone (project, uid, prefix, number, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                project,
                stone.uid.to_bytes(),
                stone.id.prefix(),
                stone.id.number(),
                stone.at.unix_seconds(),
            ],
        )?;
        self.remove_alias(project, &stone.id)
    }

    /// Records that an issue was on a board which is part of this one since.
    pub(super) fn put_gone(&self, project: i64, uid: Uid) -> Write<()> {
        self.execute(
            "INSERT OR IGNORE INTO gone (project, uid) VALUES (?1, ?2)",
            params![project, uid.to_bytes()],
        )?;
        Ok(())
    }

    /// Removes an alias: an id that an issue has or had leads to no other one.
    pub(super) fn remove_alias(&self, project: i64, id: &IssueId) -> Write<()> {
        self.execute(
            "DELETE FROM alias WHERE project = ?1 AND prefix = ?2 AND number = ?3",
            params![project, id.prefix(), id.number()],
        )?;
        Ok(())
    }

    pub(super) fn remove_tombstone(&self, project: i64, uid: Uid) -> Write<()> {
        self.execute(
            "DELETE FROM tombstone WHERE project = ?1 AND uid = ?2",
            params![project, uid.to_bytes()],
        )?;
        Ok(())
    }

    /// Removes the oldest tombstones of a project that has too many.
    pub(super) fn prune_tombstones(&self, project: i64) -> Write<()> {
        self.execute(
            "DELETE FROM tombstone WHERE project = ?1 AND uid IN (SELECT uid FROM tombstone \
             WHERE project = ?1 ORDER BY at DESC, prefix DESC, number DESC, uid DESC LIMIT -1 OFFSET ?2)",
            params![project, MAX_TOMBSTONES],
        )?;
        Ok(())
    }

    fn remove_row(&mut self, project: i64, slug: &Slug, row: i64) -> Write<Option<Issue>> {
        let Some(found) = self.reader().row_at(slug, row)? else {
            return Ok(None);
        };
        let issue = &found.record.issue;
        self.count(project, found.parent_row, issue, Step::Down)?;
        self.remove_marks(project, row, issue)?;
        self.unindex_issue(row)?;
        self.pass_on_usage(slug, issue)?;
        for sql in [
            "DELETE FROM tally WHERE parent = ?1",
            "DELETE FROM dependency WHERE issue = ?1",
            "DELETE FROM alias WHERE issue = ?1",
            "DELETE FROM issue WHERE id = ?1",
        ] {
            self.execute(sql, [row])?;
        }
        self.release_waiting(project, slug, &issue.id)?;
        Ok(Some(found.record.issue))
    }

    /// What waited for a deleted issue waits for it no longer.
    fn release_waiting(&mut self, project: i64, slug: &Slug, id: &IssueId) -> Write<()> {
        let key = params![project, id.prefix(), id.number()];
        let waiting: Vec<(i64, String, u64)> = {
            let mut statement = self.connection.prepare_cached(
                "SELECT i.id, i.prefix, i.number FROM dependency d JOIN issue i ON i.id = d.issue \
                 WHERE d.project = ?1 AND d.prefix = ?2 AND d.number = ?3",
            )?;
            let rows =
                statement.query_map(key, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for (row, prefix, number) in waiting {
            self.execute("UPDATE issue SET waits = waits - 1 WHERE id = ?1", [row])?;
            if let Some(waited) = id_of(Some(&prefix), Some(number))? {
                self.dirty(&Owner::Issue(slug.clone(), waited))?;
            }
        }
        self.execute(
            "DELETE FROM dependency WHERE project = ?1 AND prefix = ?2 AND number = ?3",
            key,
        )?;
        Ok(())
    }

    /// Deletes everything of a project; the log of what happened stays.
    pub(super) fn delete_project(&mut self, project: i64, slug: &Slug) -> Write<()> {
        let (first, last) = (first_row(project), last_row(project));
        for index in self.indexes_of(first)?.into_iter().flatten() {
            let sql = format!("DELETE FROM {index} WHERE rowid BETWEEN ?1 AND ?2");
            self.execute(&sql, [first, last])?;
        }
        for sql in [
            "DELETE FROM issue_text WHERE rowid BETWEEN ?1 AND ?2",
            "DELETE FROM tally WHERE parent BETWEEN ?1 AND ?2",
            "DELETE FROM dependency WHERE issue BETWEEN ?1 AND ?2",
            "DELETE FROM issue WHERE id BETWEEN ?1 AND ?2",
            "DELETE FROM chunk WHERE id BETWEEN ?1 AND ?2",
            "DELETE FROM session WHERE id BETWEEN ?1 AND ?2",
        ] {
            self.execute(sql, [first, last])?;
        }
        let sums = "DELETE FROM usage_of WHERE project = ?1";
        if self.execute(sums, [slug.as_str()])? > 0 {
            self.keep_usage_days(slug)?;
            self.dirty(&Owner::Usage)?;
        }
        for sql in [
            "DELETE FROM tally WHERE parent = -?1",
            "DELETE FROM mark WHERE project = ?1",
            "DELETE FROM alias WHERE project = ?1",
            "DELETE FROM tombstone WHERE project = ?1",
            "DELETE FROM gone WHERE project = ?1",
            "DELETE FROM document WHERE project = ?1",
            "DELETE FROM prd_session WHERE project = ?1",
            "DELETE FROM request WHERE project = ?1",
            "DELETE FROM plan WHERE project = ?1",
            "DELETE FROM memory_size WHERE project = ?1",
            "DELETE FROM project WHERE id = ?1",
        ] {
            self.execute(sql, [project])?;
        }
        // Nothing of a project that is gone is due any more, but that it is gone.
        self.execute(
            "DELETE FROM dirty WHERE owner GLOB ?1 OR owner GLOB ?2",
            [format!("*/{slug}"), format!("*/{slug}/*")],
        )?;
        Ok(())
    }
}
