//! Adding jobs to plans under construction.

use std::collections::BTreeMap;

use orchestra_plan::command::{Code, Command, Cx, Request};
use orchestra_plan::complexity::Complexity;
use orchestra_plan::decide::decide;
use orchestra_plan::ids::{Branch, GroupPath, JobId, PlanId};
use orchestra_plan::outcome::Policy;
use orchestra_plan::plan::Plan;
use orchestra_plan::spec::{Budget, JobSpec, Name, Task};
use orchestra_plan::value::{Env, List};
use orchestra_plan::work::Instructions;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::args::{AnyWork, OnConditions, OwnId, changing};
use super::reply::{NotDone, told};
use crate::failure::Failure;
use crate::plan_service::{Done, DoneItem};
use crate::tool::{Effect, PlanCx, Reply, Tool};

/// The most jobs that one call adds.
const MAX_ADDED: usize = 100;
/// How often jobs are added anew because the plan has changed meanwhile.
const TRIES: u32 = 8;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "add_copilot_plan_job",
            "Add job",
            Effect::Add,
            "Add a job to a scaffolded plan.",
            add_job,
        )
        .starting(),
        Tool::of_plans(
            "add_copilot_plan_jobs",
            "Add jobs",
            Effect::Add,
            "Add jobs to a scaffolded plan, in any order: all of them or none.",
            add_jobs,
        )
        .starting(),
    ]
}

changing! {
    struct AddJob {
        producer_id: OwnId,
        task: Task,
        #[cfg_attr(feature = "schema", schemars(extend("x-say" = "Shell line or @agent TASK.")))]
        work: AnyWork,
        name: Option<Name>,
        dependencies: Option<List<OwnId, 0, 100>>,
        prechecks: Option<AnyWork>,
        postchecks: Option<AnyWork>,
        instructions: Option<Instructions>,
        group: Option<GroupPath>,
        auto_heal: Option<bool>,
        expects_no_changes: Option<bool>,
        base_branch: Option<Branch>,
        env: Option<Env>,
        budget: Option<Budget>,
    }
}

impl AddJob {
    fn job(&mut self) -> Result<JobSpec, Failure> {
        let dependencies = self.dependencies.take().unwrap_or_default();
        Ok(JobSpec {
            producer_id: self.producer_id.0.clone(),
            name: self.name.take(),
            task: self.task.clone(),
            work: self.work.clone().read("work")?,
            dependencies: dependencies.map(|id| id.0),
            prechecks: AnyWork::maybe(self.prechecks.take(), "prechecks")?,
            postchecks: AnyWork::maybe(self.postchecks.take(), "postchecks")?,
            instructions: self.instructions.take(),
            group: self.group.take(),
            auto_heal: self.auto_heal.unwrap_or(true),
            expects_no_changes: self.expects_no_changes.unwrap_or(false),
            base_branch: self.base_branch.take(),
            env: self.env.take().unwrap_or_default(),
            budget: self.budget.take().unwrap_or_default(),
        })
    }
}

/// A job that was added.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Added {
    /// Its producer id, by which everything else knows it.
    job_id: String,
    plan_id: PlanId,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    complexity_warning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    state_version: u64,
    /// The same was asked before under this key; nothing was done now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

impl Reply for Added {}

/// What should be done about a job that asks much of its agent.
fn complexity(job: &JobSpec) -> Option<String> {
    let more = job.instructions.as_ref().map_or("", |text| text.as_str());
    let complexity = Complexity::of_work(&job.work, more, job.dependencies.len())?;
    Some(complexity.advice()?.to_string())
}

async fn add_job(cx: PlanCx, mut args: AddJob) -> Result<Added, Failure> {
    let job = args.job()?;
    let (id, warning) = (job.producer_id.clone(), complexity(&job));
    let (_, done) = cx
        .change(&args, |_| Ok(Command::AddJobs(vec![job])))
        .await?;
    if let Some(refused) = done.items.iter().find_map(|item| item.refused.clone()) {
        return Err(refused.into());
    }
    let message = format!("Job `{id}` added; finalize_copilot_plan completes the plan.");
    Ok(Added {
        job_id: id.to_string(),
        plan_id: done.plan,
        message: told(&done, message),
        complexity_warning: warning,
        warnings: done.warnings,
        state_version: done.version,
        repeated: done.repeated,
    })
}

changing! {
    struct AddJobs {
        jobs: List<JobSpec, 1, MAX_ADDED>,
    }
}

/// Jobs that were added.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct AddedAll {
    plan_id: PlanId,
    added: usize,
    total: usize,
    results: Vec<AddedOne>,
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
#[serde(rename_all = "camelCase")]
struct AddedOne {
    producer_id: String,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    complexity_warning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<NotDone>,
}

impl Reply for AddedAll {
    fn success(&self) -> bool {
        self.results.iter().all(|result| result.success)
    }
}

async fn add_jobs(cx: PlanCx, args: AddJobs) -> Result<AddedAll, Failure> {
    let jobs = args.jobs.to_vec();
    let total = jobs.len();
    let warnings: BTreeMap<String, String> = jobs
        .iter()
        .filter_map(|job| Some((job.producer_id.to_string(), complexity(job)?)))
        .collect();
    let done = add_all(&cx, &args, jobs).await?;
    let results: Vec<AddedOne> = done
        .items
        .iter()
        .map(|item| AddedOne {
            producer_id: item.asked.clone(),
            success: item.refused.is_none(),
            job_id: item.job,
            complexity_warning: warnings.get(&item.asked).cloned(),
            error: item.refused.as_ref().map(|refused| NotDone {
                id: item.asked.clone(),
                code: refused.code.clone(),
                error: refused.message.clone(),
            }),
        })
        .collect();
    let failed = results.iter().any(|result| !result.success);
    let added = match failed {
        true => 0,
        false => results.len(),
    };
    let message = match failed {
        true => "No job was added: correct the refused jobs and pass all jobs again.",
        false => "Added; finalize_copilot_plan completes the plan.",
    };
    Ok(AddedAll {
        plan_id: done.plan,
        added,
        total,
        results,
        message: told(&done, message),
        warnings: done.warnings,
        state_version: done.version,
        repeated: done.repeated,
    })
}

/// Adds all jobs or none. Whether all can be added is tried on the plan as it is, and they are added to
/// that and to no later one.
async fn add_all(cx: &PlanCx, args: &AddJobs, jobs: Vec<JobSpec>) -> Result<Done, Failure> {
    let mut tries = 0;
    loop {
        let plan = cx.plan(args.plan()).await?;
        let mut asking = args.asking(cx)?;
        let request = Request {
            expected_version: asking.expected_version,
            key: asking.key.clone(),
            ..Request::of(Command::AddJobs(jobs.clone()))
        };
        let tried = tried(&plan, request)?;
        if tried.items.iter().any(|item| item.refused.is_some()) {
            return Ok(tried);
        }
        let pinned = asking.expected_version.is_some();
        asking.expected_version = Some(plan.version()).filter(|_| !tried.repeated);
        let added = cx
            .plans
            .change(*plan.id(), Command::AddJobs(jobs.clone()), asking);
        match added.await {
            Err(fault)
                if fault.code == Code::VersionConflict.name() && !pinned && tries < TRIES =>
            {
                tries += 1;
            }
            done => return Ok(done?),
        }
    }
}

/// What adding jobs would lead to; nothing is kept of it.
fn tried(plan: &Plan, request: Request) -> Result<Done, Failure> {
    let mut number = 0_u128;
    let mut ids = || {
        number += 1;
        JobId::of_random(number.to_be_bytes())
    };
    let mut cx = Cx {
        now: plan.created_at(),
        policy: &Policy::default(),
        ids: &mut ids,
        others: &|_| None,
    };
    let decision = decide(plan, request, &mut cx)?;
    let items = decision.items.into_iter().map(|item| DoneItem {
        asked: item.asked,
        job: None,
        refused: item.refused.map(Into::into),
    });
    Ok(Done {
        plan: *plan.id(),
        version: plan.version(),
        status: plan.status(),
        items: items.collect(),
        repeated: decision.repeated,
        warnings: Vec::new(),
        agents: Vec::new(),
    })
}
