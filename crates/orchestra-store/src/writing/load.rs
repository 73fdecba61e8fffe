//! Putting things there as they are: what the readable files need to rebuild the database, and to
//! take in what people wrote.

use std::collections::HashMap;

use orchestra_board::{
    AgentName, Command, Event, Issue, IssueId, OwnState, PrdOrigin, PrdSession, Project, Request,
    Slug, Source, Tally, parent_state,
};
use rusqlite::{Connection, params};

use super::apply::Held;
use super::memory::text_hash;
use super::{Write, Writing};
use crate::files::needs::Work;
use crate::files::owner::Owner;
use crate::reader::{PRD, README, Reader, first_row, last_row};
use crate::rows::{Read, id_of, state_of, state_place, unknown};
use crate::{
    ActionError, Chunk, ChunkId, Fault, HookEventRecord, PlanRecord, SessionRecord, UsageRecord,
};

/// Indexes that nothing needs while all is loaded, and that are made faster at the end.
const LATE_INDEXES: [&str; 6] = [
    "issue_by_kind",
    "issue_by_parent",
    "issue_by_rank",
    "dependency_on",
    "event_of_issue",
    "file_by_owner",
];

/// An epic or story, as far as its state hangs on what is below.
struct Parent {
    row: i64,
    state: usize,
    own: usize,
    slug: String,
    prefix: String,
    number: u64,
}

/// What a project counts its issues, bugs and requests with, and the least that each may be.
fn counters(connection: &Connection, project: i64) -> Read<([u64; 3], [u64; 3])> {
    let mut statement = connection.prepare_cached(
        "SELECT next_issue, next_bug, next_request, \
         (SELECT max(number) FROM issue WHERE project = p.id AND prefix = p.key), \
         (SELECT max(number) FROM alias WHERE project = p.id AND prefix = p.key), \
         (SELECT max(number) FROM issue WHERE project = p.id AND prefix = ?2), \
         (SELECT max(number) FROM alias WHERE project = p.id AND prefix = ?2), \
         (SELECT max(number) FROM request WHERE project = p.id) \
         FROM project p WHERE p.id = ?1",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let above = |column| -> rusqlite::Result<u64> {
            Ok(row.get::<_, Option<u64>>(column)?.unwrap_or(0) + 1)
        };
        let now = [row.get(0)?, row.get(1)?, row.get(2)?];
        let (issue, bug) = (above(3)?.max(above(4)?), above(5)?.max(above(6)?));
        Ok((now, [issue, bug, above(7)?]))
    };
    Ok(statement.query_row(params![project, IssueId::BUG], read)?)
}

fn is_low(now: [u64; 3], least: [u64; 3]) -> bool {
    now.iter().zip(least).any(|(now, least)| *now < least)
}

impl Writing<'_> {
    /// Leaves tallies, the states of parents and some indexes alone until [`Writing::recount`], and
    /// tells the readable files nothing: for when all is read from them, into a new database.
    pub(crate) fn begin_loading(&mut self) -> Write<()> {
        self.loading = true;
        for name in LATE_INDEXES {
            let sql = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?1";
            let made: String = self.connection.query_row(sql, [name], |row| row.get(0))?;
            self.connection
                .execute_batch(&format!("DROP INDEX {name}"))?;
            self.late_indexes.push(made);
        }
        Ok(())
    }

    /// Counts everything anew, and lets parents follow their children. Parents and counters that
    /// the files have wrong are told to them.
    pub(crate) fn recount(&mut self) -> Write<()> {
        self.loading = false;
        for sql in std::mem::take(&mut self.late_indexes) {
            self.connection.execute_batch(&sql)?;
        }
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
        self.raise_all_counters()
    }

    fn raise_all_counters(&mut self) -> Write<()> {
        for slug in self.reader().slugs()? {
            if self.raise_counters(&slug)? {
                self.dirty(&Owner::Project(slug))?;
            }
        }
        Ok(())
    }

    /// Raises the counters of a project above all ids that are in use; says whether that was
    /// needed.
    fn raise_counters(&mut self, slug: &Slug) -> Write<bool> {
        let id = self.reader().project_id(slug)?;
        let (before, least) = counters(self.connection, id)?;
        if !is_low(before, least) {
            return Ok(false);
        }
        self.execute(
            "UPDATE project SET next_issue = max(next_issue, ?2), next_bug = max(next_bug, ?3), \
             next_request = max(next_request, ?4) WHERE id = ?1",
            params![id, least[0], least[1], least[2]],
        )?;
        Ok(true)
    }

    /// The projects whose counters would give an id again.
    pub(crate) fn low_counters(connection: &Connection) -> Read<Vec<Slug>> {
        let reader = Reader::new(connection);
        let mut low = Vec::new();
        for slug in reader.slugs()? {
            let (now, least) = counters(connection, reader.project_id(&slug)?)?;
            if is_low(now, least) {
                low.push(slug);
            }
        }
        Ok(low)
    }

    fn follow(&mut self, kind: i64) -> Write<()> {
        let parents: Vec<Parent> = {
            let mut statement = self.connection.prepare_cached(
                "SELECT i.id, i.state, i.own, p.slug, i.prefix, i.number FROM issue i \
                 JOIN project p ON p.id = i.project WHERE i.kind = ?1",
            )?;
            let rows = statement.query_map([kind], |row| {
                Ok(Parent {
                    row: row.get(0)?,
                    state: row.get(1)?,
                    own: row.get(2)?,
                    slug: row.get(3)?,
                    prefix: row.get(4)?,
                    number: row.get(5)?,
                })
            })?;
            rows.collect::<Result<_, _>>()?
        };
        for parent in parents {
            let (row, state, own) = (parent.row, parent.state, parent.own);
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
                let id = id_of(Some(&parent.prefix), Some(parent.number))?;
                if let (Ok(slug), Some(id)) = (Slug::parse(&parent.slug), id) {
                    self.dirty(&Owner::Issue(slug.clone(), id))?;
                    self.dirty(&Owner::Project(slug))?;
                }
            }
        }
        Ok(())
    }

    fn put_project(&mut self, project: &Project, aliases: &[(IssueId, IssueId)]) -> Write<()> {
        let id = match self.reader().find_project(&project.slug)? {
            Some((id, _)) => {
                self.update_project(id, project)?;
                self.update_origin(id, project)?;
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
        if !self.loading {
            self.raise_counters(&project.slug)?;
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
        for event in events {
            self.log(event, Some(found))?;
        }
        self.dirty(&Owner::Issue(project.clone(), id.clone()))
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

    fn put_segment(&mut self, project: &Slug, segment: u64, chunks: &[Chunk]) -> Write<()> {
        let id = self.reader().project_id(project)?;
        for known in self.reader().segment(project, segment)? {
            match chunks.iter().find(|chunk| chunk.id == known.id) {
                None => self.remove_chunk(id, known.id.number())?,
                // Its text is free for another from now on.
                Some(chunk) if chunk.content != known.content => drop(self.execute(
                    "UPDATE chunk SET hash = randomblob(16) WHERE project = ?1 AND number = ?2",
                    params![id, known.id.number()],
                )?),
                Some(_) => {}
            }
        }
        self.check_segment(id, segment, chunks)?;
        for chunk in chunks {
            self.put_chunk(id, segment, chunk)?;
            self.execute(
                "UPDATE project SET next_chunk = max(next_chunk, ?2 + 1) WHERE id = ?1",
                params![id, chunk.id.number()],
            )?;
        }
        self.dirty(&Owner::Chunks(project.clone(), segment))
    }

    /// Refuses texts that another file has under the same id, and the same text under two ids.
    fn check_segment(&self, project: i64, segment: u64, chunks: &[Chunk]) -> Write<()> {
        let mut texts = HashMap::new();
        for chunk in chunks {
            let (number, hash) = (chunk.id.number(), text_hash(chunk.content.as_str()));
            let elsewhere = self.find_number(
                "SELECT segment FROM chunk WHERE project = ?1 AND number = ?2 AND segment <> ?3",
                params![project, number, segment],
            )?;
            if elsewhere.is_some() {
                let what = format!(
                    "{} stands in another file of remembered texts as well; remove it from one of them",
                    chunk.id
                );
                return Err(ActionError::Invalid(what));
            }
            let known = self.find_number(
                "SELECT number FROM chunk WHERE project = ?1 AND hash = ?2 AND number <> ?3",
                params![project, hash, number],
            )?;
            let known = known.and_then(|number| u64::try_from(number).ok());
            let same = known
                .map(ChunkId::new)
                .or_else(|| texts.insert(hash, chunk.id));
            if let Some(other) = same {
                let what = format!("{} says the same as {other}; remove one of them", chunk.id);
                return Err(ActionError::Invalid(what));
            }
        }
        Ok(())
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
    ) -> Result<(), ActionError> {
        self.put_project(project, aliases)
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
        self.put_session(session)
    }

    fn load_usage(&mut self, usage: &UsageRecord) -> Result<(), ActionError> {
        self.put_usage(usage)
    }

    fn load_hook_events(&mut self, events: &[HookEventRecord]) -> Result<(), ActionError> {
        self.put_hook_events(events)
    }

    fn tidy(&mut self) -> Result<(), ActionError> {
        self.raise_all_counters()?;
        self.prune_words()
    }

    fn renumber(
        &mut self,
        project: &Slug,
        old: &IssueId,
        new: &IssueId,
    ) -> Result<(), ActionError> {
        self.renumber(project, old, new)
    }
}
