//! References below `refs/orchestra/` by which a plan keeps its commits: what its jobs have made outlives
//! their worktrees, and the collection of what nothing refers to, until the plan is put away for good.

use std::collections::BTreeSet;

use orchestra_plan::ids::{Commit, PlanId};

use super::{GitError, Owner, Repository, Worktree, names};

/// What goes before a plan's id.
const PREFIX: &str = "refs/orchestra/";

/// The name of the commit that a plan started from.
const BASE: &str = "base";

/// The reference that keeps what was made in a worktree.
fn reference(owner: Owner) -> String {
    match owner {
        Owner::Job(plan, job) => format!("{PREFIX}{plan}/{job}"),
        Owner::Snapshot(plan) => format!("{PREFIX}{plan}/result"),
    }
}

impl Worktree {
    /// Points `HEAD` itself at a commit, and keeps that for the plan: both or neither.
    pub(super) async fn keep_at_head(&self, commit: &Commit) -> Result<(), GitError> {
        let kept = reference(self.marker()?.owner);
        self.call(
            "keep the commit of a job",
            ["update-ref", "-m", "orchestra", "--stdin"],
        )
        .input(format!(
            "option no-deref\nupdate HEAD {commit}\nupdate {kept} {commit}\n"
        ))
        .on(commit)
        .run()
        .await
        .map(drop)
    }

    /// Keeps a commit for the plan whose worktree this is.
    pub async fn keep(&self, commit: &Commit) -> Result<(), GitError> {
        let kept = reference(self.marker()?.owner);
        let arguments = ["update-ref", "-m", "orchestra", &kept, commit.as_str()];
        let call = self.repository().call("keep a commit", arguments);
        call.on(commit).run().await.map(drop)
    }
}

impl Repository {
    /// Makes the snapshot branch of a plan, or moves it, to where the plan starts, and keeps that commit.
    pub async fn begin_snapshot(&self, plan: PlanId, base: &Commit) -> Result<(), GitError> {
        let branch = Self::snapshot_branch(plan)?;
        let snapshot = names::reference(&branch);
        let arguments = ["update-ref", "-m", "orchestra: snapshot", "--stdin"];
        let orders = format!("update {snapshot} {base}\nupdate {PREFIX}{plan}/{BASE} {base}\n");
        let call = || {
            self.call("make the snapshot branch", arguments)
                .input(orders.clone())
        };
        let begun = self.unlocked(&branch, call).await;
        Self::snapshot_made(&branch, begun)
    }

    /// Keeps no commit of a plan any more; branches that have them do.
    pub async fn forget_plan(&self, plan: PlanId) -> Result<(), GitError> {
        let below = format!("{PREFIX}{plan}/");
        self.forget_below(&below, |of| *of == plan).await.map(drop)
    }

    /// Keeps no commit of these plans any more, and says which of them had some.
    pub async fn forget_plans(
        &self,
        is_forgotten: impl Fn(&PlanId) -> bool,
    ) -> Result<BTreeSet<PlanId>, GitError> {
        self.forget_below(PREFIX, is_forgotten).await
    }

    async fn forget_below(
        &self,
        below: &str,
        is_forgotten: impl Fn(&PlanId) -> bool,
    ) -> Result<BTreeSet<PlanId>, GitError> {
        let arguments = ["for-each-ref", "--format=%(refname)", below];
        let listed = self.call("list what plans keep", arguments).run().await?;
        let (mut plans, mut orders) = (BTreeSet::new(), String::new());
        for name in listed.text().lines() {
            let plan = name.strip_prefix(PREFIX).and_then(|name| {
                let (plan, _) = name.split_once('/')?;
                PlanId::parse(plan).ok()
            });
            if let Some(plan) = plan.filter(&is_forgotten) {
                orders.push_str(&format!("option no-deref\ndelete {name}\n"));
                plans.insert(plan);
            }
        }
        if !plans.is_empty() {
            let call = self.call("forget what plans kept", ["update-ref", "--stdin"]);
            call.input(orders).run().await?;
        }
        Ok(plans)
    }
}
