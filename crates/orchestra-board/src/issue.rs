//! An issue: an epic, a story or a task, and how an event changes it.

use std::fmt;

use crate::digest::Digest;
use crate::{
    AgentName, Body, Cause, Change, Edit, IssueId, Label, OwnState, Slug, State, Timestamp, Title,
    Uid,
};

/// What an issue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Holds stories.
    Epic,
    /// Holds tasks, bugs and hotfixes.
    Story,
    /// Work that was planned.
    Task,
    /// Something broken.
    Bug,
    /// Something broken that cannot wait.
    Hotfix,
}

/// How much an issue matters; one without a priority counts as medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Priority {
    Low,
    Medium,
    High,
    Critical,
}

/// A lease on an issue: until it ends, only its holder moves the issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who holds it.
    pub agent: AgentName,
    /// When it ends, judged when it is read.
    pub until: Timestamp,
}

/// A fingerprint of what an issue says: 16 hexadecimal digits. Two issues that say the same have
/// the same version; times and claims do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(u64);

/// An epic, story, task, bug or hotfix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The project it belongs to.
    pub project: Slug,
    /// Its id.
    pub id: IssueId,
    /// Its identity, which stays when its id changes; `None` until the issue is stored.
    pub uid: Option<Uid>,
    /// What it is.
    pub kind: Kind,
    /// The epic of a story, the story of a task; `None` for an epic.
    pub parent: Option<IssueId>,
    /// Title.
    pub title: Title,
    /// Description; a story's user story.
    pub description: Body,
    /// Priority.
    pub priority: Option<Priority>,
    /// Where it stands. For an epic or a story this follows from its children.
    pub state: State,
    /// What an epic or story is by itself, while its children do not decide.
    pub own: OwnState,
    /// The ancestor whose cancellation took this issue along.
    pub cancelled_with: Option<IssueId>,
    /// The rejected task that this bug is to fix.
    pub fixes: Option<IssueId>,
    /// Who is to work on it, in the order they were given.
    pub assignees: Vec<AgentName>,
    /// Labels, in the order they were given.
    pub labels: Vec<Label>,
    /// The issues that must be final before this one is offered as next, ascending.
    pub depends_on: Vec<IssueId>,
    /// The latest claim, live or not.
    pub claim: Option<Claim>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Epic, Self::Story, Self::Task, Self::Bug, Self::Hotfix];

    /// The kind's name on the wire and in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Epic => "epic",
            Self::Story => "story",
            Self::Task => "task",
            Self::Bug => "bug",
            Self::Hotfix => "hotfix",
        }
    }

    /// Parses a kind's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Whether it is work itself and not a parent of work.
    #[must_use]
    pub const fn is_leaf(self) -> bool {
        matches!(self, Self::Task | Self::Bug | Self::Hotfix)
    }

    /// The kind its parent must have; `None` for an epic.
    #[must_use]
    pub const fn parent_kind(self) -> Option<Self> {
        match self {
            Self::Epic => None,
            Self::Story => Some(Self::Epic),
            Self::Task | Self::Bug | Self::Hotfix => Some(Self::Story),
        }
    }
}

impl Priority {
    /// All priorities, lowest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The priority's name on the wire and in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// Parses a priority's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|priority| priority.as_str() == text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Claim {
    /// Whether the claim holds at `now`.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

impl Version {
    /// The fingerprint of what these texts say, one after the other.
    #[must_use]
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self(u64::from_be_bytes(Digest::of(texts).head()))
    }

    /// Parses 16 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let legal = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        legal
            .then(|| u64::from_str_radix(text, 16).ok().map(Self))
            .flatten()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where a task stands in the queue of `get_next_task`: the smaller, the sooner; `None` when it is
/// not offered (in the backlog, blocked or final).
///
/// By kind (hotfix, bug, task), then by priority, then what is furthest along, so that work is
/// finished before new work starts. Equal ranks are ordered by id.
#[must_use]
pub fn rank(kind: Kind, priority: Option<Priority>, state: State) -> Option<u16> {
    let by_kind = match kind {
        Kind::Hotfix => 0,
        Kind::Bug => 1,
        Kind::Task => 2,
        Kind::Epic | Kind::Story => return None,
    };
    let by_priority = match priority.unwrap_or(Priority::Medium) {
        Priority::Critical => 0,
        Priority::High => 1,
        Priority::Medium => 2,
        Priority::Low => 3,
    };
    let by_state = match state {
        State::InReview => 0,
        State::Documented => 1,
        State::InDocs => 2,
        State::ReadyForDocs => 3,
        State::InTesting => 4,
        State::ReadyForTesting => 5,
        State::InProgress => 6,
        State::Todo => 7,
        State::Backlog | State::Blocked | State::Done | State::Rejected | State::Cancelled => {
            return None;
        }
    };
    Some(by_kind * 100 + by_priority * 10 + by_state)
}

impl Issue {
    /// The claim, if somebody other than `agent` holds it at `now`.
    #[must_use]
    pub fn foreign_claim(&self, agent: Option<&AgentName>, now: Timestamp) -> Option<&Claim> {
        self.claim
            .as_ref()
            .filter(|claim| claim.is_live(now) && Some(&claim.agent) != agent)
    }

    /// The fingerprint of what this issue says.
    #[must_use]
    pub fn version(&self) -> Version {
        let mut digest = Digest::default();
        let mut field = |text: &str| digest.add(text);
        field(&self.id.to_string());
        field(self.kind.as_str());
        field(
            &self
                .parent
                .as_ref()
                .map(IssueId::to_string)
                .unwrap_or_default(),
        );
        field(self.title.as_str());
        field(self.description.as_str());
        field(self.priority.map_or("", Priority::as_str));
        field(self.state.as_str());
        field(&self.assignees.len().to_string());
        self.assignees
            .iter()
            .for_each(|agent| field(agent.as_str()));
        field(&self.labels.len().to_string());
        self.labels.iter().for_each(|label| field(label.as_str()));
        self.depends_on.iter().for_each(|id| field(&id.to_string()));
        Version(u64::from_be_bytes(digest.head()))
    }

    /// Applies what happened to this issue at `at`. Changes of other things leave it as it is.
    pub fn apply(&mut self, change: &Change, at: Timestamp) {
        match change {
            Change::Edited(edit) => self.edit(edit),
            Change::Moved { to } => self.parent = Some(to.clone()),
            Change::StateChanged { to, cause, .. } => {
                self.state = *to;
                self.cancelled_with = match cause {
                    Cause::CancelledWith(ancestor) => Some(ancestor.clone()),
                    _ => None,
                };
                if to.is_final() {
                    self.claim = None;
                }
            }
            Change::OwnStateChanged { own } => self.own = *own,
            Change::Claimed { agent, until } => {
                self.claim = Some(Claim {
                    agent: agent.clone(),
                    until: *until,
                });
                return;
            }
            Change::Released { .. } => {
                self.claim = None;
                return;
            }
            Change::DependencyAdded { on } => {
                if let Err(at) = self.depends_on.binary_search(on) {
                    self.depends_on.insert(at, on.clone());
                }
            }
            Change::DependencyRemoved { on } => self.depends_on.retain(|id| id != on),
            _ => return,
        }
        self.updated_at = Some(at);
    }

    fn edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Title(title) => self.title = title.clone(),
            Edit::Description(description) => self.description = description.clone(),
            Edit::Priority(priority) => self.priority = *priority,
            Edit::Assignees(assignees) => self.assignees.clone_from(assignees),
            Edit::Labels(labels) => self.labels.clone_from(labels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Priority, Version, rank};
    use crate::State;

    #[test]
    fn rank_puts_kind_before_priority_before_progress() {
        let order = [
            rank(Kind::Hotfix, Some(Priority::Low), State::Todo),
            rank(Kind::Bug, Some(Priority::Critical), State::Todo),
            rank(Kind::Task, Some(Priority::High), State::Todo),
            rank(Kind::Task, None, State::InReview),
            rank(Kind::Task, Some(Priority::Medium), State::InProgress),
            rank(Kind::Task, None, State::Todo),
        ];
        assert!(order.is_sorted() && order.iter().all(Option::is_some));
        assert_eq!(rank(Kind::Task, None, State::Backlog), None);
        assert_eq!(rank(Kind::Story, None, State::Todo), None);
    }

    #[test]
    fn versions_are_16_hexadecimal_digits() {
        assert_eq!(
            Version::parse("00000000000000ff")
                .map(|v| v.to_string())
                .as_deref(),
            Some("00000000000000ff")
        );
        assert_eq!(Version::parse("+0000000000000ff"), None);
        assert_eq!(Version::parse("ff"), None);
    }
}
