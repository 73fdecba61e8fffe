//! Usage: sums that are kept for good, and the latest sessions with their latest requests.

use orchestra_board::{Issue, IssueId, Slug, UsageEntry, UsageOf, UsageTotals};
use rusqlite::params;

use super::{Write, Writing};
use crate::db::schema::DAYS_OF_SESSIONS;
use crate::files::owner::Owner;
use crate::{UsageDay, UsageRecord, UsageRequest, UsageSums};

/// The most usage sessions that are kept; the sums go on.
pub(super) const MAX_SESSIONS: i64 = 200;
/// The most requests that are kept of one session; its sums go on.
pub(super) const MAX_REQUESTS: i64 = 1_000;
/// Adds sums to those that are there, which stop at the largest number instead of turning over.
const ADD: &str = "requests = min(requests + excluded.requests, 9000000000000000000), \
    input = min(input + excluded.input, 9000000000000000000), \
    output = min(output + excluded.output, 9000000000000000000), \
    cost = min(cost + excluded.cost, 9000000000000000000)";
/// The most sums of days that are kept.
const MAX_DAYS: i64 = 10_000;
/// The most characters of a provider's or model's name.
const MAX_NAME_CHARS: usize = 128;

fn name(text: Option<&str>) -> String {
    text.unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_NAME_CHARS)
        .collect()
}

impl Writing<'_> {
    pub(super) fn record_usage(&mut self, entry: &UsageEntry) -> Write<()> {
        let (session, provider, model) = match self.reader().open_usage()? {
            Some((id, open)) => (id, open.provider, open.model),
            None => (
                self.begin_usage(entry)?,
                name(entry.provider.as_deref()),
                name(entry.model.as_deref()),
            ),
        };
        let named = |text: &Option<String>, else_: String| {
            text.as_deref().map_or(else_, |text| name(Some(text)))
        };
        let (input, output, cost) = (
            entry.input_tokens,
            entry.output_tokens,
            entry.cost.billionths(),
        );
        // Sums stop at the largest number instead of turning over.
        let number = self.find_number(
            "UPDATE usage_session SET requests = requests + 1, input = min(input + ?2, 9000000000000000000), \
             output = min(output + ?3, 9000000000000000000), cost = min(cost + ?4, 9000000000000000000) \
             WHERE id = ?1 RETURNING requests",
            params![session, input, output, cost],
        )?;
        let number = number.unwrap_or(1);
        let request = UsageRequest {
            at: self.now(),
            input_tokens: entry.input_tokens,
            output_tokens: entry.output_tokens,
            cost: entry.cost,
        };
        self.put_request(session, number, &request)?;
        self.execute(
            "DELETE FROM usage_request WHERE session = ?1 AND number <= ?2",
            params![session, number - MAX_REQUESTS],
        )?;
        self.execute(
            "UPDATE usage_total SET input = min(input + ?1, 9000000000000000000), \
             output = min(output + ?2, 9000000000000000000), cost = min(cost + ?3, 9000000000000000000)",
            params![input, output, cost],
        )?;
        let sums = UsageSums {
            requests: 1,
            totals: UsageTotals {
                input,
                output,
                cost: entry.cost,
            },
        };
        self.add_usage_day(&UsageDay {
            day: UsageDay::of(self.now()),
            provider: named(&entry.provider, provider),
            model: named(&entry.model, model),
            project: entry.of.as_ref().map(|of| of.project.clone()),
            sums,
        })?;
        if let Some(of) = &entry.of {
            if of.issue.is_some() {
                self.add_usage_of(of, &sums)?;
            }
            let whole = UsageOf {
                project: of.project.clone(),
                issue: None,
            };
            self.add_usage_of(&whole, &sums)?;
        }
        self.dirty(&Owner::Usage)
    }

    fn put_request(&self, session: i64, number: i64, request: &UsageRequest) -> Write<()> {
        self.execute(
            "INSERT INTO usage_request (session, number, at, input, output, cost) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                session,
                number,
                request.at.unix_seconds(),
                request.input_tokens,
                request.output_tokens,
                request.cost.billionths(),
            ],
        )?;
        Ok(())
    }

    fn add_usage_day(&self, day: &UsageDay) -> Write<()> {
        let UsageSums { requests, totals } = day.sums;
        let there = self.find_number(
            &format!("INSERT INTO usage_day (day, provider, model, project, requests, input, output, cost) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (day, provider, model, project) DO UPDATE SET \
             {ADD} RETURNING requests"),
            params![
                day.day,
                name(Some(&day.provider)),
                name(Some(&day.model)),
                day.project.as_ref().map_or("", |project| project.as_str()),
                requests,
                totals.input,
                totals.output,
                totals.cost.billionths(),
            ],
        )?;
        // Only a row that is new makes one too many.
        if there.is_some_and(|there| i64::try_from(requests) == Ok(there)) {
            self.execute(
                "DELETE FROM usage_day WHERE (day, provider, model, project) IN ( \
                     SELECT day, provider, model, project FROM usage_day \
                     ORDER BY day DESC, provider, model, project LIMIT -1 OFFSET ?1)",
                [MAX_DAYS],
            )?;
        }
        Ok(())
    }

    /// What was used by day for a project that goes was used for none that is there.
    pub(super) fn keep_usage_days(&self, project: &Slug) -> Write<()> {
        self.execute(
            &format!("INSERT INTO usage_day SELECT day, provider, model, '', requests, input, output, cost FROM usage_day \
             WHERE project = ?1 ON CONFLICT (day, provider, model, project) DO UPDATE SET \
             {ADD}"),
            [project.as_str()],
        )?;
        self.execute(
            "DELETE FROM usage_day WHERE project = ?1",
            [project.as_str()],
        )?;
        Ok(())
    }

    fn add_usage_of(&self, of: &UsageOf, sums: &UsageSums) -> Write<()> {
        let issue = of.issue.as_ref().map(ToString::to_string);
        let UsageSums { requests, totals } = sums;
        self.execute(
            &format!("INSERT INTO usage_of (project, issue, requests, input, output, cost) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
             ON CONFLICT (project, issue) DO UPDATE SET \
             {ADD}"),
            params![
                of.project.as_str(),
                issue.unwrap_or_default(),
                requests,
                totals.input,
                totals.output,
                totals.cost.billionths(),
            ],
        )?;
        Ok(())
    }

    /// What was recorded for an issue that goes counts for the one above it; the project has it already.
    pub(super) fn pass_on_usage(&mut self, project: &Slug, issue: &Issue) -> Write<()> {
        let of = |id: &IssueId| UsageOf {
            project: project.clone(),
            issue: Some(id.clone()),
        };
        let Some(sums) = self.reader().usage_sums_of(&of(&issue.id))? else {
            return Ok(());
        };
        if let Some(parent) = &issue.parent {
            self.add_usage_of(&of(parent), &sums)?;
        }
        self.execute(
            "DELETE FROM usage_of WHERE project = ?1 AND issue = ?2",
            params![project.as_str(), issue.id.to_string()],
        )?;
        self.dirty(&Owner::Usage)
    }

    fn begin_usage(&self, entry: &UsageEntry) -> Write<i64> {
        self.execute(
            "INSERT INTO usage_session (provider, model, started_at, input, output, cost, requests) \
             VALUES (?1, ?2, ?3, 0, 0, 0, 0)",
            params![name(entry.provider.as_deref()), name(entry.model.as_deref()), self.now().unix_seconds()],
        )?;
        let session = self.connection.last_insert_rowid();
        self.trim_usage()?;
        Ok(session)
    }

    fn trim_usage(&self) -> Write<()> {
        let first = self.find_number(
            "SELECT id FROM usage_session ORDER BY id DESC LIMIT 1 OFFSET ?1",
            [MAX_SESSIONS - 1],
        )?;
        if let Some(first) = first {
            self.execute("DELETE FROM usage_request WHERE session < ?1", [first])?;
            self.execute("DELETE FROM usage_session WHERE id < ?1", [first])?;
        }
        Ok(())
    }

    pub(super) fn end_usage(&mut self) -> Write<()> {
        self.execute(
            "UPDATE usage_session SET ended_at = ?1 WHERE ended_at IS NULL",
            [self.now().unix_seconds()],
        )?;
        self.dirty(&Owner::Usage)
    }

    /// Puts all usage there, in the place of what is there.
    pub(super) fn put_usage(&mut self, usage: &UsageRecord) -> Write<()> {
        self.execute("DELETE FROM usage_request", [])?;
        self.execute("DELETE FROM usage_session", [])?;
        self.execute("DELETE FROM usage_of", [])?;
        self.execute("DELETE FROM usage_day", [])?;
        for record in &usage.of {
            self.add_usage_of(&record.of, &record.sums)?;
        }
        for day in &usage.days {
            self.add_usage_day(day)?;
        }
        let totals = usage.totals;
        self.execute(
            "UPDATE usage_total SET input = ?1, output = ?2, cost = ?3",
            params![totals.input, totals.output, totals.cost.billionths()],
        )?;
        for record in usage.sessions.iter().rev() {
            let session = &record.session;
            self.execute(
                "INSERT INTO usage_session (provider, model, started_at, ended_at, input, output, cost, requests) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    name(Some(&session.provider)),
                    name(Some(&session.model)),
                    session.started_at.unix_seconds(),
                    session.ended_at.map(orchestra_board::Timestamp::unix_seconds),
                    session.totals.input,
                    session.totals.output,
                    session.totals.cost.billionths(),
                    record.requests.len(),
                ],
            )?;
            let id = self.connection.last_insert_rowid();
            for (number, request) in (1_i64..).zip(&record.requests) {
                self.put_request(id, number, request)?;
            }
        }
        // Files of earlier programs tell of no days.
        if usage.days.is_empty() {
            self.execute(&format!("INSERT INTO usage_day {DAYS_OF_SESSIONS}"), [])?;
        }
        self.trim_usage()?;
        self.dirty(&Owner::Usage)
    }
}
