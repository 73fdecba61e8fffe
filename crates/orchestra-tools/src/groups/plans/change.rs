//! Changing settings of plans, definitions of jobs, and how agents work.

use orchestra_plan::command::{AgentFields, AgentPatch, Command, PlanPatch};
use orchestra_plan::event::{Check, JobChange};
use orchestra_plan::ids::{JobId, PlanId};
use orchestra_plan::phase::Phase;
use orchestra_plan::plan::Plan;
use orchestra_plan::spec::{Budget, MaxParallel};
use orchestra_plan::status::PlanStatus;
use orchestra_plan::value::{Env, List};
use orchestra_plan::work::{Effort, MaxTurns, ModelName, ModelTier, WorkSpec};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::{AnyWork, Named, OnConditions, changing};
use super::reply::{counted, told};
use crate::failure::Failure;
use crate::tool::{Effect, PlanCx, Reply, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "update_copilot_plan",
            "Update plan",
            Effect::Set,
            "Change a plan's env, maxParallel, budget, or the plan it waits for.",
            update_plan,
        )
        .starting(),
        Tool::of_plans(
            "update_copilot_plan_job",
            "Update job",
            Effect::Set,
            "Change a job that is not running and has not succeeded.",
            update_job,
        )
        .starting(),
        Tool::of_plans(
            "bulk_update_copilot_plan_jobs",
            "Update agents",
            Effect::Set,
            "Change agent settings of many jobs.",
            bulk,
        )
        .starting(),
    ]
}

changing! {
    struct UpdatePlan {
        env: Option<Env>,
        max_parallel: Option<MaxParallel>,
        #[cfg_attr(feature = "schema", schemars(extend("x-say" = "Plan to wait for; empty for none.")))]
        resume_after_plan: Option<Named>,
        budget: Option<Budget>,
    }
}

/// What was changed of a plan.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct UpdatedPlan {
    plan_id: PlanId,
    updated: Vec<&'static str>,
    message: String,
    /// The names of its variables; their values may be secret.
    env: Vec<String>,
    max_parallel: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_after_plan: Option<PlanId>,
    status: PlanStatus,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    state_version: u64,
    /// The same was asked before under this key; nothing was done now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

impl Reply for UpdatedPlan {}

async fn update_plan(cx: PlanCx, args: UpdatePlan) -> Result<UpdatedPlan, Failure> {
    let plan = cx.plan(args.plan()).await?;
    let after = match &args.resume_after_plan {
        None => None,
        Some(named) if named.0.trim().is_empty() => Some(None),
        Some(named) => Some(Some(*cx.plan(&named.0).await?.id())),
    };
    let patch = PlanPatch {
        env: args.env.clone(),
        max_parallel: args.max_parallel,
        resume_after_plan: after,
        budget: args.budget,
    };
    let given = [
        ("env", patch.env.is_some()),
        ("maxParallel", patch.max_parallel.is_some()),
        ("resumeAfterPlan", patch.resume_after_plan.is_some()),
        ("budget", patch.budget.is_some()),
    ];
    let updated: Vec<&str> = given
        .into_iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| name)
        .collect();
    let (after, message, warnings, repeated) = match updated.is_empty() {
        true => {
            let message = "Nothing to change: pass env, maxParallel, resumeAfterPlan or budget.";
            (plan, message.to_owned(), Vec::new(), false)
        }
        false => {
            let done = cx.change(&args, |_| Ok(Command::Update(patch))).await?.1;
            let message = told(&done, format!("Changed: {}.", updated.join(", ")));
            let after = cx.plan(&done.plan.to_string()).await?;
            (after, message, done.warnings, done.repeated)
        }
    };
    Ok(UpdatedPlan {
        plan_id: *after.id(),
        updated: match repeated {
            true => Vec::new(),
            false => updated,
        },
        message,
        env: names(&after.settings().env),
        max_parallel: after.max_parallel(),
        resume_after_plan: after.settings().resume_after_plan,
        status: after.status(),
        warnings,
        state_version: after.version(),
        repeated,
    })
}

fn names(env: &Env) -> Vec<String> {
    env.iter().map(|(name, _)| name.to_owned()).collect()
}

#[derive(Deserialize, Clone, Copy)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Stage {
    Prechecks,
    Work,
    Postchecks,
}

impl Stage {
    const fn phase(self) -> Phase {
        match self {
            Self::Prechecks => Phase::Prechecks,
            Self::Work => Phase::Work,
            Self::Postchecks => Phase::Postchecks,
        }
    }
}

changing! {
    struct UpdateJob {
        job_id: Named,
        prechecks: Option<AnyWork>,
        #[cfg_attr(feature = "schema", schemars(extend("x-say" = "Shell line or @agent TASK.")))]
        work: Option<AnyWork>,
        postchecks: Option<AnyWork>,
        expects_no_changes: Option<bool>,
        reset_to_stage: Option<Stage>,
        env: Option<Env>,
        budget: Option<Budget>,
    }
}

/// What was changed of a job.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct UpdatedJob {
    message: String,
    plan_id: PlanId,
    job_id: JobId,
    job_name: String,
    has_new_prechecks: bool,
    has_new_work: bool,
    has_new_postchecks: bool,
    has_new_env: bool,
    has_new_budget: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_to_stage: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    state_version: u64,
    /// The same was asked before under this key; nothing was done now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

impl Reply for UpdatedJob {}

async fn update_job(cx: PlanCx, mut args: UpdateJob) -> Result<UpdatedJob, Failure> {
    let set = |spec: WorkSpec| Check::Set(Box::new(spec));
    let change = JobChange {
        work: AnyWork::maybe(args.work.take(), "work")?,
        prechecks: AnyWork::maybe(args.prechecks.take(), "prechecks")?.map(set),
        postchecks: AnyWork::maybe(args.postchecks.take(), "postchecks")?.map(set),
        env: args.env.take(),
        expects_no_changes: args.expects_no_changes,
        reset: args.reset_to_stage.map(Stage::phase),
        budget: args.budget.take(),
    };
    let has = (
        change.prechecks.is_some(),
        change.work.is_some(),
        change.postchecks.is_some(),
        change.env.is_some(),
        change.budget.is_some(),
    );
    let reset = change.reset.map(Phase::as_str);
    let command = |_: &Plan| {
        let job = args.job_id.0.clone();
        Ok(Command::UpdateJob { job, change })
    };
    let (plan, done) = cx.change(&args, command).await?;
    let job = plan
        .find(&args.job_id.0)
        .map_err(orchestra_plan::command::Refusal::from)?;
    Ok(UpdatedJob {
        message: told(&done, format!("Job `{}` changed.", job.producer())),
        plan_id: done.plan,
        job_id: *job.id(),
        job_name: job.name().to_owned(),
        has_new_prechecks: has.0,
        has_new_work: has.1,
        has_new_postchecks: has.2,
        has_new_env: has.3,
        has_new_budget: has.4,
        reset_to_stage: reset,
        warnings: done.warnings,
        state_version: done.version,
        repeated: done.repeated,
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Updates {
    model: Option<ModelName>,
    model_tier: Option<ModelTier>,
    effort: Option<Effort>,
    max_turns: Option<MaxTurns>,
    resume_session: Option<bool>,
    env: Option<Env>,
}

changing! {
    struct BulkUpdate {
        job_ids: Option<List<Named, 0, 200>>,
        updates: Updates,
    }
}

/// What was changed of many jobs.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct BulkUpdated {
    plan_id: PlanId,
    updated: usize,
    skipped: usize,
    skipped_details: Vec<Skipped>,
    updated_jobs: Vec<String>,
    fields_applied: Vec<&'static str>,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    state_version: u64,
    /// The same was asked before under this key; nothing was done now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Skipped {
    id: String,
    code: String,
    reason: String,
}

impl Reply for BulkUpdated {}

async fn bulk(cx: PlanCx, mut args: BulkUpdate) -> Result<BulkUpdated, Failure> {
    let fields = AgentFields {
        model: args.updates.model.take(),
        model_tier: args.updates.model_tier,
        effort: args.updates.effort,
        max_turns: args.updates.max_turns,
        resume_session: args.updates.resume_session,
    };
    let mut applied = fields.names();
    let env = args.updates.env.take();
    applied.extend(env.is_some().then_some("env"));
    let agent = (fields != AgentFields::default()).then(|| Box::new(fields));
    let patch = AgentPatch { env, agent };
    let jobs = args.job_ids.take();
    let jobs = jobs.map(|jobs| jobs.into_iter().map(|job| job.0).collect());
    let (plan, done) = cx
        .change(&args, |_| Ok(Command::BulkUpdate { jobs, patch }))
        .await?;
    let mut updated = Vec::new();
    let mut skipped = Vec::new();
    for item in &done.items {
        match &item.refused {
            None => {
                let job = item.job.and_then(|id| plan.job(&id));
                updated
                    .push(job.map_or_else(|| item.asked.clone(), |job| job.producer().to_string()));
            }
            Some(refused) => skipped.push(Skipped {
                id: item.asked.clone(),
                code: refused.code.clone(),
                reason: refused.message.clone(),
            }),
        }
    }
    let message = format!(
        "{} changed, {} skipped.",
        counted(updated.len(), "job"),
        skipped.len()
    );
    Ok(BulkUpdated {
        plan_id: done.plan,
        updated: updated.len(),
        skipped: skipped.len(),
        message: told(&done, message),
        skipped_details: skipped,
        updated_jobs: updated,
        fields_applied: applied,
        warnings: done.warnings,
        state_version: done.version,
        repeated: done.repeated,
    })
}
