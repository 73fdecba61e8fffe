//! The plan that proves an installation: eleven jobs with scripted work, no network, no agent to install.

mod jobs;

use std::collections::BTreeMap;

use orchestra_plan::ids::{Branch, JobId, PlanId};
use orchestra_plan::plan::Plan;
use orchestra_plan::spec::{IdempotencyKey, Name};
use orchestra_plan::status::{JobStatus, PlanStatus};
use orchestra_plan::value::Whole;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::making;
use super::course;
use crate::failure::Failure;
use crate::plan_service::Make;
use crate::tool::{Effect, PlanCx, Reply, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "run_copilot_integration_test",
            "Run integration test",
            Effect::Add,
            "Create a scripted plan that proves this installation, without network or agents.",
            run,
        )
        .lasting()
        .starting(),
    ]
}

/// What is asked of the plan; the rest is the same every time.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProofOf {
    name: Option<Name>,
    base_branch: Option<Branch>,
    target_branch: Option<Branch>,
    max_parallel: Option<Whole<1, 8>>,
    start_paused: Option<bool>,
    idempotency_key: Option<IdempotencyKey>,
}

/// The plan that was made, and what it proves.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Proof {
    plan_id: PlanId,
    name: String,
    status: PlanStatus,
    verdict: Verdict,
    message: String,
    /// How jobs have ended that had to end otherwise.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unexpected: BTreeMap<String, JobStatus>,
    job_count: usize,
    script_count: usize,
    /// The ids of the jobs by their producer ids.
    jobs: BTreeMap<String, JobId>,
    /// What each job shows, and how it ends.
    descriptions: BTreeMap<String, &'static str>,
    instructions: Vec<String>,
    note: &'static str,
}

/// What a plan proves, which has to end failed.
#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// Each job has ended as it has to.
    Proved,
    /// Some job has not.
    Disproved,
    /// Nothing: it was canceled.
    Canceled,
    /// Nothing yet.
    NotEnded,
}

impl Reply for Proof {
    fn success(&self) -> bool {
        self.verdict != Verdict::Disproved
    }
}

impl Verdict {
    fn of(plan: &Plan, unexpected: &BTreeMap<String, JobStatus>) -> Self {
        match plan.status() {
            status if !status.is_ended() => Self::NotEnded,
            _ if plan.counts().canceled > 0 => Self::Canceled,
            _ if unexpected.is_empty() => Self::Proved,
            _ => Self::Disproved,
        }
    }

    fn words(self, plan: &Plan) -> String {
        match self {
            Self::Proved => "The installation is proved: every job ended as expected, including the jobs that are \
                             expected to fail."
                .to_owned(),
            Self::Disproved => {
                "The installation is not proved: the jobs in `unexpected` did not end as expected."
                    .to_owned()
            }
            Self::Canceled => "Nothing is proved: the plan was canceled.".to_owned(),
            Self::NotEnded => format!(
                "Nothing is proved yet: the plan is {}. Call again later with the same idempotencyKey for the verdict; \
                 without a key, get_copilot_plan_status returns how the jobs ended.",
                plan.status()
            ),
        }
    }
}

/// How jobs have ended that had to end otherwise.
fn unexpected(plan: &Plan) -> BTreeMap<String, JobStatus> {
    let jobs = plan.jobs().iter().filter(|job| {
        let status = job.status();
        let is_over = status.is_terminal() && status != JobStatus::Canceled;
        is_over && status != jobs::end_of(job.producer().as_str())
    });
    jobs.map(|job| (job.producer().to_string(), job.status()))
        .collect()
}

async fn run(cx: PlanCx, args: ProofOf) -> Result<Proof, Failure> {
    let key = args.idempotency_key.clone();
    let spec = jobs::plan(args)?;
    let (job_count, script_count) = (spec.jobs.len(), jobs::scripts(&spec));
    let make = Make {
        settings: spec.settings,
        jobs: spec.jobs.into_vec(),
        scaffolding: false,
    };
    let done = cx.plans.create(make, making(&cx, key.as_ref())).await?;
    let now = course::followed(&cx, cx.plan(&done.plan.to_string()).await?).await?;
    let plan = done.plan;
    let unexpected = unexpected(&now);
    let verdict = Verdict::of(&now, &unexpected);
    let jobs = now.jobs().iter();
    Ok(Proof {
        plan_id: plan,
        name: now.name().to_owned(),
        status: now.status(),
        verdict,
        message: verdict.words(&now),
        unexpected,
        job_count,
        script_count,
        jobs: jobs
            .map(|job| (job.producer().to_string(), *job.id()))
            .collect(),
        descriptions: jobs::descriptions(),
        instructions: vec![
            format!("Start it, if it is paused: resume_copilot_plan {{\"planId\":\"{plan}\"}}."),
            format!(
                "Follow it until it has ended: get_copilot_plan_status {{\"planId\":\"{plan}\"}}."
            ),
            "The plan is expected to fail, with `always-fails` and `postchecks-fail` failed, \
             `blocked-downstream` and the validation job blocked, and all other jobs succeeded."
                .to_owned(),
            "Read the reason: get_copilot_job_failure_context with jobId `always-fails`."
                .to_owned(),
            format!(
                "Remove its worktrees and branches: delete_copilot_plan {{\"planId\":\"{plan}\"}}."
            ),
        ],
        note: "Nothing is merged: the jobs that are expected to fail leave the target branch unchanged.",
    })
}
