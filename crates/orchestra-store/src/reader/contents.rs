//! Everything of a board at once, to merge it with another one.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_board::{IssueId, Slug};

use super::Reader;
use crate::PlanRecord;
use crate::files::render::{USAGE_SESSIONS, all};
use crate::merge::{BoardContents, HookEvent, IssueContents, ProjectContents};
use crate::rows::{Read, damaged, id_of, unknown};
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

    /// Reads projects with some of their issues alone: without texts, plans and other records. `None` if a project is
    /// missing; a missing issue is left out.
    pub(crate) fn contents_of(
        &self,
        ids: &BTreeMap<Slug, BTreeSet<IssueId>>,
    ) -> Read<Option<BoardContents>> {
        let mut contents = BoardContents::default();
        for (slug, ids) in ids {
            let Some((_, project)) = self.find_project(slug)? else {
                return Ok(None);
            };
            let mut issues = BTreeMap::new();
            for issue in ids {
                let Some(row) = self.find_row(slug, issue)? else {
                    continue;
                };
                let contents = self.issue_with_history(slug, row)?;
                // The id can be an earlier one of another issue.
                if contents.issue.id == *issue {
                    issues.insert(issue.clone(), contents);
                }
            }
            let project = ProjectContents {
                retired: self.retired(slug)?,
                issues,
                ..ProjectContents::empty(project)
            };
            contents.projects.insert(slug.clone(), project);
        }
        Ok(Some(contents))
    }

    /// Issues of a project that wait for other ones, each with those.
    pub(crate) fn dependencies(&self, slug: &Slug) -> Read<BTreeMap<IssueId, Vec<IssueId>>> {
        let project = self.project_id(slug)?;
        let sql = "SELECT i.prefix, i.number, d.prefix, d.number FROM dependency d JOIN issue i ON i.id = d.issue \
                   WHERE d.project = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([project])?;
        let mut dependencies: BTreeMap<IssueId, Vec<IssueId>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (from, on): (String, String) = (row.get(0)?, row.get(2)?);
            let from = id_of(Some(&from), row.get(1)?)?;
            let on = id_of(Some(&on), row.get(3)?)?;
            if let (Some(from), Some(on)) = (from, on) {
                dependencies.entry(from).or_default().push(on);
            }
        }
        Ok(dependencies)
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
