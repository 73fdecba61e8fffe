//! Tasks, bugs and hotfixes, and what concerns issues of every kind: moving, dependencies,
//! comments, history.

use orchestra_board::{
    AgentName, Body, Command, IssueId, IssueRef, Kind, Label, NewIssue, Priority, Slug, State,
    Title, Version,
};
use orchestra_store::{Cursor, IssueFilter};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::history::history;
use super::patch::{Fields, NewPriority, Update, update};
use super::{Deleted, LEAVES, LeafKind, delete, parent_of_list, single};
use crate::args::{Arg, Limit, Many};
use crate::failure::Failure;
use crate::services::{Services, Sort, find, page, target};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{Ancestors, Brief, IssueFull, List, Row};

pub(super) fn tools() -> Vec<Tool> {
    let mut tools = vec![
        Tool::new(
            "list_tasks",
            "List tasks",
            Effect::Read,
            "List the tasks of a story, epic or project.",
            list,
        ),
        Tool::new(
            "create_task",
            "Create task",
            Effect::Add,
            "Create a task in a story.",
            create,
        ),
        Tool::new(
            "get_task",
            "Get task",
            Effect::Read,
            "Return a task without its history.",
            get,
        ),
        Tool::new(
            "update_task",
            "Update task",
            Effect::Set,
            "Change fields of a task; its status by one step, with evidence as in advance_task.",
            change,
        ),
        Tool::new(
            "delete_task",
            "Delete task",
            Effect::Remove,
            "Delete a task. To keep its history, cancel it instead.",
            remove,
        ),
    ];
    tools.extend(tools_of_every_issue());
    tools
}

fn tools_of_every_issue() -> [Tool; 5] {
    [
        Tool::new(
            "move_issue",
            "Move issue",
            Effect::Set,
            "Move a story to another epic, or a task to another story.",
            move_issue,
        ),
        Tool::new(
            "add_dependency",
            "Add dependency",
            Effect::Set,
            "Make an issue depend on another; cycles are refused.",
            add_dependency,
        ),
        Tool::new(
            "remove_dependency",
            "Remove dependency",
            Effect::Set,
            "Remove the dependency of an issue on another.",
            remove_dependency,
        ),
        Tool::new(
            "add_comment",
            "Add comment",
            Effect::Add,
            "Comment on an issue, even if another agent has claimed it.",
            comment,
        ),
        Tool::new(
            "get_history",
            "Get history",
            Effect::Read,
            "Return the history of an issue: moves, evidence, reasons, claims, comments; oldest first.",
            history,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ListTasks {
    project: Arg<Slug>,
    epic_id: Option<Arg<IssueId>>,
    story_id: Option<Arg<IssueId>>,
    status: Option<Arg<State>>,
    assignee: Option<Arg<AgentName>>,
    label: Option<Arg<Label>>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

fn list(services: &Services, args: ListTasks) -> Result<Step<List<Row>>, Failure> {
    let request = page(args.limit, args.cursor);
    let now = services.now();
    services.read(|reader| {
        let (parent, epic) = parent_of_list(
            reader,
            &args.project.0,
            args.epic_id,
            args.story_id,
            Kind::Task,
        )?;
        let ancestors = if parent.is_some() {
            Ancestors::Known
        } else {
            Ancestors::Named
        };
        let filter = IssueFilter {
            kinds: LEAVES.to_vec(),
            states: args.status.into_iter().map(|status| status.0).collect(),
            parent,
            epic,
            assignee: args.assignee.map(|assignee| assignee.0),
            label: args.label.map(|label| label.0),
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
struct CreateTask {
    project: Arg<Slug>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    epic_id: Option<Arg<IssueId>>,
    story_id: Arg<IssueId>,
    title: Arg<Title>,
    #[serde(rename = "type")]
    kind: Arg<LeafKind>,
    description: Option<Arg<Body>>,
    priority: Option<Arg<Priority>>,
    assignees: Option<Many<AgentName>>,
    labels: Option<Many<Label>>,
    depends_on: Option<Many<IssueId>>,
    agent: Option<Arg<AgentName>>,
}

fn create(_: &Services, args: CreateTask) -> Result<Step<Brief>, Failure> {
    let issue = NewIssue {
        kind: args.kind.0.0,
        parent: Some(args.story_id.0),
        epic: args.epic_id.map(|id| id.0),
        title: args.title.0,
        description: args.description.map_or_else(Body::default, |text| text.0),
        priority: args.priority.map(|priority| priority.0),
        assignees: args.assignees.unwrap_or_default().0,
        labels: args.labels.unwrap_or_default().0,
        depends_on: args.depends_on.unwrap_or_default().0,
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
struct GetTask {
    project: Arg<Slug>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    epic_id: Option<Arg<IssueId>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    story_id: Option<Arg<IssueId>>,
    task_id: Arg<IssueId>,
}

fn get(services: &Services, args: GetTask) -> Result<Step<IssueFull>, Failure> {
    let target = target(args.project, args.epic_id, args.story_id, args.task_id);
    let now = services.now();
    services.read(|reader| {
        Ok(Step::Done(IssueFull::new(
            &find(reader, &target, Sort::Task)?,
            now,
        )))
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct UpdateTask {
    project: Arg<Slug>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    epic_id: Option<Arg<IssueId>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    story_id: Option<Arg<IssueId>>,
    task_id: Arg<IssueId>,
    title: Option<Arg<Title>>,
    description: Option<Arg<Body>>,
    status: Option<Arg<State>>,
    priority: Option<Arg<NewPriority>>,
    assignees: Option<Many<AgentName>>,
    labels: Option<Many<Label>>,
    evidence: Option<Arg<Body>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    version: Option<Arg<Version>>,
    agent: Option<Arg<AgentName>>,
}

fn change(services: &Services, args: UpdateTask) -> Result<Step<Brief>, Failure> {
    let fields = Fields {
        title: args.title,
        description: args.description,
        priority: args.priority,
        state: args.status.map(|status| status.0),
        assignees: args.assignees,
        labels: args.labels,
    };
    let target = target(args.project, args.epic_id, args.story_id, args.task_id);
    let circumstances = Update {
        target,
        sort: Sort::Task,
        evidence: args.evidence,
        version: args.version,
        agent: args.agent,
    };
    update(services, circumstances, fields)
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct DeleteTask {
    project: Arg<Slug>,
    epic_id: Option<Arg<IssueId>>,
    story_id: Option<Arg<IssueId>>,
    task_id: Arg<IssueId>,
    agent: Option<Arg<AgentName>>,
}

fn remove(_: &Services, args: DeleteTask) -> Result<Step<Deleted>, Failure> {
    Ok(delete(
        target(args.project, args.epic_id, args.story_id, args.task_id),
        Kind::Task,
        args.agent,
    ))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct MoveIssue {
    project: Arg<Slug>,
    issue_id: Arg<IssueId>,
    parent_id: Arg<IssueId>,
    agent: Option<Arg<AgentName>>,
}

fn move_issue(_: &Services, args: MoveIssue) -> Result<Step<Brief>, Failure> {
    let target = IssueRef::new(args.project.0, args.issue_id.0);
    let command = Command::MoveIssue {
        target,
        to: args.parent_id.0,
    };
    Ok(Step::command(args.agent, command, single))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Dependency {
    project: Arg<Slug>,
    issue_id: Arg<IssueId>,
    depends_on: Arg<IssueId>,
    agent: Option<Arg<AgentName>>,
}

fn add_dependency(_: &Services, args: Dependency) -> Result<Step<Brief>, Failure> {
    let target = IssueRef::new(args.project.0, args.issue_id.0);
    let command = Command::AddDependency {
        target,
        on: args.depends_on.0,
    };
    Ok(Step::command(args.agent, command, single))
}

fn remove_dependency(_: &Services, args: Dependency) -> Result<Step<Brief>, Failure> {
    let target = IssueRef::new(args.project.0, args.issue_id.0);
    let command = Command::RemoveDependency {
        target,
        on: args.depends_on.0,
    };
    Ok(Step::command(args.agent, command, single))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct AddComment {
    project: Arg<Slug>,
    issue_id: Arg<IssueId>,
    text: Arg<Body>,
    agent: Option<Arg<AgentName>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Commented {
    id: String,
    status: &'static str,
}

fn comment(_: &Services, args: AddComment) -> Result<Step<Commented>, Failure> {
    if args.text.0.as_str().trim().is_empty() {
        return Err(Failure::text("argument `text`: must not be empty"));
    }
    let commented = Commented {
        id: args.issue_id.0.to_string(),
        status: "commented",
    };
    let target = IssueRef::new(args.project.0, args.issue_id.0);
    let command = Command::Comment {
        target,
        text: args.text.0,
    };
    Ok(Step::command(args.agent, command, |_, _| Ok(commented)))
}
