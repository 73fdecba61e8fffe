//! What is kept for the workspace as a whole: usage and hook events.

use orchestra_board::{Cost, IssueId, Label, Slug, Timestamp, UsageOf, UsageSession, UsageTotals};
use rusqlite::{Row, params};

use super::Reader;
use crate::page::Filling;
use crate::rows::{Read, label, unknown};
use crate::{
    Cursor, HookEventRecord, Page, PageRequest, UsageDay, UsageOfRecord, UsageRecord, UsageRequest,
    UsageSessionRecord, UsageSums,
};

const HOOK: &str =
    "SELECT number, at, event_type, session_id, tool_name, agent_type, data FROM hook_event ";
const USAGE: &str =
    "SELECT id, provider, model, started_at, ended_at, input, output, cost FROM usage_session ";

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

fn usage_sums(row: &Row<'_>) -> Read<UsageSums> {
    Ok(UsageSums {
        requests: row.get(0)?,
        totals: totals(row, 1)?,
    })
}

fn usage_of(project: &str, issue: &str) -> Read<UsageOf> {
    let unknown = || unknown("usage");
    let issue = (!issue.is_empty()).then(|| IssueId::parse(issue));
    Ok(UsageOf {
        project: Slug::parse(project).map_err(|_| unknown())?,
        issue: issue.transpose().map_err(|_| unknown())?,
    })
}

impl Reader<'_> {
    /// Usage of the workspace, with its latest `sessions` sessions and the sums of its projects.
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
        let mut statement = self
            .connection
            .prepare_cached(&format!("{USAGE} ORDER BY id DESC LIMIT ?1"))?;
        let mut rows = statement.query([sessions])?;
        let mut sessions = Vec::new();
        while let Some(row) = rows.next()? {
            let (id, session) = usage_row(row)?;
            sessions.push(UsageSessionRecord {
                session,
                requests: self.usage_requests(id)?,
            });
        }
        Ok(UsageRecord {
            totals,
            sessions,
            of: self.sums_where("issue = ''")?,
            days: Vec::new(),
        })
    }

    /// As [`Reader::usage`], with the sums of all issues and days.
    pub(crate) fn usage_whole(&self, sessions: u32) -> Read<UsageRecord> {
        Ok(UsageRecord {
            of: self.sums_where("TRUE")?,
            days: self.usage_days()?,
            ..self.usage(sessions)?
        })
    }

    fn sums_where(&self, condition: &str) -> Read<Vec<UsageOfRecord>> {
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT requests, input, output, cost, project, issue FROM usage_of WHERE {condition} \
             ORDER BY project, issue"
        ))?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let (project, issue): (String, String) = (row.get(4)?, row.get(5)?);
            all.push(UsageOfRecord {
                of: usage_of(&project, &issue)?,
                sums: usage_sums(row)?,
            });
        }
        Ok(all)
    }

    /// What was recorded for a project, or for an issue of it and all that is below that.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn usage_of(&self, project: &Slug, issue: Option<&IssueId>) -> Read<UsageSums> {
        let Some(issue) = issue else {
            let of = UsageOf {
                project: project.clone(),
                issue: None,
            };
            return Ok(self.usage_sums_of(&of)?.unwrap_or_default());
        };
        let mut sums = UsageSums::default();
        let Some(found) = self.find_issue(project, issue)? else {
            return Ok(sums);
        };
        let mut statement = self.connection.prepare_cached(
            "WITH RECURSIVE below (id) AS ( \
                 SELECT ?2 UNION SELECT i.id FROM below b JOIN issue i ON i.parent = b.id \
             ) SELECT u.requests, u.input, u.output, u.cost FROM below b JOIN issue i ON i.id = b.id \
             JOIN usage_of u ON u.project = ?1 AND u.issue = i.prefix || '-' || i.number",
        )?;
        let mut rows = statement.query(params![project.as_str(), found.row])?;
        while let Some(row) = rows.next()? {
            sums.add(&usage_sums(row)?);
        }
        Ok(sums)
    }

    /// What was recorded for exactly this.
    pub(crate) fn usage_sums_of(&self, of: &UsageOf) -> Read<Option<UsageSums>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT requests, input, output, cost FROM usage_of WHERE project = ?1 AND issue = ?2",
        )?;
        let issue = of.issue.as_ref().map(ToString::to_string);
        let mut rows = statement.query([of.project.as_str(), &issue.unwrap_or_default()])?;
        rows.next()?.map(usage_sums).transpose()
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

    /// What was used by day, the oldest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn usage_days(&self) -> Read<Vec<UsageDay>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT requests, input, output, cost, day, provider, model, project FROM usage_day \
             ORDER BY day, provider, model, project",
        )?;
        let mut rows = statement.query([])?;
        let mut days = Vec::new();
        while let Some(row) = rows.next()? {
            let project: String = row.get(7)?;
            let project = (!project.is_empty()).then(|| Slug::parse(&project));
            days.push(UsageDay {
                day: row.get(4)?,
                provider: row.get(5)?,
                model: row.get(6)?,
                project: project.transpose().map_err(|_| unknown("usage"))?,
                sums: usage_sums(row)?,
            });
        }
        Ok(days)
    }

    /// The open usage session.
    pub(crate) fn open_usage(&self) -> Read<Option<(i64, UsageSession)>> {
        let mut statement = self.connection.prepare_cached(&format!(
            "{USAGE} WHERE ended_at IS NULL ORDER BY id DESC LIMIT 1"
        ))?;
        let mut rows = statement.query([])?;
        rows.next()?.map(usage_row).transpose()
    }

    /// The usage session that was begun last.
    pub(crate) fn latest_usage(&self) -> Read<Option<UsageSession>> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("{USAGE} ORDER BY id DESC LIMIT 1"))?;
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
        let before = page.after(Cursor::number)?;
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
}
