//! The plan that proves an installation: eleven jobs with scripted work, no network, no agent to install.

mod jobs;

use std::collections::BTreeMap;

use orchestra_plan::ids::{Branch, JobId, PlanId};
use orchestra_plan::spec::{IdempotencyKey, Name};
use orchestra_plan::status::PlanStatus;
use orchestra_plan::value::Whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::making;
use super::create::Made;
use crate::failure::Failure;
use crate::plan_service::Make;
use crate::tool::{Effect, PlanCx, Reply, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "run_copilot_integration_test",
            "Run integration test",
            Effect::Add,
            "Create a plan of scripted jobs that proves this installation, without network or agents.",
            run,
        )
        .lasting()
        .reaching(),
    ]
}

/// What is asked of the plan; the rest is the same every time.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProofOf {
    name: Option<Name>,
    base_branch: Option<Branch>,
    target_branch: Option<Branch>,
    max_parallel: Option<Whole<1, 8>>,
    start_paused: Option<bool>,
    idempotency_key: Option<IdempotencyKey>,
}

/// The plan that was made.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Proof {
    plan_id: PlanId,
    name: String,
    status: PlanStatus,
    job_count: usize,
    script_count: usize,
    /// The ids of the jobs by their producer ids.
    jobs: BTreeMap<String, JobId>,
    /// What each job shows, and how it ends.
    descriptions: BTreeMap<String, &'static str>,
    instructions: Vec<String>,
    note: &'static str,
}

impl Reply for Proof {}

async fn run(cx: PlanCx, args: ProofOf) -> Result<Proof, Failure> {
    let key = args.idempotency_key.clone();
    let spec = jobs::plan(args)?;
    let name = spec.settings.name.to_string();
    let (job_count, script_count) = (spec.jobs.len(), jobs::scripts(&spec));
    let make = Make {
        settings: spec.settings,
        jobs: spec.jobs.into_vec(),
        scaffolding: false,
    };
    let done = cx.plans.create(make, making(&cx, key.as_ref())).await?;
    let made = Made::of(&cx, &done).await?;
    let plan = done.plan;
    Ok(Proof {
        plan_id: plan,
        name,
        status: made.plan_status(),
        job_count,
        script_count,
        jobs: made.jobs().clone(),
        descriptions: jobs::descriptions(),
        instructions: vec![
            format!("Start it, if it is paused: resume_copilot_plan {{\"planId\":\"{plan}\"}}."),
            format!(
                "Look at it until it has ended: get_copilot_plan_status {{\"planId\":\"{plan}\"}}."
            ),
            "It has to end failed, with `always-fails` and `postchecks-fail` failed, \
             `blocked-downstream` and the validating job blocked, and all others succeeded."
                .to_owned(),
            "See why: get_copilot_job_failure_context with jobId `always-fails`.".to_owned(),
            format!("Remove what it made: delete_copilot_plan {{\"planId\":\"{plan}\"}}."),
        ],
        note: "Nothing of it is merged: jobs that have to fail keep the target branch as it was.",
    })
}
