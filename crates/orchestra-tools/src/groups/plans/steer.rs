//! Pausing, resuming, canceling, and putting plans away.

use orchestra_plan::command::{AgentFields, AgentPatch, Command};
use orchestra_plan::event::PauseReason;
use orchestra_plan::ids::{JobId, PlanId};
use orchestra_plan::plan::Plan;
use orchestra_plan::status::JobStatus;
use orchestra_plan::value::Text;
use orchestra_plan::work::AdmissionClass;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::args::{OnConditions, changing};
use super::reply::{Changed, counted, told};
use super::{consent, course};
use crate::failure::Failure;
use crate::plan_service::Asking;
use crate::tool::{Effect, PlanCx, Reply, Tool};

/// How many jobs that were brought back are named; the rest is counted.
const NAMED: usize = 20;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "pause_copilot_plan",
            "Pause plan",
            Effect::Set,
            "Pause a plan; running jobs finish.",
            pause,
        ),
        Tool::of_plans(
            "resume_copilot_plan",
            "Resume plan",
            Effect::Set,
            "Start or resume a plan. As an MCP task, it ends with the plan; canceling it does not stop the plan.",
            resume,
        )
        .lasting()
        .starting(),
        Tool::of_plans(
            "cancel_copilot_plan",
            "Cancel plan",
            Effect::Remove,
            "Cancel a plan: kill its running jobs and cancel all open ones.",
            cancel,
        ),
        Tool::of_plans(
            "delete_copilot_plan",
            "Delete plan",
            Effect::Remove,
            "Cancel a plan and remove its data.",
            delete,
        ),
        Tool::of_plans(
            "archive_copilot_plan",
            "Archive plan",
            Effect::Remove,
            "Archive an ended plan and remove its worktrees and branches.",
            archive,
        ),
        Tool::of_plans(
            "recover_copilot_plan",
            "Recover plan",
            Effect::Move,
            "Recover a failed or canceled plan; it is paused afterwards.",
            recover,
        ),
        Tool::of_plans(
            "force_fail_copilot_job",
            "Force-fail job",
            Effect::Remove,
            "Declare a stuck job failed.",
            force_fail,
        ),
    ]
}

changing! {
    struct OfPlan {}
}

async fn pause(cx: PlanCx, args: OfPlan) -> Result<Changed, Failure> {
    let (_, done) = cx.change(&args, |_| Ok(Command::Pause)).await?;
    let message =
        "Plan paused: running jobs finish and no new job starts; resume_copilot_plan resumes it.";
    Ok(Changed::new(&done, message))
}

async fn resume(cx: PlanCx, args: OfPlan) -> Result<Changed, Failure> {
    let mut after = None;
    let resume = |plan: &Plan| {
        let waits = plan.paused() == Some(&PauseReason::ResumeAfterPlan);
        after = plan.settings().resume_after_plan.filter(|_| waits);
        Ok(Command::Resume)
    };
    let plan = cx.plan(args.plan()).await?;
    consent::to_undeclined(&cx, cx.plans.offers_of(plan).await).await?;
    let (_, mut done) = cx.change(&args, resume).await?;
    let plan = cx.plan(&done.plan.to_string()).await?;
    let plan = course::followed(&cx, plan).await?;
    (done.status, done.version) = (plan.status(), plan.version());
    let mut message = format!("Plan resumed; it is {}.", done.status);
    if let Some(after) = after.filter(|_| !done.repeated) {
        message.push_str(&format!(" It no longer waits for plan {after}."));
    }
    Ok(Changed::new(&done, message))
}

async fn cancel(cx: PlanCx, args: OfPlan) -> Result<Changed, Failure> {
    let reason = None;
    let (_, done) = cx.change(&args, |_| Ok(Command::Cancel { reason })).await?;
    Ok(Changed::new(
        &done,
        "Plan canceled; recover_copilot_plan restores it.",
    ))
}

async fn delete(cx: PlanCx, args: OfPlan) -> Result<Changed, Failure> {
    let (before, done) = cx.change(&args, |_| Ok(Command::Delete)).await?;
    let mut words = vec!["Plan deleted.".to_owned()];
    words.extend(cx.plans.kept_worktrees(before).await);
    Ok(Changed::new(&done, words.join(" ")))
}

changing! {
    struct ArchivePlan {
        #[cfg_attr(feature = "schema", schemars(extend("x-say" = "Cancel the plan first.")))]
        force: Option<bool>,
        delete_remote_branches: Option<bool>,
    }
}

/// What was put away.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Archived {
    message: String,
    plan_id: PlanId,
    cleaned_worktrees: usize,
    cleaned_branches: usize,
    worktrees: Vec<String>,
    branches: Vec<String>,
    /// The same was asked before under this key; nothing was done now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

impl Reply for Archived {}

async fn archive(cx: PlanCx, args: ArchivePlan) -> Result<Archived, Failure> {
    let plan = cx.plan(args.plan()).await?;
    let force = args.force.unwrap_or(false);
    let remote = args.delete_remote_branches.unwrap_or(false);
    let away = cx
        .plans
        .archive(*plan.id(), force, remote, args.asking(&cx)?);
    let away = away.await?;
    let (worktrees, branches) = (away.worktrees.len(), away.branches.len());
    let mut message = format!(
        "Plan archived; removed: {}, {} of its own.",
        counted(worktrees, "worktree"),
        match branches {
            1 => "1 branch".to_owned(),
            many => format!("{many} branches"),
        }
    );
    if let Some(note) = away.note {
        message = format!("{message} {note}");
    }
    Ok(Archived {
        message,
        plan_id: *plan.id(),
        cleaned_worktrees: worktrees,
        cleaned_branches: branches,
        worktrees: away.worktrees,
        branches: away.branches,
        repeated: away.repeated,
    })
}

changing! {
    struct RecoverPlan {
        #[cfg_attr(feature = "schema", schemars(extend("x-say" = "Let agents resume their sessions.")))]
        use_copilot_agent: Option<bool>,
    }
}

/// What was brought back.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Recovered {
    message: String,
    plan_id: PlanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered_branch: Option<String>,
    recovered_node_count: usize,
    recovered_nodes: Vec<RecoveredNode>,
    total_node_count: usize,
    state_version: u64,
    /// The same was asked before under this key; nothing was done now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct RecoveredNode {
    id: JobId,
    name: String,
    status: JobStatus,
}

impl Reply for Recovered {}

async fn recover(cx: PlanCx, args: RecoverPlan) -> Result<Recovered, Failure> {
    let (before, done) = cx.change(&args, |_| Ok(Command::Recover)).await?;
    let after = cx.plan(&done.plan.to_string()).await?;
    let mut nodes = recovered_nodes(&before, &after);
    let count = nodes.len();
    let mut version = done.version;
    let mut message = format!(
        "Plan recovered and paused; {} can run again. resume_copilot_plan resumes it.",
        counted(count, "job")
    );
    if count > NAMED {
        message.push_str(&format!(
            " The first {NAMED} of them are named here; list_copilot_jobs lists all."
        ));
    }
    if args.use_copilot_agent == Some(false) && !done.repeated {
        match begin_anew(&cx, &after, &nodes).await {
            Ok(changed) => version = changed.unwrap_or(version),
            // The plan is back all the same.
            Err(failure) => message.push_str(&format!(
                " Its agents still resume their sessions: {failure}"
            )),
        }
    }
    nodes.truncate(NAMED);
    let target = before.branches().map(|branches| branches.target.clone());
    let target = target.or_else(|| before.settings().target_branch.clone());
    Ok(Recovered {
        message: told(&done, message),
        plan_id: done.plan,
        recovered_branch: target.map(|branch| branch.to_string()),
        recovered_node_count: count,
        recovered_nodes: nodes,
        total_node_count: after.jobs().len(),
        state_version: version,
        repeated: done.repeated,
    })
}

/// Has the agents of these jobs begin anew, instead of going on with the session that they had.
async fn begin_anew(
    cx: &PlanCx,
    plan: &Plan,
    nodes: &[RecoveredNode],
) -> Result<Option<u64>, Failure> {
    let by_agent = |node: &&RecoveredNode| {
        let job = plan.job(&node.id);
        job.is_some_and(|job| plan.class(job) == AdmissionClass::Agent && !job.is_validation())
    };
    let jobs: Vec<String> = nodes
        .iter()
        .filter(by_agent)
        .map(|node| node.id.to_string())
        .collect();
    if jobs.is_empty() {
        return Ok(None);
    }
    let agent = AgentFields {
        resume_session: Some(false),
        ..AgentFields::default()
    };
    let patch = AgentPatch {
        env: None,
        agent: Some(Box::new(agent)),
    };
    let jobs = Some(jobs);
    let command = Command::BulkUpdate { jobs, patch };
    let done = cx.plans.change(
        *plan.id(),
        command,
        Asking {
            by: Some(cx.by()),
            ..Asking::default()
        },
    );
    Ok(Some(done.await?.version))
}

/// The jobs that had ended badly and have not any more.
fn recovered_nodes(before: &Plan, after: &Plan) -> Vec<RecoveredNode> {
    let was_dead = |id: &JobId| before.job(id).is_some_and(|job| job.status().is_dead());
    let jobs = after.jobs().iter();
    jobs.filter(|job| was_dead(job.id()) && !job.status().is_dead())
        .map(|job| RecoveredNode {
            id: *job.id(),
            name: job.name().to_owned(),
            status: job.status(),
        })
        .collect()
}

changing! {
    struct ForceFail {
        job_id: super::args::Named,
        reason: Option<Text<1_000>>,
    }
}

async fn force_fail(cx: PlanCx, args: ForceFail) -> Result<Changed, Failure> {
    let command = |_: &Plan| {
        Ok(Command::ForceFail {
            job: args.job_id.0.clone(),
            reason: args
                .reason
                .as_ref()
                .map(|reason| reason.as_str().to_owned()),
        })
    };
    let (plan, done) = cx.change(&args, command).await?;
    let name = plan
        .find(&args.job_id.0)
        .map_or("the job", |job| job.producer().as_str());
    let message = format!("Job `{name}` is declared failed; retry_copilot_job retries it.");
    Ok(Changed::new(&done, message))
}
