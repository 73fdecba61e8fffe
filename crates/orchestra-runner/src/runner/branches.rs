//! Where a plan starts and ends: chosen once, before its first job.

use orchestra_plan::{
    command::{Command, Request},
    event::Branches,
    ids::{Branch, PlanId},
};
use tokio::sync::mpsc;

use super::{
    engine::{Engine, Event},
    host::{Host, Patience},
    turn::Turn,
};
use crate::{
    git::{EXCLUDED, GitError, TargetChoice},
    plans::git_words,
};

/// The branch that a plan is said to start from when it starts from no branch.
const NO_BRANCH: &str = "main";

/// What is known of the branches of a plan.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) plan: PlanId,
    pub(crate) name: String,
    pub(crate) base: Option<Branch>,
    pub(crate) target: Option<Branch>,
    /// What was decided before the plan was recovered.
    pub(crate) decided: Option<Branches>,
    /// Branches that other plans end on.
    pub(crate) taken: Vec<Branch>,
}

/// What came of preparing them.
#[derive(Debug)]
pub(crate) struct Prepared {
    plan: PlanId,
    branches: Result<Branches, String>,
}

impl Prepared {
    /// They were not, for a fault of ours.
    pub(crate) fn not(plan: PlanId) -> Self {
        let what = "an internal error stopped the preparation; resume the plan to try again";
        Self {
            plan,
            branches: Err(what.to_owned()),
        }
    }
}

/// Chooses the branches and prepares the repository.
pub(crate) async fn prepare(host: &Host, wanted: Wanted, events: &mpsc::Sender<Event>) {
    let mut patience = Patience::default();
    let branches = loop {
        match chosen(host, &wanted).await {
            Err(error) if patience.tries_again(&error).await => {}
            chosen => break chosen,
        }
    };
    let prepared = Prepared {
        plan: wanted.plan,
        branches: branches.map_err(|error| git_words(&error)),
    };
    // Who comes next prepares them anew.
    let _ = events.send(Event::Prepared(Box::new(prepared))).await;
}

async fn chosen(host: &Host, wanted: &Wanted) -> Result<Branches, GitError> {
    let repository = host.repository().await?;
    if let Some(decided) = &wanted.decided {
        // What has succeeded stands on that base, whatever the user has checked out by now.
        repository.exclude(&EXCLUDED).await?;
        repository
            .begin_snapshot(wanted.plan, &decided.base_commit)
            .await?;
        return Ok(decided.clone());
    }
    let base = repository
        .choose_base(wanted.base.as_ref().map(Branch::as_str))
        .await?;
    let target = repository
        .choose_target(TargetChoice {
            asked: wanted.target.as_ref().map(Branch::as_str),
            plan: &wanted.name,
            prefix: &host.latest_settings().await.branch_prefix,
            taken: &wanted.taken,
        })
        .await?;
    repository.exclude(&EXCLUDED).await?;
    let target_made = target.tip.is_none();
    let base_commit = target.tip.unwrap_or(base.commit);
    // It keeps a commit that no branch has, as of a repository without commits, from being collected.
    let snapshot = repository.begin_snapshot(wanted.plan, &base_commit).await?;
    let unnamed = || {
        Branch::parse(NO_BRANCH).map_err(|_| GitError::Unknown {
            name: NO_BRANCH.to_owned(),
        })
    };
    let base = match base.branch.or_else(|| wanted.base.clone()) {
        Some(branch) => branch,
        None => unnamed()?,
    };
    Ok(Branches {
        base,
        base_commit,
        target: target.branch,
        target_made,
        snapshot,
    })
}

impl Engine {
    /// Takes in what came of preparing the branches of a plan.
    pub(super) fn prepared(&mut self, prepared: Prepared, turn: &mut Turn) {
        self.preparing = None;
        let id = prepared.plan;
        turn.touched.insert(id);
        let command = match prepared.branches {
            Ok(branches) => Command::BranchesReady(branches),
            Err(error) => Command::BranchesFailed { error },
        };
        if let Err(refusal) = self.change(id, Request::of(command), turn) {
            tracing::debug!(plan = %id, %refusal, "the plan no longer waits for its branches");
        }
    }
}
