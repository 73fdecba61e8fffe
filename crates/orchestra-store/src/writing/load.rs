//! Putting things there as they are: what the readable files need to rebuild the database, and to
//! take in what people wrote.

mod chunks;
mod counters;
mod recount;
mod renumber;

pub(crate) use self::counters::limit_counters;

use orchestra_board::{
    AgentName, Command, Event, Issue, IssueId, PrdOrigin, PrdSession, Project, Request, SessionId,
    Slug, Source,
};
use rusqlite::{Connection, params};

use super::apply::Held;
use super::{Write, Writing};
use crate::document::DocumentBody;
use crate::files::identity::holder;
use crate::files::needs::Work;
use crate::files::owner::Owner;
use crate::merge::BoardContents;
use crate::reader::{PRD, README};
use crate::rows::{uid_of, unknown};
use crate::toon::history;
use crate::toon::project::Retired;
use crate::uid::OfLines;
use crate::{
    ActionError, Chunk, DocumentPath, HookEventRecord, PlanRecord, SessionRecord, UsageRecord,
};

impl Writing<'_> {
    fn put_project(&mut self, project: &Project, retired: &Retired) -> Write<()> {
        let id = match self.reader().find_project(&project.slug)? {
            Some((id, known)) => {
                let project = counters::limited(project, counters::of(&known));
                self.update_project(id, &project)?;
                self.update_origin(id, &project)?;
                id
            }
            None => self.insert_project(&counters::limited(project, [1; 3]))?,
        };
        self.execute("DELETE FROM alias WHERE project = ?1", [id])?;
        for (old, new) in &retired.aliases {
            if self.loading {
                self.aliases.push((id, old.clone(), new.clone()));
            } else {
                self.put_alias(id, old, new)?;
            }
        }
        self.execute("DELETE FROM tombstone WHERE project = ?1", [id])?;
        for stone in &retired.deleted {
            // A file deletes no issue by listing it.
            if holder(self.connection, stone.uid)?.is_none() {
                self.put_tombstone(id, stone)?;
            }
        }
        self.prune_tombstones(id)?;
        if !self.loading {
            self.raise_counters(&project.slug)?;
        }
        self.dirty(&Owner::Project(project.slug.clone()))
    }

    /// Has an id lead to an issue, unless it is or was the id of another one.
    fn put_alias(&self, project: i64, old: &IssueId, new: &IssueId) -> Write<()> {
        self.execute(
            "INSERT OR REPLACE INTO alias (project, prefix, number, issue) \
             SELECT ?1, ?2, ?3, id FROM issue WHERE project = ?1 AND prefix = ?4 AND number = ?5 \
             AND NOT EXISTS (SELECT 1 FROM issue WHERE project = ?1 AND prefix = ?2 AND number = ?3) \
             AND NOT EXISTS (SELECT 1 FROM tombstone WHERE project = ?1 AND prefix = ?2 AND number = ?3)",
            params![
                project,
                old.prefix(),
                old.number(),
                new.prefix(),
                new.number()
            ],
        )?;
        Ok(())
    }

    fn put_issue(&mut self, issue: &Issue) -> Write<()> {
        let project = self.reader().project_id(&issue.project)?;
        // What is loaded is new: who loads has seen to it that no id comes twice.
        let found = match self.loading {
            true => None,
            false => self.reader().find_issue(&issue.project, &issue.id)?,
        };
        match found {
            None => {
                self.insert_issue(project, issue)?;
                if !self.loading {
                    self.raise_counters(&issue.project)?;
                }
            }
            Some(found) => {
                let (row, parent_row) = (found.row, found.parent_row);
                let held = Held {
                    row,
                    parent_row,
                    before: found.record.issue,
                    now: issue.clone(),
                };
                self.update_issue(project, &held)?;
                self.execute(
                    "UPDATE issue SET created_at = ?2 WHERE id = ?1",
                    params![row, issue.created_at.unix_seconds()],
                )?;
            }
        }
        self.dirty(&Owner::Issue(issue.project.clone(), issue.id.clone()))?;
        self.dirty(&Owner::Project(issue.project.clone()))
    }

    fn put_history(&mut self, project: &Slug, id: &IssueId, events: &[Event]) -> Write<()> {
        let found = self
            .reader()
            .find_row(project, id)?
            .ok_or_else(|| unknown("issue of a history"))?;
        if !self.loading {
            self.execute("DELETE FROM event WHERE issue = ?1", [found])?;
        }
        if events.iter().all(|event| event.uid.is_some()) {
            for event in events {
                self.log(event, Some(found))?;
            }
        } else {
            self.log_derived(found, events)?;
        }
        self.dirty(&Owner::Issue(project.clone(), id.clone()))
    }

    /// Logs a history of which lines were written without a uid: theirs follow from what they say.
    fn log_derived(&mut self, issue: i64, events: &[Event]) -> Write<()> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT uid FROM issue WHERE id = ?1")?;
        let mut rows = statement.query([issue])?;
        let uid = match rows.next()? {
            Some(row) => uid_of(row.get_ref(0)?)?,
            None => None,
        };
        let mut uids = OfLines::new(uid.ok_or_else(|| unknown("uid of an issue"))?);
        for event in events {
            let mut event = event.clone();
            let derived = history::line(&event).map(|line| uids.next(&line));
            event.uid = event.uid.or(derived);
            self.log(&event, Some(issue))?;
        }
        Ok(())
    }

    fn forget_followed(&mut self, project: &Slug, id: &IssueId, after: i64) -> Write<bool> {
        let Some(row) = self.reader().find_row(project, id)? else {
            return Ok(true);
        };
        let forgotten = self.execute(
            "DELETE FROM event WHERE issue = ?1 AND seq > ?2 AND json_extract(body, '$.source') = 'file'",
            params![row, after],
        )?;
        if forgotten > 0 {
            self.dirty(&Owner::Issue(project.clone(), id.clone()))?;
        }
        let others = self.find_number(
            "SELECT seq FROM event WHERE issue = ?1 AND seq > ?2 LIMIT 1",
            params![row, after],
        )?;
        Ok(others.is_none())
    }

    fn put_prd(&mut self, project: &Slug, text: &str, origin: PrdOrigin) -> Write<()> {
        let id = self.reader().project_id(project)?;
        self.put_document(id, PRD, Some(text))?;
        self.execute(
            "UPDATE project SET prd_origin = ?2 WHERE id = ?1",
            params![id, origin.as_str()],
        )?;
        self.dirty(&Owner::Prd(project.clone()))
    }

    fn put_prd_session(&mut self, project: &Slug, session: Option<&PrdSession>) -> Write<()> {
        let id = self.reader().project_id(project)?;
        self.put_questionnaire(id, session)?;
        self.dirty(&Owner::PrdSession(project.clone()))
    }

    fn put_requests(&mut self, project: &Slug, requests: &[Request]) -> Write<()> {
        let id = self.reader().project_id(project)?;
        self.execute("DELETE FROM request WHERE project = ?1", [id])?;
        for request in requests {
            self.insert_request(id, request)?;
        }
        if !self.loading {
            self.raise_counters(project)?;
        }
        self.dirty(&Owner::Requests(project.clone()))
    }

    fn put_readme(&mut self, project: &Slug, text: Option<&str>) -> Write<()> {
        let id = self.reader().project_id(project)?;
        self.put_document(id, README, text)?;
        self.dirty(&Owner::Readme(project.clone()))
    }
}

impl Work for Writing<'_> {
    fn connection(&self) -> &Connection {
        self.connection
    }

    fn command(&mut self, command: &Command) -> Result<Vec<Event>, ActionError> {
        self.change = None;
        let agent: Option<&AgentName> = None;
        Ok(self.command(Source::File, agent, command)?.events)
    }

    fn load_project(&mut self, project: &Project, retired: &Retired) -> Result<(), ActionError> {
        self.put_project(project, retired)
    }

    fn load_issue(&mut self, issue: &Issue) -> Result<(), ActionError> {
        self.put_issue(issue)
    }

    fn load_history(
        &mut self,
        project: &Slug,
        id: &IssueId,
        events: &[Event],
    ) -> Result<(), ActionError> {
        self.put_history(project, id, events)
    }

    fn forget_followed(
        &mut self,
        project: &Slug,
        id: &IssueId,
        after: i64,
    ) -> Result<bool, ActionError> {
        self.forget_followed(project, id, after)
    }

    fn load_prd(
        &mut self,
        project: &Slug,
        text: &str,
        origin: PrdOrigin,
    ) -> Result<(), ActionError> {
        self.put_prd(project, text, origin)
    }

    fn load_prd_session(
        &mut self,
        project: &Slug,
        session: Option<&PrdSession>,
    ) -> Result<(), ActionError> {
        self.put_prd_session(project, session)
    }

    fn load_requests(&mut self, project: &Slug, requests: &[Request]) -> Result<(), ActionError> {
        self.put_requests(project, requests)
    }

    fn load_readme(&mut self, project: &Slug, text: Option<&str>) -> Result<(), ActionError> {
        self.put_readme(project, text)
    }

    fn load_plan(&mut self, plan: &PlanRecord, text: Option<&str>) -> Result<(), ActionError> {
        let id = self.reader().project_id(&plan.project)?;
        self.put_plan(id, plan, text)
    }

    fn load_chunks(
        &mut self,
        project: &Slug,
        segment: u64,
        chunks: &[Chunk],
    ) -> Result<(), ActionError> {
        self.put_segment(project, segment, chunks)
    }

    fn load_session(&mut self, session: &SessionRecord) -> Result<(), ActionError> {
        if self.loading {
            return self.put_session(session);
        }
        let known = self.reader().session(&session.project, &session.id)?;
        self.put_session(session)?;
        if known.as_ref() == Some(session) {
            return Ok(());
        }
        let (project, id) = (&session.project, session.id.as_str());
        self.log_side("session", None, Source::File, project, id)
    }

    fn remove_session(&mut self, project: &Slug, id: &SessionId) -> Result<(), ActionError> {
        if self.remove_session(project, id)? && !self.loading {
            self.log_side("session", None, Source::File, project, id.as_str())?;
        }
        Ok(())
    }

    fn load_usage(&mut self, usage: &UsageRecord) -> Result<(), ActionError> {
        self.put_usage(usage)
    }

    fn load_hook_events(&mut self, events: &[HookEventRecord]) -> Result<(), ActionError> {
        self.put_hook_events(events)
    }

    fn load_document(
        &mut self,
        path: &DocumentPath,
        body: &DocumentBody,
        start: Option<i64>,
    ) -> Result<(), ActionError> {
        self.change = None;
        self.take_document(path, body, start)
    }

    fn remove_document(&mut self, path: &DocumentPath) -> Result<(), ActionError> {
        self.change = None;
        self.remove_document_row(path)?;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), ActionError> {
        self.raise_all_counters()?;
        let mut last = Some(String::new());
        while let Some(word) = last {
            last = self.prune_words(&word)?;
        }
        Ok(())
    }

    fn renumber(
        &mut self,
        project: &Slug,
        old: &IssueId,
        new: &IssueId,
    ) -> Result<(), ActionError> {
        self.renumber(project, old, new)
    }

    fn adopt(&mut self, before: &BoardContents, after: &BoardContents) -> Result<(), ActionError> {
        self.change = None;
        self.adopt_contents(before, after)
    }
}
