//! Work inside the writer's transaction: an action is decided first, on what is stored, and only
//! what was decided is written; so an action that is refused has left no trace.

mod absorb;
mod adopt;
mod apply;
mod delete;
mod documents;
mod events;
mod issues;
mod load;
mod memory;
mod projects;
mod sides;
mod text;
mod usage;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher;
use std::path::Path;

use foldhash::HashSet;
use orchestra_board::{
    AgentName, Change, Command, Context, Decision, IssueId, Source, Timestamp, decide,
};
use rusqlite::{Connection, OptionalExtension};

use crate::files::ledger;
use crate::files::owner::Owner;
use crate::files::place::{Place, under};
use crate::io::FileIo;
use crate::reader::Reader;
use crate::{Action, ActionError, Fault, IssueRecord, Made, Receipt};

use self::sides::NewPlan;

pub(crate) use events::notice_kind;
pub(crate) use load::limit_counters;
pub(crate) use memory::{CHUNK_OVERHEAD, text_hash};
pub(crate) use text::{index_all_issues, index_all_memory};

/// Words known to be in the table of words already, so that they need not be offered again. It
/// must be forgotten whenever a transaction is rolled back.
#[derive(Debug, Default)]
pub(crate) struct KnownWords {
    hashes: HashSet<u64>,
    /// How often the table had been pruned then.
    pruned: i64,
    /// Up to where it is being pruned, while it is.
    pruning: Option<String>,
}

/// The most words that are known; 16 bytes each.
const MAX_KNOWN_WORDS: usize = 64 * 1024;

/// Bounds that the program's configuration sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The most remembered texts of a project, and the most sessions.
    pub(crate) chunks: u64,
    /// The most bytes of either.
    pub(crate) memory_bytes: u64,
    /// Whether superseded texts and sessions of hook events are removed when a project is full.
    pub(crate) makes_room: bool,
}

/// The board inside one transaction of the writer.
pub(crate) struct Writing<'a> {
    connection: &'a Connection,
    words: &'a mut KnownWords,
    limits: Limits,
    now: Timestamp,
    /// The number of this change, once it has one.
    change: Option<i64>,
    /// Whether tallies are left alone because they are counted at the end.
    loading: bool,
    /// Set to load projects that have a remembered text under two ids.
    accepts_duplicates: bool,
    /// Aliases whose issues were not there yet when they were loaded: project, old id, new id.
    aliases: Vec<(i64, IssueId, IssueId)>,
    /// The next rows of projects while all is loaded.
    next_rows: BTreeMap<i64, i64>,
    /// How the indexes are made that are made at the end of loading.
    late_indexes: Vec<String>,
    /// Whether it was seen that the words known are still there.
    words_checked: bool,
    /// Where the readable files are, while callers change the board.
    ground: Option<(&'a dyn FileIo, &'a Path)>,
}

impl fmt::Debug for Writing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writing")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

type Write<T> = Result<T, ActionError>;

impl<'a> Writing<'a> {
    pub(crate) const fn new(
        connection: &'a Connection,
        words: &'a mut KnownWords,
        limits: Limits,
        now: Timestamp,
    ) -> Self {
        Self {
            connection,
            words,
            limits,
            now,
            change: None,
            loading: false,
            accepts_duplicates: false,
            aliases: Vec::new(),
            next_rows: BTreeMap::new(),
            late_indexes: Vec::new(),
            words_checked: false,
            ground: None,
        }
    }

    /// Accepts remembered texts that a project has under two ids.
    pub(crate) const fn accept_duplicates(&mut self) {
        self.accepts_duplicates = true;
    }

    /// Has new projects looked at where their readable files will be.
    pub(crate) const fn stand_on(&mut self, files: &'a dyn FileIo, projects: &'a Path) {
        self.ground = Some((files, projects));
    }

    /// What is stored, seen from inside the transaction.
    pub(crate) const fn reader(&self) -> Reader<'a> {
        Reader::new(self.connection).at(self.now)
    }

    /// Does one action. After an error other than a fault nothing of it is there; after a fault the
    /// transaction must be rolled back.
    pub(crate) fn run(
        &mut self,
        source: Source,
        agent: Option<&AgentName>,
        action: &Action,
    ) -> Write<Receipt> {
        self.change = None;
        match action {
            Action::Board(command) => self.command(source, agent, command),
            Action::SaveMemory(chunk) => self.save_chunk(agent, source, chunk),
            Action::UpdateMemory(patch) => self.update_chunk(agent, source, patch),
            Action::ForgetMemory { project, id } => self.forget_chunk(agent, source, project, *id),
            Action::SaveSession(session) => self.save_session(agent, source, session),
            Action::ForgetSession { project, id } => {
                self.forget_session(agent, source, project, id)
            }
            Action::ReindexMemory(step) => self.reindex_memory(*step),
            Action::SavePlan {
                project,
                title,
                content,
                issue,
                replace,
            } => {
                let plan = NewPlan {
                    project,
                    title,
                    content,
                    issue: issue.as_ref(),
                    replace: *replace,
                };
                self.save_plan(agent, source, plan)
            }
            Action::HookEvent(event) => self.hook_event(event),
            Action::WriteReadme { project, overwrite } => {
                self.write_readme(agent, source, project, *overwrite)
            }
            Action::WriteDocument(document) => self.write_document(document),
            Action::DeleteDocument(path) => self.delete_document(path),
        }
    }

    fn command(
        &mut self,
        source: Source,
        agent: Option<&AgentName>,
        command: &Command,
    ) -> Write<Receipt> {
        let cx = Context {
            now: self.now,
            agent: agent.cloned(),
            source,
        };
        let decision = decide(&self.reader(), &cx, command)?;
        if source == Source::Tool {
            self.check_ground(&decision)?;
        }
        self.apply(&decision.events)?;
        self.receipt(decision)
    }

    /// Refuses a project whose place is taken by files that are not on the board.
    fn check_ground(&self, decision: &Decision) -> Write<()> {
        let Some((files, projects)) = self.ground else {
            return Ok(());
        };
        for event in &decision.events {
            let Change::ProjectCreated(project) = &event.change else {
                continue;
            };
            let status = Place::Project(project.slug.clone()).path();
            let found = files
                .stat(&under(projects, &status))
                .map_err(|error| Fault::io("look at .projects", error))?;
            if found.is_some() && ledger::at(self.connection, &status)?.is_none() {
                return Err(ActionError::Invalid(format!(
                    ".projects/{} contains files of another project; `orchestra import` imports files of orchestra-mcp, `orchestra doctor` reports problems of other files; or choose another name",
                    project.slug
                )));
            }
        }
        Ok(())
    }

    fn receipt(&self, decision: Decision) -> Write<Receipt> {
        let reader = self.reader();
        let mut issues: Vec<IssueRecord> = Vec::new();
        for (project, id) in &decision.subjects {
            let known = issues
                .iter()
                .any(|known| known.issue.id == *id && known.issue.project == *project);
            if !known && let Some(record) = reader.issue(project, id)? {
                issues.push(record);
            }
        }
        let project = match &decision.project {
            Some(slug) => reader.project(slug)?,
            None => None,
        };
        let mut made = Made::Nothing;
        for event in &decision.events {
            match &event.change {
                Change::RequestLogged(request) => made = Made::Request((**request).clone()),
                Change::UsageRecorded(_) | Change::UsageSessionEnded => {
                    made = reader.latest_usage()?.map_or(Made::Nothing, Made::Usage);
                }
                _ => {}
            }
        }
        Ok(Receipt {
            events: decision.events,
            issues,
            project,
            next: decision.next,
            made,
        })
    }

    /// Tells the readable files that something of theirs has changed.
    fn dirty(&mut self, owner: &Owner) -> Write<()> {
        if self.loading {
            return Ok(());
        }
        let change = self.change_number()?;
        self.connection
            .prepare_cached(
                "INSERT INTO dirty (owner, seq, since) VALUES (?1, ?2, ?2) ON CONFLICT (owner) DO UPDATE SET seq = excluded.seq",
            )?
            .execute((owner.key(), change))?;
        Ok(())
    }

    fn change_number(&mut self) -> Write<i64> {
        if let Some(change) = self.change {
            return Ok(change);
        }
        let change = self
            .connection
            .prepare_cached(
                "UPDATE counter SET value = value + 1 WHERE name = 'change' RETURNING value",
            )?
            .query_row([], |row| row.get(0))?;
        self.change = Some(change);
        Ok(change)
    }

    /// A fresh rowid for something of a project.
    fn new_row(&mut self, project: i64) -> Write<i64> {
        let number: i64 = if self.loading {
            // Each statement that updates makes the full-text index write out what it gathered.
            let next = self.next_rows.entry(project).or_insert(1);
            *next += 1;
            *next - 1
        } else {
            self.connection
                .prepare_cached(
                    "UPDATE project SET next_row = next_row + 1 WHERE id = ?1 RETURNING next_row - 1",
                )?
                .query_row([project], |row| row.get(0))?
        };
        if number > 0xffff_ffff {
            return Err(ActionError::Invalid(
                "the project is full; begin another one".to_owned(),
            ));
        }
        Ok((project << 32) | number)
    }

    fn find_number(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> Result<Option<i64>, rusqlite::Error> {
        self.connection
            .prepare_cached(sql)?
            .query_row(params, |row| row.get(0))
            .optional()
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize, Fault> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }
}

impl KnownWords {
    /// Forgets all words; for whenever a transaction was rolled back.
    pub(crate) fn forget(&mut self) {
        self.hashes.clear();
    }

    /// Forgets all words, if the table was pruned meanwhile.
    fn pruned(&mut self, times: i64) {
        if self.pruned != times {
            self.pruned = times;
            self.forget();
        }
    }

    /// Says whether the word was known, and knows it from now on.
    fn learn(&mut self, word: &str) -> bool {
        if self.hashes.len() >= MAX_KNOWN_WORDS {
            self.hashes.clear();
        }
        !self.hashes.insert(self.hashes.hasher().hash_one(word))
    }
}
