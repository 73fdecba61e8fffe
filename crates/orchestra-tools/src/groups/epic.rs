//! Epics.

use orchestra_board::{
    AgentName, Body, Command, IssueId, IssueRef, Kind, Label, NewIssue, Priority, Slug, Title,
    Version,
};
use orchestra_store::{Cursor, IssueFilter};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;

use super::patch::{Fields, NewPriority, ParentState, Update, update};
use super::{Deleted, delete, single, with_children};
use crate::args::{Arg, Limit, Many};
use crate::failure::Failure;
use crate::services::{Services, Sort, page, target};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{Ancestors, Brief, IssueFull, List, Row};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "list_epics",
            "List epics",
            Effect::Read,
            "List the epics of a project.",
            list,
        ),
        Tool::new(
            "create_epic",
            "Create epic",
            Effect::Add,
            "Create an epic in a project.",
            create,
        ),
        Tool::new(
            "get_epic",
            "Get epic",
            Effect::Read,
            "Return an epic and its stories.",
            get,
        ),
        Tool::new(
            "update_epic",
            "Update epic",
            Effect::Set,
            "Change an epic. Its status follows its stories; `cancelled` also cancels open work below, `backlog` undoes that.",
            change,
        ),
        Tool::new(
            "delete_epic",
            "Delete epic",
            Effect::Remove,
            "Delete an epic with its stories and tasks.",
            remove,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ListEpics {
    project: Arg<Slug>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

fn list(services: &Services, args: ListEpics) -> Result<Step<List<Row>>, Failure> {
    let request = page(args.limit, args.cursor);
    let filter = IssueFilter {
        kinds: vec![Kind::Epic],
        ..IssueFilter::default()
    };
    let now = services.now();
    services.read(|reader| {
        let found = reader.issues(&args.project.0, &filter, &request)?;
        Ok(Step::Done(List::of(found, |record| {
            Row::new(&record, Ancestors::Known, now)
        })))
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct CreateEpic {
    project: Arg<Slug>,
    title: Arg<Title>,
    description: Option<Arg<Body>>,
    priority: Option<Arg<Priority>>,
    assignees: Option<Many<AgentName>>,
    labels: Option<Many<Label>>,
    agent: Option<Arg<AgentName>>,
}

fn create(_: &Services, args: CreateEpic) -> Result<Step<Brief>, Failure> {
    let issue = NewIssue {
        kind: Kind::Epic,
        parent: None,
        epic: None,
        title: args.title.0,
        description: args.description.map_or_else(Body::default, |text| text.0),
        priority: args.priority.map(|priority| priority.0),
        assignees: args.assignees.unwrap_or_default().0,
        labels: args.labels.unwrap_or_default().0,
        depends_on: Vec::new(),
    };
    let command = Command::CreateIssue {
        project: args.project.0,
        issue,
    };
    Ok(Step::command(args.agent, command, single))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct GetEpic {
    project: Arg<Slug>,
    epic_id: Arg<IssueId>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

fn get(services: &Services, args: GetEpic) -> Result<Step<IssueFull>, Failure> {
    let target = IssueRef::new(args.project.0, args.epic_id.0);
    with_children(
        services,
        &target,
        Sort::Epic,
        &page(args.limit, args.cursor),
    )
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct UpdateEpic {
    project: Arg<Slug>,
    epic_id: Arg<IssueId>,
    title: Option<Arg<Title>>,
    description: Option<Arg<Body>>,
    status: Option<Arg<ParentState>>,
    priority: Option<Arg<NewPriority>>,
    assignees: Option<Many<AgentName>>,
    labels: Option<Many<Label>>,
    version: Option<Arg<Version>>,
    agent: Option<Arg<AgentName>>,
}

fn change(services: &Services, args: UpdateEpic) -> Result<Step<Brief>, Failure> {
    let fields = Fields {
        title: args.title,
        description: args.description,
        priority: args.priority,
        state: args.status.map(|status| status.0.0),
        assignees: args.assignees,
        labels: args.labels,
    };
    let target = IssueRef::new(args.project.0, args.epic_id.0);
    let circumstances = Update {
        target,
        sort: Sort::Epic,
        evidence: None,
        version: args.version,
        agent: args.agent,
    };
    update(services, circumstances, fields)
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct DeleteEpic {
    project: Arg<Slug>,
    epic_id: Arg<IssueId>,
    agent: Option<Arg<AgentName>>,
}

fn remove(_: &Services, args: DeleteEpic) -> Result<Step<Deleted>, Failure> {
    Ok(delete(
        target(args.project, None, None, args.epic_id),
        Kind::Epic,
        args.agent,
    ))
}
