//! Working the board: what comes next, starting, finishing, claiming, searching, counting.

use orchestra_board::{AgentName, Body, Command, IssueId, IssueRef, Kind, Priority, Slug, State};
use orchestra_store::{Cursor, IssueFilter, IssueRecord, PageRequest, Reader};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LEAVES, moved};
use crate::args::{Arg, Limit};
use crate::failure::Failure;
use crate::services::{Services, page, project, target};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{Ancestors, Brief, Counts, IssueFull, List, Row, completion};

/// How many ids each list of `get_workflow_status` shows.
const STATUS_IDS: u32 = 20;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "get_next_task",
            "Get next task",
            Effect::Move,
            "Return the next task to work on and why it is next; pass `agent` to claim it for 30 minutes.",
            next,
        ),
        Tool::new(
            "set_current_task",
            "Start task",
            Effect::Set,
            "Start a todo or blocked task; `agent` claims it.",
            start,
        ),
        Tool::new(
            "complete_task",
            "Complete implementation",
            Effect::Move,
            "Implementation is finished: in-progress becomes ready-for-testing, not done. Needs evidence of the tests run.",
            complete,
        ),
        Tool::new(
            "search",
            "Search issues",
            Effect::Read,
            "Find issues by words or id, best first.",
            search,
        ),
        Tool::new(
            "get_workflow_status",
            "Workflow status",
            Effect::Read,
            "Return task counts, and task ids by stage.",
            status,
        ),
        Tool::new(
            "claim_task",
            "Claim task",
            Effect::Set,
            "Claim a task for 30 minutes; each change renews the claim.",
            claim,
        ),
        Tool::new(
            "release_task",
            "Release task",
            Effect::Set,
            "Release the claim of a task.",
            release,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct GetNextTask {
    project: Arg<Slug>,
    agent: Option<Arg<AgentName>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Next {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<IssueFull>,
    reason: String,
    /// Tasks before it that others have claimed.
    claimed: u64,
    /// Tasks before it that wait for others.
    waiting: u64,
}

fn next(services: &Services, args: GetNextTask) -> Result<Step<Next>, Failure> {
    let slug = args.project.0;
    let Some(agent) = args.agent else {
        let now = services.now();
        return services.read(|reader| {
            let found = reader.next(&slug, None, now)?;
            let task = found.task.as_ref();
            Ok(Step::Done(Next {
                reason: reason(reader, &slug, task, found.claimed, found.waiting)?,
                task: task.map(|task| IssueFull::new(task, now)),
                claimed: found.claimed,
                waiting: found.waiting,
            }))
        });
    };
    let command = Command::ClaimNext {
        project: slug.clone(),
        agent: agent.0.clone(),
    };
    Ok(Step::command(
        Some(agent),
        command,
        move |services, receipt| {
            let found = receipt.next.unwrap_or_default();
            let task = receipt.issues.first();
            let reason = services
                .read(|reader| reason(reader, &slug, task, found.claimed, found.waiting))?;
            let task = task.map(|task| IssueFull::new(task, services.now()));
            Ok(Next {
                task,
                reason,
                claimed: found.claimed,
                waiting: found.waiting,
            })
        },
    ))
}

/// Why this task, or why none.
fn reason(
    reader: &Reader<'_>,
    slug: &Slug,
    task: Option<&IssueRecord>,
    claimed: u64,
    waiting: u64,
) -> Result<String, Failure> {
    let mut reason = match task {
        Some(record) => {
            let issue = &record.issue;
            let priority = issue.priority.map_or("medium by default", Priority::as_str);
            format!(
                "first by type ({}), priority ({priority}) and progress ({})",
                issue.kind, issue.state
            )
        }
        None => nothing_to_do(&project(reader, slug)?.census),
    };
    if claimed > 0 {
        reason.push_str(&format!(
            "; {claimed} {} claimed by another agent",
            is_or_are(claimed)
        ));
    }
    if waiting > 0 {
        reason.push_str(&format!(
            "; {waiting} {} waiting for dependencies",
            is_or_are(waiting)
        ));
    }
    Ok(reason)
}

const fn is_or_are(count: u64) -> &'static str {
    match count {
        1 => "is",
        _ => "are",
    }
}

fn nothing_to_do(census: &orchestra_store::Census) -> String {
    let (backlog, blocked) = (
        census.leaves_in(State::Backlog),
        census.leaves_in(State::Blocked),
    );
    match (census.leaves(), backlog, blocked) {
        (0, _, _) => {
            "no tasks yet; create one with create_epic, create_story and create_task, in this order"
                .to_owned()
        }
        (_, 0, 0) => "no task available".to_owned(),
        (_, backlog, 0) => {
            format!(
                "no task available: {backlog} in the backlog; plan one with update_task to status todo"
            )
        }
        (_, 0, blocked) => format!("no task available: {blocked} blocked"),
        (_, backlog, blocked) => format!(
            "no task available: {backlog} in the backlog, {blocked} blocked; plan one with update_task to status todo"
        ),
    }
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct OneTask {
    project: Arg<Slug>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    epic_id: Option<Arg<IssueId>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    story_id: Option<Arg<IssueId>>,
    task_id: Arg<IssueId>,
    agent: Option<Arg<AgentName>>,
}

fn start(_: &Services, args: OneTask) -> Result<Step<Brief>, Failure> {
    let target = target(args.project, args.epic_id, args.story_id, args.task_id);
    Ok(Step::command(
        args.agent,
        Command::StartTask { target },
        moved,
    ))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct CompleteTask {
    project: Arg<Slug>,
    epic_id: Option<Arg<IssueId>>,
    story_id: Option<Arg<IssueId>>,
    task_id: Arg<IssueId>,
    evidence: Option<Arg<Body>>,
    agent: Option<Arg<AgentName>>,
}

fn complete(_: &Services, args: CompleteTask) -> Result<Step<Brief>, Failure> {
    let target = target(args.project, args.epic_id, args.story_id, args.task_id);
    let command = Command::CompleteTask {
        target,
        evidence: args.evidence.map(|text| text.0),
    };
    Ok(Step::command(args.agent, command, moved))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Search {
    project: Arg<Slug>,
    query: String,
    #[serde(rename = "type")]
    kind: Option<Arg<Kind>>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

fn search(services: &Services, args: Search) -> Result<Step<List<Row>>, Failure> {
    let request = page(args.limit, args.cursor);
    let kinds: Vec<Kind> = args.kind.into_iter().map(|kind| kind.0).collect();
    let now = services.now();
    services.read(|reader| {
        let found = reader.search(&args.project.0, &args.query, &kinds, &request)?;
        Ok(Step::Done(List::of(found, |record| {
            Row::new(&record, Ancestors::Named, now)
        })))
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct GetWorkflowStatus {
    project: Arg<Slug>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct WorkflowStatus {
    total: u64,
    done: u64,
    /// Share of the work that is neither rejected nor cancelled.
    completion_pct: f64,
    by_status: Counts,
    by_type: Counts,
    blocked: Vec<String>,
    in_progress: Vec<String>,
    ready: Vec<String>,
    testing: Vec<String>,
    documenting: Vec<String>,
    reviewing: Vec<String>,
    /// Said when a list is cut; the counts are whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

fn status(services: &Services, args: GetWorkflowStatus) -> Result<Step<WorkflowStatus>, Failure> {
    let slug = args.project.0;
    services.read(|reader| {
        let census = project(reader, &slug)?.census;
        let cut = std::cell::Cell::new(false);
        let ids = |states: &[State]| -> Result<Vec<String>, Failure> {
            if states.iter().all(|state| census.leaves_in(*state) == 0) {
                return Ok(Vec::new());
            }
            let filter = IssueFilter {
                kinds: LEAVES.to_vec(),
                states: states.to_vec(),
                ..IssueFilter::default()
            };
            let found = reader.issues(&slug, &filter, &PageRequest::first(STATUS_IDS))?;
            cut.set(cut.get() || found.next_cursor.is_some());
            Ok(found
                .items
                .iter()
                .map(|record| record.issue.id.to_string())
                .collect())
        };
        Ok(Step::Done(WorkflowStatus {
            total: census.leaves(),
            done: census.leaves_in(State::Done),
            completion_pct: completion(&census),
            by_status: Counts::by_state(&census),
            by_type: Counts::by_kind(&census),
            blocked: ids(&[State::Blocked])?,
            in_progress: ids(&[State::InProgress])?,
            ready: ids(&[State::Todo])?,
            testing: ids(&[State::ReadyForTesting, State::InTesting])?,
            documenting: ids(&[State::ReadyForDocs, State::InDocs, State::Documented])?,
            reviewing: ids(&[State::InReview])?,
            note: cut.get().then(|| {
                format!(
                    "each list shows its first {STATUS_IDS}; list_tasks with a status shows all"
                )
            }),
        }))
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ClaimTask {
    project: Arg<Slug>,
    task_id: Arg<IssueId>,
    agent: Arg<AgentName>,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ReleaseTask {
    project: Arg<Slug>,
    task_id: Arg<IssueId>,
    agent: Option<Arg<AgentName>>,
}

fn claim(_: &Services, args: ClaimTask) -> Result<Step<Brief>, Failure> {
    let target = IssueRef::new(args.project.0, args.task_id.0);
    let command = Command::Claim {
        target,
        agent: args.agent.0.clone(),
    };
    Ok(Step::command(Some(args.agent), command, moved))
}

fn release(_: &Services, args: ReleaseTask) -> Result<Step<Brief>, Failure> {
    let target = IssueRef::new(args.project.0, args.task_id.0);
    let command = Command::Release {
        target,
        agent: args.agent.as_ref().map(|agent| agent.0.clone()),
    };
    Ok(Step::command(args.agent, command, moved))
}
