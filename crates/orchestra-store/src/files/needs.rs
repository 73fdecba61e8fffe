//! What the readable files need of the database half: its types implement these traits, and the
//! files know nothing else of it but `Reader` and their own tables.
//!
//! - Tables for the files alone: [`TABLES`], run by the first migration.
//! - Every change puts the owners it concerns into `dirty`, in the same transaction, with a
//!   `seq` that only rises (the counter `change`); `Owner::key` is the text. A change of an issue: the issue and its
//!   project. A deleted issue: itself, its project, those that waited for it. A moved epic or
//!   story: all below it as well. A deleted project: the project.
//! - After a commit, by this process or another, `Reports::committed` is called.

use orchestra_board::{
    Command, Event, Issue, IssueId, PrdOrigin, PrdSession, Project, Request, SessionId, Slug,
};
use rusqlite::Connection;

use crate::document::DocumentBody;
use crate::merge::BoardContents;
use crate::toon::project::Retired;
use crate::{
    ActionError, Chunk, DocumentPath, HookEventRecord, PlanRecord, ReadError, Reader,
    SessionRecord, UsageRecord,
};

/// The tables that only the files use. `owner` is the text of an `Owner`; what the columns of
/// `file` tell is said in `files/ledger.rs`.
pub(crate) const TABLES: &str = "
CREATE TABLE dirty (
    owner TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    since INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX dirty_by_seq ON dirty (seq);
CREATE TABLE file (
    path TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    hash BLOB,
    size INTEGER,
    modified INTEGER,
    fields TEXT,
    next_hash BLOB,
    next_fields TEXT
) WITHOUT ROWID;
CREATE INDEX file_by_owner ON file (owner);
CREATE TABLE problem (
    path TEXT PRIMARY KEY,
    line INTEGER NOT NULL,
    field TEXT NOT NULL,
    message TEXT NOT NULL,
    at INTEGER NOT NULL,
    shown BLOB,
    shown_fields TEXT
) WITHOUT ROWID;
";

/// Makes of schema 6 schema 7: the contents that the files of texts without a history had before. `hash` is that of the
/// file, `seq` the counter `change` when another content took its place. Only the files read it, so a board of an older
/// schema is read without it.
pub(crate) const EARLIER: &str = "
CREATE TABLE IF NOT EXISTS earlier (
    path TEXT NOT NULL,
    hash BLOB NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (path, hash)
) WITHOUT ROWID;
";

/// The database, as the files reach it.
pub(crate) trait Board: Send + Sync {
    /// Reads from one snapshot, on this thread.
    fn read(
        &self,
        work: &mut dyn FnMut(&Reader<'_>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError>;
    /// Does work on the writer's thread, between two actions, and waits until it is as durable as it asks for. An
    /// error undoes all of it.
    fn write(&self, job: Job) -> Result<(), ActionError>;
}

/// Function that works on the board.
type Run = dyn FnOnce(&mut dyn Work) -> Result<(), ActionError> + Send;

/// Work that runs on the writer's thread, in a savepoint of its transaction, between two actions.
pub(crate) struct Job {
    pub(crate) run: Box<Run>,
    pub(crate) durability: Durability,
}

impl Job {
    /// Work that is durable when it is answered.
    pub(crate) fn synced(
        run: impl FnOnce(&mut dyn Work) -> Result<(), ActionError> + Send + 'static,
    ) -> Self {
        Self {
            run: Box::new(run),
            durability: Durability::Synced,
        }
    }
}

/// Effect that a power failure may have on acknowledged work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing.
    Synced,
    /// It may undo the work, which is then done again. The next synced work makes it durable.
    Repeatable,
}

/// The board, as such work sees it. What is loaded is put there as it is, without a decision, an
/// event or a change of times, and replaces what is there under the same name; parents' tallies,
/// the full-text index and dirty rows follow. What the database cannot hold is refused, by
/// [`ActionError::Invalid`] mostly.
pub(crate) trait Work {
    /// The connection, inside the transaction.
    fn connection(&self) -> &Connection;
    /// Does a command, as `Source::File`.
    fn command(&mut self, command: &Command) -> Result<Vec<Event>, ActionError>;
    /// Puts a project there with the ids that no issue of it has any more.
    fn load_project(&mut self, project: &Project, retired: &Retired) -> Result<(), ActionError>;
    /// Puts an issue there.
    fn load_issue(&mut self, issue: &Issue) -> Result<(), ActionError>;
    /// Puts what happened to an issue there, oldest first, in the place of what is there.
    fn load_history(
        &mut self,
        project: &Slug,
        id: &IssueId,
        events: &[Event],
    ) -> Result<(), ActionError>;
    /// Forgets events of an issue that files brought after this one; says whether nobody else has
    /// changed the issue since.
    fn forget_followed(
        &mut self,
        project: &Slug,
        id: &IssueId,
        after: i64,
    ) -> Result<bool, ActionError>;
    /// Puts the text of `prd.md` there.
    fn load_prd(
        &mut self,
        project: &Slug,
        text: &str,
        origin: PrdOrigin,
    ) -> Result<(), ActionError>;
    /// Puts the questionnaire there; `None` removes it.
    fn load_prd_session(
        &mut self,
        project: &Slug,
        session: Option<&PrdSession>,
    ) -> Result<(), ActionError>;
    /// Puts all requests of a project there.
    fn load_requests(&mut self, project: &Slug, requests: &[Request]) -> Result<(), ActionError>;
    /// Puts the status page there; `None` removes it.
    fn load_readme(&mut self, project: &Slug, text: Option<&str>) -> Result<(), ActionError>;
    /// Puts a plan there; `None` for its text removes it.
    fn load_plan(&mut self, plan: &PlanRecord, text: Option<&str>) -> Result<(), ActionError>;
    /// Puts all chunks of a segment there.
    fn load_chunks(
        &mut self,
        project: &Slug,
        segment: u64,
        chunks: &[Chunk],
    ) -> Result<(), ActionError>;
    /// Puts a session there.
    fn load_session(&mut self, session: &SessionRecord) -> Result<(), ActionError>;
    /// Removes a session.
    fn remove_session(&mut self, project: &Slug, id: &SessionId) -> Result<(), ActionError>;
    /// Puts all usage there.
    fn load_usage(&mut self, usage: &UsageRecord) -> Result<(), ActionError>;
    /// Puts all hook events there.
    fn load_hook_events(&mut self, events: &[HookEventRecord]) -> Result<(), ActionError>;
    /// Puts a document of a plugin there, with a version that it never had; `start` is the one that an
    /// earlier program kept beside its file.
    fn load_document(
        &mut self,
        path: &DocumentPath,
        body: &DocumentBody,
        start: Option<i64>,
    ) -> Result<(), ActionError>;
    /// Removes a document of a plugin.
    fn remove_document(&mut self, path: &DocumentPath) -> Result<(), ActionError>;
    /// Mends what follows from the rest: counters that are too low, words that no text has any more.
    fn tidy(&mut self) -> Result<(), ActionError>;
    /// Gives an issue another id; the old one becomes an alias.
    fn renumber(&mut self, project: &Slug, old: &IssueId, new: &IssueId)
    -> Result<(), ActionError>;
    /// Brings the board from its present content to that of a merge with another clone.
    fn adopt(&mut self, before: &BoardContents, after: &BoardContents) -> Result<(), ActionError>;
}
