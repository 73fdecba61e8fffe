//! What callers ask the writer to do, and what they get back.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use orchestra_board::{
    Body, Command, Event, IssueId, Label, NextTask, Request, SessionId, Slug, Timestamp, Title,
    UsageSession,
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
    /// Remember a text. The same text again is merged with what is there.
    SaveMemory(NewChunk),
    /// Forget a remembered text.
    ForgetMemory {
        /// Of which project.
        project: Slug,
        /// Which.
        id: ChunkId,
    },
    /// Keep the summary of a session; a later one of the same id replaces summary and events.
    SaveSession(NewSession),
    /// Keep a plan; one of the same title is replaced.
    SavePlan {
        /// In which project.
        project: Slug,
        /// Its title.
        title: Title,
        /// Its text.
        content: Body,
        /// The issue it is about.
        issue: Option<IssueId>,
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
