//! References below `refs/orchestra/` by which a plan keeps its commits: what its jobs have made outlives
//! their worktrees, and the collection of what nothing refers to, until the plan is put away for good.

use std::collections::BTreeSet;

use orchestra_plan::ids::{Branch, Commit, PlanId};

use super::{
    GitError, Owner, Repository, Worktree,
    call::Call,
    names,
    snapshot::{ALL, plan_of_snapshot},
    unlock::unlocked,
};

/// What goes before a plan's id.
pub(super) const PREFIX: &str = "refs/orchestra/";

/// The name of the commit that a plan started from.
const BASE: &str = "base";

/// The name of the commit of its target that a plan builds on.
const TARGET: &str = "target";

/// A snapshot branch as it is found.
pub(super) struct FoundSnapshot {
    /// Its name: where there is none yet, the one that it has if no branch is in its way.
    pub(super) branch: Branch,
    /// Where it is, when there is one.
    pub(super) tip: Option<Commit>,
    /// Where the plan has put it, as far as that is known.
    pub(super) base: Option<Commit>,
}

/// The reference that keeps what was made in a worktree.
pub(super) fn reference(owner: Owner) -> String {
    match owner {
        Owner::Job(plan, job) => format!("{PREFIX}{plan}/{job}"),
        Owner::Snapshot(plan) => format!("{PREFIX}{plan}/result"),
    }
}

impl Worktree {
    /// Points `HEAD` itself at a commit, and keeps that for the plan: both or neither.
    pub(super) async fn keep_at_head(&self, commit: &Commit) -> Result<(), GitError> {
        let kept = reference(self.marker()?.owner);
        let arguments = ["update-ref", "-m", "orchestra", "--stdin"];
        let orders = format!("option no-deref\nupdate HEAD {commit}\nupdate {kept} {commit}\n");
        let call = || {
            let call = self.call("keep the commit of a job", arguments);
            call.input(orders.clone()).on(commit)
        };
        let common = self.repository().common_directory();
        unlocked(common, call).await.map(drop)
    }

    /// Keeps a commit for the plan whose worktree this is.
    pub async fn keep(&self, commit: &Commit) -> Result<(), GitError> {
        let kept = reference(self.marker()?.owner);
        let arguments = ["update-ref", "-m", "orchestra", &kept, commit.as_str()];
        let repository = self.repository();
        let call = || repository.call("keep a commit", arguments).on(commit);
        let common = repository.common_directory();
        unlocked(common, call).await.map(drop)
    }
}

impl Repository {
    /// Makes the snapshot branch of a plan, or moves it, to where the plan starts, and keeps that commit.
    /// A branch of which the user has made something is left to them. Returns the name of the branch: another
    /// where a branch leaves no room for the usual one.
    pub async fn begin_snapshot(&self, plan: PlanId, base: &Commit) -> Result<Branch, GitError> {
        let found = self.find_snapshot(plan).await?;
        let is_left = match &found.tip {
            None => false,
            Some(tip) if tip == base => true,
            Some(_) => self.why_kept(&found.branch, &found).await?.is_some(),
        };
        let (_, other) = Self::snapshot_names(plan)?;
        let mut branch = found.branch;
        loop {
            let mut orders = String::new();
            if !is_left {
                let snapshot = names::reference(&branch);
                let old = found.tip.as_ref();
                let old = old.map_or(self.format().none(), Commit::as_str);
                orders.push_str(&format!("update {snapshot} {base} {old}\n"));
            }
            orders.push_str(&format!("update {PREFIX}{plan}/{BASE} {base}\n"));
            let arguments = ["update-ref", "-m", "orchestra: snapshot", "--stdin"];
            let call = || {
                self.call("make the snapshot branch", arguments)
                    .input(orders.clone())
                    .on(&branch)
            };
            let begun = unlocked(self.common_directory(), call).await;
            match Self::snapshot_made(&branch, begun) {
                Err(GitError::InTheWay { .. }) if branch != other => branch = other.clone(),
                begun => return begun.map(|()| branch),
            }
        }
    }

    /// Where a plan's snapshot branch is, and where the plan has put it.
    pub(super) async fn find_snapshot(&self, plan: PlanId) -> Result<FoundSnapshot, GitError> {
        let (branch, other) = Self::snapshot_names(plan)?;
        let base = format!("{PREFIX}{plan}/{BASE}");
        let arguments = ["for-each-ref", "--format=%(refname) %(objectname)"];
        let call = self.call("look at the snapshot branch", arguments);
        let call = call
            .arg(names::reference(&branch))
            .arg(names::reference(&other));
        let answer = call.arg(&base).run().await?.text();
        let commit_of = |name: &str| {
            let mut lines = answer.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(found, _)| *found == name);
            found.map(|(_, commit)| names::commit(commit)).transpose()
        };
        let base = commit_of(&base)?;
        let (branch, tip) = match commit_of(&names::reference(&branch))? {
            Some(tip) => (branch, Some(tip)),
            None => match commit_of(&names::reference(&other))? {
                Some(tip) => (other, Some(tip)),
                None => (branch, None),
            },
        };
        Ok(FoundSnapshot { branch, tip, base })
    }

    /// Notes that a plan builds on this commit of its target, and keeps that.
    pub async fn note_target(&self, plan: PlanId, tip: &Commit) -> Result<(), GitError> {
        let noted = format!("{PREFIX}{plan}/{TARGET}");
        let arguments = ["update-ref", "-m", "orchestra", &noted, tip.as_str()];
        let call = || {
            self.call("note where the target of a plan is", arguments)
                .on(tip)
        };
        unlocked(self.common_directory(), call).await.map(drop)
    }

    /// The last commit of its target that a plan is known to build on.
    pub async fn noted_target(&self, plan: PlanId) -> Result<Option<Commit>, GitError> {
        self.find(&format!("{PREFIX}{plan}/{TARGET}")).await
    }

    /// Keeps no commit of a plan any more; branches that have them do. Where its snapshot branch is still
    /// there, what it started from is kept beside that.
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
        let call = self.call("list what plans keep", arguments);
        let listed = ALL.into_iter().fold(call, Call::arg).run().await?;
        let listed = listed.text();
        // Whoever deletes a snapshot branch later has to know where the plan had put it.
        let snapshots: BTreeSet<&str> = listed.lines().filter_map(plan_of_snapshot).collect();
        let (mut plans, mut orders) = (BTreeSet::new(), String::new());
        for name in listed.lines() {
            let is_needed = name
                .strip_prefix(PREFIX)
                .and_then(|name| name.split_once('/'))
                .is_some_and(|(plan, kept)| kept == BASE && snapshots.contains(plan));
            let plan = plan_of(name).filter(|_| !is_needed);
            if let Some(plan) = plan.filter(&is_forgotten) {
                orders.push_str(&format!("option no-deref\ndelete {name}\n"));
                plans.insert(plan);
            }
        }
        if !plans.is_empty() {
            let call = || {
                self.call("forget what plans kept", ["update-ref", "--stdin"])
                    .input(orders.clone())
            };
            unlocked(self.common_directory(), call).await?;
        }
        if let Err(error) = self.forget_in_submodules(&is_forgotten).await {
            // It is in nobody's way, and forgotten with another plan.
            tracing::debug!(%error, "cannot remove the references of plans in a submodule");
        }
        Ok(plans)
    }
}

/// Which plan a reference keeps something for.
pub(super) fn plan_of(name: &str) -> Option<PlanId> {
    let (plan, _) = name.strip_prefix(PREFIX)?.split_once('/')?;
    PlanId::parse(plan).ok()
}
