//! Why a job failed.

use orchestra_plan::view::{FailureContext, failure_context};
use orchestra_runner::logs::{Query, Stream};
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
#[derive(Serialize, JsonSchema)]
struct LogLine {
    /// When it was written, in milliseconds since 1970.
    timestamp: u64,
    phase: String,
    /// `info` what was printed, `err` what was printed on standard error, `runner` what the runner says.
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WithLines {
    logs: Vec<LogLine>,
    /// Whether there are lines before these.
    logs_truncated: bool,
}

type Failed = Joined<FailureContext, WithLines>;

impl Reply for Failed {}

pub(super) async fn context(cx: PlanCx, args: OneJob) -> Result<Failed, Failure> {
    let plan = cx.plan(&args.plan_id.0).await?;
    let job = found(&plan, &args.job_id)?;
    let context = failure_context(&plan, job)?;
    let mut page = match job.attempt() {
        Some(attempt) => {
            let number = Some(attempt.number);
            logs::tail_of(&cx, &plan, job, number, Query::default(), LINES).await?
        }
        None => orchestra_runner::logs::Page::default(),
    };
    page.omitted += logs::keep_last(&mut page.lines, BYTES) as u64;
    let logs_truncated = page.omitted > 0;
    let logs = page.lines.into_iter().map(|line| LogLine {
        timestamp: line.ts,
        phase: line.phase,
        kind: match line.stream {
            Stream::Out => "info",
            Stream::Err => "err",
            Stream::Runner => "runner",
        },
        message: line.text,
    });
    let lines = WithLines {
        logs: logs.collect(),
        logs_truncated,
    };
    Ok(Joined(context, lines))
}
