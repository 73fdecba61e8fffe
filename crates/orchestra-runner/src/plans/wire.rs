//! Orders as they cross the socket from a follower to the holder. What only the runner itself may say of a
//! job has no form here, so nobody can say it from outside.

use orchestra_plan::{
    command::{AgentFields, AgentPatch, Command, NewPlan, Operation, PlanPatch, Request, Retry},
    event::JobChange,
    ids::{PlanId, ProducerId},
    spec::{Budget, JobSpec, MaxParallel, PlanSettings},
    value::Env,
    work::{Effort, MaxTurns, ModelName, ModelTier, WorkSpec},
};
use serde::{Deserialize, Serialize};

use super::order::Order;

#[derive(Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(crate) enum WireOrder {
    Create {
        id: PlanId,
        settings: Box<PlanSettings>,
        jobs: Vec<JobSpec>,
        scaffolding: bool,
        source: Option<PlanId>,
        /// A runner that does not know it refuses the order.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        sandboxed: bool,
        by: Option<String>,
    },
    Change {
        plan: PlanId,
        command: Box<WireCommand>,
        expected_version: Option<u64>,
        key: Option<String>,
        by: Option<String>,
    },
}

/// What people and programs may ask of a plan.
#[derive(Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(crate) enum WireCommand {
    AddJobs(Vec<JobSpec>),
    Finalize {
        start_paused: bool,
    },
    Update {
        env: Option<Env>,
        max_parallel: Option<MaxParallel>,
        resume_after_plan: Edit<PlanId>,
        budget: Option<Budget>,
    },
    UpdateJob {
        job: String,
        change: Box<JobChange>,
    },
    BulkUpdate {
        jobs: Option<Vec<String>>,
        env: Option<Env>,
        agent: Option<Box<WireAgent>>,
    },
    Reshape(Vec<WireOperation>),
    Pause,
    Resume,
    Cancel {
        reason: Option<String>,
    },
    Delete,
    Archive {
        force: bool,
    },
    Recover,
    RetryPlan {
        jobs: Option<Vec<String>>,
        retry: Box<WireRetry>,
    },
    RetryJob {
        job: String,
        retry: Box<WireRetry>,
    },
    ForceFail {
        job: String,
        reason: Option<String>,
    },
}

/// What is left as it is, taken away, or set.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Edit<T> {
    Keep,
    Clear,
    Set(T),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WireAgent {
    model: Option<ModelName>,
    model_tier: Option<ModelTier>,
    effort: Option<Effort>,
    max_turns: Option<MaxTurns>,
    resume_session: Option<bool>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WireRetry {
    work: Option<WorkSpec>,
    prechecks: Edit<WorkSpec>,
    postchecks: Edit<WorkSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expects_no_changes: Option<bool>,
    clear_worktree: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(crate) enum WireOperation {
    Add(Box<JobSpec>),
    Remove {
        job: String,
    },
    UpdateDependencies {
        job: String,
        dependencies: Vec<ProducerId>,
    },
    AddBefore {
        existing: String,
        job: Box<JobSpec>,
    },
    AddAfter {
        existing: String,
        job: Box<JobSpec>,
    },
}

impl<T> From<Option<Option<T>>> for Edit<T> {
    fn from(edit: Option<Option<T>>) -> Self {
        match edit {
            None => Self::Keep,
            Some(None) => Self::Clear,
            Some(Some(value)) => Self::Set(value),
        }
    }
}

impl<T> From<Edit<T>> for Option<Option<T>> {
    fn from(edit: Edit<T>) -> Self {
        match edit {
            Edit::Keep => None,
            Edit::Clear => Some(None),
            Edit::Set(value) => Some(Some(value)),
        }
    }
}

impl WireOrder {
    /// The form of an order; `None` for what only the runner itself says.
    pub(crate) fn of(order: Order) -> Option<Self> {
        Some(match order {
            Order::Create { new, by } => {
                let NewPlan {
                    id,
                    settings,
                    jobs,
                    scaffolding,
                    source,
                    // Whoever makes the plan takes it.
                    mark: _,
                    sandboxed,
                } = *new;
                Self::Create {
                    id,
                    settings: Box::new(settings),
                    jobs,
                    scaffolding,
                    source,
                    sandboxed,
                    by,
                }
            }
            Order::Change { plan, request } => Self::Change {
                plan,
                command: Box::new(WireCommand::of(request.command)?),
                expected_version: request.expected_version,
                key: request.key,
                by: request.by,
            },
        })
    }

    pub(crate) fn into_order(self) -> Order {
        match self {
            Self::Create {
                id,
                settings,
                jobs,
                scaffolding,
                source,
                sandboxed,
                by,
            } => {
                let new = Box::new(NewPlan {
                    id,
                    settings: *settings,
                    jobs,
                    scaffolding,
                    source,
                    mark: None,
                    sandboxed,
                });
                Order::Create { new, by }
            }
            Self::Change {
                plan,
                command,
                expected_version,
                key,
                by,
            } => {
                let request = Box::new(Request {
                    command: command.into_command(),
                    expected_version,
                    key,
                    by,
                });
                Order::Change { plan, request }
            }
        }
    }
}

impl WireCommand {
    fn of(command: Command) -> Option<Self> {
        Some(match command {
            Command::AddJobs(jobs) => Self::AddJobs(jobs),
            Command::Finalize { start_paused } => Self::Finalize { start_paused },
            Command::Update(patch) => Self::Update {
                env: patch.env,
                max_parallel: patch.max_parallel,
                resume_after_plan: patch.resume_after_plan.into(),
                budget: patch.budget,
            },
            Command::UpdateJob { job, change } => Self::UpdateJob {
                job,
                change: Box::new(change),
            },
            Command::BulkUpdate { jobs, patch } => Self::BulkUpdate {
                jobs,
                env: patch.env,
                agent: patch.agent.map(|agent| Box::new(WireAgent::of(*agent))),
            },
            Command::Reshape(operations) => {
                Self::Reshape(operations.into_iter().map(WireOperation::of).collect())
            }
            Command::Pause => Self::Pause,
            Command::Resume => Self::Resume,
            Command::Cancel { reason } => Self::Cancel { reason },
            Command::Delete => Self::Delete,
            Command::Archive { force } => Self::Archive { force },
            Command::Recover => Self::Recover,
            Command::RetryPlan { jobs, retry } => Self::RetryPlan {
                jobs,
                retry: Box::new(WireRetry::of(retry)),
            },
            Command::RetryJob { job, retry } => Self::RetryJob {
                job,
                retry: Box::new(WireRetry::of(retry)),
            },
            Command::ForceFail { job, reason } => Self::ForceFail { job, reason },
            Command::OtherEnded { .. }
            | Command::BranchesReady(_)
            | Command::BranchesFailed { .. }
            | Command::Schedule { .. }
            | Command::Return { .. }
            | Command::Begin { .. }
            | Command::Report { .. }
            | Command::WorktreeRemoved { .. }
            | Command::Clock => return None,
        })
    }

    fn into_command(self) -> Command {
        match self {
            Self::AddJobs(jobs) => Command::AddJobs(jobs),
            Self::Finalize { start_paused } => Command::Finalize { start_paused },
            Self::Update {
                env,
                max_parallel,
                resume_after_plan,
                budget,
            } => Command::Update(PlanPatch {
                env,
                max_parallel,
                resume_after_plan: resume_after_plan.into(),
                budget,
            }),
            Self::UpdateJob { job, change } => Command::UpdateJob {
                job,
                change: *change,
            },
            Self::BulkUpdate { jobs, env, agent } => Command::BulkUpdate {
                jobs,
                patch: AgentPatch {
                    env,
                    agent: agent.map(|agent| Box::new(agent.into_fields())),
                },
            },
            Self::Reshape(operations) => {
                let operations = operations.into_iter();
                Command::Reshape(operations.map(WireOperation::into_operation).collect())
            }
            Self::Pause => Command::Pause,
            Self::Resume => Command::Resume,
            Self::Cancel { reason } => Command::Cancel { reason },
            Self::Delete => Command::Delete,
            Self::Archive { force } => Command::Archive { force },
            Self::Recover => Command::Recover,
            Self::RetryPlan { jobs, retry } => Command::RetryPlan {
                jobs,
                retry: retry.into_retry(),
            },
            Self::RetryJob { job, retry } => Command::RetryJob {
                job,
                retry: retry.into_retry(),
            },
            Self::ForceFail { job, reason } => Command::ForceFail { job, reason },
        }
    }
}

impl WireAgent {
    fn of(fields: AgentFields) -> Self {
        Self {
            model: fields.model,
            model_tier: fields.model_tier,
            effort: fields.effort,
            max_turns: fields.max_turns,
            resume_session: fields.resume_session,
        }
    }

    fn into_fields(self) -> AgentFields {
        AgentFields {
            model: self.model,
            model_tier: self.model_tier,
            effort: self.effort,
            max_turns: self.max_turns,
            resume_session: self.resume_session,
        }
    }
}

impl WireRetry {
    fn of(retry: Retry) -> Self {
        Self {
            work: retry.work,
            prechecks: retry.prechecks.into(),
            postchecks: retry.postchecks.into(),
            expects_no_changes: retry.expects_no_changes,
            clear_worktree: retry.clear_worktree,
        }
    }

    fn into_retry(self) -> Retry {
        Retry {
            work: self.work,
            prechecks: self.prechecks.into(),
            postchecks: self.postchecks.into(),
            expects_no_changes: self.expects_no_changes,
            clear_worktree: self.clear_worktree,
        }
    }
}

impl WireOperation {
    fn of(operation: Operation) -> Self {
        match operation {
            Operation::Add(job) => Self::Add(job),
            Operation::Remove { job } => Self::Remove { job },
            Operation::UpdateDependencies { job, dependencies } => {
                Self::UpdateDependencies { job, dependencies }
            }
            Operation::AddBefore { existing, job } => Self::AddBefore { existing, job },
            Operation::AddAfter { existing, job } => Self::AddAfter { existing, job },
        }
    }

    fn into_operation(self) -> Operation {
        match self {
            Self::Add(job) => Operation::Add(job),
            Self::Remove { job } => Operation::Remove { job },
            Self::UpdateDependencies { job, dependencies } => {
                Operation::UpdateDependencies { job, dependencies }
            }
            Self::AddBefore { existing, job } => Operation::AddBefore { existing, job },
            Self::AddAfter { existing, job } => Operation::AddAfter { existing, job },
        }
    }
}
