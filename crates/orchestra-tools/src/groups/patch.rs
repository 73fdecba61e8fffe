//! What the three update tools have in common: which fields change, and to what.

use orchestra_board::{
    AgentName, Body, Command, IssuePatch, IssueRef, Label, Priority, State, Title, Version,
};

use crate::args::{Arg, Choice, FromText, Many, not_one_of};
use crate::failure::Failure;
use crate::services::{Services, Sort, find};
use crate::tool::Step;
use crate::wire::Brief;

use super::updated;

/// A new priority: one of the four, or `none` to remove it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewPriority(Option<Priority>);

impl FromText for NewPriority {
    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            text => match Priority::parse(text) {
                Some(priority) => Ok(Self(Some(priority))),
                None => Err(not_one_of(text, &Self::choices())),
            },
        }
    }

    fn choices() -> Vec<&'static str> {
        Priority::ALL
            .iter()
            .map(|priority| priority.name())
            .chain(["none"])
            .collect()
    }
}

/// The states to which an epic or story can be moved by hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParentState(pub(super) State);

impl FromText for ParentState {
    fn from_text(text: &str) -> Result<Self, String> {
        let by_hand = [State::Backlog, State::Todo, State::Cancelled];
        by_hand
            .into_iter()
            .find(|state| state.as_str() == text)
            .map(Self)
            .ok_or_else(|| {
                format!(
                    "{}; any other status follows from its children",
                    not_one_of(text, &Self::choices())
                )
            })
    }

    fn choices() -> Vec<&'static str> {
        vec!["backlog", "todo", "cancelled"]
    }
}

/// The fields of an update, as its arguments give them.
pub(super) struct Fields {
    pub(super) title: Option<Arg<Title>>,
    pub(super) description: Option<Arg<Body>>,
    pub(super) priority: Option<Arg<NewPriority>>,
    pub(super) state: Option<State>,
    pub(super) assignees: Option<Many<AgentName>>,
    pub(super) labels: Option<Many<Label>>,
}

impl From<Fields> for IssuePatch {
    fn from(fields: Fields) -> Self {
        Self {
            title: fields.title.map(|title| title.0),
            description: fields.description.map(|text| text.0),
            priority: fields.priority.map(|priority| priority.0.0),
            state: fields.state,
            assignees: fields.assignees.map(|list| list.0),
            labels: fields.labels.map(|list| list.0),
        }
    }
}

/// The circumstances of an update.
pub(super) struct Update {
    pub(super) target: IssueRef,
    pub(super) sort: Sort,
    pub(super) evidence: Option<Arg<Body>>,
    pub(super) version: Option<Arg<Version>>,
    pub(super) agent: Option<Arg<AgentName>>,
}

/// Changes an issue of the sort that the tool is for.
pub(super) fn update(
    services: &Services,
    update: Update,
    fields: Fields,
) -> Result<Step<Brief>, Failure> {
    let Update {
        target,
        sort,
        evidence,
        version,
        agent,
    } = update;
    // An issue never changes its kind, so it may be looked at before the writer's turn. One that is
    // not there yet may be made by a command that is queued before this one.
    services.read(|reader| match reader.issue(&target.project, &target.id)? {
        Some(_) => find(reader, &target, sort).map(drop),
        None => Ok(()),
    })?;
    let command = Command::UpdateIssue {
        target,
        patch: fields.into(),
        evidence: evidence.map(|text| text.0),
        version: version.map(|version| version.0),
    };
    Ok(Step::command(agent, command, updated))
}
