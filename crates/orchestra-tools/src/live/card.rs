//! An issue as a card of the board.

use orchestra_board::{AgentName, IssueId, Kind, Label, Priority, State, Timestamp};
use orchestra_store::IssueRecord;
use serde::Serialize;

use crate::wire::{ClaimOut, Word, claim_now, time};

/// An issue without its texts.
#[derive(Serialize)]
pub(super) struct Card {
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
    claim: Option<ClaimOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    child_count: Option<u64>,
    updated_at: String,
}

impl Card {
    pub(super) fn new(record: &IssueRecord, now: Timestamp) -> Self {
        let issue = &record.issue;
        Self {
            id: issue.id.to_string(),
            kind: Word(issue.kind),
            title: issue.title.to_string(),
            status: Word(issue.state),
            priority: issue.priority.map(Word),
            epic_id: record.epic.as_ref().map(IssueId::to_string),
            story_id: record.story.as_ref().map(IssueId::to_string),
            assignees: issue.assignees.iter().map(AgentName::to_string).collect(),
            labels: issue.labels.iter().map(Label::to_string).collect(),
            depends_on: issue.depends_on.iter().map(IssueId::to_string).collect(),
            claim: claim_now(issue.claim.as_ref(), now),
            child_count: (!issue.kind.is_leaf()).then_some(record.children),
            updated_at: time(issue.updated_at.unwrap_or(issue.created_at)),
        }
    }
}
