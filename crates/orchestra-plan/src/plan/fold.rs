//! What each event does to a plan.

use std::sync::Arc;

use crate::definition::JobDefinition;
use crate::event::{Act, Check, Event, Failure, FailureKind, JobChange, What};
use crate::ids::{JobId, Millis};
use crate::phase::Phase;
use crate::plan::job::index;
use crate::plan::{Attempt, AttemptStatus, Changes, Ix, Job, KEYS_MAX, Misfit, Plan};
use crate::status::Transition;

impl Plan {
    /// Folds in one event, and tells what it has moved.
    pub fn apply(&mut self, event: &Event) -> Changes {
        let mut changes = Changes::default();
        let before = self.status();
        self.version += 1;
        if let Some(key) = &event.key {
            if self.keys.len() == KEYS_MAX {
                self.keys.pop_front();
            }
            self.keys.push_back((key.clone(), self.version));
        }
        match &event.what {
            What::AttemptBegan { .. }
            | What::WorktreeReady { .. }
            | What::ActBegan { .. }
            | What::ProcessStarted { .. }
            | What::SessionKnown { .. }
            | What::ContextFilled { .. }
            | What::UsageAdded { .. }
            | What::ActSucceeded { .. }
            | What::JobSplit { .. }
            | What::MergeIntended { .. }
            | What::MergeVoided { .. }
            | What::Merged { .. }
            | What::AttemptEnded { .. } => self.apply_run(event.at, &event.what, &mut changes),
            What::JobScheduled { .. }
            | What::JobReturned { .. }
            | What::JobRetried { .. }
            | What::JobForceFailed { .. }
            | What::JobUpdated { .. }
            | What::BudgetExceeded { .. }
            | What::WorktreeRemoved { .. } => self.apply_job(event.at, &event.what, &mut changes),
            _ => self.apply_plan(event.at, &event.what, &mut changes),
        }
        self.conclude(before, event.at, reason_of(&event.what), &mut changes);
        changes
    }

    fn apply_plan(&mut self, at: Millis, what: &What, changes: &mut Changes) {
        match what {
            What::JobsAdded { jobs } => {
                for job in jobs {
                    self.append(Job::new(job.clone()), at, changes);
                }
            }
            What::PlanFinalized { validation, paused } => {
                self.scaffolding = false;
                self.add(validation, at, changes);
                if let Some(reason) = paused {
                    self.pause(at, reason.clone());
                }
            }
            What::PlanUpdated {
                env,
                max_parallel,
                budget,
            } => {
                let settings = &mut self.settings;
                settings.env = env
                    .clone()
                    .unwrap_or_else(|| std::mem::take(&mut settings.env));
                settings.max_parallel = max_parallel.unwrap_or(settings.max_parallel);
                settings.budget = budget.unwrap_or(settings.budget);
                let status = self.status();
                self.note(status, status, at, "plan-updated");
            }
            What::PlanChained { after } => self.settings.resume_after_plan = *after,
            What::PlanPaused { reason } => self.pause(at, reason.clone()),
            What::PlanResumed {} => self.unpause(at),
            What::PlanCanceled { reason } => self.cancel(at, reason, changes),
            What::PlanRecovered {} => self.recover(at, changes),
            What::PlanArchived {} => self.archived_at = Some(at),
            What::PlanDeleted {} => self.deleted = true,
            What::PlanCreated(_) => changes.refused = Some(Misfit::Created),
            What::BranchesReady { branches } => {
                self.branches = Some((**branches).clone());
                self.prepared = true;
            }
            What::JobAdded { job } => self.add(job, at, changes),
            What::JobRemoved { job } if self.known(job, changes).is_some() => {
                self.take_out(job);
                self.relink(at, changes);
            }
            What::DependenciesChanged { jobs } => {
                for rewired in jobs {
                    let Some(ix) = self.known(&rewired.job, changes) else {
                        continue;
                    };
                    let own = Arc::make_mut(&mut self.jobs[ix.at()].definition);
                    own.dependencies.clone_from(&rewired.dependencies);
                }
                self.relink(at, changes);
            }
            _ => {}
        }
    }

    fn add(&mut self, job: &JobDefinition, at: Millis, changes: &mut Changes) {
        if self.is_taken(job) {
            changes.refused = Some(Misfit::Duplicate(job.id));
            return;
        }
        self.jobs.push(Job::new(job.clone()));
        self.relink(at, changes);
    }

    fn cancel(&mut self, at: Millis, reason: &str, changes: &mut Changes) {
        self.canceled = true;
        for place in 0..self.jobs.len() {
            let ix = Ix(u32::try_from(place).unwrap_or(u32::MAX));
            if self.jobs[place].status.is_terminal() {
                continue;
            }
            self.close(ix, AttemptStatus::Canceled, at);
            let job = &mut self.jobs[place];
            job.error = Some(reason.to_owned());
            job.failure = Some(Failure::new(FailureKind::Canceled, reason));
            self.shift(ix, Transition::Cancel, at, Some(reason.to_owned()), changes);
        }
    }

    fn recover(&mut self, at: Millis, changes: &mut Changes) {
        let canceled = std::mem::take(&mut self.canceled);
        self.prepared = false;
        self.pause(at, crate::event::PauseReason::Recovered);
        for ix in self.order() {
            if self.jobs[ix.at()].status.is_dead() {
                self.revive(ix, canceled, at, changes);
                self.settle(ix, None, at, changes);
            }
        }
    }

    fn apply_job(&mut self, at: Millis, what: &What, changes: &mut Changes) {
        match what {
            What::JobScheduled { job } => {
                let Some(ix) = self.known(job, changes) else {
                    return;
                };
                if self.shift(ix, Transition::Schedule, at, None, changes) {
                    self.jobs[ix.at()].scheduled_at = Some(at);
                    self.started_at.get_or_insert(at);
                }
            }
            What::JobReturned { job, reason } => {
                let Some(ix) = self.known(job, changes) else {
                    return;
                };
                self.shift(ix, Transition::Recover, at, Some(reason.clone()), changes);
            }
            What::JobRetried { job, next } => {
                let Some(ix) = self.known(job, changes) else {
                    return;
                };
                if self.shift(ix, Transition::Retry, at, None, changes) {
                    let job = &mut self.jobs[ix.at()];
                    job.next = next.clone();
                    job.begins_anew = false;
                    job.forget_tries();
                    self.settle(ix, None, at, changes);
                    self.ripple(ix, at, changes);
                }
            }
            What::JobForceFailed { job, reason } => {
                let Some(ix) = self.known(job, changes) else {
                    return;
                };
                let failure = Failure::new(FailureKind::Forced, reason.clone());
                if self.fail(ix, Transition::ForceFail, failure, at, changes) {
                    self.jobs[ix.at()].forced = Some(reason.clone());
                }
            }
            What::JobUpdated { job, change } => {
                let Some(ix) = self.known(job, changes) else {
                    return;
                };
                self.update(ix, change);
                changes.edited.push(*job);
                let status = self.status();
                self.note(status, status, at, "job-updated");
            }
            What::BudgetExceeded { job, exceeded } => {
                self.exhaust(job.as_ref(), exceeded, at, changes)
            }
            What::WorktreeRemoved { job } => {
                if let Some(ix) = self.known(job, changes) {
                    self.jobs[ix.at()].worktree_removed = true;
                }
            }
            _ => {}
        }
    }

    pub(super) fn ix(&self, job: &JobId) -> Option<Ix> {
        self.by_id.get(job).copied()
    }

    /// The place of a job that an event is of.
    pub(super) fn known(&self, job: &JobId, changes: &mut Changes) -> Option<Ix> {
        let found = self.ix(job);
        if found.is_none() {
            changes.refused = Some(Misfit::NoJob(*job));
        }
        found
    }

    pub(super) fn is_taken(&self, job: &JobDefinition) -> bool {
        self.by_id.contains_key(&job.id) || self.by_producer.contains_key(&job.producer_id)
    }

    /// Fails a job whose attempt did not come to an end of its own.
    pub(super) fn fail(
        &mut self,
        ix: Ix,
        by: Transition,
        failure: Failure,
        at: Millis,
        changes: &mut Changes,
    ) -> bool {
        if let Err(refused) = self.jobs[ix.at()].status.after(by) {
            changes.refused = Some(refused.into());
            return false;
        }
        let act = self.jobs[ix.at()].running().map(current_act);
        if let Some(job) = self.close(ix, AttemptStatus::Failed, at)
            && let Some(attempt) = job.attempts.last_mut()
        {
            attempt.failure = act.map(|act| (act, failure.clone()));
        }
        let words = failure.message.clone();
        self.shift(ix, by, at, Some(words.clone()), changes);
        let job = &mut self.jobs[ix.at()];
        job.error = Some(words);
        job.failure = Some(failure);
        self.ripple(ix, at, changes);
        true
    }

    fn exhaust(
        &mut self,
        job: Option<&JobId>,
        exceeded: &crate::budget::Exceeded,
        at: Millis,
        changes: &mut Changes,
    ) {
        let (whose, jobs): (&str, Vec<Ix>) = match job {
            Some(job) => ("job", self.ix(job).into_iter().collect()),
            None => (
                "plan",
                self.active.iter().chain(&self.ready).copied().collect(),
            ),
        };
        let failure = Failure::new(
            FailureKind::BudgetExceeded,
            format!(
                "the {whose}'s budget is used up: {exceeded}; raise `{}` of the {whose}, then retry",
                exceeded.measure.field()
            ),
        );
        for ix in jobs {
            self.fail(ix, Transition::Exhaust, failure.clone(), at, changes);
        }
    }

    fn update(&mut self, ix: Ix, change: &JobChange) {
        let job = &mut self.jobs[ix.at()];
        job.version += 1;
        let own = Arc::make_mut(&mut job.definition);
        if let Some(work) = &change.work {
            own.work = Some(work.clone());
            if own.is_snapshot_validation() {
                self.settings.verify_ri = Some(work.clone());
            }
        }
        for (slot, check) in [
            (&mut own.prechecks, &change.prechecks),
            (&mut own.postchecks, &change.postchecks),
        ] {
            if let Some(check) = check {
                *slot = Check::spec(check).cloned();
            }
        }
        if let Some(env) = &change.env {
            own.env = env.clone();
        }
        own.expects_no_changes = change.expects_no_changes.unwrap_or(own.expects_no_changes);
        own.budget = change.budget.unwrap_or(own.budget);
        let Some(reset) = change.reset else { return };
        for phase in Phase::ALL.into_iter().filter(|phase| *phase >= reset) {
            job.heals[index(phase)] = 0;
        }
        if !job.attempts.is_empty() {
            job.reset = Some(job.reset.map_or(reset, |earlier| earlier.min(reset)));
            job.next.from = reset.min(job.next.from);
            // What was to be healed is done anew.
            job.next.heal = job.next.heal.filter(|healed| *healed < reset);
        }
    }
}

/// The act that an attempt is at: under way, or about to be.
fn current_act(attempt: &Attempt) -> Act {
    let last = attempt.acts.last().copied();
    let now = attempt.under_way().or(attempt.upcoming()).or(last);
    now.unwrap_or(Act::of(Phase::MergeFi))
}

fn reason_of(what: &What) -> &str {
    match what {
        What::PlanCanceled { reason } | What::JobForceFailed { reason, .. } => reason,
        What::PlanPaused { .. } => "paused",
        What::PlanResumed {} => "resumed",
        What::PlanFinalized { .. } => "finalized",
        What::PlanRecovered {} => "recovered",
        What::PlanArchived {} => "archived",
        What::JobRetried { .. } => "retry",
        What::JobScheduled { .. } => "started",
        What::AttemptEnded { .. } => "jobs ended",
        What::BudgetExceeded { .. } => "budget used up",
        _ => "changed",
    }
}
