//! The tools, one file per group, in the order in which clients see them.

mod artifacts;
mod bugfix;
mod claude;
mod epic;
mod history;
mod lifecycle;
mod memory;
mod patch;
mod plans;
mod prd;
mod project;
mod readme;
mod story;
mod task;
mod usage;
mod workflow;

use orchestra_board::{AgentName, Command, IssueId, IssueRef, Kind, Slug};
use orchestra_store::{IssueRecord, PageRequest, Reader, Receipt};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{Arg, FromText, not_one_of};
use crate::failure::Failure;
use crate::services::{Services, Sort, find};
use crate::tool::{Step, Tool};
use crate::wire::{Address, Brief, IssueFull, List};

/// A group of tools.
struct Group {
    name: &'static str,
    tools: fn() -> Vec<Tool>,
    /// Whether its tools are about the work on the board alone, so that a job in a sandbox may have them. None of
    /// them starts or spends anything, writes a file that a program reads, or tells of more than the board and memory.
    is_for_jobs: bool,
}

const fn for_jobs(name: &'static str, tools: fn() -> Vec<Tool>) -> Group {
    Group {
        name,
        tools,
        is_for_jobs: true,
    }
}

const fn for_clients(name: &'static str, tools: fn() -> Vec<Tool>) -> Group {
    Group {
        name,
        tools,
        is_for_jobs: false,
    }
}

/// The groups, in a fixed order.
const GROUPS: [Group; 14] = [
    for_jobs("project", project::tools),
    for_jobs("epic", epic::tools),
    for_jobs("story", story::tools),
    for_jobs("task", task::tools),
    for_jobs("workflow", workflow::tools),
    for_jobs("lifecycle", lifecycle::tools),
    for_clients("prd", prd::tools),
    for_jobs("bugfix", bugfix::tools),
    for_jobs("memory", memory::tools),
    for_clients("usage", usage::tools),
    for_clients("artifacts", artifacts::tools),
    for_clients("claude", claude::tools),
    for_clients("readme", readme::tools),
    for_clients(PLANS, plans::tools),
];

/// The group that needs somebody who runs plans.
const PLANS: &str = "plans";

/// Every tool, in a fixed order.
pub(crate) fn all() -> Vec<Tool> {
    GROUPS.iter().flat_map(of_group).collect()
}

fn of_group(group: &Group) -> impl Iterator<Item = Tool> + use<> {
    let name = group.name;
    (group.tools)().into_iter().map(move |mut tool| {
        tool.descriptor.group = name.into();
        tool
    })
}

/// The tools that these services can serve, in the same order.
pub(crate) fn offered(services: &Services) -> Vec<Tool> {
    let mut tools = all();
    if services.plans().is_none() {
        tools.retain(|tool| tool.descriptor.group != PLANS);
    }
    tools
}

/// The tools of a job in a sandbox, in the same order: those of its groups, but for tools that remove or replace
/// something for good. Tools that can start a process are announced as such.
pub(crate) fn for_a_job() -> Vec<Tool> {
    let groups = GROUPS.iter().filter(|group| group.is_for_jobs);
    let mut tools: Vec<Tool> = groups.flat_map(of_group).collect();
    tools.retain(|tool| tool.descriptor.annotations.destructive != Some(true));
    tools
}

/// The names of the groups of tools.
pub fn group_names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|group| group.name)
}

/// The names of all tools.
pub fn tool_names() -> impl Iterator<Item = String> {
    all().into_iter().map(|tool| tool.descriptor.name)
}

/// Whether the tool of a name leaves the board as it is; `None` when there is no such tool.
#[must_use]
pub fn only_reads(name: &str) -> Option<bool> {
    let tools = all();
    let tool = tools.iter().find(|tool| tool.descriptor.name == name)?;
    Some(tool.descriptor.annotations.read_only == Some(true))
}

/// The issue that was made or changed, for the answer.
fn single(services: &Services, receipt: Receipt) -> Result<Brief, Failure> {
    subject(&receipt).map(|record| Brief::new(record, services.now()))
}

/// The issue that was moved along, for the answer.
fn moved(services: &Services, receipt: Receipt) -> Result<Brief, Failure> {
    subject(&receipt).map(|record| Brief::moved(record, services.now()))
}

/// The issue that was updated, for the answer.
fn updated(services: &Services, receipt: Receipt) -> Result<Brief, Failure> {
    subject(&receipt).map(|record| Brief::versioned(record, services.now()))
}

fn subject(receipt: &Receipt) -> Result<&IssueRecord, Failure> {
    let gone = || Failure::text("the issue was deleted by another change at the same time");
    receipt.issues.first().ok_or_else(gone)
}

/// What was deleted.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Deleted {
    deleted: String,
}

/// Deletes an issue of the kind that the tool is for.
fn delete(target: IssueRef, expected: Kind, agent: Option<Arg<AgentName>>) -> Step<Deleted> {
    let deleted = Deleted {
        deleted: target.id.to_string(),
    };
    let command = Command::DeleteIssue { target, expected };
    Step::command(agent, command, |_, _| Ok(deleted))
}

/// An issue with a page of its children.
fn with_children(
    services: &Services,
    target: &IssueRef,
    sort: Sort,
    request: &PageRequest,
) -> Result<Step<IssueFull>, Failure> {
    let now = services.now();
    services.read(|reader| {
        let record = find(reader, target, sort)?;
        let children = reader.children(&record.issue.project, &record.issue.id, request)?;
        let children = List::of(children, |child| Address::from(&child.issue));
        Ok(Step::Done(IssueFull::with_children(&record, children, now)))
    })
}

/// The kinds of work itself.
const LEAVES: [Kind; 3] = [Kind::Task, Kind::Bug, Kind::Hotfix];

/// A kind of work itself.
#[derive(Debug, Clone, Copy)]
struct LeafKind(Kind);

impl FromText for LeafKind {
    fn from_text(text: &str) -> Result<Self, String> {
        let found = LEAVES.into_iter().find(|kind| kind.as_str() == text);
        found
            .map(Self)
            .ok_or_else(|| not_one_of(text, &Self::choices()))
    }

    fn choices() -> Vec<&'static str> {
        LEAVES.iter().map(|kind| kind.as_str()).collect()
    }
}

/// The parent whose children a list shows, or else the epic it shows everything below of; what the
/// caller names must be there and of the right sort.
fn parent_of_list(
    reader: &Reader<'_>,
    project: &Slug,
    epic: Option<Arg<IssueId>>,
    story: Option<Arg<IssueId>>,
    direct: Kind,
) -> Result<(Option<IssueId>, Option<IssueId>), Failure> {
    let epic = epic.map(|id| id.0);
    if let Some(Arg(story)) = story {
        let target = IssueRef {
            project: project.clone(),
            id: story,
            epic,
            story: None,
        };
        return Ok((Some(find(reader, &target, Sort::Story)?.issue.id), None));
    }
    let Some(epic) = epic else {
        return Ok((None, None));
    };
    let epic = find(reader, &IssueRef::new(project.clone(), epic), Sort::Epic)?
        .issue
        .id;
    Ok(if direct == Kind::Story {
        (Some(epic), None)
    } else {
        (None, Some(epic))
    })
}
