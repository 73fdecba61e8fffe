//! Making plans: whole, under construction, or as copies.

use std::collections::BTreeMap;

use orchestra_plan::command::Command;
use orchestra_plan::definition::{Draft, SnapshotValidation};
use orchestra_plan::ids::{Branch, JobId, PlanId};
use orchestra_plan::plan::Plan;
use orchestra_plan::spec::{
    Budget, IdempotencyKey, MaxParallel, Name, PlanSettings, PlanSpec, SymlinkDirs, WorktreeInit,
};
use orchestra_plan::status::PlanStatus;
use orchestra_plan::value::{Env, List};
use orchestra_plan::view::is_leaf;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::{AnyWork, Named, OnConditions as _, changing, making};
use super::reply::counted;
use super::{consent, course};
use crate::failure::Failure;
use crate::plan_service::{Done, Make};
use crate::tool::{Effect, PlanCx, Reply, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "create_copilot_plan",
            "Create plan",
            Effect::Add,
            "Create a plan of jobs. Work is a shell line, `@agent TASK` or an object. It waits for resume_copilot_plan unless startPaused is false.",
            create,
        )
        .lasting()
        .starting(),
        Tool::of_plans(
            "scaffold_copilot_plan",
            "Scaffold plan",
            Effect::Add,
            "Create an empty plan, to add jobs and finalize.",
            scaffold,
        )
        .starting(),
        Tool::of_plans(
            "finalize_copilot_plan",
            "Finalize plan",
            Effect::Move,
            "Check and complete a scaffolded plan.",
            finalize,
        )
        .lasting()
        .starting(),
        Tool::of_plans(
            "clone_copilot_plan",
            "Clone plan",
            Effect::Add,
            "Copy a plan's jobs into a new scaffolded plan.",
            clone,
        )
        .starting(),
    ]
}

/// A plan that was made or completed.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Made {
    plan_id: PlanId,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_branch: Option<Branch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_branch: Option<Branch>,
    paused: bool,
    message: String,
    /// The ids of the jobs by their producer ids.
    job_mapping: BTreeMap<String, JobId>,
    status: MadeStatus,
    warnings: Vec<String>,
    /// The agents that it may start: for what, on whose word, how often and up to which cost.
    agents: Vec<String>,
    state_version: u64,
    /// The same was asked before under this key, and this is what it made.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct MadeStatus {
    status: PlanStatus,
    nodes: usize,
    roots: usize,
    leaves: usize,
}

impl Reply for Made {}

impl Made {
    /// A plan that was made, after its course where the caller comes back for that.
    async fn of(cx: &PlanCx, done: &Done) -> Result<Self, Failure> {
        let plan = cx.plan(&done.plan.to_string()).await?;
        let plan = course::followed(cx, plan).await?;
        let (settings, branches) = (plan.settings(), plan.branches());
        let jobs = || plan.jobs().iter().filter(|job| !job.is_validation());
        let paused = plan.paused().is_some();
        let base = branches.map(|branches| branches.base.clone());
        let target = branches.map(|branches| branches.target.clone());
        Ok(Self {
            plan_id: *plan.id(),
            name: plan.name().to_owned(),
            base_branch: base.or_else(|| settings.base_branch.clone()),
            target_branch: target.or_else(|| settings.target_branch.clone()),
            paused,
            message: words(&plan, paused, done.repeated),
            job_mapping: plan
                .jobs()
                .iter()
                .map(|job| (job.producer().to_string(), *job.id()))
                .collect(),
            status: MadeStatus {
                status: plan.status(),
                nodes: plan.jobs().len(),
                roots: jobs()
                    .filter(|job| plan.dependencies(job).next().is_none())
                    .count(),
                leaves: jobs().filter(|job| is_leaf(&plan, job)).count(),
            },
            warnings: [warnings(&plan), done.warnings.clone()].concat(),
            agents: done.agents.clone(),
            state_version: plan.version(),
            repeated: done.repeated,
        })
    }
}

fn words(plan: &Plan, paused: bool, repeated: bool) -> String {
    let jobs = counted(plan.definitions().count(), "job");
    let next = match (plan.status(), plan.settings().resume_after_plan) {
        (status, _) if status.is_ended() => format!("; it is {status}."),
        (_, Some(after)) if paused => format!("; it starts when plan {after} has succeeded."),
        _ if paused => "; resume_copilot_plan starts it.".to_owned(),
        (status, _) => format!("; it is {status}."),
    };
    let known = match repeated {
        true => " was already created with this key",
        false => "",
    };
    format!("Plan `{}` of {jobs}{known}{next}", plan.name())
}

/// What should be known of a plan before it runs.
fn warnings(plan: &Plan) -> Vec<String> {
    let mut draft = Draft::new();
    for job in plan.definitions() {
        if draft.push(job.clone()).is_err() {
            return Vec::new();
        }
    }
    // One under construction has none yet.
    let id = plan
        .validation()
        .map_or_else(|| JobId::of_random([0; 16]), |job| *job.id());
    let definition = draft.finish(SnapshotValidation { id, verify: None });
    definition.map_or_else(
        |_| Vec::new(),
        |definition| {
            definition
                .warnings()
                .iter()
                .map(ToString::to_string)
                .collect()
        },
    )
}

async fn create(cx: PlanCx, args: PlanSpec) -> Result<Made, Failure> {
    let PlanSpec { settings, jobs } = args;
    let asking = making(&cx, settings.idempotency_key.as_ref());
    let make = Make {
        settings,
        jobs: jobs.into_vec(),
        scaffolding: false,
    };
    consent::to(&cx, cx.plans.offers(make.clone()).await).await?;
    let done = cx.plans.create(make, asking).await?;
    Made::of(&cx, &done).await
}

/// A plan that jobs are to be added to.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Scaffolded {
    plan_id: PlanId,
    name: String,
    /// Where what its jobs do is kept.
    specs_dir: String,
    message: String,
    state_version: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

impl Reply for Scaffolded {}

/// What is said of a plan as a whole, as in create_copilot_plan.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Scaffold {
    name: Name,
    base_branch: Option<Branch>,
    target_branch: Option<Branch>,
    max_parallel: Option<MaxParallel>,
    clean_up_successful_work: Option<bool>,
    additional_symlink_dirs: Option<SymlinkDirs>,
    start_paused: Option<bool>,
    #[cfg_attr(feature = "schema", schemars(extend("x-say" = "Shell line or @agent TASK that checks the result.")))]
    verify_ri: Option<AnyWork>,
    env: Option<Env>,
    resume_after_plan: Option<Named>,
    worktree_init: Option<List<AnyWork, 0, 10>>,
    budget: Option<Budget>,
    idempotency_key: Option<IdempotencyKey>,
}

impl Scaffold {
    async fn settings(self, cx: &PlanCx) -> Result<PlanSettings, Failure> {
        let after = match &self.resume_after_plan {
            Some(named) => Some(*cx.plan(&named.0).await?.id()),
            None => None,
        };
        let usual = PlanSettings::of(self.name);
        let init = self.worktree_init.unwrap_or_default().into_iter();
        let init = init.map(|work| work.read("worktreeInit"));
        let init = init.collect::<Result<Vec<_>, _>>()?;
        Ok(PlanSettings {
            base_branch: self.base_branch,
            target_branch: self.target_branch,
            max_parallel: self.max_parallel.unwrap_or(usual.max_parallel),
            clean_up_successful_work: self.clean_up_successful_work.unwrap_or(true),
            additional_symlink_dirs: self.additional_symlink_dirs.unwrap_or_default(),
            start_paused: self.start_paused.unwrap_or(true),
            verify_ri: AnyWork::maybe(self.verify_ri, "verifyRi")?,
            env: self.env.unwrap_or_default(),
            resume_after_plan: after,
            worktree_init: WorktreeInit::new(init).unwrap_or_default(),
            budget: self.budget.unwrap_or_default(),
            idempotency_key: self.idempotency_key,
            ..usual
        })
    }
}

async fn scaffold(cx: PlanCx, args: Scaffold) -> Result<Scaffolded, Failure> {
    let settings = args.settings(&cx).await?;
    let asking = making(&cx, settings.idempotency_key.as_ref());
    let name = settings.name.to_string();
    let make = Make {
        settings,
        jobs: Vec::new(),
        scaffolding: true,
    };
    let done = cx.plans.create(make, asking).await?;
    Ok(Scaffolded {
        plan_id: done.plan,
        specs_dir: cx.plans.specs_directory(done.plan).display().to_string(),
        message: format!(
            "Plan `{name}` is scaffolding: add jobs with add_copilot_plan_jobs, then finalize_copilot_plan."
        ),
        name,
        state_version: done.version,
        repeated: done.repeated,
    })
}

changing! {
    struct Finalize {
        start_paused: Option<bool>,
    }
}

async fn finalize(cx: PlanCx, args: Finalize) -> Result<Made, Failure> {
    let command = |plan: &Plan| {
        let start_paused = args.start_paused.unwrap_or(plan.settings().start_paused);
        Ok(Command::Finalize { start_paused })
    };
    let plan = cx.plan(args.plan()).await?;
    consent::to(&cx, cx.plans.offers_of(plan).await).await?;
    let (_, done) = cx.change(&args, command).await?;
    Made::of(&cx, &done).await
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClonePlan {
    source_plan_id: Named,
    name: Option<Name>,
    target_branch: Option<Branch>,
    idempotency_key: Option<IdempotencyKey>,
}

/// A copy of a plan.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Cloned {
    plan_id: PlanId,
    source_plan_id: PlanId,
    name: String,
    jobs_cloned: usize,
    message: String,
    warnings: Vec<String>,
    state_version: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

impl Reply for Cloned {}

async fn clone(cx: PlanCx, args: ClonePlan) -> Result<Cloned, Failure> {
    let source = cx.plan(&args.source_plan_id.0).await?;
    let asking = making(&cx, args.idempotency_key.as_ref());
    let done = cx
        .plans
        .copy(*source.id(), args.name, args.target_branch, asking);
    let done = done.await?;
    let plan = cx.plan(&done.plan.to_string()).await?;
    let count = plan.definitions().count();
    let known = match done.repeated {
        true => " before with this key",
        false => "",
    };
    Ok(Cloned {
        plan_id: done.plan,
        source_plan_id: *source.id(),
        name: plan.name().to_owned(),
        jobs_cloned: count,
        message: format!(
            "{} copied into plan `{}`{known}; change it, then finalize_copilot_plan completes it.",
            counted(count, "job"),
            plan.name()
        ),
        warnings: [warnings(&plan), done.warnings].concat(),
        state_version: done.version,
        repeated: done.repeated,
    })
}
