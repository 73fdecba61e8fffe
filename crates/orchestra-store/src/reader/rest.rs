//! What else is kept: histories, documents, questionnaires, requests, plans, usage, hook events.

use orchestra_board::{
    Cost, Event, IssueId, Label, PlanId, PrdSession, Request, RequestKind, RequestStatus, Slug,
    Timestamp, Title, UsageSession, UsageTotals,
};
use rusqlite::{OptionalExtension, Row, params};

use super::Reader;
use crate::files::owner::Owner;
use crate::page::Filling;
use crate::rows::{Read, body, label, optional_id, prd_of, slug, unknown};
use crate::{
    Cursor, HookEventRecord, Page, PageRequest, PhaseRecord, PlanRecord, UsageRecord, UsageRequest,
    UsageSessionRecord, toon,
};

/// The name of `prd.md` among the documents.
pub(crate) const PRD: &str = "prd.md";
/// The name of the status page among the documents.
pub(crate) const README: &str = "README.md";

const PLAN: &str = "SELECT name, title, issue, created_at, updated_at, content FROM plan ";
const HOOK: &str =
    "SELECT number, at, event_type, session_id, tool_name, agent_type, data FROM hook_event ";

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

fn hook_row(row: &Row<'_>) -> Read<HookEventRecord> {
    let data: Option<String> = row.get(6)?;
    Ok(HookEventRecord {
        number: row.get(0)?,
        event_type: Label::parse(&row.get::<_, String>(2)?).map_err(|_| unknown("hook event"))?,
        session_id: label(row.get(3)?)?,
        tool_name: label(row.get(4)?)?,
        agent_type: label(row.get(5)?)?,
        data: data
            .map(|data| serde_json::from_str(&data).map_err(|_| unknown("hook event")))
            .transpose()?,
        at: Timestamp::from_unix_seconds(row.get(1)?),
    })
}

fn usage_row(row: &Row<'_>) -> Read<(i64, UsageSession)> {
    let ended_at: Option<i64> = row.get(4)?;
    let session = UsageSession {
        provider: row.get(1)?,
        model: row.get(2)?,
        started_at: Timestamp::from_unix_seconds(row.get(3)?),
        ended_at: ended_at.map(Timestamp::from_unix_seconds),
        totals: totals(row, 5)?,
    };
    Ok((row.get(0)?, session))
}

fn totals(row: &Row<'_>, first: usize) -> Read<UsageTotals> {
    let cost = Cost::from_billionths(row.get(first + 2)?);
    Ok(UsageTotals {
        input: row.get(first)?,
        output: row.get(first + 1)?,
        cost,
    })
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
            what: "issue",
            id: id.clone(),
            project: project.clone(),
        };
        let found = self.find_issue(project, id)?.ok_or_else(missing)?;
        // What happened is only ever added to, so a place in it stays what it is.
        let start = page
            .cursor
            .as_ref()
            .map(Cursor::number)
            .transpose()?
            .unwrap_or(0);
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
        Ok(self.document(project, PRD)?.unwrap_or_default())
    }

    /// The status page of a project, if one was written.
    ///
    /// # Errors
    /// As [`Reader::prd_text`].
    pub fn readme(&self, project: &Slug) -> Read<Option<String>> {
        self.project_id(project)?;
        self.document(project, README)
    }

    fn document(&self, project: &Slug, name: &str) -> Read<Option<String>> {
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
        let after = page
            .cursor
            .as_ref()
            .map(Cursor::number)
            .transpose()?
            .unwrap_or(0);
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

    /// Usage of the workspace, with its latest `sessions` sessions.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn usage(&self, sessions: u32) -> Read<UsageRecord> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT input, output, cost FROM usage_total")?;
        let mut rows = statement.query([])?;
        let totals = rows
            .next()?
            .map(|row| totals(row, 0))
            .transpose()?
            .unwrap_or_default();
        let mut statement = self.connection.prepare_cached(
            "SELECT id, provider, model, started_at, ended_at, input, output, cost FROM usage_session \
             ORDER BY id DESC LIMIT ?1",
        )?;
        let mut rows = statement.query([sessions])?;
        let mut sessions = Vec::new();
        while let Some(row) = rows.next()? {
            let (id, session) = usage_row(row)?;
            sessions.push(UsageSessionRecord {
                session,
                requests: self.usage_requests(id)?,
            });
        }
        Ok(UsageRecord { totals, sessions })
    }

    fn usage_requests(&self, session: i64) -> Read<Vec<UsageRequest>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT at, input, output, cost FROM usage_request WHERE session = ?1 ORDER BY number",
        )?;
        let request = |row: &Row<'_>| {
            Ok(UsageRequest {
                at: Timestamp::from_unix_seconds(row.get(0)?),
                input_tokens: row.get(1)?,
                output_tokens: row.get(2)?,
                cost: Cost::from_billionths(row.get(3)?),
            })
        };
        let rows = statement.query_map([session], request)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The open usage session.
    pub(crate) fn open_usage(&self) -> Read<Option<(i64, UsageSession)>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, provider, model, started_at, ended_at, input, output, cost FROM usage_session \
             WHERE ended_at IS NULL ORDER BY id DESC LIMIT 1",
        )?;
        let mut rows = statement.query([])?;
        rows.next()?.map(usage_row).transpose()
    }

    /// The usage session that was begun last.
    pub(crate) fn latest_usage(&self) -> Read<Option<UsageSession>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, provider, model, started_at, ended_at, input, output, cost FROM usage_session \
             ORDER BY id DESC LIMIT 1",
        )?;
        let mut rows = statement.query([])?;
        Ok(rows
            .next()?
            .map(usage_row)
            .transpose()?
            .map(|(_, session)| session))
    }

    /// The kept hook events, newest first; of one type, if said.
    ///
    /// # Errors
    /// When the database cannot be read or the cursor is of another list.
    pub fn hook_events(
        &self,
        event_type: Option<&str>,
        page: &PageRequest,
    ) -> Read<Page<HookEventRecord>> {
        let before = page.cursor.as_ref().map(Cursor::number).transpose()?;
        let before = before.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
        let mut filling = Filling::new(page);
        let total = self.count(
            "SELECT count(*) FROM hook_event WHERE ?1 IS NULL OR event_type = ?1",
            [event_type],
        )?;
        let sql = format!(
            "{HOOK} WHERE number < ?1 AND (?2 IS NULL OR event_type = ?2) ORDER BY number DESC LIMIT ?3"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![before, event_type, filling.wanted()])?;
        while let Some(row) = rows.next()? {
            let (item, bytes) = (hook_row(row)?, 0);
            if filling.push(item, bytes).is_break() {
                break;
            }
        }
        Ok(filling.finish(total, |event| Cursor::of_number(event.number)))
    }

    /// The saved plans of a project, by name.
    ///
    /// # Errors
    /// As [`Reader::requests`].
    pub fn plans(&self, project: &Slug, page: &PageRequest) -> Read<Page<PlanRecord>> {
        let id = self.project_id(project)?;
        let after = page
            .cursor
            .as_ref()
            .map(Cursor::name)
            .transpose()?
            .unwrap_or_default();
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

    /// The ids that renumberings left behind in a project, with those that took their places.
    pub(crate) fn aliases(&self, project: &Slug) -> Read<Vec<(IssueId, IssueId)>> {
        let id = self.project_id(project)?;
        let mut statement = self.connection.prepare_cached(
            "SELECT a.prefix, a.number, i.prefix, i.number FROM alias a JOIN issue i ON i.id = a.issue \
             WHERE a.project = ?1 ORDER BY a.prefix, a.number",
        )?;
        let mut rows = statement.query([id])?;
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
