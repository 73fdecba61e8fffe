//! Looking at jobs: their list, one of them, its logs, its attempts, and why it failed.

mod attempts;
mod failed;
mod logs;

use orchestra_plan::command::Refusal;
use orchestra_plan::plan::{Job, Plan};
use orchestra_plan::status::JobStatus;
use orchestra_plan::view::{JobFilter, JobRow, JobView, job as job_view, jobs as job_rows};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::{Named, cursor_of};
use super::bad_cursor;
use super::look::{PageSize, shown};
use crate::failure::Failure;
use crate::tool::{Effect, PlanCx, Reply, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "get_copilot_job",
            "Get job",
            Effect::Read,
            "Return a job with its work, state and dependencies.",
            get,
        ),
        Tool::of_plans(
            "list_copilot_jobs",
            "List jobs",
            Effect::Read,
            "List the jobs of a plan, by status or group.",
            list,
        ),
        Tool::of_plans(
            "get_copilot_job_logs",
            "Get job logs",
            Effect::Read,
            "Return the last lines or a page of a job's output.",
            logs::logs,
        ),
        Tool::of_plans(
            "get_copilot_job_attempts",
            "Get job attempts",
            Effect::Read,
            "Return the attempts of a job, or one.",
            attempts::attempts,
        ),
        Tool::of_plans(
            "get_copilot_job_failure_context",
            "Get failure context",
            Effect::Read,
            "Explain why a job failed, with the end of its log.",
            failed::context,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OneJob {
    plan_id: Named,
    job_id: Named,
}

/// The job that a caller names: by id, producer id, or a name that no other has.
fn found<'a>(plan: &'a Plan, asked: &Named) -> Result<&'a Job, Failure> {
    plan.find(&asked.0)
        .map_err(|error| Refusal::from(error).into())
}

impl Reply for JobView {}

async fn get(cx: PlanCx, args: OneJob) -> Result<JobView, Failure> {
    let plan = cx.plan(&args.plan_id.0).await?;
    Ok(job_view(&plan, found(&plan, &args.job_id)?))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListJobs {
    plan_id: Named,
    status: Option<JobStatus>,
    /// A group's path.
    group_id: Option<Named>,
    group_name: Option<Named>,
    limit: Option<PageSize>,
    cursor: Option<Named>,
}

/// Jobs of a list.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Listed {
    /// How many are shown here.
    count: usize,
    nodes: Vec<JobRow>,
    /// How many there are in all.
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Reply for Listed {}

async fn list(cx: PlanCx, args: ListJobs) -> Result<Listed, Failure> {
    let plan = cx.plan(&args.plan_id.0).await?;
    let filter = JobFilter {
        status: args.status,
        group_id: args.group_id.map(|group| group.0),
        group_name: args.group_name.map(|group| group.0),
    };
    let limit = shown(args.limit);
    let from: usize = match cursor_of(args.cursor.as_ref()) {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| bad_cursor())?,
    };
    let all = job_rows(&plan, &filter);
    let total = all.len();
    let nodes: Vec<JobRow> = all.into_iter().skip(from).take(limit).collect();
    let end = from.saturating_add(nodes.len());
    Ok(Listed {
        count: nodes.len(),
        nodes,
        total,
        next_cursor: (end < total).then(|| end.to_string()),
    })
}
