//! When jobs start, and when the engine looks again although nothing has happened.

use std::time::Duration;

use orchestra_plan::{
    command::{Command, Request},
    ids::PlanId,
    plan::Plan,
};
use tokio::time::Instant;

use super::{Engine, Event, Help};
use crate::{
    holder::Slot,
    plans::now,
    runner::{
        recover,
        turn::{Starting, Turn},
    },
};

impl Engine {
    /// Starts what may start.
    pub(super) fn schedule(&mut self, turn: &mut Turn) {
        if self.again_at.is_some() {
            return;
        }
        let limits = self.host.known_settings().limits;
        for start in self.scheduler.next(&limits, now()) {
            // Its plan is still being put away, the task of its last attempt is still ending, or the machine
            // has no room: it is asked again.
            let waits = self.is_put_away(&start.plan)
                || self.awaits_fetch(&start.plan)
                || self.jobs.contains_key(&start.job);
            let slot = match waits {
                true => None,
                false => self.take_slot(),
            };
            let scheduled = slot.is_some_and(|slot| {
                let command = Command::Schedule { job: start.job };
                let scheduled = self.change(start.plan, Request::of(command), turn);
                if let Err(refusal) = &scheduled {
                    tracing::debug!(plan = %start.plan, job = %start.job, %refusal, "cannot start a job");
                }
                if scheduled.is_ok() {
                    turn.starting.push(Starting {
                        plan: start.plan,
                        job: start.job,
                        slot,
                        found: false,
                    });
                }
                scheduled.is_ok()
            });
            if scheduled {
                self.advance(start.plan, start.job, turn);
            } else if let Some(plan) = self.plans.get(&start.plan) {
                self.scheduler.refresh(plan, &start.job);
            }
        }
        // One that came for a job which does not wait any more is for others.
        self.slot = None;
    }

    /// A slot of the machine: `None` where none is free, and the inner one where none is asked for.
    #[expect(
        clippy::option_option,
        reason = "no room, and no need for room, are not the same"
    )]
    fn take_slot(&mut self) -> Option<Option<Slot>> {
        let Some(slots) = &self.slots else {
            return Some(None);
        };
        if let Some(slot) = self.slot.take() {
            return Some(Some(slot));
        }
        if self.asks_for_slot {
            return None;
        }
        match slots.try_acquire() {
            Ok(Some(slot)) => Some(Some(slot)),
            Ok(None) => {
                let (slots, events) = (slots.clone(), self.events.clone());
                self.asks_for_slot = true;
                self.help(Help::Slot, async move {
                    let slot = slots.acquire().await;
                    // Nobody needs it who has ended.
                    let _ = events.send(Event::Slot(slot)).await;
                });
                None
            }
            // A machine whose slots cannot be counted is not stopped by that.
            Err(error) => {
                tracing::warn!(%error, "cannot count the slots of the machine");
                Some(None)
            }
        }
    }

    /// Budgets of wall time are looked at, and what failed is tried again.
    pub(super) fn clock(&mut self, turn: &mut Turn) {
        self.retry(turn);
        if self.collect_at.is_some_and(|at| at <= Instant::now()) {
            recover::collect(self);
        }
        let now = now();
        let due = |plan: &Plan| plan.deadline().is_some_and(|deadline| deadline <= now);
        let due: Vec<PlanId> = self
            .plans
            .iter()
            .filter(|(_, plan)| due(plan))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            // It always decides.
            let _ = self.change(id, Request::of(Command::Clock), turn);
        }
    }

    /// When to look again although nothing has happened.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        if self.again_at.is_some() {
            return self.again_at;
        }
        let deadlines = self.plans.values().filter_map(Plan::deadline).min();
        let at = self.scheduler.wake_at().into_iter().chain(deadlines).min();
        let at = at.map(|at| Instant::now() + at.since(now()) + Duration::from_millis(1));
        let others = [self.retries.next(), self.collect_at];
        at.into_iter().chain(others.into_iter().flatten()).min()
    }
}
