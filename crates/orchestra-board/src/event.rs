//! What happened: the durable effect of a command.

use crate::{
    AgentName, Body, Issue, IssueId, Label, OwnState, PrdOrigin, PrdSession, Priority, Project,
    RequestKind, Slug, Source, State, Timestamp, Title, Uid, UsageEntry,
};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// In which project; `None` for what concerns the workspace.
    pub project: Option<Slug>,
    /// To which issue, if to one.
    pub issue: Option<IssueId>,
    /// Who did it, if they said.
    pub agent: Option<AgentName>,
    /// How it came in.
    pub source: Source,
    /// What changed.
    pub change: Change,
    /// Its identity as a line of an issue's history; `None` until it is stored.
    pub uid: Option<Uid>,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A project was made.
    ProjectCreated(Box<Project>),
    /// A project got another name.
    ProjectRenamed {
        /// The new name.
        name: Title,
    },
    /// A project and everything in it was deleted.
    ProjectDeleted,
    /// An issue was made.
    IssueCreated(Box<Issue>),
    /// A field of an issue was changed.
    Edited(Edit),
    /// An issue got another parent.
    Moved {
        /// The new parent.
        to: IssueId,
    },
    /// An issue moved to another state.
    StateChanged {
        /// From where.
        from: State,
        /// To where.
        to: State,
        /// Why.
        cause: Cause,
        /// What was shown at a gate.
        evidence: Option<Body>,
        /// What the one who moved it said.
        reason: Option<Body>,
    },
    /// A parent's own state was set by hand.
    OwnStateChanged {
        /// The new own state.
        own: OwnState,
    },
    /// Somebody took or renewed a lease on the issue.
    Claimed {
        /// Who.
        agent: AgentName,
        /// Until when.
        until: Timestamp,
    },
    /// A lease was given up.
    Released {
        /// Who held it.
        agent: AgentName,
    },
    /// The issue now waits for another.
    DependencyAdded {
        /// The other.
        on: IssueId,
    },
    /// The issue no longer waits for another.
    DependencyRemoved {
        /// The other.
        on: IssueId,
    },
    /// Somebody said something about the issue.
    Commented {
        /// What.
        text: Body,
    },
    /// The issue and everything below it was deleted.
    IssueDeleted,
    /// `prd.md` was written.
    PrdWritten {
        /// The whole text.
        content: String,
        /// Where it came from.
        origin: PrdOrigin,
    },
    /// The PRD questionnaire moved on, or was dropped.
    PrdSession(Option<Box<PrdSession>>),
    /// A request was logged.
    RequestLogged(Box<Request>),
    /// Tokens were used.
    UsageRecorded(UsageEntry),
    /// The open usage session was ended.
    UsageSessionEnded,
}

/// One changed field of an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the fields' own")]
pub enum Edit {
    Title(Title),
    Description(Body),
    Priority(Option<Priority>),
    Assignees(Vec<AgentName>),
    Labels(Vec<Label>),
}

/// Why an issue moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Somebody moved it.
    Command,
    /// It follows its children.
    Children,
    /// This ancestor was cancelled.
    CancelledWith(IssueId),
    /// The cancellation of an ancestor was undone.
    Restored,
}

/// A logged request: a wish, a remark, a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `n` of `REQ-{n}`.
    pub number: u64,
    /// What it is.
    pub kind: RequestKind,
    /// What it says.
    pub description: Body,
    /// Where it stands.
    pub status: RequestStatus,
    /// When it was logged.
    pub at: Timestamp,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RequestStatus {
    /// Nobody has looked at it.
    #[default]
    New,
}

impl RequestStatus {
    /// The status's name on the wire and in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
        }
    }

    /// Parses a status's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text == Self::New.as_str()).then_some(Self::New)
    }
}

impl Edit {
    /// The field's name on the wire and in files.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Title(_) => "title",
            Self::Description(_) => "description",
            Self::Priority(_) => "priority",
            Self::Assignees(_) => "assignees",
            Self::Labels(_) => "labels",
        }
    }
}
