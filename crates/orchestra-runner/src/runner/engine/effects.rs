//! What is set in motion once a turn is durable.

use orchestra_plan::{
    command::{Command, Request},
    ids::PlanId,
    plan::{Plan, Step},
    status::{JobStatus, PlanStatus},
};

use super::{Again, Engine, Help, shelf::target_of};
use crate::runner::{
    assignment::Assignment,
    branches, clean, recover,
    teller::{Next, Wants},
    turn::{Asking, Turn},
};

impl Engine {
    /// Acts upon a turn that is durable.
    pub(super) fn act(&mut self, turn: Turn) {
        for asking in turn.asking {
            let next = self.next(&asking);
            let _ = asking.answer.send(next);
        }
        for (id, job) in &turn.halted {
            let Some(running) = self.jobs.get(job) else {
                // Nobody has taken it up yet.
                recover::rest(self, *id, &[*job]);
                continue;
            };
            let plan = self.plans.get(&running.plan);
            let now = plan.and_then(|plan| plan.job(job)?.running());
            // One that told the end of its attempt itself ends by itself.
            if now.is_none_or(|now| now.number != running.attempt) {
                running.stop.send_replace(true);
            }
        }
        for starting in turn.starting {
            self.spawn(starting);
        }
        self.sweep();
        for (plan, job) in turn.removable {
            self.clean_job(plan, job);
        }
        for (plan, version) in turn.erased {
            self.erase(plan, version);
        }
        for id in &turn.touched {
            self.look_after(*id);
            self.shelve(*id);
        }
        self.fetch();
        self.prepare_branches();
        // Before it is known that nothing is left to do.
        self.given_up.send_replace(self.retries.given_up());
        let is_live = self.is_live();
        self.live.send_if_modified(|live| {
            let changed = *live != is_live;
            *live = is_live;
            changed
        });
        // Whoever is answered may leave at once, and by then it has to be seen that something is left to do.
        for (answer, value) in turn.answers {
            // Who has gone is told nothing.
            let _ = answer.send(value);
        }
    }

    /// What a task is told.
    fn next(&self, asking: &Asking) -> Next {
        let over = |seal| Next::Over { seal };
        let Some(plan) = self.plans.get(&asking.plan) else {
            return over(false);
        };
        let Some(job) = plan.job(&asking.job) else {
            return over(true);
        };
        match plan.next(job) {
            Step::UnderWay(task) if task.attempt.number == asking.attempt => match asking.wants {
                Wants::Go => Next::Go,
                Wants::Next => Next::Do(Box::new(Assignment::of(
                    plan,
                    &task,
                    &self.policy.splits,
                    false,
                ))),
            },
            // What checks have left behind is the job's as well.
            _ => {
                over(job.status() != JobStatus::Succeeded || job.definition().postchecks.is_some())
            }
        }
    }

    /// Whether somebody has to stay: a plan has something to do, or something of one is being put away.
    pub(crate) fn is_live(&self) -> bool {
        !self.cleaning.is_empty()
            || !self.resting.is_empty()
            || !self.removing.is_empty()
            || !self.resolving.is_empty()
            || !self.jobs.is_empty()
            || self.retries.next().is_some()
            || self.by_helper.values().any(|help| *help == Help::Erase)
            || self.plans.values().any(Plan::is_live)
    }

    /// Tells plans that wait for others what became of those.
    pub(super) fn tell_waiting(&mut self, turn: &mut Turn) {
        let ended: Vec<(PlanId, Option<PlanStatus>)> = turn
            .moved
            .iter()
            .filter_map(|id| {
                let plan = self.plans.get(id)?;
                let status = (!plan.is_deleted()).then(|| plan.status());
                (status.is_none_or(PlanStatus::is_ended)).then_some((*id, status))
            })
            .collect();
        for (other, status) in ended {
            let waits = |plan: &Plan| plan.settings().resume_after_plan == Some(other);
            let waiting: Vec<PlanId> = self
                .plans
                .iter()
                .filter(|(_, plan)| waits(plan) && !plan.is_deleted())
                .map(|(id, _)| *id)
                .collect();
            for id in waiting {
                self.tell_of_end(id, other, status, turn);
            }
        }
    }

    /// Tells a plan that waits for another that it has ended so, or that it is gone.
    pub(crate) fn tell_of_end(
        &mut self,
        id: PlanId,
        other: PlanId,
        status: Option<PlanStatus>,
        turn: &mut Turn,
    ) {
        let command = Command::OtherEnded {
            plan: other,
            status,
        };
        if let Err(refusal) = self.change(id, Request::of(command), turn) {
            tracing::debug!(plan = %id, %refusal, "the plan no longer waits");
        }
    }

    /// Prepares the branches of a plan that waits for them; one plan at a time, so that no two choose the
    /// same name.
    fn prepare_branches(&mut self) {
        if self.preparing.is_some() {
            return;
        }
        // One that is brought back while it is still being put away waits for the end of that.
        let is_free = |plan: &Plan| {
            let id = plan.id();
            !self.is_put_away(id)
                && !self.awaits_fetch(id)
                && !self.jobs.values().any(|running| running.plan == *id)
        };
        let mut plans = self.plans.values();
        let Some(plan) = plans.find(|plan| plan.wants_branches() && is_free(plan)) else {
            return;
        };
        let others = self.plans.values();
        let others = others.filter(|other| other.id() != plan.id() && !other.is_deleted());
        let shelved = self.shelf.values();
        let taken = others
            .filter_map(target_of)
            .chain(shelved.filter_map(|shelved| shelved.target.as_ref()))
            .cloned()
            .collect();
        let wanted = branches::Wanted {
            plan: *plan.id(),
            name: plan.name().to_owned(),
            base: plan.settings().base_branch.clone(),
            target: plan.settings().target_branch.clone(),
            decided: plan.decided_branches().cloned(),
            taken,
        };
        self.preparing = Some(wanted.plan);
        let (host, events) = (self.host.clone(), self.events.clone());
        self.help(Help::Prepare(wanted.plan), async move {
            branches::prepare(&host, wanted, &events).await;
        });
    }

    /// Puts away what is left of a plan that is over for good, once nothing of it is at work.
    pub(crate) fn look_after(&mut self, id: PlanId) {
        self.resolve(id);
        let Some(plan) = self.plans.get(&id) else {
            return;
        };
        let is_over = plan.is_deleted()
            || matches!(plan.status(), PlanStatus::Canceled | PlanStatus::Archived);
        if !is_over {
            self.cleaned.remove(&id);
            self.retries.done(Again::Clean(id));
            return;
        }
        if self.is_at_work(&id) || self.preparing == Some(id) || self.is_put_away(&id) {
            return;
        }
        // One that is deleted after it was put away has its data removed yet.
        let is_clean = self.cleaned.get(&id) == Some(&clean::is_forgotten(plan));
        if (is_clean && !plan.is_deleted()) || self.retries.waits(Again::Clean(id)) {
            return;
        }
        let task = clean::Whole::of(plan);
        self.cleaning.insert(id);
        let (host, events) = (self.host.clone(), self.events.clone());
        self.help(Help::Clean(id), async move {
            clean::whole(&host, task, &events).await;
        });
    }
}
