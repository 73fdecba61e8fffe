//! What models cost: in the whole workspace, for a project and for an issue.

use orchestra_board::{
    Command, Cost, IssueId, IssueRef, Slug, UsageEntry, UsageOf, UsageSession, UsageTotals,
};
use orchestra_store::{Made, Reader};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Arg, Count, Money};
use crate::failure::Failure;
use crate::services::{Services, Sort, find, project};
use crate::tool::{Effect, Step, Tool};
use crate::wire::time;

/// How many sessions `get_usage` shows.
const RECENT_SESSIONS: u32 = 10;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "get_usage",
            "Get usage",
            Effect::Read,
            "Return tokens and cost: totals, projects and the last 10 sessions, or those of one project or issue.",
            get,
        ),
        Tool::new(
            "record_usage",
            "Record usage",
            Effect::Add,
            "Record the token usage of one model request in the open usage session of the project and issue.",
            record,
        ),
        Tool::new(
            "reset_session_usage",
            "End usage session",
            Effect::Set,
            "End the open usage session; totals are preserved.",
            reset,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Sums {
    total_input: u64,
    total_output: u64,
    total_cost: f64,
}

impl From<UsageTotals> for Sums {
    fn from(totals: UsageTotals) -> Self {
        Self {
            total_input: totals.input,
            total_output: totals.output,
            total_cost: totals.cost.units(),
        }
    }
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct GetUsage {
    project: Option<Arg<Slug>>,
    issue_id: Option<Arg<IssueId>>,
}

/// All usage, or that of one project or issue.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Usage {
    /// The project that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// The issue that was asked for; what is below it counts, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    issue_id: Option<String>,
    /// How many requests were recorded for what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64>,
    totals: Sums,
    /// What was recorded for each project.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    projects: Vec<OfProject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recent_sessions: Option<Vec<Session>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct OfProject {
    project: String,
    requests: u64,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Session {
    provider: String,
    model: String,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    requests: usize,
    total_input: u64,
    total_output: u64,
    total_cost: f64,
}

fn session(session: &UsageSession, requests: usize) -> Session {
    Session {
        provider: session.provider.clone(),
        model: session.model.clone(),
        started_at: time(session.started_at),
        ended_at: session.ended_at.map(time),
        requests,
        total_input: session.totals.input,
        total_output: session.totals.output,
        total_cost: session.totals.cost.units(),
    }
}

fn get(services: &Services, args: GetUsage) -> Result<Step<Usage>, Failure> {
    if let Some(of) = meant(args.project, args.issue_id)? {
        return Ok(Step::Done(services.read(|reader| of_one(reader, of))?));
    }
    let record = services.read(|reader| Ok(reader.usage(RECENT_SESSIONS)?))?;
    let projects = record.of.iter().map(|record| OfProject {
        project: record.of.project.to_string(),
        requests: record.sums.requests,
        sums: record.sums.totals.into(),
    });
    let recent = record
        .sessions
        .iter()
        .map(|record| session(&record.session, record.requests.len()));
    Ok(Step::Done(Usage {
        project: None,
        issue_id: None,
        requests: None,
        totals: record.totals.into(),
        projects: projects.collect(),
        recent_sessions: Some(recent.collect()),
    }))
}

/// The project or issue that arguments name.
fn meant(
    project: Option<Arg<Slug>>,
    issue: Option<Arg<IssueId>>,
) -> Result<Option<UsageOf>, Failure> {
    if project.is_none() && issue.is_some() {
        let text = "argument `issue_id` requires `project`: ids are unique within a project only";
        return Err(Failure::text(text));
    }
    Ok(project.map(|project| UsageOf {
        project: project.0,
        issue: issue.map(|id| id.0),
    }))
}

fn of_one(reader: &Reader<'_>, mut of: UsageOf) -> Result<Usage, Failure> {
    project(reader, &of.project)?;
    if let Some(id) = of.issue.take() {
        let target = IssueRef::new(of.project.clone(), id);
        of.issue = Some(find(reader, &target, Sort::Any)?.issue.id);
    }
    let sums = reader.usage_of(&of.project, of.issue.as_ref())?;
    Ok(Usage {
        project: Some(of.project.to_string()),
        issue_id: of.issue.as_ref().map(ToString::to_string),
        requests: Some(sums.requests),
        totals: sums.totals.into(),
        projects: Vec::new(),
        recent_sessions: None,
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct RecordUsage {
    input_tokens: Count,
    output_tokens: Count,
    cost: Option<Money>,
    provider: Option<Arg<orchestra_board::Label>>,
    model: Option<Arg<orchestra_board::Label>>,
    project: Option<Arg<Slug>>,
    issue_id: Option<Arg<IssueId>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Recorded {
    session_input: u64,
    session_output: u64,
}

fn record(_: &Services, args: RecordUsage) -> Result<Step<Recorded>, Failure> {
    let invalid = |name: &str, error: &dyn std::fmt::Display| {
        Failure::text(format!("argument `{name}`: {error}"))
    };
    let tokens =
        |name, count: Count| UsageEntry::tokens(count.0).map_err(|error| invalid(name, &error));
    let cost = args.cost.map_or(0.0, |cost| cost.0);
    let entry = UsageEntry {
        provider: args.provider.map(|name| name.0.to_string()),
        model: args.model.map(|name| name.0.to_string()),
        input_tokens: tokens("input_tokens", args.input_tokens)?,
        output_tokens: tokens("output_tokens", args.output_tokens)?,
        cost: Cost::from_units(cost).map_err(|error| invalid("cost", &error))?,
        of: meant(args.project, args.issue_id)?,
    };
    Ok(Step::command(
        None,
        Command::RecordUsage(entry),
        |_, receipt| match receipt.made {
            Made::Usage(session) => Ok(Recorded {
                session_input: session.totals.input,
                session_output: session.totals.output,
            }),
            _ => Err(Failure::text(
                "the usage was recorded, but its session is unknown; get_usage shows it",
            )),
        },
    ))
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Ended {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Sums>,
}

fn reset(_: &Services, _: Nothing) -> Result<Step<Ended>, Failure> {
    Ok(Step::command(
        None,
        Command::EndUsageSession,
        |_, receipt| {
            Ok(match receipt.made {
                Made::Usage(session) => Ended {
                    status: "session ended",
                    session: Some(session.totals.into()),
                },
                _ => Ended {
                    status: "no open session",
                    session: None,
                },
            })
        },
    ))
}
