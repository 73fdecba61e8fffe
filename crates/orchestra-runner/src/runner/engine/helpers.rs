//! What is done beside the turns, and what follows when that breaks off.

use orchestra_plan::ids::{JobId, PlanId};
use tokio::task::{Id, JoinError};

use super::Engine;
use crate::runner::{branches::Prepared, clean::Cleaned, turn::Turn};

/// What a helper does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Help {
    /// It prepares the branches of a plan.
    Prepare(PlanId),
    /// It removes all that a plan has in the repository.
    Clean(PlanId),
    /// It removes the worktree of a job.
    Remove(JobId),
    /// It ends what is over of a plan.
    Rest(PlanId),
    /// It removes the worktrees that nobody needs, these plans' among them.
    Sweep(Vec<PlanId>),
    /// It finds out whether a job has moved the target.
    Resolve(JobId),
    /// It fetches what remotes have.
    Fetch,
    /// It waits for a slot of the machine.
    Slot,
    /// It removes the data of a deleted plan.
    Erase,
    /// It does something that nobody waits for.
    Other,
}

impl Engine {
    /// Has something done in the background, which tells the engine when it is done.
    pub(crate) fn help(&mut self, help: Help, work: impl Future<Output = ()> + Send + 'static) {
        let handle = self.helpers.spawn(work);
        self.by_helper.insert(handle.id(), help);
    }

    /// A helper is over. One that has panicked told nothing: what waits for it does not wait for ever.
    pub(super) fn helper_ended(&mut self, ended: &Result<(Id, ()), JoinError>, turn: &mut Turn) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (*id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(help) = self.by_helper.remove(&id).filter(|_| panicked) else {
            return;
        };
        tracing::error!(?help, "a background task of the plans panicked");
        match help {
            Help::Prepare(plan) => self.prepared(Prepared::not(plan), turn),
            Help::Clean(plan) => self.cleaned(Cleaned::nothing(plan), turn),
            Help::Remove(job) => {
                turn.touched.extend(self.removing.remove(&job));
            }
            Help::Rest(plan) => self.rested(plan, turn),
            Help::Sweep(plans) => self.swept(plans, turn),
            Help::Resolve(job) => {
                self.resolving.remove(&job);
            }
            Help::Fetch => self.fetched(turn),
            Help::Slot => self.asks_for_slot = false,
            Help::Erase | Help::Other => {}
        }
    }

    /// Whether something of a plan is at work in the repository.
    pub(crate) fn is_at_work(&self, plan: &PlanId) -> bool {
        let jobs = self.jobs.values().any(|running| running.plan == *plan);
        jobs || self.removing.values().any(|of| of == plan)
    }

    /// Whether something of a plan that is over is still being ended or removed, so that nothing of it may
    /// begin.
    pub(crate) fn is_put_away(&self, plan: &PlanId) -> bool {
        self.cleaning.contains(plan) || self.resting.contains_key(plan)
    }
}
