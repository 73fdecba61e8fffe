//! Putting things there as they are: what the readable files need to rebuild the database, and to
//! take in what people wrote.

use orchestra_board::{
    AgentName, Command, Event, Issue, IssueId, OwnState, PrdOrigin, PrdSession, Project, Request,
    Slug, Source, Tally, parent_state,
};
use rusqlite::{Connection, params};

use super::apply::Held;
use super::{Write, Writing};
use crate::files::needs::Work;
use crate::files::owner::Owner;
use crate::reader::{PRD, README, first_row, last_row};
use crate::rows::{state_of, state_place, unknown};
use crate::{
    ActionError, Chunk, Fault, HookEventRecord, PlanRecord, ReadError, SessionRecord, UsageRecord,
};

fn fault(error: ActionError) -> Fault {
    match error {
        ActionError::Fault(fault) => fault,
        ActionError::Refused(_) | ActionError::Invalid(_) => Fault::Unknown {
            what: "record of a readable file",
        },
    }
}

fn read_fault(error: ReadError) -> Fault {
    fault(error.into())
}

impl Writing<'_> {
    /// Leaves tallies and the states of parents alone until [`Writing::recount`], and tells the
    /// readable files nothing: for when all is read from them.
    pub(crate) const fn begin_loading(&mut self) {
        self.loading = true;
    }

    /// Counts everything anew, and lets parents follow their children.
    pub(crate) fn recount(&mut self) -> Write<()> {
        self.loading = false;
        for (project, next) in std::mem::take(&mut self.next_rows) {
            self.execute(
                "UPDATE project SET next_row = ?2 WHERE id = ?1",
                [project, next],
            )?;
        }
        for (project, old, new) in std::mem::take(&mut self.aliases) {
            self.put_alias(project, &old, &new)?;
        }
        self.execute("DELETE FROM tally", [])?;
        self.execute(
            "INSERT INTO tally (parent, kind, state, n) SELECT parent, kind, state, count(*) FROM issue \
             WHERE parent IS NOT NULL AND kind >= 2 GROUP BY parent, kind, state",
            [],
        )?;
        // Stories follow their tasks first, then epics their stories.
        self.follow(1)?;
        self.execute(
            "INSERT INTO tally (parent, kind, state, n) SELECT parent, kind, state, count(*) FROM issue \
             WHERE parent IS NOT NULL AND kind < 2 GROUP BY parent, kind, state",
            [],
        )?;
        self.follow(0)?;
        self.execute(
            "INSERT INTO tally (parent, kind, state, n) SELECT -project, kind, state, count(*) FROM issue \
             GROUP BY project, kind, state",
            [],
        )?;
        Ok(())
    }

    fn follow(&mut self, kind: i64) -> Write<()> {
        let parents: Vec<(i64, usize, usize)> = {
            let mut statement = self
                .connection
                .prepare_cached("SELECT id, state, own FROM issue WHERE kind = ?1")?;
            let rows =
                statement.query_map([kind], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for (row, state, own) in parents {
            let own = OwnState::of_state(state_of(own)?).ok_or_else(|| unknown("own state"))?;
            let mut tally = Tally::default();
            let mut statement = self
                .connection
                .prepare_cached("SELECT state, n FROM tally WHERE parent = ?1")?;
            let mut rows = statement.query([row])?;
            while let Some(row) = rows.next()? {
                tally.add_many(state_of(row.get(0)?)?, row.get(1)?);
            }
            let follows = parent_state(&tally, own);
            if follows != state_of(state)? {
                self.execute(
                    "UPDATE issue SET state = ?2 WHERE id = ?1",
                    params![row, state_place(follows)],
                )?;
            }
        }
        Ok(())
    }

    fn put_project(&mut self, project: &Project, aliases: &[(IssueId, IssueId)]) -> Write<()> {
        let id = match self.reader().find_project(&project.slug)? {
            Some((id, _)) => {
                self.update_project(id, project)?;
                id
            }
            None => self.insert_project(project)?,
        };
        self.execute("DELETE FROM alias WHERE project = ?1", [id])?;
        for (old, new) in aliases {
            if self.loading {
                self.aliases.push((id, old.clone(), new.clone()));
            } else {
                self.put_alias(id, old, new)?;
            }
        }
        self.dirty(&Owner::Project(project.slug.clone()))
    }

    fn put_alias(&self, project: i64, old: &IssueId, new: &IssueId) -> Write<()> {
        self.execute(
            "INSERT OR REPLACE INTO alias (project, prefix, number, issue) \
             SELECT ?1, ?2, ?3, id FROM issue WHERE project = ?1 AND prefix = ?4 AND number = ?5",
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
        for event in events {
            self.log(event, Some(found))?;
        }
        self.dirty(&Owner::Issue(project.clone(), id.clone()))
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
        self.dirty(&Owner::Requests(project.clone()))
    }

    fn put_readme(&mut self, project: &Slug, text: Option<&str>) -> Write<()> {
        let id = self.reader().project_id(project)?;
        self.put_document(id, README, text)?;
        self.dirty(&Owner::Readme(project.clone()))
    }

    fn put_segment(&mut self, project: &Slug, segment: u64, chunks: &[Chunk]) -> Write<()> {
        let id = self.reader().project_id(project)?;
        for known in self.reader().segment(project, segment)? {
            if chunks.iter().all(|chunk| chunk.id != known.id) {
                self.remove_chunk(id, known.id.number())?;
            }
        }
        for chunk in chunks {
            self.put_chunk(id, segment, chunk)?;
            self.execute(
                "UPDATE project SET next_chunk = max(next_chunk, ?2 + 1) WHERE id = ?1",
                params![id, chunk.id.number()],
            )?;
        }
        self.dirty(&Owner::Chunks(project.clone(), segment))
    }

    fn remove_chunk(&self, project: i64, number: u64) -> Write<()> {
        let found = self.find_number(
            "DELETE FROM chunk WHERE project = ?1 AND number = ?2 RETURNING id",
            params![project, number],
        )?;
        match found {
            Some(row) => self.unindex_memory(row),
            None => Ok(()),
        }
    }

    /// Compares what follows from the issues with what is kept of it; answers how much differs.
    pub(crate) fn wrong_tallies(connection: &Connection) -> Result<u64, Fault> {
        let sql = "SELECT count(*) FROM (\
             SELECT parent, kind, state, sum(n) AS n FROM (\
               SELECT parent, kind, state, n FROM tally \
               UNION ALL SELECT parent, kind, state, -1 FROM issue WHERE parent IS NOT NULL \
               UNION ALL SELECT -project, kind, state, -1 FROM issue) \
             GROUP BY parent, kind, state HAVING sum(n) <> 0)";
        Ok(connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// Moves an issue's rows to another id, and leaves an alias.
    pub(crate) fn renumber(&mut self, project: &Slug, old: &IssueId, new: &IssueId) -> Write<()> {
        let id = self.reader().project_id(project)?;
        let row = self.row_of(id, old)?;
        let (first, last) = (first_row(id), last_row(id));
        self.execute(
            "UPDATE issue SET prefix = ?2, number = ?3 WHERE id = ?1",
            params![row, new.prefix(), new.number()],
        )?;
        for column in ["cancelled_with", "fixes"] {
            self.execute(
                &format!(
                    "UPDATE issue SET {column} = ?1 WHERE id BETWEEN ?2 AND ?3 AND {column} = ?4"
                ),
                params![new.to_string(), first, last, old.to_string()],
            )?;
        }
        self.execute(
            "UPDATE dependency SET prefix = ?4, number = ?5 WHERE project = ?1 AND prefix = ?2 AND number = ?3",
            params![id, old.prefix(), old.number(), new.prefix(), new.number()],
        )?;
        self.execute(
            "INSERT OR REPLACE INTO alias (project, prefix, number, issue) VALUES (?1, ?2, ?3, ?4)",
            params![id, old.prefix(), old.number(), row],
        )?;
        for owner in [
            Owner::Issue(project.clone(), old.clone()),
            Owner::Issue(project.clone(), new.clone()),
            Owner::Project(project.clone()),
        ] {
            self.dirty(&owner)?;
        }
        Ok(())
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

    fn load_project(
        &mut self,
        project: &Project,
        aliases: &[(IssueId, IssueId)],
    ) -> Result<(), Fault> {
        self.put_project(project, aliases).map_err(fault)
    }

    fn load_issue(&mut self, issue: &Issue) -> Result<(), Fault> {
        self.put_issue(issue).map_err(fault)
    }

    fn load_history(
        &mut self,
        project: &Slug,
        id: &IssueId,
        events: &[Event],
    ) -> Result<(), Fault> {
        self.put_history(project, id, events).map_err(fault)
    }

    fn load_prd(&mut self, project: &Slug, text: &str, origin: PrdOrigin) -> Result<(), Fault> {
        self.put_prd(project, text, origin).map_err(fault)
    }

    fn load_prd_session(
        &mut self,
        project: &Slug,
        session: Option<&PrdSession>,
    ) -> Result<(), Fault> {
        self.put_prd_session(project, session).map_err(fault)
    }

    fn load_requests(&mut self, project: &Slug, requests: &[Request]) -> Result<(), Fault> {
        self.put_requests(project, requests).map_err(fault)
    }

    fn load_readme(&mut self, project: &Slug, text: Option<&str>) -> Result<(), Fault> {
        self.put_readme(project, text).map_err(fault)
    }

    fn load_plan(&mut self, plan: &PlanRecord, text: Option<&str>) -> Result<(), Fault> {
        let id = self
            .reader()
            .project_id(&plan.project)
            .map_err(read_fault)?;
        self.put_plan(id, plan, text).map_err(fault)
    }

    fn load_chunks(&mut self, project: &Slug, segment: u64, chunks: &[Chunk]) -> Result<(), Fault> {
        self.put_segment(project, segment, chunks).map_err(fault)
    }

    fn load_session(&mut self, session: &SessionRecord) -> Result<(), Fault> {
        self.put_session(session).map_err(fault)
    }

    fn load_usage(&mut self, usage: &UsageRecord) -> Result<(), Fault> {
        self.put_usage(usage).map_err(fault)
    }

    fn load_hook_events(&mut self, events: &[HookEventRecord]) -> Result<(), Fault> {
        self.put_hook_events(events).map_err(fault)
    }

    fn renumber(&mut self, project: &Slug, old: &IssueId, new: &IssueId) -> Result<(), Fault> {
        self.renumber(project, old, new).map_err(fault)
    }
}
