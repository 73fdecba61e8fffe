//! Projects and issues: one by one, and in lists.

use std::sync::LazyLock;

use orchestra_board::{AgentName, IssueId, Refusal, Slug, Timestamp, next_task};
use rusqlite::{CachedStatement, OptionalExtension, params};

use super::Reader;
use super::filter::Listing;
use crate::page::Filling;
use crate::rows::{
    ISSUE, IssueRow, PROJECT, Read, id_of, issue_row, kind_of, project_row, state_of,
};
use crate::{
    Census, Cursor, IssueFilter, IssueRecord, NextRecord, Page, PageRequest, ProjectRecord, Waiting,
};

impl<'a> Reader<'a> {
    /// All projects, by slug.
    ///
    /// # Errors
    /// When the database cannot be read or the cursor is of another list.
    pub fn projects(&self, page: &PageRequest) -> Read<Page<ProjectRecord>> {
        let after = page.after(Cursor::name)?.unwrap_or_default();
        let mut filling = Filling::new(page);
        let total = self.count("SELECT count(*) FROM project", [])?;
        let sql = format!("{PROJECT} WHERE slug > ?1 ORDER BY slug LIMIT ?2");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![after, filling.wanted()])?;
        while let Some(row) = rows.next()? {
            let (id, project) = project_row(row)?;
            let item = ProjectRecord {
                project,
                census: self.census(Listing::Project(id))?,
            };
            let bytes = item.project.description.as_str().len();
            if filling.push(item, bytes).is_break() {
                break;
            }
        }
        Ok(filling.finish(total, |record| {
            Cursor::of_name(record.project.slug.as_str())
        }))
    }

    /// A project.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn project(&self, slug: &Slug) -> Read<Option<ProjectRecord>> {
        let Some((id, project)) = self.find_project(slug)? else {
            return Ok(None);
        };
        Ok(Some(ProjectRecord {
            project,
            census: self.census(Listing::Project(id))?,
        }))
    }

    /// An issue by its id, or by one that a renumbering left behind.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn issue(&self, project: &Slug, id: &IssueId) -> Read<Option<IssueRecord>> {
        Ok(self.find_issue(project, id)?.map(|found| found.record))
    }

    /// What is directly below an issue, by id.
    ///
    /// # Errors
    /// When there is no such project or issue, or as [`Reader::projects`].
    pub fn children(
        &self,
        project: &Slug,
        parent: &IssueId,
        page: &PageRequest,
    ) -> Read<Page<IssueRecord>> {
        self.issues(
            project,
            &IssueFilter {
                parent: Some(parent.clone()),
                ..IssueFilter::default()
            },
            page,
        )
    }

    /// The issues that a filter lets through, by id.
    ///
    /// # Errors
    /// When there is no such project, or no such parent or epic as the filter names, or as
    /// [`Reader::projects`].
    pub fn issues(
        &self,
        project: &Slug,
        filter: &IssueFilter,
        page: &PageRequest,
    ) -> Read<Page<IssueRecord>> {
        let id = self.project_id(project)?;
        let parent = filter
            .parent
            .as_ref()
            .map(|parent| self.required_row(project, parent))
            .transpose()?;
        let epic = filter
            .epic
            .as_ref()
            .map(|epic| self.required_row(project, epic))
            .transpose()?;
        let plain = epic.is_none()
            && filter.assignee.is_none()
            && filter.label.is_none()
            && filter.waiting == Waiting::Any;
        let mut filling = Filling::new(page);
        let after = page.after(Cursor::issue)?;
        let (rows, total) = if plain {
            let listing = parent.map_or(Listing::Project(id), Listing::Parent);
            self.merged(listing, filter, after.as_ref(), filling.wanted())?
        } else {
            self.gathered(id, filter, parent, epic, after.as_ref(), filling.wanted())?
        };
        let mut statement = self.statement_by_row()?;
        for row in rows {
            let item = self.issue_of(&mut statement, project, row)?;
            let bytes = item.issue.description.as_str().len();
            if filling.push(item, bytes).is_break() {
                break;
            }
        }
        Ok(filling.finish(total, |record| Cursor::of_issue(&record.issue.id)))
    }

    /// The task that comes next for `agent`.
    ///
    /// # Errors
    /// When there is no such project, or the database cannot be read.
    pub fn next(
        &self,
        project: &Slug,
        agent: Option<&AgentName>,
        now: Timestamp,
    ) -> Read<NextRecord> {
        self.project_id(project)?;
        let next = next_task(self, project, agent, now)?;
        let task = match next.task {
            Some(task) => self.issue(project, &task.id)?,
            None => None,
        };
        Ok(NextRecord {
            task,
            claimed: next.claimed,
            waiting: next.waiting,
        })
    }

    pub(crate) fn count(&self, sql: &str, params: impl rusqlite::Params) -> Read<u64> {
        Ok(self
            .connection
            .prepare_cached(sql)?
            .query_row(params, |row| row.get(0))?)
    }

    /// How many issues of each kind and state a listing has.
    pub(super) fn census(&self, listing: Listing) -> Read<Census> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT kind, state, n FROM tally WHERE parent = ?1")?;
        let mut rows = statement.query([listing.tally()])?;
        let mut census = Census::default();
        while let Some(row) = rows.next()? {
            census.add(kind_of(row.get(0)?)?, state_of(row.get(1)?)?, row.get(2)?);
        }
        Ok(census)
    }

    /// The rowid of an issue, by its id or an alias.
    pub(crate) fn find_row(&self, project: &Slug, id: &IssueId) -> Read<Option<i64>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT i.id FROM project p JOIN issue i ON i.project = p.id \
             WHERE p.slug = ?1 AND i.prefix = ?2 AND i.number = ?3",
        )?;
        let key = params![project.as_str(), id.prefix(), id.number()];
        if let Some(found) = statement.query_row(key, |row| row.get(0)).optional()? {
            return Ok(Some(found));
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT a.issue FROM project p JOIN alias a ON a.project = p.id \
             WHERE p.slug = ?1 AND a.prefix = ?2 AND a.number = ?3",
        )?;
        Ok(statement.query_row(key, |row| row.get(0)).optional()?)
    }

    fn required_row(&self, project: &Slug, id: &IssueId) -> Read<i64> {
        let missing = || Refusal::NoIssue {
            kind: "issue",
            id: id.clone(),
            project: project.clone(),
        };
        Ok(self.find_row(project, id)?.ok_or_else(missing)?)
    }

    /// An issue with all that belongs to it, by its id or an alias.
    pub(crate) fn find_issue(&self, project: &Slug, id: &IssueId) -> Read<Option<IssueRow>> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "{ISSUE} WHERE i.project = (SELECT id FROM project WHERE slug = ?1) AND i.prefix = ?2 AND i.number = ?3"
            )
        });
        let mut statement = self.connection.prepare_cached(&SQL)?;
        let mut rows = statement.query(params![project.as_str(), id.prefix(), id.number()])?;
        if let Some(row) = rows.next()? {
            let mut found = issue_row(project, row)?;
            self.complete(&mut found)?;
            return Ok(Some(found));
        }
        match self.find_row(project, id)? {
            Some(row) => self.row_at(project, row),
            None => Ok(None),
        }
    }

    /// The issue with this rowid.
    pub(crate) fn row_at(&self, project: &Slug, row: i64) -> Read<Option<IssueRow>> {
        self.row_of(&mut self.statement_by_row()?, project, row)
    }

    /// Statement of [`Reader::row_of`]. A list prepares it once.
    pub(super) fn statement_by_row(&self) -> Read<CachedStatement<'a>> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("{ISSUE} WHERE i.id = ?1"));
        Ok(self.connection.prepare_cached(&SQL)?)
    }

    fn row_of(
        &self,
        statement: &mut CachedStatement<'_>,
        project: &Slug,
        row: i64,
    ) -> Read<Option<IssueRow>> {
        let mut rows = statement.query([row])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let mut found = issue_row(project, row)?;
        self.complete(&mut found)?;
        Ok(Some(found))
    }

    /// The issue with this rowid, by [`Reader::statement_by_row`].
    pub(super) fn issue_of(
        &self,
        statement: &mut CachedStatement<'_>,
        project: &Slug,
        row: i64,
    ) -> Read<IssueRecord> {
        let found = self.row_of(statement, project, row)?;
        found
            .map(|found| found.record)
            .ok_or_else(|| crate::rows::unknown("rowid of an issue"))
    }

    /// Adds what an issue waits for and how many children it has.
    pub(crate) fn complete(&self, found: &mut IssueRow) -> Read<()> {
        if found.waits > 0 {
            let mut statement = self.connection.prepare_cached(
                "SELECT prefix, number FROM dependency WHERE issue = ?1 ORDER BY prefix, number",
            )?;
            let mut rows = statement.query([found.row])?;
            while let Some(row) = rows.next()? {
                let prefix: String = row.get(0)?;
                let on = id_of(Some(&prefix), row.get(1)?)?;
                found.record.issue.depends_on.extend(on);
            }
        }
        if !found.record.issue.kind.is_leaf() {
            let sql = "SELECT coalesce(sum(n), 0) FROM tally WHERE parent = ?1";
            found.record.children = self.count(sql, [found.row])?;
        }
        Ok(())
    }

    /// The ids of what is directly below an issue, ascending.
    pub(crate) fn child_ids(&self, project: &Slug, parent: &IssueId) -> Read<Vec<IssueId>> {
        let Some(row) = self.find_row(project, parent)? else {
            return Ok(Vec::new());
        };
        let mut statement = self.connection.prepare_cached(
            "SELECT prefix, number FROM issue WHERE parent = ?1 ORDER BY prefix, number",
        )?;
        let mut rows = statement.query([row])?;
        let mut ids = Vec::new();
        while let Some(row) = rows.next()? {
            let prefix: String = row.get(0)?;
            ids.extend(id_of(Some(&prefix), row.get(1)?)?);
        }
        Ok(ids)
    }
}
