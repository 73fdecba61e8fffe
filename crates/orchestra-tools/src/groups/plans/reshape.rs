//! Changing the graph of a plan that is under construction or runs.

use std::sync::Arc;

use orchestra_plan::command::{Command, Operation};
use orchestra_plan::ids::{GroupPath, JobId, PlanId, ProducerId};
use orchestra_plan::plan::{Job, Plan};
use orchestra_plan::spec::{JobSpec, Name, Task};
use orchestra_plan::value::{Env, List};
use orchestra_plan::view::is_leaf;
use orchestra_plan::work::Instructions;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::{AnyWork, Named, OnConditions, OwnId, changing};
use crate::failure::Failure;
use crate::tool::{Effect, PlanCx, Reply, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::of_plans(
            "reshape_copilot_plan",
            "Reshape plan",
            Effect::Replace,
            "Add, remove and reconnect jobs that have not started; each operation succeeds or fails alone.",
            reshape,
        )
        .starting(),
    ]
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Kind {
    AddJob,
    AddNode,
    RemoveJob,
    RemoveNode,
    UpdateDeps,
    AddBefore,
    AddAfter,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::AddJob => "add_job",
            Self::AddNode => "add_node",
            Self::RemoveJob => "remove_job",
            Self::RemoveNode => "remove_node",
            Self::UpdateDeps => "update_deps",
            Self::AddBefore => "add_before",
            Self::AddAfter => "add_after",
        }
    }
}

/// A job that is added.
#[derive(Deserialize, Clone)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    producer_id: OwnId,
    name: Option<Name>,
    task: Task,
    work: AnyWork,
    dependencies: Option<List<OwnId, 0, 100>>,
    prechecks: Option<AnyWork>,
    postchecks: Option<AnyWork>,
    instructions: Option<Instructions>,
    group: Option<GroupPath>,
    auto_heal: Option<bool>,
    expects_no_changes: Option<bool>,
    env: Option<Env>,
}

impl Spec {
    fn job(self) -> Result<JobSpec, Failure> {
        let work = self.work.read("work")?;
        let dependencies = self.dependencies.unwrap_or_default();
        Ok(JobSpec {
            name: self.name,
            dependencies: dependencies.map(|id| id.0),
            prechecks: AnyWork::maybe(self.prechecks, "prechecks")?,
            postchecks: AnyWork::maybe(self.postchecks, "postchecks")?,
            instructions: self.instructions,
            group: self.group,
            auto_heal: self.auto_heal.unwrap_or(true),
            expects_no_changes: self.expects_no_changes.unwrap_or(false),
            env: self.env.unwrap_or_default(),
            ..JobSpec::of(self.producer_id.0, self.task, work)
        })
    }
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Asked {
    #[serde(rename = "type")]
    kind: Kind,
    spec: Option<Box<Spec>>,
    job_id: Option<Named>,
    producer_id: Option<Named>,
    existing_job_id: Option<Named>,
    dependencies: Option<List<OwnId, 0, 100>>,
}

changing! {
    struct Reshape {
        #[cfg_attr(feature = "schema", schemars(extend("x-say" = "spec for add_*, with existingJobId for add_before and add_after; jobId or producerId for remove_*; jobId and dependencies for update_deps.")))]
        operations: List<Asked, 1, 100>,
    }
}

impl Asked {
    /// The operation, or what it lacks.
    fn operation(&self) -> Result<Operation, Failure> {
        let lacking = |what: &str| {
            let text = format!("`{}` needs `{what}`", self.kind.name());
            Failure::coded("operation-incomplete", text)
        };
        let spec = || match &self.spec {
            Some(spec) => Spec::clone(spec).job().map(Box::new),
            None => Err(lacking("spec")),
        };
        let job = |names: [&Option<Named>; 2], what: &str| {
            let named = names.into_iter().flatten().next();
            named.map(|job| job.0.clone()).ok_or_else(|| lacking(what))
        };
        let own = [&self.job_id, &self.producer_id];
        Ok(match self.kind {
            Kind::AddJob | Kind::AddNode => Operation::Add(spec()?),
            Kind::RemoveJob | Kind::RemoveNode => Operation::Remove {
                job: job(own, "jobId` or `producerId")?,
            },
            Kind::UpdateDeps => Operation::UpdateDependencies {
                job: job(own, "jobId")?,
                dependencies: self
                    .dependencies
                    .as_ref()
                    .ok_or_else(|| lacking("dependencies"))?
                    .iter()
                    .map(|id| id.0.clone())
                    .collect(),
            },
            Kind::AddBefore => Operation::AddBefore {
                existing: job([&self.existing_job_id, &None], "existingJobId")?,
                job: spec()?,
            },
            Kind::AddAfter => Operation::AddAfter {
                existing: job([&self.existing_job_id, &None], "existingJobId")?,
                job: spec()?,
            },
        })
    }
}

/// What was done to the graph, and what it is now.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Reshaped {
    plan_id: PlanId,
    results: Vec<OperationDone>,
    topology: Topology,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    state_version: u64,
    /// The same was asked before under this key: nothing was done now, and what came of each operation is
    /// not known any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct OperationDone {
    operation: &'static str,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A graph of more jobs than this is shown where it was changed.
const WHOLE: usize = 100;

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Topology {
    node_count: usize,
    roots: Vec<ProducerId>,
    leaves: Vec<ProducerId>,
    nodes: Vec<TopologyNode>,
    /// How many jobs are as they were and not shown; get_copilot_plan_graph shows them.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: usize,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
struct TopologyNode {
    id: JobId,
    producer_id: ProducerId,
    name: String,
    dependencies: Vec<ProducerId>,
    dependents: Vec<ProducerId>,
}

impl Reply for Reshaped {
    fn success(&self) -> bool {
        self.results.iter().all(|result| result.success)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Topology {
    /// What a plan is now, whole, or where it is large, what of it is not as it was.
    fn of(before: &Plan, plan: &Plan) -> Self {
        let names = |job: &Job| job.producer().clone();
        let is_as_it_was = |job: &Job| {
            before.job(job.id()).is_some_and(|was| {
                let now = plan.dependencies(job).map(Job::producer);
                before.dependencies(was).map(Job::producer).eq(now)
            })
        };
        let is_whole = plan.jobs().len() <= WHOLE;
        let shown = plan.jobs().iter();
        let shown = shown.filter(|job| is_whole || !is_as_it_was(job));
        let nodes: Vec<TopologyNode> = shown
            .map(|job| TopologyNode {
                id: *job.id(),
                producer_id: names(job),
                name: job.name().to_owned(),
                dependencies: plan.dependencies(job).map(names).collect(),
                dependents: plan.dependents(job).map(names).collect(),
            })
            .collect();
        let jobs = || plan.jobs().iter().filter(|job| !job.is_validation());
        let is_root = |job: &&Job| plan.dependencies(job).next().is_none();
        Self {
            node_count: plan.jobs().len(),
            roots: jobs().filter(is_root).map(names).collect(),
            leaves: jobs().filter(|job| is_leaf(plan, job)).map(names).collect(),
            left_out: plan.jobs().len() - nodes.len(),
            nodes,
        }
    }
}

async fn reshape(cx: PlanCx, args: Reshape) -> Result<Reshaped, Failure> {
    let mut operations = Vec::new();
    let mut results: Vec<OperationDone> = Vec::new();
    for asked in args.operations.iter() {
        let refused = asked
            .operation()
            .map(|operation| operations.push(operation))
            .err();
        results.push(OperationDone {
            operation: asked.kind.name(),
            success: refused.is_none(),
            node_id: None,
            code: refused.as_ref().and_then(Failure::code).map(str::to_owned),
            error: refused.map(|refused| refused.to_string()),
        });
    }
    let (before, plan, warnings, repeated) = match operations.is_empty() {
        true => {
            let plan = cx.plan(args.plan()).await?;
            (Arc::clone(&plan), plan, Vec::new(), false)
        }
        false => {
            let (before, done) = cx
                .change(&args, |_| Ok(Command::Reshape(operations)))
                .await?;
            if done.repeated {
                results.clear();
            }
            let asked = results.iter_mut().filter(|result| result.success);
            for (result, item) in asked.zip(done.items) {
                let refused = item.refused.map(|refused| (refused.code, refused.message));
                (result.code, result.error) = refused.unzip();
                (result.success, result.node_id) = (result.error.is_none(), item.job);
            }
            let plan = cx.plan(&done.plan.to_string()).await?;
            (before, plan, done.warnings, done.repeated)
        }
    };
    Ok(Reshaped {
        plan_id: *plan.id(),
        results,
        topology: Topology::of(&before, &plan),
        warnings,
        state_version: plan.version(),
        repeated,
    })
}
