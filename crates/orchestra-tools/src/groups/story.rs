//! Stories.

use orchestra_board::{
    AgentName, Body, Command, IssueId, Kind, Label, NewIssue, Priority, Slug, Title, Version,
};
use orchestra_store::{Cursor, IssueFilter};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;

use super::patch::{Fields, NewPriority, ParentState, Update, update};
use super::{Deleted, delete, parent_of_list, single, with_children};
use crate::args::{Arg, Limit, Many};
use crate::failure::Failure;
use crate::services::{Services, Sort, page, target};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{Ancestors, Brief, IssueFull, List, Row};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "list_stories",
            "List stories",
            Effect::Read,
            "List the stories of an epic, or of the whole project.",
            list,
        ),
        Tool::new(
            "create_story",
            "Create story",
            Effect::Add,
            "Create a story in an epic.",
            create,
        ),
        Tool::new(
            "get_story",
            "Get story",
            Effect::Read,
            "Return a story and its tasks.",
            get,
        ),
        Tool::new(
            "update_story",
            "Update story",
            Effect::Set,
            "Change a story. Its status follows its tasks; `cancelled` also cancels open tasks, `backlog` undoes that.",
            change,
        ),
        Tool::new(
            "delete_story",
            "Delete story",
            Effect::Remove,
            "Delete a story and its tasks.",
            remove,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ListStories {
    project: Arg<Slug>,
    epic_id: Option<Arg<IssueId>>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

fn list(services: &Services, args: ListStories) -> Result<Step<List<Row>>, Failure> {
    let request = page(args.limit, args.cursor);
    let now = services.now();
    services.read(|reader| {
        let (parent, epic) =
            parent_of_list(reader, &args.project.0, args.epic_id, None, Kind::Story)?;
        let ancestors = if parent.is_some() {
            Ancestors::Known
        } else {
            Ancestors::Named
        };
        let filter = IssueFilter {
            kinds: vec![Kind::Story],
            parent,
            epic,
            ..IssueFilter::default()
        };
        let found = reader.issues(&args.project.0, &filter, &request)?;
        Ok(Step::Done(List::of(found, |record| {
            Row::new(&record, ancestors, now)
        })))
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct CreateStory {
    project: Arg<Slug>,
    epic_id: Arg<IssueId>,
    title: Arg<Title>,
    user_story: Arg<Body>,
    priority: Option<Arg<Priority>>,
    assignees: Option<Many<AgentName>>,
    labels: Option<Many<Label>>,
    agent: Option<Arg<AgentName>>,
}

fn create(_: &Services, args: CreateStory) -> Result<Step<Brief>, Failure> {
    let issue = NewIssue {
        kind: Kind::Story,
        parent: Some(args.epic_id.0),
        epic: None,
        title: args.title.0,
        description: args.user_story.0,
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
struct GetStory {
    project: Arg<Slug>,
    epic_id: Option<Arg<IssueId>>,
    story_id: Arg<IssueId>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

fn get(services: &Services, args: GetStory) -> Result<Step<IssueFull>, Failure> {
    let target = target(args.project, args.epic_id, None, args.story_id);
    with_children(
        services,
        &target,
        Sort::Story,
        &page(args.limit, args.cursor),
    )
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct UpdateStory {
    project: Arg<Slug>,
    epic_id: Option<Arg<IssueId>>,
    story_id: Arg<IssueId>,
    title: Option<Arg<Title>>,
    description: Option<Arg<Body>>,
    status: Option<Arg<ParentState>>,
    priority: Option<Arg<NewPriority>>,
    assignees: Option<Many<AgentName>>,
    labels: Option<Many<Label>>,
    version: Option<Arg<Version>>,
    agent: Option<Arg<AgentName>>,
}

fn change(services: &Services, args: UpdateStory) -> Result<Step<Brief>, Failure> {
    let fields = Fields {
        title: args.title,
        description: args.description,
        priority: args.priority,
        state: args.status.map(|status| status.0.0),
        assignees: args.assignees,
        labels: args.labels,
    };
    let target = target(args.project, args.epic_id, None, args.story_id);
    let circumstances = Update {
        target,
        sort: Sort::Story,
        evidence: None,
        version: args.version,
        agent: args.agent,
    };
    update(services, circumstances, fields)
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct DeleteStory {
    project: Arg<Slug>,
    epic_id: Option<Arg<IssueId>>,
    story_id: Arg<IssueId>,
    agent: Option<Arg<AgentName>>,
}

fn remove(_: &Services, args: DeleteStory) -> Result<Step<Deleted>, Failure> {
    Ok(delete(
        target(args.project, args.epic_id, None, args.story_id),
        Kind::Story,
        args.agent,
    ))
}
