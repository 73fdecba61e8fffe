//! What can be asked of a plan: by people, by other plans, and by whoever runs its jobs.

use crate::event::{Branches, Event, JobChange};
use crate::ids::{AttemptNumber, Branch, JobId, Millis, PlanId};
use crate::mark::Mark;
use crate::outcome::Policy;
use crate::spec::{JobSpec, PlanSettings};
use crate::status::PlanStatus;

mod change;
mod refusal;
mod report;

pub use change::{AgentFields, AgentPatch, Operation, PlanPatch, Retry};
pub use refusal::{Code, Refusal};
pub use report::Report;

/// A command and what comes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is asked.
    pub command: Command,
    /// The version that the caller has seen: when the plan has gone on since, the command is
    /// refused.
    pub expected_version: Option<u64>,
    /// Names this command over repetitions: a second one with the same key changes nothing.
    pub key: Option<String>,
    /// Who asks, for the log.
    pub by: Option<String>,
}

impl Request {
    /// A command without conditions, as the runner gives them.
    #[must_use]
    pub const fn of(command: Command) -> Self {
        Self {
            command,
            expected_version: None,
            key: None,
            by: None,
        }
    }
}

/// What a decision needs to know from outside the plan.
pub struct Cx<'a> {
    /// The time.
    pub now: Millis,
    /// What configuration says about failures.
    pub policy: &'a Policy,
    /// Makes the ids of new jobs.
    pub ids: &'a mut dyn FnMut() -> JobId,
    /// Looks up another plan.
    pub others: &'a dyn Fn(&PlanId) -> Option<Other>,
}

/// What one plan sees of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// How it stands.
    pub status: PlanStatus,
    /// The plan that it waits for itself.
    pub after: Option<PlanId>,
}

/// What a command leads to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// To be made durable, all or none, and then applied. There may be none.
    pub events: Vec<Event>,
    /// What was done to each thing that the command named, where it named several.
    pub items: Vec<Item>,
    /// A command with the same key was carried out before: nothing is done again.
    pub repeated: bool,
}

/// What was done to one of several things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What the caller called it.
    pub asked: String,
    /// The job, where one was found or made.
    pub job: Option<JobId>,
    /// Why it was not done.
    pub refused: Option<Refusal>,
}

/// What can be asked of a plan that exists. Jobs that people name are found by
/// [`Plan::find`](crate::plan::Plan::find): an id, a producer id, or a name that no other job has.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Add jobs to a plan under construction. They may depend on each other in any order. The first
    /// that cannot be added ends it; those before are added.
    AddJobs(Vec<JobSpec>),
    /// Complete a plan under construction.
    Finalize {
        /// Whether it waits to be resumed; a plan that waits for another one does so in any case.
        start_paused: bool,
    },
    /// Change settings of the plan.
    Update(PlanPatch),
    /// Change the definition of a job that is not at work and has not succeeded.
    UpdateJob {
        /// Which.
        job: String,
        /// What.
        change: JobChange,
    },
    /// Change how agents work in many jobs at once.
    BulkUpdate {
        /// Which; all where it is absent.
        jobs: Option<Vec<String>>,
        /// What.
        patch: AgentPatch,
    },
    /// Change the graph, one operation after the other; one that fails does not stop the rest.
    Reshape(Vec<Operation>),
    /// Start nothing new.
    Pause,
    /// Let jobs start again.
    Resume,
    /// End all that has not ended.
    Cancel {
        /// In words; absent where nothing was said.
        reason: Option<String>,
    },
    /// Cancel it and remove all its data.
    Delete,
    /// Put it away after its end. The runner removes its worktrees and branches first.
    Archive {
        /// Cancel it first, if it has not ended.
        force: bool,
    },
    /// Bring back a canceled or failed plan, paused. The runner makes its branches again.
    Recover,
    /// Ask again for failed jobs: those named, or all.
    RetryPlan {
        /// Which; all failed ones where it is absent.
        jobs: Option<Vec<String>>,
        /// How.
        retry: Retry,
    },
    /// Ask again for one failed job.
    RetryJob {
        /// Which.
        job: String,
        /// How.
        retry: Retry,
    },
    /// Declare a job failed that has not ended.
    ForceFail {
        /// Which.
        job: String,
        /// Why; absent where nothing was said.
        reason: Option<String>,
    },
    /// Another plan has ended or was deleted; asked of those that may wait for it.
    OtherEnded {
        /// The other plan.
        plan: PlanId,
        /// How it stands now; absent when it is gone.
        status: Option<PlanStatus>,
    },
    /// The branches are prepared.
    BranchesReady(Branches),
    /// The branches cannot be prepared: the plan is paused with the reason shown.
    BranchesFailed {
        /// What went wrong and what to do.
        error: String,
    },
    /// The scheduler gives a job a slot.
    Schedule {
        /// Which.
        job: JobId,
    },
    /// A job gives back its slot before its attempt began: the plan was paused, the program ends,
    /// or the runner that had scheduled it is gone.
    Return {
        /// Which.
        job: JobId,
        /// Why.
        reason: String,
    },
    /// The attempt of a scheduled job begins.
    Begin {
        /// Which.
        job: JobId,
    },
    /// What has become of the attempt under way.
    Report {
        /// Of this job.
        job: JobId,
        /// The attempt that the report is about; of one that is over it is refused.
        attempt: AttemptNumber,
        /// What.
        report: Report,
    },
    /// The worktree of a job is gone.
    WorktreeRemoved {
        /// Which.
        job: JobId,
    },
    /// Time has passed: budgets of wall time are looked at. Give it at
    /// [`Plan::deadline`](crate::plan::Plan::deadline).
    Clock,
}

impl Command {
    /// Its name, for logs and for keys.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AddJobs(_) => "add_jobs",
            Self::Finalize { .. } => "finalize",
            Self::Update(_) => "update",
            Self::UpdateJob { .. } => "update_job",
            Self::BulkUpdate { .. } => "bulk_update",
            Self::Reshape(_) => "reshape",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel { .. } => "cancel",
            Self::Delete => "delete",
            Self::Archive { .. } => "archive",
            Self::Recover => "recover",
            Self::RetryPlan { .. } => "retry_plan",
            Self::RetryJob { .. } => "retry_job",
            Self::ForceFail { .. } => "force_fail",
            Self::OtherEnded { .. } => "other_ended",
            Self::BranchesReady(_) => "branches_ready",
            Self::BranchesFailed { .. } => "branches_failed",
            Self::Schedule { .. } => "schedule",
            Self::Return { .. } => "return",
            Self::Begin { .. } => "begin",
            Self::Report { .. } => "report",
            Self::WorktreeRemoved { .. } => "worktree_removed",
            Self::Clock => "clock",
        }
    }
}

/// A plan that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPlan {
    /// Its id.
    pub id: PlanId,
    /// What holds for it as a whole.
    pub settings: PlanSettings,
    /// Its jobs, without the validating one.
    pub jobs: Vec<JobSpec>,
    /// Whether more jobs are to come before it can run.
    pub scaffolding: bool,
    /// The plan that it is a copy of.
    pub source: Option<PlanId>,
    /// What was asked for, where it was asked for under a key.
    pub mark: Option<Mark>,
    /// Whether its jobs run in a sandbox, also if the settings change later.
    pub sandboxed: bool,
}

impl NewPlan {
    /// Notes what is asked for where that has a key, so that the same under the same key is known again. It is
    /// done before anything of it is settled that the caller left open.
    pub fn take_mark(&mut self) {
        if self.settings.idempotency_key.is_none() {
            return;
        }
        let mut mark = Mark::default();
        if let Some(source) = &self.source {
            // What that one has become meanwhile is not asked for.
            mark.text(&source.to_string());
            mark.text(self.settings.name.as_str());
            mark.text(
                self.settings
                    .target_branch
                    .as_ref()
                    .map_or("", Branch::as_str),
            );
            self.mark = Some(mark);
            return;
        }
        let asked = (
            serde_json::to_value(&self.settings),
            serde_json::to_value(&self.jobs),
        );
        let (Ok(serde_json::Value::Object(settings)), Ok(jobs)) = asked else {
            return;
        };
        let asked = |name: &str| !NOT_ASKED.contains(&name);
        mark.fields(settings.iter().filter(|(name, _)| asked(name)));
        mark.value(&jobs);
        mark.text(if self.scaffolding {
            "scaffold"
        } else {
            "whole"
        });
        self.mark = Some(mark);
    }
}

/// Settings of a plan that are not what is asked for: the key itself, and whether it starts at once.
const NOT_ASKED: [&str; 2] = ["idempotencyKey", "startPaused"];
