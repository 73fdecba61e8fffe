//! Plans that are archived and put away: little is known of them here until somebody asks for one, which is
//! read from its journal then.

use std::{collections::HashMap, sync::Arc};

use orchestra_plan::{
    ids::{Branch, PlanId},
    plan::{Plan, Step},
    spec::IdempotencyKey,
    status::PlanStatus,
};

use super::{Engine, Event, Help};
use crate::{
    cause::chain,
    holder::Refused,
    journal::OnceKey,
    plans::{Order, refused},
    runner::{
        clean::is_forgotten,
        turn::{AnswerTo, Turn},
    },
};

/// What is known of a plan that is on the shelf.
#[derive(Debug)]
pub(super) struct Shelved {
    /// How many events it has.
    version: u64,
    /// The key that it was made under.
    key: Option<IdempotencyKey>,
    /// The branch that it ended on.
    pub(super) target: Option<Branch>,
    /// The plan that it waited for.
    pub(super) after: Option<PlanId>,
}

/// The plans on the shelf.
pub(super) type Shelf = HashMap<PlanId, Shelved>;

/// A plan that was read since somebody asks for something of it.
#[derive(Debug)]
pub(crate) struct Found {
    id: PlanId,
    plan: Result<Option<Arc<Plan>>, Refused>,
    order: Order,
    once: Option<OnceKey>,
    answer: AnswerTo,
}

impl Engine {
    /// The plan on the shelf that an order is about.
    pub(super) fn shelved(&self, order: &Order) -> Option<PlanId> {
        match order {
            Order::Change { plan, .. } => Some(*plan).filter(|plan| self.shelf.contains_key(plan)),
            Order::Create { new, .. } => {
                let key = Some(new.settings.idempotency_key.as_ref()?);
                let mut shelf = self.shelf.iter();
                let found = shelf.find(|(_, shelved)| shelved.key.as_ref() == key);
                found.map(|(id, _)| *id)
            }
        }
    }

    /// Reads a plan that is on the shelf, and does then what is asked.
    pub(super) fn take_down(
        &mut self,
        id: PlanId,
        order: Order,
        once: Option<OnceKey>,
        answer: AnswerTo,
    ) {
        let (folded, events) = (self.folded.clone(), self.events.clone());
        self.help(Help::Other, async move {
            let read = move || {
                let plan = folded.kept(id);
                folded.forget(&id);
                plan.map_err(|error| refused(error.code(), &chain(&error)))
            };
            let read = tokio::task::spawn_blocking(read).await;
            let found = Found {
                id,
                plan: read.unwrap_or_else(|error| Err(refused("internal", &error.to_string()))),
                order,
                once,
                answer,
            };
            // Whoever asks hears that this process ends.
            let _ = events.send(Event::Found(Box::new(found))).await;
        });
    }

    /// Does what is asked of a plan that was read for it.
    pub(super) fn found(&mut self, found: Found, turn: &mut Turn) {
        let Found {
            id,
            plan,
            order,
            once,
            answer,
        } = found;
        let has_gone_on = |plan: &Arc<Plan>| {
            let shelved = self.shelf.get(&id);
            shelved.is_some_and(|shelved| shelved.version > plan.version())
        };
        match plan {
            // Somebody else has changed it meanwhile, and it is on the shelf again.
            Ok(Some(plan)) if has_gone_on(&plan) => self.take_down(id, order, once, answer),
            Ok(plan) => {
                // It may have been taken down for somebody else.
                if self.shelf.remove(&id).is_some()
                    && let Some(plan) = plan
                {
                    self.scheduler.load(&plan);
                    self.plans.insert(id, Arc::unwrap_or_clone(plan));
                }
                turn.touched.insert(id);
                self.asked(order, once, answer, turn);
            }
            Err(refused) => turn.answers.push((answer, Err(refused))),
        }
    }

    /// The plans on the shelf.
    pub(crate) fn on_shelf(&self) -> Vec<PlanId> {
        self.shelf.keys().copied().collect()
    }

    /// Puts a plan on the shelf that is archived, once nothing of it is left to do.
    pub(super) fn shelve(&mut self, id: PlanId) {
        let Some(plan) = self.plans.get(&id) else {
            return;
        };
        let is_archived = plan.status() == PlanStatus::Archived && !plan.is_deleted();
        let is_clean = self.cleaned.get(&id) == Some(&is_forgotten(plan));
        if !is_archived || !is_clean || self.to_sweep.is_some() {
            return;
        }
        let resolves = |plan: &Plan| {
            let mut jobs = plan.jobs().iter();
            jobs.any(|job| matches!(plan.next(job), Step::Resolve { .. }))
        };
        if self.is_at_work(&id)
            || self.is_put_away(&id)
            || self.preparing == Some(id)
            || resolves(plan)
        {
            return;
        }
        let shelved = Shelved {
            version: plan.version(),
            key: plan.settings().idempotency_key.clone(),
            target: target_of(plan).cloned(),
            after: plan.settings().resume_after_plan,
        };
        self.shelf.insert(id, shelved);
        self.scheduler.remove(&id);
        self.plans.remove(&id);
        self.folded.forget(&id);
    }
}

/// The branch that a plan ends on, as far as it is known.
pub(super) fn target_of(plan: &Plan) -> Option<&Branch> {
    match plan.decided_branches() {
        Some(branches) => Some(&branches.target),
        None => plan.settings().target_branch.as_ref(),
    }
}
