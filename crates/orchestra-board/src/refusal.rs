//! Why a command is refused; every text says what to do instead.

use crate::{AgentName, Gate, Issue, IssueId, Kind, Slug, State, Timestamp, Version, ViewError};

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The command is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What is stored could not be read.
    #[error("cannot read the board")]
    View(#[source] ViewError),
}

impl From<ViewError> for DecideError {
    fn from(error: ViewError) -> Self {
        Self::View(error)
    }
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each says what its fields are")]
pub enum Refusal {
    #[error("project `{project}` not found; list_projects shows the projects")]
    NoProject { project: Slug },
    #[error("project `{slug}` exists already; choose another name")]
    ProjectExists { slug: Slug },
    #[error(
        "{kind} {id} not found in project `{project}`; search or list_tasks lists the existing ones"
    )]
    NoIssue {
        kind: &'static str,
        id: IssueId,
        project: Slug,
    },
    #[error("{id} is {}, not {}", with_article(.kind.as_str()), with_article(.expected))]
    WrongKind {
        id: IssueId,
        kind: Kind,
        expected: &'static str,
    },
    #[error("{id} belongs to {what} {actual}, not {given}")]
    WrongParent {
        id: IssueId,
        what: &'static str,
        given: IssueId,
        actual: IssueId,
    },
    #[error("{id} is {from} and cannot become {to}; it can become {}{}", list(.from.exits()), next_step(*.from, *.to))]
    BadMove { id: IssueId, from: State, to: State },
    #[error("{id} is {state}; advance_task moves a task from in-progress to done: {}", start_hint(*.state))]
    NoNext { id: IssueId, state: State },
    #[error("GATE BLOCKED: {gate}: leaving {from} needs evidence of at least 10 characters: {}", .gate.asks_for())]
    GateBlocked { gate: Gate, from: State },
    #[error(
        "the state of {id} ({state}) follows from its children; change the children instead. You can only cancel {id}, or move it between backlog and todo before a child starts"
    )]
    FollowsChildren { id: IssueId, state: State },
    #[error(
        "{id} is claimed by {holder} until {until}; wait, choose another task, or ask {holder} to release it"
    )]
    Claimed {
        id: IssueId,
        holder: AgentName,
        until: Timestamp,
    },
    #[error("{id} is not claimed")]
    NotClaimed { id: IssueId },
    #[error("{id} is {state}; only unfinished work can be claimed")]
    NothingToClaim { id: IssueId, state: State },
    #[error("{id} has changed: its version is {actual}, not {given}; read it again")]
    VersionMismatch {
        id: IssueId,
        given: Version,
        actual: Version,
    },
    #[error("{id} cannot depend on {on}: the dependencies would form the cycle {}", circle(.path))]
    Circle {
        id: IssueId,
        on: IssueId,
        path: Vec<IssueId>,
    },
    #[error("{id} does not depend on {on}")]
    NoDependency { id: IssueId, on: IssueId },
    #[error("too many {what}: at most {limit} are allowed")]
    TooMany { what: &'static str, limit: usize },
    #[error("nothing to change; give at least one field")]
    NothingToChange,
    #[error("no PRD session in project `{project}`; begin with start_prd_session")]
    NoPrdSession { project: Slug },
    #[error(
        "a PRD session is in progress in project `{project}`; continue it with answer_prd_question, or pass restart to discard its answers"
    )]
    PrdUnderWay { project: Slug },
    #[error(
        "the PRD session is complete; reopen it with back_prd_question, or start a new one with start_prd_session and restart"
    )]
    PrdComplete,
    #[error("the question `{key}` is required; answer it")]
    AnswerRequired { key: &'static str },
    #[error("this is the first question")]
    FirstQuestion,
    #[error(
        "prd.md was written outside of this PRD session and would be replaced; pass overwrite to replace it, or edit it with write_prd"
    )]
    PrdWouldBeReplaced,
    #[error("the PRD session is not complete; answer all questions before splitting it")]
    PrdNotComplete,
    #[error("the number of phases must be from 2 to 20")]
    PhaseCount,
    #[error("the PRD is split already; delete the projects of its phases first: {}", .phases.iter().map(Slug::as_str).collect::<Vec<_>>().join(", "))]
    SplitAlready { phases: Vec<Slug> },
    #[error(
        "no slugs for phases can be derived from the project slug `{project}`, because it is too long; use a project with a shorter slug"
    )]
    PhaseSlugTooLong { project: Slug },
    #[error("all keys for this name are taken; choose another name")]
    NoKeyLeft,
    #[error("the file lists {id} twice, or as its own child")]
    ImpossibleParent { id: IssueId },
}

impl Refusal {
    pub(crate) fn no_issue(kind: &'static str, project: &Slug, id: &IssueId) -> Self {
        Self::NoIssue {
            kind,
            id: id.clone(),
            project: project.clone(),
        }
    }

    pub(crate) fn wrong_kind(issue: &Issue, expected: &'static str) -> Self {
        Self::WrongKind {
            id: issue.id.clone(),
            kind: issue.kind,
            expected,
        }
    }
}

/// `a task`, `an epic`.
fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {noun}")
}

fn list(states: &[State]) -> String {
    states
        .iter()
        .map(|state| state.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

/// The first step of a task from one state towards another.
fn next_step(from: State, to: State) -> String {
    if (from, to) == (State::InProgress, State::InProgress) {
        return "; to work on it, call claim_task with your name as `agent`".to_owned();
    }
    let exits = from.exits();
    let between = exits.iter().find(|exit| exit.can_become(to));
    match between.or_else(|| exits.first()) {
        Some(next) if from != to => format!("; first call update_task with status {next}"),
        _ => String::new(),
    }
}

fn circle(path: &[IssueId]) -> String {
    path.iter()
        .map(IssueId::to_string)
        .collect::<Vec<_>>()
        .join(" → ")
}

fn start_hint(state: State) -> &'static str {
    match state {
        State::Backlog => "first update_task to status todo, then set_current_task",
        State::Todo | State::Blocked => "first start it with set_current_task",
        State::Done | State::Rejected => "it is over; reopen it with update_task to status todo",
        State::Cancelled => "it is over; reopen it with update_task to status backlog",
        _ => "it can move on",
    }
}
