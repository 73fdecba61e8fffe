//! Reported bugs and logged requests.

use orchestra_board::{
    AgentName, Body, Command, IssueId, Kind, NewIssue, NewRequest, Priority, Request, RequestKind,
    Slug, Title,
};
use orchestra_store::{Cursor, Made};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Arg, Limit};
use crate::failure::Failure;
use crate::services::{Services, page};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{List, Word, time};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "report_bug",
            "Report bug",
            Effect::Add,
            "File a bug under a story.",
            report_bug,
        ),
        Tool::new(
            "log_request",
            "Log request",
            Effect::Add,
            "Save a wish, remark or question for later.",
            log_request,
        ),
        Tool::new(
            "list_requests",
            "List requests",
            Effect::Read,
            "List logged requests.",
            list_requests,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ReportBug {
    project: Arg<Slug>,
    #[cfg_attr(feature = "schema", schemars(extend("x-seldom" = true)))]
    epic_id: Option<Arg<IssueId>>,
    story_id: Arg<IssueId>,
    title: Arg<Title>,
    severity: Arg<Priority>,
    steps: Option<Arg<Body>>,
    expected: Option<Arg<Body>>,
    actual: Option<Arg<Body>>,
    agent: Option<Arg<AgentName>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Created {
    id: String,
    status: &'static str,
}

fn report_bug(_: &Services, args: ReportBug) -> Result<Step<Created>, Failure> {
    let severity = args.severity.0;
    let mut text = format!("**Type:** bug\n**Severity:** {severity}");
    for (label, part) in [
        ("Steps", &args.steps),
        ("Expected", &args.expected),
        ("Actual", &args.actual),
    ] {
        if let Some(Arg(part)) = part
            && !part.is_empty()
        {
            text.push_str(&format!("\n\n**{label}:**\n{part}"));
        }
    }
    let issue = NewIssue {
        kind: Kind::Bug,
        parent: Some(args.story_id.0),
        epic: args.epic_id.map(|id| id.0),
        title: args.title.0,
        description: Body::parse(&text)?,
        priority: Some(severity),
        assignees: Vec::new(),
        labels: Vec::new(),
        depends_on: Vec::new(),
    };
    let command = Command::ReportBug {
        project: args.project.0,
        issue,
    };
    Ok(Step::command(
        args.agent,
        command,
        |_, receipt| match receipt.issues.first() {
            Some(record) => Ok(Created {
                id: record.issue.id.to_string(),
                status: "created",
            }),
            None => Err(Failure::text(
                "the bug was deleted by another change at the same time",
            )),
        },
    ))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct LogRequest {
    project: Arg<Slug>,
    #[serde(rename = "type")]
    kind: Arg<RequestKind>,
    description: Arg<Body>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Logged {
    status: &'static str,
    id: String,
    count: u64,
}

fn log_request(_: &Services, args: LogRequest) -> Result<Step<Logged>, Failure> {
    let request = NewRequest {
        kind: args.kind.0,
        description: args.description.0,
    };
    if request.description.is_empty() {
        return Err(Failure::text("argument `description`: must not be empty"));
    }
    let command = Command::LogRequest {
        project: args.project.0,
        request,
    };
    Ok(Step::command(None, command, |_, receipt| {
        match receipt.made {
            // Numbers are never used again and requests never go, so the number is the count.
            Made::Request(request) => Ok(Logged {
                status: "logged",
                id: id(&request),
                count: request.number,
            }),
            _ => Err(Failure::text(
                "the request was logged, but its number is unknown; list_requests shows it",
            )),
        }
    }))
}

fn id(request: &Request) -> String {
    format!("REQ-{}", request.number)
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ListRequests {
    project: Arg<Slug>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct RequestOut {
    id: String,
    #[serde(rename = "type")]
    kind: Word<RequestKind>,
    date: String,
    description: String,
    status: &'static str,
}

fn list_requests(
    services: &Services,
    args: ListRequests,
) -> Result<Step<List<RequestOut>>, Failure> {
    let request = page(args.limit, args.cursor);
    let found = services.read(|reader| Ok(reader.requests(&args.project.0, &request)?))?;
    Ok(Step::Done(List::of(found, |request| RequestOut {
        id: id(&request),
        kind: Word(request.kind),
        date: time(request.at),
        description: request.description.to_string(),
        status: request.status.as_str(),
    })))
}
