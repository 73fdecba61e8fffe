//! The stored board as decisions see it.

use std::ops::ControlFlow;

use orchestra_board::{
    Issue, IssueId, Key, PrdSession, Project, Slug, State, Tally, View, ViewError,
};

use super::Reader;
use crate::ReadError;
use crate::rows::{ISSUE, issue_row, state_of};

fn boxed(error: ReadError) -> ViewError {
    Box::new(error)
}

fn failed(error: rusqlite::Error) -> ViewError {
    Box::new(ReadError::from(error))
}

impl View for Reader<'_> {
    fn project(&self, slug: &Slug) -> Result<Option<Project>, ViewError> {
        Ok(self
            .find_project(slug)
            .map_err(boxed)?
            .map(|(_, project)| project))
    }

    fn key_taken(&self, key: &Key) -> Result<bool, ViewError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT 1 FROM project WHERE key = ?1")
            .map_err(failed)?;
        statement.exists([key.as_str()]).map_err(failed)
    }

    fn issue(&self, project: &Slug, id: &IssueId) -> Result<Option<Issue>, ViewError> {
        let found = self.find_issue(project, id).map_err(boxed)?;
        Ok(found.map(|found| found.record.issue))
    }

    fn tally(&self, project: &Slug, parent: &IssueId) -> Result<Tally, ViewError> {
        let mut tally = Tally::default();
        let mut count = || {
            let Some(row) = self.find_row(project, parent)? else {
                return Ok(());
            };
            let mut statement = self
                .connection
                .prepare_cached("SELECT state, n FROM tally WHERE parent = ?1")?;
            let mut rows = statement.query([row])?;
            while let Some(row) = rows.next()? {
                let state: State = state_of(row.get(0)?)?;
                tally.add_many(state, row.get(1)?);
            }
            Ok(())
        };
        count().map_err(boxed)?;
        Ok(tally)
    }

    fn children(&self, project: &Slug, parent: &IssueId) -> Result<Vec<IssueId>, ViewError> {
        self.child_ids(project, parent).map_err(boxed)
    }

    fn ranked(
        &self,
        project: &Slug,
        visit: &mut dyn FnMut(Issue) -> Result<ControlFlow<()>, ViewError>,
    ) -> Result<(), ViewError> {
        let sql = format!(
            "{ISSUE} WHERE i.project = (SELECT id FROM project WHERE slug = ?1) AND i.rank IS NOT NULL \
             ORDER BY i.rank, i.prefix, i.number"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([project.as_str()]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let mut found = issue_row(project, row).map_err(boxed)?;
            self.complete(&mut found).map_err(boxed)?;
            if visit(found.record.issue)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn prd_session(&self, project: &Slug) -> Result<Option<PrdSession>, ViewError> {
        self.questionnaire(project).map_err(boxed)
    }

    fn usage_session_open(&self) -> Result<bool, ViewError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT 1 FROM usage_session WHERE ended_at IS NULL LIMIT 1")
            .map_err(failed)?;
        statement.exists([]).map_err(failed)
    }
}
