//! Worktrees that nobody needs and that are kept, since they hold something of somebody's.

use std::{collections::HashMap, fmt, path::PathBuf};

use orchestra_plan::{ids::PlanId, plan::Plan, status::PlanStatus};

use super::{Plans, PlansError};
use crate::{git::Held, runner::known_of};

/// A worktree that is kept although its plan is put away.
#[derive(Debug, Clone)]
pub struct KeptWorktree {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub plan: PlanId,
    /// What it holds.
    pub held: Held,
}

impl fmt::Display for KeptWorktree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, plan, held) = (self.path.display(), self.plan, &self.held);
        let word = orchestra_fs::quoted(&self.path);
        write!(
            f,
            "the worktree {path} of plan {plan} is kept, since it holds {held}; take that out, or \
             `git worktree remove --force --force {word}` removes it with all that it holds"
        )
    }
}

impl Plans {
    /// Worktrees of plans that were canceled, archived or deleted that hold what no plan has made. Those that
    /// are about to be removed are not among them.
    ///
    /// # Errors
    /// When the plans or the repository cannot be read.
    pub async fn kept_worktrees(&self) -> Result<Vec<KeptWorktree>, PlansError> {
        let plans = self.list().await?;
        let plans: HashMap<PlanId, &Plan> =
            plans.iter().map(|plan| (*plan.id(), &**plan)).collect();
        let is_away = |id: &PlanId| {
            plans.get(id).is_none_or(|plan| {
                matches!(plan.status(), PlanStatus::Canceled | PlanStatus::Archived)
            })
        };
        self.kept(is_away, |id| plans.get(&id).copied()).await
    }

    /// The same of one plan, as it was before it was put away.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub async fn kept_worktrees_of(&self, plan: &Plan) -> Result<Vec<KeptWorktree>, PlansError> {
        self.kept(|id| id == plan.id(), |_| Some(plan)).await
    }

    async fn kept<'a>(
        &self,
        is_meant: impl Fn(&PlanId) -> bool,
        plan_of: impl Fn(PlanId) -> Option<&'a Plan>,
    ) -> Result<Vec<KeptWorktree>, PlansError> {
        let repository = self.0.host.repository().await?;
        let mut kept = Vec::new();
        for entry in repository.worktrees().await? {
            let Some(owner) = entry.marker.map(|marker| marker.owner) else {
                continue;
            };
            let plan = owner.plan();
            if !is_meant(&plan) {
                continue;
            }
            let Ok(Some(worktree)) = repository.worktree(owner) else {
                continue;
            };
            let known: Vec<_> =
                plan_of(plan).map_or_else(Vec::new, |plan| known_of(plan).collect());
            match worktree.holds(&known).await {
                Ok(Some(held)) => kept.push(KeptWorktree {
                    path: entry.path,
                    plan,
                    held,
                }),
                Ok(None) => {}
                // Whoever removes it has been faster.
                Err(error) => tracing::debug!(%error, "cannot inspect a worktree"),
            }
        }
        Ok(kept)
    }
}
