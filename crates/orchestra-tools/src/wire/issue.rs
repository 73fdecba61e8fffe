//! An issue as it is answered: whole, in short after a change, and as a row of a list.

use orchestra_board::{AgentName, Claim, Issue, IssueId, Kind, Label, Priority, State, Timestamp};
use orchestra_store::IssueRecord;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::{List, Word, filled, time};

/// A live lease.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(crate) struct ClaimOut {
    agent: String,
    until: String,
}

/// An issue with everything that is known of it but its history.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(crate) struct IssueFull {
    id: String,
    #[serde(rename = "type")]
    kind: Word<Kind>,
    title: String,
    status: Word<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Word<Priority>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epic_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    story_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assignees: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_with: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<ClaimOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<List<Address>>,
    version: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
}

/// An issue after a change: its record without what the caller has just sent or can read again.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(crate) struct Brief {
    id: String,
    #[serde(rename = "type")]
    kind: Word<Kind>,
    title: String,
    status: Word<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Word<Priority>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epic_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    story_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assignees: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<ClaimOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

/// An issue in a list.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(crate) struct Row {
    id: String,
    #[serde(rename = "type")]
    kind: Word<Kind>,
    title: String,
    status: Word<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Word<Priority>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epic_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    story_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assignees: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    child_count: Option<u64>,
}

/// A child in its parent's record.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(crate) struct Address {
    id: String,
    title: String,
    status: Word<State>,
}

/// The claim, if it holds at `now`.
pub(crate) fn claim_now(claim: Option<&Claim>, now: Timestamp) -> Option<ClaimOut> {
    claim
        .filter(|claim| claim.is_live(now))
        .map(|claim| ClaimOut {
            agent: claim.agent.to_string(),
            until: time(claim.until),
        })
}

fn id(id: Option<&IssueId>) -> Option<String> {
    id.map(IssueId::to_string)
}

fn names(list: &[AgentName]) -> Vec<String> {
    list.iter().map(AgentName::to_string).collect()
}

fn labels(list: &[Label]) -> Vec<String> {
    list.iter().map(Label::to_string).collect()
}

impl IssueFull {
    /// The whole record.
    pub(crate) fn new(record: &IssueRecord, now: Timestamp) -> Self {
        let issue = &record.issue;
        Self {
            id: issue.id.to_string(),
            kind: Word(issue.kind),
            title: issue.title.to_string(),
            status: Word(issue.state),
            description: filled(issue.description.as_str()),
            priority: issue.priority.map(Word),
            epic_id: id(record.epic.as_ref()),
            story_id: id(record.story.as_ref()),
            assignees: names(&issue.assignees),
            labels: labels(&issue.labels),
            depends_on: issue.depends_on.iter().map(IssueId::to_string).collect(),
            fixes: id(issue.fixes.as_ref()),
            cancelled_with: id(issue.cancelled_with.as_ref()),
            claim: claim_now(issue.claim.as_ref(), now),
            children: None,
            version: issue.version().to_string(),
            created_at: time(issue.created_at),
            updated_at: issue.updated_at.map(time),
        }
    }

    /// The record with a page of its children.
    pub(crate) fn with_children(
        record: &IssueRecord,
        children: List<Address>,
        now: Timestamp,
    ) -> Self {
        Self {
            children: Some(children),
            ..Self::new(record, now)
        }
    }
}

impl Brief {
    pub(crate) fn new(record: &IssueRecord, now: Timestamp) -> Self {
        let issue = &record.issue;
        Self {
            id: issue.id.to_string(),
            kind: Word(issue.kind),
            title: issue.title.to_string(),
            status: Word(issue.state),
            priority: issue.priority.map(Word),
            epic_id: id(record.epic.as_ref()),
            story_id: id(record.story.as_ref()),
            assignees: names(&issue.assignees),
            labels: labels(&issue.labels),
            depends_on: issue.depends_on.iter().map(IssueId::to_string).collect(),
            fixes: id(issue.fixes.as_ref()),
            claim: claim_now(issue.claim.as_ref(), now),
            version: None,
        }
    }

    /// The same without its ancestors, for a caller who has just named the issue.
    pub(crate) fn moved(record: &IssueRecord, now: Timestamp) -> Self {
        Self {
            epic_id: None,
            story_id: None,
            ..Self::new(record, now)
        }
    }

    /// The same with its version, for the next update.
    pub(crate) fn versioned(record: &IssueRecord, now: Timestamp) -> Self {
        Self {
            version: Some(record.issue.version().to_string()),
            ..Self::new(record, now)
        }
    }
}

/// Which ancestors a row names: those the caller did not name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ancestors {
    /// All.
    Named,
    /// None, as they follow from the question.
    Known,
}

impl Row {
    pub(crate) fn new(record: &IssueRecord, ancestors: Ancestors, now: Timestamp) -> Self {
        let issue = &record.issue;
        let ancestor = |of: Option<&IssueId>| match ancestors {
            Ancestors::Named => id(of),
            Ancestors::Known => None,
        };
        Self {
            id: issue.id.to_string(),
            kind: Word(issue.kind),
            title: issue.title.to_string(),
            status: Word(issue.state),
            priority: issue.priority.map(Word),
            epic_id: ancestor(record.epic.as_ref()),
            story_id: ancestor(record.story.as_ref()),
            assignees: names(&issue.assignees),
            labels: labels(&issue.labels),
            claimed_by: claim_now(issue.claim.as_ref(), now).map(|claim| claim.agent),
            child_count: (!issue.kind.is_leaf()).then_some(record.children),
        }
    }
}

impl From<&Issue> for Address {
    fn from(issue: &Issue) -> Self {
        Self {
            id: issue.id.to_string(),
            title: issue.title.to_string(),
            status: Word(issue.state),
        }
    }
}
