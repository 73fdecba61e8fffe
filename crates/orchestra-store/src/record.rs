//! What reading answers: stored things with what belongs to them.

use std::fmt;

use orchestra_board::{
    AgentName, Body, Cost, Issue, IssueId, Kind, Label, PlanId, PrdStatus, Project, SessionId,
    Slug, State, Timestamp, Title, UsageOf, UsageSession, UsageTotals, Version,
};

/// An issue with its full address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueRecord {
    /// The issue.
    pub issue: Issue,
    /// The epic above it; `None` for an epic.
    pub epic: Option<IssueId>,
    /// The story above it; `None` for an epic or a story.
    pub story: Option<IssueId>,
    /// How many children it has.
    pub children: u64,
}

/// A project with what is in it, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRecord {
    /// The project.
    pub project: Project,
    /// Its issues, counted.
    pub census: Census,
}

/// How many issues of each kind are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census([[u64; State::ALL.len()]; Kind::ALL.len()]);

/// Which issues are wanted; what is left empty does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IssueFilter {
    /// Of one of these kinds.
    pub kinds: Vec<Kind>,
    /// In one of these states.
    pub states: Vec<State>,
    /// Directly below this issue.
    pub parent: Option<IssueId>,
    /// Anywhere below this epic.
    pub epic: Option<IssueId>,
    /// To be worked on by this one.
    pub assignee: Option<AgentName>,
    /// With this label.
    pub label: Option<Label>,
    /// Waiting for others, or not.
    pub waiting: Waiting,
}

/// Whether an issue waits for others that are not final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Waiting {
    /// Either.
    #[default]
    Any,
    /// Only those that wait.
    Waiting,
    /// Only those that do not.
    Free,
}

/// The task that comes next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NextRecord {
    /// The task; `None` when nothing can be worked on.
    pub task: Option<IssueRecord>,
    /// How many tasks before it are claimed by others.
    pub claimed: u64,
    /// How many tasks before it wait for others.
    pub waiting: u64,
}

/// A phase that a PRD was split into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseRecord {
    /// The slug of its project.
    pub slug: Slug,
    /// Which phase, from 1.
    pub number: u32,
    /// The name of its project; `None` when that was deleted.
    pub name: Option<Title>,
    /// Where its questionnaire stands; `None` when there is none.
    pub status: Option<PrdStatus>,
}

/// Text that is not the id of a remembered text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a memory, such as mem-3; search_memory shows the ids")]
pub struct ChunkIdError;

/// The id of a remembered text, `mem-{n}`; unique in its project and never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId(u64);

/// A remembered text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its id.
    pub id: ChunkId,
    /// Of which project.
    pub project: Slug,
    /// The text.
    pub content: Body,
    /// What it says in short.
    pub summary: Body,
    /// Where it is from.
    pub source: Option<Label>,
    /// Which one of those.
    pub source_id: Option<Label>,
    /// Tags, in the order they were given.
    pub tags: Vec<Label>,
    /// When it was first remembered.
    pub created_at: Timestamp,
    /// When it was last changed by hand; `None` when it never was.
    pub updated_at: Option<Timestamp>,
    /// From when on it is not found any more and may be removed; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// The text that says it better; as long as that one is remembered, this one is not found.
    pub superseded_by: Option<ChunkId>,
}

/// Which remembered texts a list shows; what is left empty does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChunkFilter {
    /// In which part of their life they are.
    pub life: Life,
    /// From there.
    pub source: Option<Label>,
    /// With this tag.
    pub tag: Option<Label>,
}

/// The part of its life that a remembered text is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Life {
    /// It holds, and is found.
    #[default]
    Current,
    /// Another text says it better.
    Superseded,
    /// Its time is over.
    Expired,
    /// Any.
    Any,
}

/// How much a project remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemorySize {
    /// Remembered texts.
    pub chunks: u64,
    /// What they and their summaries come to, in bytes.
    pub chunk_bytes: u64,
    /// Those of them that others supersede.
    pub superseded: u64,
    /// Those of them whose time is over.
    pub expired: u64,
    /// Sessions.
    pub sessions: u64,
    /// What they come to, in bytes.
    pub session_bytes: u64,
}

/// Something found, and how well it fits: more is better, and only the order means anything.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit<T> {
    /// What was found.
    pub item: T,
    /// How well it fits.
    pub score: f64,
}

/// Something remembered: a text or a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextItem {
    /// A remembered text.
    Chunk(Chunk),
    /// A session.
    Session(SessionRecord),
}

/// A session of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Of which project.
    pub project: Slug,
    /// The id that its caller gave it.
    pub id: SessionId,
    /// What happened in short.
    pub summary: Body,
    /// What happened in turn.
    pub events: Vec<SessionEvent>,
    /// When it began: as its caller said, else its first event or the time of saving.
    pub started_at: Timestamp,
    /// When it ended: as its caller said, else its last event or the time of saving.
    pub ended_at: Timestamp,
    /// Whether its summary was made of hook events, because nobody has saved one.
    pub from_hooks: bool,
}

/// One thing that happened in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEvent {
    /// What sort of thing.
    pub kind: Label,
    /// What happened.
    pub summary: Body,
    /// When.
    pub at: Timestamp,
}

/// A saved plan, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRecord {
    /// In which project.
    pub project: Slug,
    /// Its name, also that of its file without `.md`.
    pub id: PlanId,
    /// Its title.
    pub title: Title,
    /// The issue it is about.
    pub issue: Option<IssueId>,
    /// When it was first saved.
    pub created_at: Timestamp,
    /// When it was last saved again.
    pub updated_at: Option<Timestamp>,
}

/// A kept hook event.
#[derive(Debug, Clone, PartialEq)]
pub struct HookEventRecord {
    /// Its number, rising in the order of arrival.
    pub number: u64,
    /// What sort of event.
    pub event_type: Label,
    /// The agent's own session.
    pub session_id: Option<Label>,
    /// The tool that was used.
    pub tool_name: Option<Label>,
    /// What sort of agent.
    pub agent_type: Option<Label>,
    /// What else was reported, masked and cut.
    pub data: Option<serde_json::Value>,
    /// When it arrived.
    pub at: Timestamp,
}

/// What models cost in this workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageRecord {
    /// The sums of everything ever recorded.
    pub totals: UsageTotals,
    /// The latest sessions, newest first.
    pub sessions: Vec<UsageSessionRecord>,
    /// The sums of each project that something was recorded for, that of its issues included; in files
    /// each followed by those of its issues. In the order of their names.
    pub of: Vec<UsageOfRecord>,
    /// What was used by day; in files alone.
    pub days: Vec<UsageDay>,
}

/// What was used of a model on a day, for a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageDay {
    /// In UTC, as `2026-02-14`.
    pub day: String,
    /// Who runs the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The project that was named, if one was.
    pub project: Option<Slug>,
    /// The sums.
    pub sums: UsageSums,
}

/// The sums of what was recorded for a project, or for an issue of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageOfRecord {
    /// The project or issue.
    pub of: UsageOf,
    /// Its sums.
    pub sums: UsageSums,
}

/// How much was used for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSums {
    /// How many requests to models.
    pub requests: u64,
    /// Their sums.
    pub totals: UsageTotals,
}

/// A usage session with its latest requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSessionRecord {
    /// The session.
    pub session: UsageSession,
    /// Its latest requests, oldest first.
    pub requests: Vec<UsageRequest>,
}

/// One recorded request to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageRequest {
    /// When it was recorded.
    pub at: Timestamp,
    /// Tokens in.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
    /// What it cost.
    pub cost: Cost,
}

impl UsageDay {
    /// The day of a moment.
    pub(crate) fn of(at: Timestamp) -> String {
        at.to_string().chars().take(10).collect()
    }
}

impl UsageSums {
    /// Adds other sums.
    pub fn add(&mut self, more: &Self) {
        self.requests = self.requests.saturating_add(more.requests);
        self.totals.add(&more.totals);
    }
}

impl Census {
    /// How many issues of this kind are in this state.
    #[must_use]
    pub const fn count(&self, kind: Kind, state: State) -> u64 {
        self.0[kind as usize][state as usize]
    }

    /// How many issues of this kind there are.
    #[must_use]
    pub fn of_kind(&self, kind: Kind) -> u64 {
        self.0[kind as usize].iter().sum()
    }

    /// How many tasks, bugs and hotfixes are in this state.
    #[must_use]
    pub fn leaves_in(&self, state: State) -> u64 {
        Kind::ALL
            .into_iter()
            .filter(|kind| kind.is_leaf())
            .map(|kind| self.count(kind, state))
            .sum()
    }

    /// How many tasks, bugs and hotfixes there are.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        Kind::ALL
            .into_iter()
            .filter(|kind| kind.is_leaf())
            .map(|kind| self.of_kind(kind))
            .sum()
    }

    /// How many issues there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        Kind::ALL.into_iter().map(|kind| self.of_kind(kind)).sum()
    }

    /// Counts `count` more issues of this kind in this state.
    pub(crate) fn add(&mut self, kind: Kind, state: State, count: u64) {
        self.0[kind as usize][state as usize] += count;
    }
}

impl Chunk {
    /// Creates a text without a summary, a source and tags.
    pub(crate) fn new(id: ChunkId, project: Slug, content: Body, created_at: Timestamp) -> Self {
        Self {
            id,
            project,
            content,
            summary: Body::default(),
            source: None,
            source_id: None,
            tags: Vec::new(),
            created_at,
            updated_at: None,
            expires_at: None,
            superseded_by: None,
        }
    }

    /// The fingerprint of what this text says; when it was changed does not count.
    #[must_use]
    pub fn version(&self) -> Version {
        let of = |label: &Option<Label>| label.as_ref().map(Label::to_string).unwrap_or_default();
        let expires = self.expires_at.as_ref().map(Timestamp::to_string);
        let mut texts = vec![
            self.id.to_string(),
            self.content.to_string(),
            self.summary.to_string(),
            of(&self.source),
            of(&self.source_id),
            expires.unwrap_or_default(),
        ];
        texts.extend(self.tags.iter().map(Label::to_string));
        Version::of(texts.iter().map(String::as_str))
    }
}

impl Life {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Current, Self::Superseded, Self::Expired, Self::Any];

    /// Its name: `current`, `superseded`, `expired`, `any`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Superseded => "superseded",
            Self::Expired => "expired",
            Self::Any => "any",
        }
    }
}

impl ChunkId {
    /// The `number`th remembered text of a project.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Parses `mem-{n}`.
    ///
    /// # Errors
    /// When the text is nothing of that form.
    pub fn parse(text: &str) -> Result<Self, ChunkIdError> {
        let digits = text.strip_prefix("mem-").ok_or(ChunkIdError)?;
        let legal = (1..=15).contains(&digits.len())
            && digits.bytes().all(|b| b.is_ascii_digit())
            && !digits.starts_with('0');
        if !legal {
            return Err(ChunkIdError);
        }
        digits.parse().map(Self).map_err(|_| ChunkIdError)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mem-{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkId;

    #[test]
    fn memory_ids_are_checked() {
        assert_eq!(
            ChunkId::parse("mem-12").map(|id| id.to_string()),
            Ok("mem-12".to_owned())
        );
        for text in [
            "",
            "mem-",
            "mem-0",
            "mem-01",
            "mem-x",
            "mem--1",
            "12",
            "mem-1/..",
            "mem-9999999999999999",
        ] {
            assert!(ChunkId::parse(text).is_err(), "{text}");
        }
    }
}
