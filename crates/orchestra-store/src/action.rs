//! What callers ask the writer to do, and what they get back.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use orchestra_board::{
    Body, Command, Event, IssueId, Label, NextTask, Request, SessionId, Slug, Timestamp, Title,
    UsageSession, Version,
};
use tokio::sync::oneshot;

use crate::{
    ActionError, Chunk, ChunkId, DocumentPath, Fault, HookEventRecord, IssueRecord, NewDocument,
    PlanRecord, ProjectRecord, SessionRecord,
};

/// One thing to be done, all or nothing.
#[derive(Debug, Clone)]
pub enum Action {
    /// Change the board.
    Board(Command),
    /// Remember a text. One that differs from what is there in white space and case alone is merged
    /// with it.
    SaveMemory(NewChunk),
    /// Change a remembered text.
    UpdateMemory(Box<ChunkPatch>),
    /// Forget a remembered text.
    ForgetMemory {
        /// Of which project.
        project: Slug,
        /// Which.
        id: ChunkId,
    },
    /// Keep the summary of a session; a later one of the same id replaces summary and events.
    SaveSession(NewSession),
    /// Forget a session.
    ForgetSession {
        /// Of which project.
        project: Slug,
        /// Which.
        id: SessionId,
    },
    /// Make a part of the full-text index of what is remembered anew, and remove what has expired;
    /// [`Store::reindex_memory`](crate::Store::reindex_memory) makes all of it. Where nobody waits for
    /// the answer the rest is made as well, a part at a time.
    ReindexMemory(Reindex),
    /// Keep a plan.
    SavePlan {
        /// In which project.
        project: Slug,
        /// Its title.
        title: Title,
        /// Its text.
        content: Body,
        /// The issue it is about; that of the plan that is replaced where none is named.
        issue: Option<IssueId>,
        /// Whether a plan of the same title is replaced; otherwise it is refused.
        replace: bool,
    },
    /// Keep a hook event, masked and cut to size.
    HookEvent(NewHookEvent),
    /// Write the status page `README.md` of a project anew.
    WriteReadme {
        /// Which.
        project: Slug,
        /// Whether a page that somebody wrote or edited by hand may be replaced.
        overwrite: bool,
    },
    /// Write a document of a plugin.
    WriteDocument(Box<NewDocument>),
    /// Delete a document of a plugin.
    DeleteDocument(DocumentPath),
}

/// Which part of the full-text index is made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reindex {
    /// The first one; where somebody makes the index anew already, the next one of that.
    Begin,
    /// The next one of the run that an earlier answer named; if that has ended, none.
    Continue(u64),
    /// The first one, because the index was found to be damaged when as many runs had begun.
    Damaged(u64),
}

/// How far the full-text index is made anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reindexed {
    /// Which run it is.
    pub run: u64,
    /// How many texts and sessions are in the new index.
    pub rows: u64,
    /// How many there were when the run began.
    pub total: u64,
    /// How many expired texts the run has removed.
    pub expired: u64,
    /// Whether all is done.
    pub is_done: bool,
}

/// A text to be remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    /// Of which project.
    pub project: Slug,
    /// The text, at most [`NewChunk::MAX_BYTES`].
    pub content: Body,
    /// What it says in short.
    pub summary: Body,
    /// Where it is from, such as `task`, `prd`, `session`, `user`.
    pub source: Option<Label>,
    /// Which one of those.
    pub source_id: Option<Label>,
    /// Tags.
    pub tags: Vec<Label>,
    /// When it was first remembered; now, if not said.
    pub created_at: Option<Timestamp>,
    /// From when on it is not found any more; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// The texts that it says better: they stay, and are not found as long as this one is there.
    pub supersedes: Vec<ChunkId>,
}

/// What changes of a remembered text; what is `None` stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkPatch {
    /// Of which project.
    pub project: Slug,
    /// Which.
    pub id: ChunkId,
    /// The text.
    pub content: Option<Body>,
    /// What it says in short.
    pub summary: Option<Body>,
    /// Where it is from; `Some(None)` removes it.
    pub source: Option<Option<Label>>,
    /// Which one of those; `Some(None)` removes it.
    pub source_id: Option<Option<Label>>,
    /// All its tags.
    pub tags: Option<Vec<Label>>,
    /// From when on it is not found any more; `Some(None)` for never.
    pub expires_at: Option<Option<Timestamp>>,
    /// The text that says it better; `Some(None)` has it hold again.
    pub superseded_by: Option<Option<ChunkId>>,
    /// The version the caller has seen; another one refuses the change.
    pub version: Option<Version>,
}

/// The summary of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Of which project.
    pub project: Slug,
    /// The id that the caller gave the session.
    pub id: SessionId,
    /// What happened in short.
    pub summary: Body,
    /// What happened in turn, at most [`NewSession::MAX_EVENTS`]; none keeps those that are there.
    pub events: Vec<NewSessionEvent>,
    /// When it began; if not said, what is known of it already and its first event tell.
    pub started_at: Option<Timestamp>,
    /// When it ended; if not said, its last event tells, else it ends now.
    pub ended_at: Option<Timestamp>,
    /// Nobody wrote it: it was made of hook events, and goes first where there is no room.
    pub from_hooks: bool,
}

/// One thing that happened in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSessionEvent {
    /// What sort of thing.
    pub kind: Label,
    /// What happened.
    pub summary: Body,
    /// When; now, if not said.
    pub at: Option<Timestamp>,
}

/// An event that a coding agent's hook reports.
#[derive(Debug, Clone, PartialEq)]
pub struct NewHookEvent {
    /// What sort of event.
    pub event_type: Label,
    /// The agent's own session.
    pub session_id: Option<Label>,
    /// The tool that was used.
    pub tool_name: Option<Label>,
    /// What sort of agent.
    pub agent_type: Option<Label>,
    /// What else was reported; masked and cut before it is kept.
    pub data: Option<serde_json::Value>,
}

impl NewChunk {
    /// The most bytes of a remembered text.
    pub const MAX_BYTES: usize = 64 * 1024;
    /// The most bytes of its summary.
    pub const MAX_SUMMARY_BYTES: usize = 4 * 1024;
    /// The most tags.
    pub const MAX_TAGS: usize = 32;
    /// The most texts that one supersedes at once.
    pub const MAX_SUPERSEDED: usize = 32;

    /// A text with nothing but itself.
    #[must_use]
    pub fn of(project: Slug, content: Body) -> Self {
        Self {
            project,
            content,
            summary: Body::default(),
            source: None,
            source_id: None,
            tags: Vec::new(),
            created_at: None,
            expires_at: None,
            supersedes: Vec::new(),
        }
    }
}

impl ChunkPatch {
    /// A patch that changes nothing yet.
    #[must_use]
    pub const fn of(project: Slug, id: ChunkId) -> Self {
        Self {
            project,
            id,
            content: None,
            summary: None,
            source: None,
            source_id: None,
            tags: None,
            expires_at: None,
            superseded_by: None,
            version: None,
        }
    }
}

impl NewSession {
    /// The most bytes of the summary of a session.
    pub const MAX_SUMMARY_BYTES: usize = 64 * 1024;
    /// The most events of a session.
    pub const MAX_EVENTS: usize = 1_000;
    /// The most bytes of the summary of an event.
    pub const MAX_EVENT_BYTES: usize = 4 * 1024;
}

/// What came of an action.
#[derive(Debug, Clone, Default)]
pub struct Receipt {
    /// What happened, in order; empty when nothing changed.
    pub events: Vec<Event>,
    /// The issues it was about, as they are after it: made or changed first.
    pub issues: Vec<IssueRecord>,
    /// The project it was about, as it is after it.
    pub project: Option<ProjectRecord>,
    /// What was found for [`Command::ClaimNext`], as it was before the claim.
    pub next: Option<NextTask>,
    /// What else was made.
    pub made: Made,
}

/// What an action made beside issues and projects.
#[derive(Debug, Clone, Default)]
pub enum Made {
    /// Nothing.
    #[default]
    Nothing,
    /// A remembered text.
    Chunk {
        /// As it is now.
        chunk: Chunk,
        /// Whether the same text was there and has been merged with this one.
        merged: bool,
    },
    /// A remembered text was forgotten.
    Forgotten(ChunkId),
    /// A session was forgotten.
    SessionForgotten(SessionId),
    /// A part of the full-text index was made anew.
    Reindexed(Reindexed),
    /// A session.
    Session(SessionRecord),
    /// A plan, without its text.
    Plan(PlanRecord),
    /// A hook event.
    HookEvent(HookEventRecord),
    /// The status page.
    Readme {
        /// How long it is.
        bytes: u64,
    },
    /// A document was written.
    Document {
        /// Its version now.
        version: i64,
    },
    /// A document was deleted.
    DocumentDeleted {
        /// Whether it was there.
        was_there: bool,
    },
    /// A logged request.
    Request(Request),
    /// The usage session that an entry was counted in, or that was ended.
    Usage(UsageSession),
}

/// The answer to an action, once it is durable. Dropping it does not undo the action.
#[derive(Debug)]
pub struct Submission(oneshot::Receiver<Result<Receipt, ActionError>>);

impl Submission {
    pub(crate) const fn new(answer: oneshot::Receiver<Result<Receipt, ActionError>>) -> Self {
        Self(answer)
    }

    pub(crate) fn refused(error: ActionError) -> Self {
        let (sender, answer) = oneshot::channel();
        // The receiver is right here.
        let _ = sender.send(Err(error));
        Self(answer)
    }
}

impl Future for Submission {
    type Output = Result<Receipt, ActionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.0).poll(cx);
        answer.map(|answer| answer.unwrap_or_else(|_| Err(Fault::Closed.into())))
    }
}
