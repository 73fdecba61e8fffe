//! What the tools of group `plans` ask of whoever runs the plans.
//!
//! It is a trait so that the tools can be tried over a model without git and processes; the program gives
//! them the runner of the workspace.

mod runner;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use orchestra_hub::BoxFuture;
use orchestra_plan::{
    command::{Command, Refusal},
    ids::{AttemptNumber, Branch, JobId, PlanId},
    plan::Plan,
    spec::{JobSpec, Name, PlanSettings},
    status::PlanStatus,
    view::PlanView,
};
use orchestra_runner::{
    agents::Offer,
    logs::{Page, Query},
};

/// Why something asked of the plans was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PlanFault {
    /// A word for the kind of fault, which stays the same over versions.
    pub code: String,
    /// What went wrong and what to do.
    pub message: String,
}

impl PlanFault {
    /// A fault of a kind.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }
}

impl From<Refusal> for PlanFault {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code().name(), refusal.message())
    }
}

/// Who asks, and under which conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asking {
    /// Who, for the log of the plan.
    pub by: Option<String>,
    /// Names what is asked over repetitions.
    pub key: Option<String>,
    /// The version of the plan that the caller has seen.
    pub expected_version: Option<u64>,
}

/// A plan that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Make {
    /// What holds for it as a whole.
    pub settings: PlanSettings,
    /// Its jobs, without the validating one.
    pub jobs: Vec<JobSpec>,
    /// Whether more jobs are to come before it can run.
    pub scaffolding: bool,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// To which plan.
    pub plan: PlanId,
    /// Its version since.
    pub version: u64,
    /// How it stands since.
    pub status: PlanStatus,
    /// What was done to each thing that was named, where several were.
    pub items: Vec<DoneItem>,
    /// It had been done before under the same key: nothing was done now.
    pub repeated: bool,
    /// What should be known of it, as an agent that is not installed.
    pub warnings: Vec<String>,
    /// The agents that a plan may start that was made, a line each.
    pub agents: Vec<String>,
}

/// What was done to one of several things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneItem {
    /// What the caller called it.
    pub asked: String,
    /// The job, where one was found or made.
    pub job: Option<JobId>,
    /// Why it was not done.
    pub refused: Option<PlanFault>,
}

/// What was put away with a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutAway {
    /// The worktrees that were removed.
    pub worktrees: Vec<String>,
    /// The branches that were removed; never those of remote repositories.
    pub branches: Vec<String>,
    /// What else is to be known of it.
    pub note: Option<String>,
    /// Whether it was asked before under this key; nothing was done now.
    pub repeated: bool,
}

/// Whoever runs the plans of a workspace.
pub trait PlanService: Send + Sync + 'static {
    /// All plans that are not deleted and can be read, oldest first.
    fn plans(&self) -> BoxFuture<Result<Vec<Arc<Plan>>, PlanFault>>;

    /// Which plans cannot be read, why, and what to do.
    fn unreadable(&self) -> BoxFuture<Result<Vec<String>, PlanFault>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Plans of which nothing runs before the user accepts them.
    fn waiting_for_trust(&self) -> BoxFuture<Result<HashSet<PlanId>, PlanFault>> {
        Box::pin(async { Ok(HashSet::new()) })
    }

    /// The plan of an id, or of a name that no other has.
    fn plan(&self, asked: &str) -> BoxFuture<Result<Arc<Plan>, PlanFault>>;

    /// A plan as its status shows it, with what its jobs wait for.
    fn view(&self, plan: Arc<Plan>) -> BoxFuture<Result<PlanView, PlanFault>>;

    /// Agents that a plan asks for, before it is made, and that may not start before a person agrees.
    fn offers(&self, _make: Make) -> BoxFuture<Vec<Offer>> {
        Box::pin(async { Vec::new() })
    }

    /// The same of a plan that is made.
    fn offers_of(&self, _plan: Arc<Plan>) -> BoxFuture<Vec<Offer>> {
        Box::pin(async { Vec::new() })
    }

    /// Stores that the user agreed to an agent as it was shown.
    fn agree(&self, _offer: Offer) -> BoxFuture<Result<(), PlanFault>> {
        let fault = PlanFault::new("agreement-not-stored", "nothing stores agreements here");
        Box::pin(async move { Err(fault) })
    }

    /// Makes a plan; it is durable when this answers.
    fn create(&self, make: Make, asking: Asking) -> BoxFuture<Result<Done, PlanFault>>;

    /// Makes a plan under construction of the jobs of another, none of them begun.
    fn copy(
        &self,
        source: PlanId,
        name: Option<Name>,
        target: Option<Branch>,
        asking: Asking,
    ) -> BoxFuture<Result<Done, PlanFault>>;

    /// Changes a plan; the change is durable when this answers.
    fn change(
        &self,
        plan: PlanId,
        command: Command,
        asking: Asking,
    ) -> BoxFuture<Result<Done, PlanFault>>;

    /// Puts a plan away: its worktrees and its own branches are removed. With `remote` it is said how a branch
    /// goes that somebody has pushed.
    fn archive(
        &self,
        plan: PlanId,
        force: bool,
        remote: bool,
        asking: Asking,
    ) -> BoxFuture<Result<PutAway, PlanFault>>;

    /// Which worktrees of a plan that is put away stay, since they hold something of somebody's, and what to do;
    /// `before` is the plan as it was.
    fn kept_worktrees(&self, _before: Arc<Plan>) -> BoxFuture<Vec<String>> {
        Box::pin(async { Vec::new() })
    }

    /// The plan, once it has another version than this, or after a while in which it has not.
    fn changed(&self, plan: PlanId, seen: u64) -> BoxFuture<Result<Arc<Plan>, PlanFault>>;

    /// Lines of the log of an attempt; of the latest one unless said. `None` where there was none.
    fn log(
        &self,
        plan: Arc<Plan>,
        job: JobId,
        attempt: Option<AttemptNumber>,
        query: Query,
    ) -> BoxFuture<Result<Option<Page>, PlanFault>>;

    /// Where what a job of a plan does is kept.
    fn specs_directory(&self, plan: PlanId) -> PathBuf;
}
