//! Asking for failed jobs again.

use orchestra_plan::command::{Command, Retry};
use orchestra_plan::ids::{JobId, PlanId};
use orchestra_plan::plan::Plan;
use orchestra_plan::status::PlanStatus;
use orchestra_plan::value::List;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::args::{AnyWork, Named, NewCheck, changing, given};
use super::course;
use super::reply::{NotDone, counted, told};
use crate::failure::Failure;
use crate::plan_service::Done;
use crate::tool::{Effect, PlanCx, Reply, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "retry_copilot_plan",
            "Retry failed jobs",
            Effect::Replace,
            "Retry failed jobs: the named ones or all.",
            retry_plan,
        )
        .lasting()
        .starting(),
        Tool::of_plans(
            "retry_copilot_job",
            "Retry job",
            Effect::Replace,
            "Retry one failed job, unchanged or with new work.",
            retry_job,
        )
        .lasting()
        .starting(),
    ]
}

changing! {
    struct RetryPlan {
        job_ids: Option<List<Named, 0, 100>>,
        #[cfg_attr(feature = "schema", schemars(extend("x-say" = "Shell line or @agent TASK.")))]
        new_work: Option<AnyWork>,
        #[serde(default, deserialize_with = "given")]
        #[cfg_attr(feature = "schema", schemars(schema_with = "AnyWork::or_none"))]
        new_prechecks: NewCheck,
        #[serde(default, deserialize_with = "given")]
        #[cfg_attr(feature = "schema", schemars(schema_with = "AnyWork::or_none"))]
        new_postchecks: NewCheck,
        expects_no_changes: Option<bool>,
        clear_worktree: Option<bool>,
    }
}

/// What was asked for again.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct RetriedPlan {
    message: String,
    plan_id: PlanId,
    retried_nodes: Vec<Retried>,
    errors: Vec<NotDone>,
    status: PlanStatus,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    state_version: u64,
    /// The same was asked before under this key; nothing was done now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Retried {
    id: JobId,
    name: String,
}

impl Reply for RetriedPlan {
    fn success(&self) -> bool {
        self.repeated || !self.retried_nodes.is_empty()
    }
}

fn how(
    work: Option<AnyWork>,
    before: NewCheck,
    after: NewCheck,
    expects_no_changes: Option<bool>,
    clear: Option<bool>,
) -> Result<Retry, Failure> {
    Ok(Retry {
        work: AnyWork::maybe(work, "newWork")?,
        prechecks: AnyWork::check(before, "newPrechecks")?,
        postchecks: AnyWork::check(after, "newPostchecks")?,
        expects_no_changes,
        clear_worktree: clear.unwrap_or(false),
    })
}

async fn retry_plan(cx: PlanCx, mut args: RetryPlan) -> Result<RetriedPlan, Failure> {
    let retry = how(
        args.new_work.take(),
        args.new_prechecks.take(),
        args.new_postchecks.take(),
        args.expects_no_changes,
        args.clear_worktree,
    )?;
    let jobs = args.job_ids.take();
    let jobs = jobs.map(|jobs| jobs.into_iter().map(|job| job.0).collect());
    let (plan, done) = cx
        .change(&args, |_| Ok(Command::RetryPlan { jobs, retry }))
        .await?;
    let mut retried = Vec::new();
    let mut errors = Vec::new();
    for item in &done.items {
        match (&item.refused, item.job.and_then(|id| plan.job(&id))) {
            (None, Some(job)) => retried.push(Retried {
                id: *job.id(),
                name: job.name().to_owned(),
            }),
            (None, None) => {}
            (Some(refused), _) => errors.push(NotDone {
                id: item.asked.clone(),
                code: refused.code.clone(),
                error: refused.message.clone(),
            }),
        }
    }
    let any = done.repeated || !retried.is_empty();
    let (status, version) = followed(&cx, &done, any).await?;
    let mut message = format!("{} retried", counted(retried.len(), "job"));
    if !errors.is_empty() {
        message.push_str(&format!(", {} refused", errors.len()));
    }
    message.push_str(&format!("; the plan is {status}."));
    Ok(RetriedPlan {
        message: told(&done, message),
        plan_id: done.plan,
        retried_nodes: retried,
        errors,
        status,
        warnings: done.warnings,
        state_version: version,
        repeated: done.repeated,
    })
}

/// How the plan stands, after its course where the caller comes back for that.
async fn followed(cx: &PlanCx, done: &Done, any: bool) -> Result<(PlanStatus, u64), Failure> {
    if !any {
        return Ok((done.status, done.version));
    }
    let plan = cx.plan(&done.plan.to_string()).await?;
    let plan = course::followed(cx, plan).await?;
    Ok((plan.status(), plan.version()))
}

changing! {
    struct RetryJob {
        job_id: Named,
        #[cfg_attr(feature = "schema", schemars(extend("x-say" = "Shell line or @agent TASK.")))]
        new_work: Option<AnyWork>,
        #[serde(default, deserialize_with = "given")]
        #[cfg_attr(feature = "schema", schemars(schema_with = "AnyWork::or_none"))]
        new_prechecks: NewCheck,
        #[serde(default, deserialize_with = "given")]
        #[cfg_attr(feature = "schema", schemars(schema_with = "AnyWork::or_none"))]
        new_postchecks: NewCheck,
        expects_no_changes: Option<bool>,
        clear_worktree: Option<bool>,
    }
}

/// A job that was asked for again.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct RetriedJob {
    message: String,
    plan_id: PlanId,
    job_id: JobId,
    job_name: String,
    status: PlanStatus,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    state_version: u64,
    /// The same was asked before under this key; nothing was done now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

impl Reply for RetriedJob {}

async fn retry_job(cx: PlanCx, mut args: RetryJob) -> Result<RetriedJob, Failure> {
    let retry = how(
        args.new_work.take(),
        args.new_prechecks.take(),
        args.new_postchecks.take(),
        args.expects_no_changes,
        args.clear_worktree,
    )?;
    let command = |plan: &Plan| {
        let job = plan
            .find(&args.job_id.0)
            .map_err(not_found)?
            .id()
            .to_string();
        Ok(Command::RetryJob { job, retry })
    };
    let (plan, done) = cx.change(&args, command).await?;
    let job = plan.find(&args.job_id.0).map_err(not_found)?;
    let (status, version) = followed(&cx, &done, true).await?;
    let message = format!("Job `{}` is retried; the plan is {status}.", job.producer());
    Ok(RetriedJob {
        message: told(&done, message),
        plan_id: done.plan,
        job_id: *job.id(),
        job_name: job.name().to_owned(),
        status,
        warnings: done.warnings,
        state_version: version,
        repeated: done.repeated,
    })
}

fn not_found(error: orchestra_plan::definition::NotFound) -> Failure {
    orchestra_plan::command::Refusal::from(error).into()
}
