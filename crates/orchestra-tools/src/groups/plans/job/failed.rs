//! Why a job failed.

use std::sync::Arc;

use orchestra_plan::ids::AttemptNumber;
use orchestra_plan::plan::{Job, Plan};
use orchestra_plan::view::{FailureContext, failure_context};
use orchestra_runner::logs::{Query, Stream};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::{OneJob, found, logs};
use crate::failure::Failure;
use crate::joined::Joined;
use crate::tool::{PlanCx, Reply};

/// How many of the last lines are shown, and how much of them.
const LINES: usize = 100;
const BYTES: usize = 32 * 1024;

/// A line of a log.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct LogLine {
    /// When it was written, in milliseconds since 1970.
    timestamp: u64,
    phase: String,
    /// `info` what was printed, `err` what was printed on standard error, `runner` what the runner says.
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct WithLines {
    logs: Vec<LogLine>,
    /// Whether there are lines before these.
    logs_truncated: bool,
    /// The last lines of the heal that failed, where there was one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    healing_logs: Vec<LogLine>,
}

type Failed = Joined<FailureContext, WithLines>;

impl Reply for Failed {}

pub(super) async fn context(cx: PlanCx, args: OneJob) -> Result<Failed, Failure> {
    let plan = cx.plan(&args.plan_id.0).await?;
    let job = found(&plan, &args.job_id)?;
    let context = failure_context(&plan, job)?;
    let attempt = job.failed_attempt().map(|attempt| attempt.number);
    let (logs, logs_truncated) = lines_of(&cx, &plan, job, attempt).await?;
    let healing = context.healing.as_ref();
    let healing = healing.map(|healing| healing.attempt_number);
    let (healing_logs, _) = lines_of(&cx, &plan, job, healing).await?;
    let lines = WithLines {
        logs,
        logs_truncated,
        healing_logs,
    };
    Ok(Joined(context, lines))
}

/// The last lines of an attempt, and whether there are lines before them.
async fn lines_of(
    cx: &PlanCx,
    plan: &Arc<Plan>,
    job: &Job,
    attempt: Option<AttemptNumber>,
) -> Result<(Vec<LogLine>, bool), Failure> {
    let Some(attempt) = attempt else {
        return Ok((Vec::new(), false));
    };
    let mut page = logs::tail_of(cx, plan, job, Some(attempt), Query::default(), LINES).await?;
    page.omitted += logs::keep_last(&mut page.lines, BYTES) as u64;
    let lines = page.lines.into_iter().map(|line| LogLine {
        timestamp: line.ts,
        phase: line.phase,
        kind: match line.stream {
            Stream::Out => "info",
            Stream::Err => "err",
            Stream::Runner => "runner",
        },
        message: line.text,
    });
    Ok((lines.collect(), page.omitted > 0))
}
