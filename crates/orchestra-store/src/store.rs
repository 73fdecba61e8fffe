//! The door to the board of one workspace.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orchestra_board::{
    AgentName, Event, IssueId, Kind, PlanId, PrdSession, Request, SessionId, Slug, Timestamp,
};
use tokio::sync::broadcast;

use crate::{
    Action, ActionError, ChangeNotice, Chunk, Clock, ContextItem, DoctorError, Fault, FileIo,
    FilesError, Fix, Hit, HookEventRecord, IssueFilter, IssueRecord, NextRecord, OpenError, Page,
    PageRequest, PhaseRecord, PlanRecord, ProjectRecord, ReadError, RealFs, Receipt, Report,
    SessionRecord, Submission, SystemClock, UsageRecord,
};

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Through what the readable files are read and written.
    pub files: Arc<dyn FileIo>,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Whether changes of the readable files are watched.
    pub watch: bool,
    /// Whether the readable files are looked through for changes after opening, in the background.
    pub sweep: bool,
    /// Whether the readable files are written at all; without, they are left as they are.
    pub flush: bool,
    /// The most remembered texts of one project.
    pub max_chunks: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            files: Arc::new(RealFs),
            clock: Arc::new(SystemClock),
            watch: true,
            sweep: true,
            flush: true,
            max_chunks: 10_000,
        }
    }
}

/// The board of one workspace. Clones are cheap and mean the same board; when the last one is
/// dropped, what was submitted is still written and the threads end.
#[derive(Debug, Clone)]
pub struct Store {
    workspace: Arc<PathBuf>,
}

/// What is stored, as it was when the reading began.
#[derive(Debug)]
pub struct Reader<'a> {
    _store: &'a Store,
}

impl Store {
    /// Opens the board below `workspace`, or creates it in `.projects/`.
    ///
    /// # Errors
    /// When the workspace is no directory, or its database can neither be used nor made.
    pub fn open(workspace: &Path, _options: Options) -> Result<Self, OpenError> {
        Ok(Self {
            workspace: Arc::new(workspace.to_path_buf()),
        })
    }

    /// The directory that holds `.projects/`.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Hands an action to the writer. It is queued at once: the order of calls is the order of
    /// effects. The answer comes once the action is durable; dropping it undoes nothing.
    pub fn submit(&self, _agent: Option<AgentName>, _action: Action) -> Submission {
        Submission::refused(Fault::Closed.into())
    }

    /// [`Store::submit`], and waits on this thread for the answer.
    ///
    /// # Errors
    /// When the board refuses the action or the store fails; nothing of it was kept then.
    pub fn submit_blocking(
        &self,
        _agent: Option<AgentName>,
        _action: Action,
    ) -> Result<Receipt, ActionError> {
        Err(Fault::Closed.into())
    }

    /// Reads from one snapshot, in place. Keep `work` short: what is read stays on disk meanwhile.
    ///
    /// # Errors
    /// As `work`, or when the database cannot be read.
    pub fn read<T>(
        &self,
        work: impl FnOnce(&Reader<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        work(&Reader { _store: self })
    }

    /// Tells what changes from now on, whoever changes it, after it is durable. Who is too slow
    /// misses the oldest ones, and is told so by the channel.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        broadcast::channel(1).1
    }

    /// The time, as the store sees it.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(0)
    }

    /// Waits until the readable files show everything that is committed, durably.
    ///
    /// # Errors
    /// When that takes longer than `timeout`, or the files cannot be written.
    pub fn settle(&self, _timeout: Duration) -> Result<(), FilesError> {
        Err(Fault::Closed.into())
    }

    /// Writes what was submitted, settles the readable files, and ends the threads. Later actions
    /// are answered by [`Fault::Closed`]; reading goes on.
    pub fn close(&self, _timeout: Duration) {}

    /// Compares database and readable files.
    ///
    /// # Errors
    /// When either cannot be read at all.
    pub fn doctor(&self, _fix: Fix) -> Result<Report, DoctorError> {
        Err(Fault::Closed.into())
    }
}

type Read<T> = Result<T, ReadError>;

/// A list that names a project which is not there is refused by
/// [`Refusal::NoProject`](orchestra_board::Refusal::NoProject); a single thing that is not there is `None`.
#[expect(
    clippy::missing_errors_doc,
    clippy::unused_self,
    reason = "said once, for all of them"
)]
impl Reader<'_> {
    /// All projects, by slug.
    pub fn projects(&self, _page: &PageRequest) -> Read<Page<ProjectRecord>> {
        Err(Fault::Closed.into())
    }

    /// A project.
    pub fn project(&self, _slug: &Slug) -> Read<Option<ProjectRecord>> {
        Err(Fault::Closed.into())
    }

    /// An issue by its id, or by one that a renumbering left behind.
    pub fn issue(&self, _project: &Slug, _id: &IssueId) -> Read<Option<IssueRecord>> {
        Err(Fault::Closed.into())
    }

    /// What is directly below an issue, by id.
    pub fn children(
        &self,
        _project: &Slug,
        _parent: &IssueId,
        _page: &PageRequest,
    ) -> Read<Page<IssueRecord>> {
        Err(Fault::Closed.into())
    }

    /// The issues that a filter lets through, by id.
    pub fn issues(
        &self,
        _project: &Slug,
        _filter: &IssueFilter,
        _page: &PageRequest,
    ) -> Read<Page<IssueRecord>> {
        Err(Fault::Closed.into())
    }

    /// The issues that a text is found in, best first; an empty text finds all. Where every word is
    /// one that most issues have, only the newest issues are looked at.
    pub fn search(
        &self,
        _project: &Slug,
        _query: &str,
        _kinds: &[Kind],
        _page: &PageRequest,
    ) -> Read<Page<IssueRecord>> {
        Err(Fault::Closed.into())
    }

    /// The task that comes next for `agent`.
    pub fn next(
        &self,
        _project: &Slug,
        _agent: Option<&AgentName>,
        _now: Timestamp,
    ) -> Read<NextRecord> {
        Err(Fault::Closed.into())
    }

    /// What happened to an issue, oldest first. Descriptions are shortened; of the issue that was
    /// made, only type, title, state and `fixes` are kept.
    pub fn history(
        &self,
        _project: &Slug,
        _id: &IssueId,
        _page: &PageRequest,
    ) -> Read<Page<Event>> {
        Err(Fault::Closed.into())
    }

    /// The text of `prd.md`.
    pub fn prd_text(&self, _project: &Slug) -> Read<String> {
        Err(Fault::Closed.into())
    }

    /// The PRD questionnaire of a project.
    pub fn prd_session(&self, _project: &Slug) -> Read<Option<PrdSession>> {
        Err(Fault::Closed.into())
    }

    /// The phases that a project's PRD was split into, in order.
    pub fn phases(&self, _project: &Slug) -> Read<Vec<PhaseRecord>> {
        Err(Fault::Closed.into())
    }

    /// The logged requests of a project, by number.
    pub fn requests(&self, _project: &Slug, _page: &PageRequest) -> Read<Page<Request>> {
        Err(Fault::Closed.into())
    }

    /// The remembered texts of a project, by id.
    pub fn chunks(&self, _project: &Slug, _page: &PageRequest) -> Read<Page<Chunk>> {
        Err(Fault::Closed.into())
    }

    /// The remembered texts that fit a query best.
    pub fn search_memory(
        &self,
        _project: &Slug,
        _query: &str,
        _limit: u32,
    ) -> Read<Vec<Hit<Chunk>>> {
        Err(Fault::Closed.into())
    }

    /// The remembered texts and sessions that fit a query best.
    pub fn context(
        &self,
        _project: &Slug,
        _query: &str,
        _limit: u32,
    ) -> Read<Vec<Hit<ContextItem>>> {
        Err(Fault::Closed.into())
    }

    /// The sessions of a project, the one saved last first.
    pub fn sessions(&self, _project: &Slug, _page: &PageRequest) -> Read<Page<SessionRecord>> {
        Err(Fault::Closed.into())
    }

    /// A session.
    pub fn session(&self, _project: &Slug, _id: &SessionId) -> Read<Option<SessionRecord>> {
        Err(Fault::Closed.into())
    }

    /// Usage of the workspace with the latest `sessions` sessions.
    pub fn usage(&self, _sessions: u32) -> Read<UsageRecord> {
        Err(Fault::Closed.into())
    }

    /// The kept hook events, newest first; of one type, if said.
    pub fn hook_events(
        &self,
        _event_type: Option<&str>,
        _page: &PageRequest,
    ) -> Read<Page<HookEventRecord>> {
        Err(Fault::Closed.into())
    }

    /// The saved plans of a project, by name.
    pub fn plans(&self, _project: &Slug, _page: &PageRequest) -> Read<Page<PlanRecord>> {
        Err(Fault::Closed.into())
    }

    /// A saved plan with its text.
    pub fn plan(&self, _project: &Slug, _id: &PlanId) -> Read<Option<(PlanRecord, String)>> {
        Err(Fault::Closed.into())
    }

    /// The status page of a project, if one was written.
    pub fn readme(&self, _project: &Slug) -> Read<Option<String>> {
        Err(Fault::Closed.into())
    }
}
