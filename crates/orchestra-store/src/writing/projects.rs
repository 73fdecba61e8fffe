//! Rows of projects and their documents.

use orchestra_board::{PrdSession, Project, Request, Timestamp};
use rusqlite::params;

use super::{Write, Writing};
use crate::ActionError;
use crate::rows::prd_text;

/// The most bytes of a project's requests: escaped, they still fit into a file that can be read.
const MAX_REQUESTS_BYTES: u64 = 12 * 1024 * 1024;
/// What a request counts beside its text.
const REQUEST_BYTES: i64 = 128;

impl Writing<'_> {
    /// Makes the row of a new project; answers its rowid.
    pub(super) fn insert_project(&self, project: &Project) -> Write<i64> {
        self.execute(
            "INSERT INTO project (slug, key, name, description, next_issue, next_bug, next_request, phase_of, phase, \
             prd_origin, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                project.slug.as_str(),
                project.key.as_str(),
                project.name.as_str(),
                project.description.as_str(),
                project.next_issue,
                project.next_bug,
                project.next_request,
                project.phase_of.as_ref().map(|(parent, _)| parent.as_str()),
                project.phase_of.as_ref().map(|(_, phase)| *phase),
                project.prd_origin.as_str(),
                project.created_at.unix_seconds(),
                project.updated_at.map(Timestamp::unix_seconds),
            ],
        )?;
        let id = self.connection.last_insert_rowid();
        crate::home::raise(self.connection, project.slug.as_str())?;
        Ok(id)
    }

    /// Writes what changes of a project while it is worked on.
    pub(super) fn update_project(&self, id: i64, project: &Project) -> Write<()> {
        self.execute(
            "UPDATE project SET name = ?2, description = ?3, next_issue = ?4, next_bug = ?5, next_request = ?6, \
             prd_origin = ?7, updated_at = ?8, phase_of = ?9, phase = ?10 WHERE id = ?1",
            params![
                id,
                project.name.as_str(),
                project.description.as_str(),
                project.next_issue,
                project.next_bug,
                project.next_request,
                project.prd_origin.as_str(),
                project.updated_at.map(Timestamp::unix_seconds),
                project.phase_of.as_ref().map(|(parent, _)| parent.as_str()),
                project.phase_of.as_ref().map(|(_, phase)| *phase),
            ],
        )?;
        Ok(())
    }

    /// Writes what only files change of a project. Naming the key writes its index anew, so it is
    /// apart from what every change writes.
    pub(super) fn update_origin(&self, id: i64, project: &Project) -> Write<()> {
        self.execute(
            "UPDATE project SET key = ?2, created_at = ?3 WHERE id = ?1",
            params![id, project.key.as_str(), project.created_at.unix_seconds(),],
        )?;
        Ok(())
    }

    pub(super) fn put_document(&self, project: i64, name: &str, text: Option<&str>) -> Write<()> {
        match text {
            Some(text) => self.execute(
                "INSERT INTO document (project, name, text) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (project, name) DO UPDATE SET text = excluded.text",
                params![project, name, text],
            )?,
            None => self.execute(
                "DELETE FROM document WHERE project = ?1 AND name = ?2",
                params![project, name],
            )?,
        };
        Ok(())
    }

    pub(super) fn put_questionnaire(
        &self,
        project: i64,
        session: Option<&PrdSession>,
    ) -> Write<()> {
        match session {
            Some(session) => self.execute(
                "INSERT INTO prd_session (project, body) VALUES (?1, ?2) \
                 ON CONFLICT (project) DO UPDATE SET body = excluded.body",
                params![project, prd_text(session)],
            )?,
            None => self.execute("DELETE FROM prd_session WHERE project = ?1", [project])?,
        };
        Ok(())
    }

    /// Refuses one more request where all of them would not fit into their file.
    pub(super) fn check_requests(&self, project: i64, request: &Request) -> Write<()> {
        let kept = self.reader().count(
            "SELECT coalesce(sum(octet_length(description) + ?2), 0) FROM request WHERE project = ?1",
            params![project, REQUEST_BYTES],
        )?;
        let more = u64::try_from(request.description.as_str().len()).unwrap_or(u64::MAX);
        if kept.saturating_add(more) > MAX_REQUESTS_BYTES {
            return Err(ActionError::Invalid(
                "the project has too many requests; remove old ones from its requests.toon"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    pub(super) fn insert_request(&self, project: i64, request: &Request) -> Write<()> {
        self.execute(
            "INSERT OR REPLACE INTO request (project, number, kind, status, at, description) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                project,
                request.number,
                request.kind.as_str(),
                request.status.as_str(),
                request.at.unix_seconds(),
                request.description.as_str(),
            ],
        )?;
        Ok(())
    }
}
