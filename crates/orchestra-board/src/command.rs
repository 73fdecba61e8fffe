//! What a caller wants changed. Every field is parsed already, so that a command cannot hold an
//! invalid value; whether it is allowed is for [`decide`](crate::decide) to say.

use crate::{
    AgentName, Body, Issue, IssueId, Kind, Label, Priority, Slug, State, Timestamp, Title,
    UsageEntry, Version,
};

/// Who commands, when, and by which way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Now.
    pub now: Timestamp,
    /// Who, if they said.
    pub agent: Option<AgentName>,
    /// How the command came in.
    pub source: Source,
}

/// How a command came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A tool call.
    Tool,
    /// A readable file that a person or git changed. Files speak for themselves: neither gates nor
    /// claims nor the table of moves hold them up.
    File,
    /// The import of another program's data.
    Import,
}

/// An issue as a caller names it; ancestors that are given must be the right ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueRef {
    /// The project.
    pub project: Slug,
    /// The issue.
    pub id: IssueId,
    /// The epic above it, if the caller said which.
    pub epic: Option<IssueId>,
    /// The story above it, if the caller said which.
    pub story: Option<IssueId>,
}

/// What is shown at a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence(Body);

impl Evidence {
    /// The fewest characters that count as evidence, white space at both ends not counted.
    pub const MIN_CHARS: usize = 10;

    /// Takes text as evidence; `None` when it is too short to be any.
    #[must_use]
    pub fn of(text: &Body) -> Option<Self> {
        let trimmed = Body::parse(text.as_str().trim()).expect("a part of a body is a body");
        (trimmed.as_str().chars().count() >= Self::MIN_CHARS).then_some(Self(trimmed))
    }

    /// The text.
    #[must_use]
    pub const fn text(&self) -> &Body {
        &self.0
    }
}

/// A project to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProject {
    /// Name.
    pub name: Title,
    /// Description.
    pub description: Body,
}

/// An issue to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIssue {
    /// What it is.
    pub kind: Kind,
    /// The epic of a story, the story of a task; `None` for an epic.
    pub parent: Option<IssueId>,
    /// The epic above the parent, if the caller said which.
    pub epic: Option<IssueId>,
    /// Title.
    pub title: Title,
    /// Description.
    pub description: Body,
    /// Priority.
    pub priority: Option<Priority>,
    /// Who is to work on it.
    pub assignees: Vec<AgentName>,
    /// Labels.
    pub labels: Vec<Label>,
    /// What must be final before.
    pub depends_on: Vec<IssueId>,
}

/// Changes of an issue's fields; `None` leaves a field as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IssuePatch {
    /// New title.
    pub title: Option<Title>,
    /// New description; empty removes it.
    pub description: Option<Body>,
    /// New priority; `Some(None)` removes it.
    pub priority: Option<Option<Priority>>,
    /// New state.
    pub state: Option<State>,
    /// New assignees, all of them.
    pub assignees: Option<Vec<AgentName>>,
    /// New labels, all of them.
    pub labels: Option<Vec<Label>>,
}

/// A request to be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRequest {
    /// What it is.
    pub kind: RequestKind,
    /// What it says.
    pub description: Body,
}

/// What a logged request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RequestKind {
    Feature,
    Bug,
    Improvement,
    Question,
}

impl RequestKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Feature, Self::Bug, Self::Improvement, Self::Question];

    /// The kind's name on the wire and in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Feature => "feature",
            Self::Bug => "bug",
            Self::Improvement => "improvement",
            Self::Question => "question",
        }
    }

    /// Parses a kind's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A step in the PRD questionnaire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrdMove {
    /// Begin; `restart` drops a session that is there.
    Start {
        /// Whether a session that is there may be dropped.
        restart: bool,
    },
    /// Answer the current question.
    Answer {
        /// The answer.
        text: Body,
        /// Whether completing may replace a `prd.md` that somebody wrote.
        overwrite: bool,
    },
    /// Skip the current question, which must be optional.
    Skip {
        /// Whether completing may replace a `prd.md` that somebody wrote.
        overwrite: bool,
    },
    /// Go back to the previous question.
    Back,
    /// Drop the session.
    Abandon,
    /// Split a complete PRD into phases, each a project of its own.
    Split {
        /// The phases' names, in order.
        phases: Vec<Title>,
    },
}

/// What a caller wants changed on the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Make a project.
    CreateProject(NewProject),
    /// Give a project another name; slug and key stay.
    RenameProject {
        /// Which.
        project: Slug,
        /// The new name.
        name: Title,
    },
    /// Delete a project and everything in it.
    DeleteProject {
        /// Which.
        project: Slug,
    },
    /// Replace the text of `prd.md`.
    WritePrd {
        /// Which project's.
        project: Slug,
        /// The whole text.
        content: String,
    },
    /// Move on in the PRD questionnaire.
    Prd {
        /// Which project's.
        project: Slug,
        /// The step.
        step: PrdMove,
    },
    /// Make an issue.
    CreateIssue {
        /// In which project.
        project: Slug,
        /// The issue.
        issue: NewIssue,
    },
    /// Make a bug under a story, with an id of the `BUG-` series, ready to be started.
    ReportBug {
        /// In which project.
        project: Slug,
        /// The bug; its kind is [`Kind::Bug`].
        issue: NewIssue,
    },
    /// Change fields of an issue.
    UpdateIssue {
        /// Which.
        target: IssueRef,
        /// What.
        patch: IssuePatch,
        /// What is shown at a gate, should the change of state pass one.
        evidence: Option<Body>,
        /// The version the caller has seen; another one refuses the change.
        version: Option<Version>,
    },
    /// Start work on a task; with an agent, claim it as well.
    StartTask {
        /// Which.
        target: IssueRef,
    },
    /// Finish the implementation of a task: in-progress → ready-for-testing.
    CompleteTask {
        /// Which.
        target: IssueRef,
        /// What is shown at the gate.
        evidence: Option<Body>,
    },
    /// Move a task one step along the happy path.
    AdvanceTask {
        /// Which.
        target: IssueRef,
        /// What is shown at the gate, where there is one.
        evidence: Option<Body>,
    },
    /// Reject a task in review and make a bug that fixes it.
    RejectTask {
        /// Which.
        target: IssueRef,
        /// Why.
        reason: Option<Body>,
    },
    /// Give an issue another parent.
    MoveIssue {
        /// Which.
        target: IssueRef,
        /// The new parent.
        to: IssueId,
    },
    /// Delete an issue and everything below it.
    DeleteIssue {
        /// Which.
        target: IssueRef,
        /// What the caller takes it for: an epic, a story, or `Task` for any task.
        expected: Kind,
    },
    /// Take or renew a lease.
    Claim {
        /// Which.
        target: IssueRef,
        /// Who takes it.
        agent: AgentName,
    },
    /// Give up a lease.
    Release {
        /// Which.
        target: IssueRef,
        /// Who gives it up; without a name, whoever holds it loses it only if it has ended.
        agent: Option<AgentName>,
    },
    /// Claim the next task that is free for `agent`.
    ClaimNext {
        /// In which project.
        project: Slug,
        /// For whom.
        agent: AgentName,
    },
    /// Let an issue wait for another.
    AddDependency {
        /// Which waits.
        target: IssueRef,
        /// For which.
        on: IssueId,
    },
    /// Let an issue no longer wait for another.
    RemoveDependency {
        /// Which waited.
        target: IssueRef,
        /// For which.
        on: IssueId,
    },
    /// Say something about an issue.
    Comment {
        /// Which.
        target: IssueRef,
        /// What.
        text: Body,
    },
    /// Log a request.
    LogRequest {
        /// In which project.
        project: Slug,
        /// The request.
        request: NewRequest,
    },
    /// Count tokens of the open usage session, or of a new one.
    RecordUsage(UsageEntry),
    /// End the open usage session.
    EndUsageSession,
    /// Make the issue that a file describes, or make it what the file says.
    PutIssue(Box<Issue>),
}

impl IssueRef {
    /// An issue by its id alone.
    #[must_use]
    pub const fn new(project: Slug, id: IssueId) -> Self {
        Self {
            project,
            id,
            epic: None,
            story: None,
        }
    }
}
