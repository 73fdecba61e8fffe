//! Everything of a board at once, to merge it with another one.

use std::collections::BTreeMap;

use orchestra_board::{IssueId, Slug};

use super::Reader;
use crate::PlanRecord;
use crate::files::render::{USAGE_SESSIONS, all};
use crate::merge::{BoardContents, HookEvent, IssueContents, ProjectContents};
use crate::rows::{Read, damaged, unknown};
use crate::toon::history;

impl Reader<'_> {
    /// Reads the whole board.
    pub(crate) fn contents(&self) -> Read<BoardContents> {
        let mut projects = BTreeMap::new();
        for slug in self.slugs()? {
            let project = self.project_contents(&slug)?;
            projects.insert(slug, project);
        }
        let mut documents = BTreeMap::new();
        for path in self.document_paths()? {
            if let Some(body) = self.document_body(&path)? {
                documents.insert(path.key(), (path, body));
            }
        }
        let mut hook_events = all(|page| self.hook_events(None, page))?;
        hook_events.reverse();
        Ok(BoardContents {
            projects,
            usage: self.usage_whole(USAGE_SESSIONS)?,
            hook_events: hook_events.into_iter().map(HookEvent).collect(),
            documents,
        })
    }

    fn project_contents(&self, slug: &Slug) -> Read<ProjectContents> {
        let (id, project) = self.find_project(slug)?.ok_or_else(|| unknown("project"))?;
        let next_chunk = self.count("SELECT next_chunk FROM project WHERE id = ?1", [id])?;
        let sessions = all(|page| self.sessions(slug, page))?;
        let by_id = |session: crate::SessionRecord| (session.id.to_string(), session);
        Ok(ProjectContents {
            project,
            retired: self.retired(slug)?,
            issues: self.issue_contents(slug, id)?,
            prd: self.prd_text(slug)?,
            questionnaire: self.questionnaire(slug)?,
            readme: self.readme(slug)?,
            requests: all(|page| self.requests(slug, page))?,
            plans: self.plan_contents(slug)?,
            chunks: all(|page| self.chunks(slug, page))?,
            next_chunk,
            sessions: sessions.into_iter().map(by_id).collect(),
        })
    }

    fn issue_contents(&self, slug: &Slug, project: i64) -> Read<BTreeMap<IssueId, IssueContents>> {
        let mut rows = self
            .connection
            .prepare_cached("SELECT id FROM issue WHERE project = ?1 ORDER BY id")?;
        let rows: Vec<i64> = rows
            .query_map([project], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let mut issues = BTreeMap::new();
        for row in rows {
            let contents = self.issue_with_history(slug, row)?;
            issues.insert(contents.issue.id.clone(), contents);
        }
        Ok(issues)
    }

    /// Reads the issue in a row with its history.
    pub(crate) fn issue_with_history(&self, slug: &Slug, row: i64) -> Read<IssueContents> {
        let issue = self
            .issue_of(&mut self.statement_by_row()?, slug, row)?
            .issue;
        let mut lines = self
            .connection
            .prepare_cached("SELECT body FROM event WHERE issue = ?1 ORDER BY seq")?;
        let mut found = lines.query([row])?;
        let mut events = Vec::new();
        while let Some(line) = found.next()? {
            let line = line.get_ref(0)?.as_str().map_err(damaged)?;
            let event = history::read_line(line, slug, &issue.id);
            events.push(event.map_err(|_| unknown("event"))?);
        }
        Ok(IssueContents { issue, events })
    }

    fn plan_contents(&self, slug: &Slug) -> Read<Vec<(PlanRecord, String)>> {
        let mut plans = Vec::new();
        for plan in all(|page| self.plans(slug, page))? {
            plans.extend(self.plan(slug, &plan.id)?);
        }
        Ok(plans)
    }
}
