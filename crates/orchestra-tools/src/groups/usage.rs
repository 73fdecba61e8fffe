//! What models cost, for the whole workspace.

use orchestra_board::{Command, Cost, UsageEntry, UsageSession, UsageTotals};
use orchestra_store::Made;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Arg, Count, Money};
use crate::failure::Failure;
use crate::services::Services;
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
            "Tokens and cost: totals and the last 10 sessions.",
            get,
        ),
        Tool::new(
            "record_usage",
            "Record usage",
            Effect::Add,
            "Count one model request in the open usage session.",
            record,
        ),
        Tool::new(
            "reset_session_usage",
            "End usage session",
            Effect::Set,
            "End the open usage session; totals stay.",
            reset,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Serialize, JsonSchema)]
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

#[derive(Serialize, JsonSchema)]
struct Usage {
    totals: Sums,
    recent_sessions: Vec<Session>,
}

#[derive(Serialize, JsonSchema)]
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

fn get(services: &Services, _: Nothing) -> Result<Step<Usage>, Failure> {
    let record = services.read(|reader| Ok(reader.usage(RECENT_SESSIONS)?))?;
    let recent = record
        .sessions
        .iter()
        .map(|record| session(&record.session, record.requests.len()));
    Ok(Step::Done(Usage {
        totals: record.totals.into(),
        recent_sessions: recent.collect(),
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecordUsage {
    input_tokens: Count,
    output_tokens: Count,
    cost: Option<Money>,
    provider: Option<Arg<orchestra_board::Label>>,
    model: Option<Arg<orchestra_board::Label>>,
}

#[derive(Serialize, JsonSchema)]
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

#[derive(Serialize, JsonSchema)]
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
