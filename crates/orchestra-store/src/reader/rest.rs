//! What else is kept: histories, documents, questionnaires, requests, plans, usage, hook events.

use orchestra_board::{
    Event, IssueId, PlanId, PrdSession, Request, RequestKind, RequestStatus, Slug, Timestamp, Title,
};
use rusqlite::{OptionalExtension, Row, params};

use super::Reader;
use crate::files::owner::Owner;
use crate::page::Filling;
use crate::rows::{Read, body, optional_id, prd_of, slug, unknown};
use crate::toon::project::{Alias, Retired, Tombstone};
use crate::{Cursor, Page, PageRequest, PhaseRecord, PlanRecord, toon};

/// The name of `prd.md` among the documents.
pub(crate) const PRD: &str = "prd.md";
/// The name of the status page among the documents.
pub(crate) const README: &str = "README.md";

const PLAN: &str = "SELECT name, title, issue, created_at, updated_at, content FROM plan ";

fn plan_row(project: &Slug, row: &Row<'_>) -> Read<(PlanRecord, String)> {
    let issue: Option<String> = row.get(2)?;
    let updated_at: Option<i64> = row.get(4)?;
    let record = PlanRecord {
        project: project.clone(),
        id: PlanId::parse(&row.get::<_, String>(0)?).map_err(|_| unknown("plan"))?,
        title: Title::parse(&row.get::<_, String>(1)?).map_err(|_| unknown("title"))?,
        issue: optional_id(issue.as_deref())?,
        created_at: Timestamp::from_unix_seconds(row.get(3)?),
        updated_at: updated_at.map(Timestamp::from_unix_seconds),
    };
    Ok((record, row.get(5)?))
}

impl Reader<'_> {
    /// What happened to an issue, oldest first. Descriptions are shortened; of the issue that was
    /// made, only type, title, state and `fixes` are told.
    ///
    /// # Errors
    /// When there is no such issue, the database cannot be read or the cursor is of another list.
    pub fn history(&self, project: &Slug, id: &IssueId, page: &PageRequest) -> Read<Page<Event>> {
        self.project_id(project)?;
        let missing = || orchestra_board::Refusal::NoIssue {
            kind: "issue",
            id: id.clone(),
            project: project.clone(),
        };
        let found = self.find_issue(project, id)?.ok_or_else(missing)?;
        // What happened is only ever added to, so a place in it stays what it is.
        let start = page.after(Cursor::number)?.unwrap_or(0);
        let mut filling = Filling::new(page);
        let total = self.count("SELECT count(*) FROM event WHERE issue = ?1", [found.row])?;
        let mut statement = self.connection.prepare_cached(
            "SELECT body FROM event WHERE issue = ?1 ORDER BY seq LIMIT ?2 OFFSET ?3",
        )?;
        let mut rows = statement.query(params![found.row, filling.wanted(), start])?;
        let mut place = start;
        while let Some(row) = rows.next()? {
            let line = row.get_ref(0)?.as_str().map_err(crate::rows::damaged)?;
            let event = toon::history::read("history", line, project, &found.record.issue.id)
                .map_err(|_| unknown("event"))?
                .pop();
            place += 1;
            let item = (place, event.ok_or_else(|| unknown("event"))?);
            if filling.push(item, line.len()).is_break() {
                break;
            }
        }
        let page = filling.finish(total, |(place, _)| Cursor::of_number(*place));
        Ok(page.map(|(_, event)| event))
    }

    /// The text of `prd.md`.
    ///
    /// # Errors
    /// When there is no such project, or the database cannot be read.
    pub fn prd_text(&self, project: &Slug) -> Read<String> {
        self.project_id(project)?;
        Ok(self.board_text(project, PRD)?.unwrap_or_default())
    }

    /// The status page of a project, if one was written.
    ///
    /// # Errors
    /// As [`Reader::prd_text`].
    pub fn readme(&self, project: &Slug) -> Read<Option<String>> {
        self.project_id(project)?;
        self.board_text(project, README)
    }

    fn board_text(&self, project: &Slug, name: &str) -> Read<Option<String>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT text FROM document WHERE project = (SELECT id FROM project WHERE slug = ?1) AND name = ?2",
        )?;
        Ok(statement
            .query_row([project.as_str(), name], |row| row.get(0))
            .optional()?)
    }

    /// The PRD questionnaire of a project.
    ///
    /// # Errors
    /// As [`Reader::prd_text`].
    pub fn prd_session(&self, project: &Slug) -> Read<Option<PrdSession>> {
        self.project_id(project)?;
        self.questionnaire(project)
    }

    pub(crate) fn questionnaire(&self, project: &Slug) -> Read<Option<PrdSession>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT body FROM prd_session WHERE project = (SELECT id FROM project WHERE slug = ?1)",
        )?;
        let text: Option<String> = statement
            .query_row([project.as_str()], |row| row.get(0))
            .optional()?;
        text.map(|text| prd_of(project, &text)).transpose()
    }

    /// The phases that a project's PRD was split into, in order.
    ///
    /// # Errors
    /// As [`Reader::prd_text`].
    pub fn phases(&self, project: &Slug) -> Read<Vec<PhaseRecord>> {
        let session = self.prd_session(project)?;
        let mut phases = Vec::new();
        for (number, slug) in
            (1_u32..).zip(session.map(|session| session.phases).unwrap_or_default())
        {
            let name = self.find_project(&slug)?.map(|(_, project)| project.name);
            let status = self.questionnaire(&slug)?.map(|session| session.status);
            phases.push(PhaseRecord {
                slug,
                number,
                name,
                status,
            });
        }
        Ok(phases)
    }

    /// The logged requests of a project, by number.
    ///
    /// # Errors
    /// When there is no such project, the database cannot be read or the cursor is of another list.
    pub fn requests(&self, project: &Slug, page: &PageRequest) -> Read<Page<Request>> {
        let id = self.project_id(project)?;
        let after = page.after(Cursor::number)?.unwrap_or(0);
        let mut filling = Filling::new(page);
        let total = self.count("SELECT count(*) FROM request WHERE project = ?1", [id])?;
        let mut statement = self.connection.prepare_cached(
            "SELECT number, kind, status, at, description FROM request WHERE project = ?1 AND number > ?2 \
             ORDER BY number LIMIT ?3",
        )?;
        let mut rows = statement.query(params![id, after, filling.wanted()])?;
        while let Some(row) = rows.next()? {
            let item = Request {
                number: row.get(0)?,
                kind: RequestKind::parse(&row.get::<_, String>(1)?)
                    .ok_or_else(|| unknown("request"))?,
                description: body(&row.get::<_, String>(4)?)?,
                status: RequestStatus::parse(&row.get::<_, String>(2)?)
                    .ok_or_else(|| unknown("request"))?,
                at: Timestamp::from_unix_seconds(row.get(3)?),
            };
            let bytes = item.description.as_str().len();
            if filling.push(item, bytes).is_break() {
                break;
            }
        }
        Ok(filling.finish(total, |request| Cursor::of_number(request.number)))
    }

    /// The saved plans of a project, by name.
    ///
    /// # Errors
    /// As [`Reader::requests`].
    pub fn plans(&self, project: &Slug, page: &PageRequest) -> Read<Page<PlanRecord>> {
        let id = self.project_id(project)?;
        let after = page.after(Cursor::name)?.unwrap_or_default();
        let mut filling = Filling::new(page);
        let total = self.count("SELECT count(*) FROM plan WHERE project = ?1", [id])?;
        let sql = format!("{PLAN} WHERE project = ?1 AND name > ?2 ORDER BY name LIMIT ?3");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![id, after, filling.wanted()])?;
        while let Some(row) = rows.next()? {
            let (item, bytes) = (plan_row(project, row)?.0, 0);
            if filling.push(item, bytes).is_break() {
                break;
            }
        }
        Ok(filling.finish(total, |plan| Cursor::of_name(plan.id.as_str())))
    }

    /// The plans of a project that were saved last, latest first, at most so many, with the beginnings
    /// of their texts: of so many characters each, and no more once they come to `bytes` together.
    ///
    /// # Errors
    /// As [`Reader::requests`].
    pub fn latest_plans(
        &self,
        project: &Slug,
        most: u32,
        part: u32,
        bytes: usize,
    ) -> Read<Vec<(PlanRecord, String)>> {
        let id = self.project_id(project)?;
        let mut latest = self.connection.prepare_cached(
            "SELECT rowid FROM plan WHERE project = ?1 \
             ORDER BY coalesce(updated_at, created_at) DESC, name LIMIT ?2",
        )?;
        // No text is read to know the order.
        let found: Vec<i64> = latest
            .query_map(params![id, most], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let mut statement = self.connection.prepare_cached(
            "SELECT name, title, issue, created_at, updated_at, substr(content, 1, ?2) FROM plan \
             WHERE rowid = ?1",
        )?;
        let (mut plans, mut read) = (Vec::new(), 0);
        for place in found {
            if read >= bytes {
                break;
            }
            let mut rows = statement.query(params![place, part])?;
            if let Some(row) = rows.next()? {
                let plan = plan_row(project, row)?;
                read += plan.1.len();
                plans.push(plan);
            }
        }
        Ok(plans)
    }

    /// A saved plan with its text.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn plan(&self, project: &Slug, id: &PlanId) -> Read<Option<(PlanRecord, String)>> {
        let sql = format!(
            "{PLAN} WHERE project = (SELECT id FROM project WHERE slug = ?1) AND name = ?2"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([project.as_str(), id.as_str()])?;
        rows.next()?.map(|row| plan_row(project, row)).transpose()
    }

    /// The ids of a project that no issue has any more.
    pub(crate) fn retired(&self, project: &Slug) -> Read<Retired> {
        let id = self.project_id(project)?;
        Ok(Retired {
            aliases: self.aliases(id)?,
            deleted: self.tombstones(id)?,
        })
    }

    /// The deleted issues of a project that are remembered, oldest first.
    fn tombstones(&self, project: i64) -> Read<Vec<Tombstone>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT prefix, number, uid, at FROM tombstone WHERE project = ?1 ORDER BY at, prefix, number, uid",
        )?;
        let mut rows = statement.query([project])?;
        let mut deleted = Vec::new();
        while let Some(row) = rows.next()? {
            let prefix: String = row.get(0)?;
            let id = crate::rows::id_of(Some(&prefix), row.get(1)?)?;
            let uid = crate::rows::uid_of(row.get_ref(2)?)?;
            let at = Timestamp::from_unix_seconds(row.get(3)?);
            deleted.extend(id.zip(uid).map(|(id, uid)| Tombstone { id, uid, at }));
        }
        Ok(deleted)
    }

    /// The ids that renumberings left behind in a project, with those that took their places.
    fn aliases(&self, project: i64) -> Read<Vec<Alias>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT a.prefix, a.number, i.prefix, i.number FROM alias a JOIN issue i ON i.id = a.issue \
             WHERE a.project = ?1 ORDER BY a.prefix, a.number",
        )?;
        let mut rows = statement.query([project])?;
        let mut aliases = Vec::new();
        while let Some(row) = rows.next()? {
            let (old, new): (String, String) = (row.get(0)?, row.get(2)?);
            let old = crate::rows::id_of(Some(&old), row.get(1)?)?;
            let new = crate::rows::id_of(Some(&new), row.get(3)?)?;
            aliases.extend(old.zip(new));
        }
        Ok(aliases)
    }

    /// Everything in a project that has files of its own, beside `project-status.toon` and `prd.md`.
    pub(crate) fn owners_of(&self, project: &Slug) -> Read<Vec<Owner>> {
        let id = self.project_id(project)?;
        let mut owners = Vec::new();
        for (kind, sql) in [
            (
                "issue",
                "SELECT prefix || '-' || number FROM issue WHERE project = ?1",
            ),
            ("plan", "SELECT name FROM plan WHERE project = ?1"),
            ("session", "SELECT name FROM session WHERE project = ?1"),
            (
                "chunks",
                "SELECT DISTINCT segment FROM chunk WHERE project = ?1",
            ),
        ] {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([id])?;
            while let Some(row) = rows.next()? {
                let name = match row.get_ref(0)? {
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    other => other.as_str().map_err(crate::rows::damaged)?.to_owned(),
                };
                owners.extend(Owner::parse(&format!("{kind}/{project}/{name}")));
            }
        }
        owners.extend([
            Owner::PrdSession(project.clone()),
            Owner::Requests(project.clone()),
            Owner::Readme(project.clone()),
            Owner::Sessions(project.clone()),
        ]);
        Ok(owners)
    }

    /// The slugs of all projects.
    pub(crate) fn slugs(&self) -> Read<Vec<Slug>> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT slug FROM project ORDER BY slug")?;
        let mut rows = statement.query([])?;
        let mut slugs = Vec::new();
        while let Some(row) = rows.next()? {
            slugs.push(slug(&row.get::<_, String>(0)?)?);
        }
        Ok(slugs)
    }
}
