//! The attempts of a job, with what they printed where that is asked for.

use std::sync::Arc;

use orchestra_plan::ids::{AttemptNumber, JobId, PlanId};
use orchestra_plan::plan::{Job, Plan};
use orchestra_plan::value::Whole;
use orchestra_plan::view::{AttemptView, attempts as views};
use orchestra_runner::logs::Query;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::found;
use super::logs::{TAIL, USUAL_BYTES, attempt_of, is_number, keep_last, read, tail_of, texts};
use crate::failure::Failure;
use crate::groups::plans::args::Named;
use crate::joined::Joined;
use crate::tool::{PlanCx, Reply};

/// How much the logs of several attempts have together, and each of them at least.
const SHARED_BYTES: usize = 128 * 1024;
const LEAST_BYTES: usize = 2 * 1024;

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct JobAttempts {
    plan_id: Named,
    job_id: Named,
    attempt_number: Option<Whole<1, 1_000>>,
    include_logs: Option<bool>,
}

/// Attempts of a job.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Attempts {
    plan_id: PlanId,
    job_id: JobId,
    job_name: String,
    total_attempts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<Shown>>,
}

impl Reply for Attempts {}

type Shown = Joined<AttemptView, WithLogs>;

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct WithLogs {
    /// What it printed, or how much that is.
    logs: String,
}

pub(super) async fn attempts(cx: PlanCx, args: JobAttempts) -> Result<Attempts, Failure> {
    let plan = cx.plan(&args.plan_id.0).await?;
    let job = found(&plan, &args.job_id)?;
    let asked = args.attempt_number;
    if asked.is_some() {
        attempt_of(job, asked)?;
    }
    let all = views(job);
    let total = all.len();
    let alike = match asked {
        Some(_) => 1,
        None => total.max(1),
    };
    let room = args.include_logs.unwrap_or(false);
    let room = room.then(|| (SHARED_BYTES / alike).clamp(LEAST_BYTES, USUAL_BYTES));
    let mut shown = Vec::new();
    for view in all {
        let number = view.attempt_number;
        if asked.is_none_or(|asked| is_number(number, asked)) {
            let logs = log_of(&cx, &plan, job, number, room).await?;
            shown.push(Joined(view, WithLogs { logs }));
        }
    }
    let (attempt, attempts) = match asked {
        Some(_) => (shown.pop(), None),
        None => (None, Some(shown)),
    };
    Ok(Attempts {
        plan_id: *plan.id(),
        job_id: *job.id(),
        job_name: job.name().to_owned(),
        total_attempts: total,
        attempt,
        attempts,
    })
}

/// The end of an attempt's log, as much as there is room for, or how long it is.
async fn log_of(
    cx: &PlanCx,
    plan: &Arc<Plan>,
    job: &Job,
    number: AttemptNumber,
    room: Option<usize>,
) -> Result<String, Failure> {
    let Some(room) = room else {
        let query = Query {
            tail: true,
            limit: Some(1),
            ..Query::default()
        };
        let page = read(cx, plan, job, Some(number), query).await?;
        return Ok(match page.lines.last() {
            None => "nothing was printed".to_owned(),
            Some(line) => format!("{} lines; includeLogs shows them", line.seq),
        });
    };
    let mut page = tail_of(cx, plan, job, Some(number), Query::default(), TAIL).await?;
    page.omitted += keep_last(&mut page.lines, room) as u64;
    let text = texts(&page.lines, true);
    Ok(match page.omitted {
        0 => text,
        _ => format!("(its end; get_copilot_job_logs shows all)\n{text}"),
    })
}
