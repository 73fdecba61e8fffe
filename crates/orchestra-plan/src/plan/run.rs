//! What the events of an attempt do to its job.

use crate::budget::Usage;
use crate::event::{Act, AttemptEnd, Failure, Next, Trigger, What};
use crate::ids::{AttemptNumber, Commit, JobId, Millis};
use crate::phase::Phase;
use crate::plan::attempt::Span;
use crate::plan::job::index;
use crate::plan::{Attempt, AttemptStatus, Changes, Ix, Job, Misfit, Plan};
use crate::status::Transition;

impl Plan {
    pub(super) fn apply_run(&mut self, at: Millis, what: &What, changes: &mut Changes) {
        match what {
            What::AttemptBegan {
                job,
                attempt,
                trigger,
                acts,
            } => {
                let Some(ix) = self.known(job, changes) else {
                    return;
                };
                let (job, attempt) = (*job, *attempt);
                if attempt != self.jobs[ix.at()].next_number() {
                    changes.refused = Some(Misfit::Attempt { job, attempt });
                } else if self.shift(ix, Transition::Start, at, None, changes) {
                    self.begin(ix, attempt, *trigger, acts, at);
                }
            }
            What::AttemptEnded {
                job,
                attempt,
                end,
                usage,
                ended_at,
            } => {
                if let Some((ix, _)) = self.open(job, *attempt, changes) {
                    self.spend(ix, usage);
                    self.end(ix, end, (at, *ended_at), changes);
                }
            }
            What::UsageAdded {
                job,
                attempt,
                usage,
            } => {
                if let Some((ix, _)) = self.open(job, *attempt, changes) {
                    self.spend(ix, usage);
                }
            }
            What::ActSucceeded {
                job,
                attempt,
                act,
                usage,
                ..
            } => {
                if let Some((ix, _)) = self.open(job, *attempt, changes) {
                    self.spend(ix, usage);
                    self.succeeded(ix, *act, what, at, changes);
                }
            }
            What::MergeVoided { job, attempt } => self.merge_known(job, *attempt, None, changes),
            What::Merged {
                job,
                attempt,
                commit,
            } => self.merge_known(job, *attempt, Some(commit), changes),
            _ => self.apply_progress(at, what, changes),
        }
    }

    /// What became of the target, also when the attempt has ended meanwhile.
    fn merge_known(
        &mut self,
        job: &JobId,
        attempt: AttemptNumber,
        commit: Option<&Commit>,
        changes: &mut Changes,
    ) {
        let Some(ix) = self.known(job, changes) else {
            return;
        };
        let job = &mut self.jobs[ix.at()];
        if job.intent().is_none_or(|(intended, _)| intended != attempt) {
            changes.refused = Some(Misfit::NoIntent(job.id));
            return;
        }
        job.version += 1;
        changes.edited.push(job.id);
        job.intent = None;
        if let Some(commit) = commit {
            job.merged = Some(commit.clone());
        }
    }

    /// The attempt under way, if it has this number.
    fn open(
        &mut self,
        job: &JobId,
        attempt: AttemptNumber,
        changes: &mut Changes,
    ) -> Option<(Ix, &mut Job)> {
        let ix = self.known(job, changes)?;
        let job = &mut self.jobs[ix.at()];
        let open = job
            .running()
            .is_some_and(|running| running.number == attempt);
        if !open {
            let job = job.id;
            changes.refused = Some(Misfit::Attempt { job, attempt });
        }
        open.then_some((ix, job))
    }

    fn apply_progress(&mut self, at: Millis, what: &What, changes: &mut Changes) {
        let (job, attempt) = match what {
            What::WorktreeReady { job, attempt, .. }
            | What::ActBegan { job, attempt, .. }
            | What::ProcessStarted { job, attempt, .. }
            | What::SessionKnown { job, attempt, .. }
            | What::ContextFilled { job, attempt, .. }
            | What::JobSplit { job, attempt, .. }
            | What::MergeIntended { job, attempt, .. } => (job, *attempt),
            _ => return,
        };
        let init = !self.settings.worktree_init.is_empty();
        let Some((_, job)) = self.open(job, attempt, changes) else {
            return;
        };
        job.version += 1;
        let id = job.id;
        let Some(attempt) = job.attempts.last_mut() else {
            return;
        };
        match what {
            What::WorktreeReady {
                path,
                base,
                fresh,
                sets_up,
                ..
            } => {
                job.sets_up = *sets_up;
                attempt.worktree = Some(path.clone());
                attempt.base = Some(base.clone());
                job.worktree = Some(path.clone());
                job.base_commit = Some(base.clone());
                job.worktree_removed = false;
                job.begins_anew = false;
                attempt.fresh = *fresh;
                if *fresh {
                    job.set_up = false;
                }
                let setup = Act::of(Phase::Setup);
                let later = attempt.acts.get(attempt.done..).unwrap_or_default();
                let wanted = (init && *fresh) || (*sets_up && !job.set_up);
                if wanted && !later.contains(&setup) {
                    // Behind merge-fi, which is under way.
                    let place = attempt.done.saturating_add(1).min(attempt.acts.len());
                    attempt.acts.insert(place, setup);
                }
            }
            What::ActBegan { act, .. } if attempt.upcoming() != Some(*act) => {
                changes.refused = Some(Misfit::Act { job: id, act: *act });
            }
            What::ActBegan { act, .. } => {
                attempt.usage_before = attempt.usage;
                attempt.spans.push(Span {
                    act: *act,
                    started_at: at,
                    ended_at: None,
                });
            }
            What::ProcessStarted { process, .. } => attempt.process = Some(process.clone()),
            What::SessionKnown { session, .. } => {
                attempt.session = Some(session.clone());
                if let Some(act) = attempt.under_way() {
                    job.sessions.retain(|(one, _)| *one != act);
                    job.sessions.push((act, session.clone()));
                }
                job.session = Some(session.clone());
            }
            What::ContextFilled { filled, .. } => attempt.filled = Some(*filled),
            What::JobSplit { .. } => {
                job.split = true;
                let done = attempt.done;
                let mut place = 0;
                attempt.acts.retain(|act| {
                    place += 1;
                    place <= done || *act != Act::of(Phase::Postchecks)
                });
            }
            What::MergeIntended { intent, .. } => {
                job.intent = Some((attempt.number, intent.clone()));
            }
            _ => {}
        }
    }

    fn begin(&mut self, ix: Ix, number: AttemptNumber, trigger: Trigger, acts: &[Act], at: Millis) {
        let job = &mut self.jobs[ix.at()];
        job.started_at.get_or_insert(at);
        job.reset = None;
        job.attempts.push(Attempt {
            number,
            trigger,
            status: AttemptStatus::Running,
            acts: acts.to_vec(),
            done: 0,
            spans: Vec::new(),
            process: None,
            session: None,
            started_at: at,
            ended_at: None,
            failure: None,
            worktree: job.worktree().map(str::to_owned),
            fresh: false,
            base: job.base_commit.clone(),
            commit: None,
            usage: Usage::default(),
            usage_before: Usage::default(),
            filled: None,
        });
    }

    fn spend(&mut self, ix: Ix, usage: &Usage) {
        if usage.is_zero() {
            return;
        }
        let job = &mut self.jobs[ix.at()];
        job.usage = job.usage.plus(usage);
        if let Some(attempt) = job.attempts.last_mut() {
            attempt.usage = attempt.usage.plus(usage);
            if attempt.under_way().is_some_and(|act| act.heal) {
                self.heal_cost = self.heal_cost.saturating_add(usage.cost_micros);
            }
        }
        self.usage = self.usage.plus(usage);
    }

    fn succeeded(&mut self, ix: Ix, act: Act, what: &What, at: Millis, changes: &mut Changes) {
        let What::ActSucceeded {
            commit,
            summary,
            ended_at,
            ..
        } = what
        else {
            return;
        };
        let job = &mut self.jobs[ix.at()];
        job.version += 1;
        let Some(attempt) = job.attempts.last_mut() else {
            return;
        };
        if attempt.under_way() != Some(act) {
            changes.refused = Some(Misfit::Act { job: job.id, act });
            return;
        }
        attempt.close_span(ended_at.unwrap_or(at).min(at));
        attempt.done += 1;
        attempt.process = None;
        if let Some(commit) = commit {
            attempt.commit = Some(commit.clone());
        }
        if let Some(summary) = summary {
            // Each commit counts from where the job started.
            job.summary = Some(*summary);
        }
        if act == Act::of(Phase::Setup) {
            job.set_up = true;
        }
        if act == Act::of(Phase::MergeFi) && !job.integrated {
            job.integrated = true;
            self.consumed(ix, changes);
        }
    }

    /// Tells those that a job depends on that it has taken up their work.
    fn consumed(&mut self, ix: Ix, changes: &mut Changes) {
        for place in 0..self.jobs[ix.at()].dependencies.len() {
            let other = self.jobs[ix.at()].dependencies[place];
            let other = &mut self.jobs[other.at()];
            other.consumed += 1;
            if other.consumed == other.dependent_count() && self.settings.clean_up_successful_work {
                changes
                    .removable
                    .extend(other.removable().then_some(other.id));
            }
        }
    }

    /// Ends an attempt, as is told at a time; its process may have ended before.
    fn end(
        &mut self,
        ix: Ix,
        end: &AttemptEnd,
        (at, ended_at): (Millis, Option<Millis>),
        changes: &mut Changes,
    ) {
        let ended = ended_at.unwrap_or(at).min(at);
        match end {
            AttemptEnd::Succeeded {} => {
                let job = &self.jobs[ix.at()];
                if job.running().is_none_or(|one| one.commit.is_none()) {
                    changes.refused = Some(Misfit::NoCommit(job.id));
                    return;
                }
                self.close(ix, AttemptStatus::Succeeded, ended);
                let job = &mut self.jobs[ix.at()];
                job.completed_commit = job.attempts.last().and_then(|one| one.commit.clone());
                job.losses = 0;
                if job.split {
                    self.shift(ix, Transition::Split, at, None, changes);
                }
                if self.shift(ix, Transition::Succeed, at, None, changes) {
                    self.ripple(ix, at, changes);
                    let job = &self.jobs[ix.at()];
                    let wanted = self.settings.clean_up_successful_work && job.removable();
                    changes.removable.extend(wanted.then_some(job.id));
                }
            }
            AttemptEnd::Failed { act, failure } => {
                self.close(ix, AttemptStatus::Failed, ended);
                let job = &mut self.jobs[ix.at()];
                if let Some(attempt) = job.attempts.last_mut() {
                    attempt.failure = Some((*act, failure.clone()));
                }
                // What the job failed of is what the heal was to repair.
                let healed = job.attempts.last().filter(|_| act.heal);
                let healed = healed.and_then(|attempt| super::next::healed(job, attempt));
                let failure = healed.map_or(failure, |(_, failure)| failure).clone();
                self.fail(ix, Transition::Fail, failure, at, changes);
            }
            AttemptEnd::Again {
                act,
                failure,
                next,
                counted,
            } => {
                self.close(ix, AttemptStatus::Failed, ended);
                self.again(ix, *act, failure, next, *counted);
                let by = match next.trigger {
                    Trigger::Recovery => Transition::Recover,
                    _ => Transition::Heal,
                };
                self.shift(ix, by, at, Some(failure.message.clone()), changes);
            }
        }
    }

    fn again(&mut self, ix: Ix, act: Act, failure: &Failure, next: &Next, counted: bool) {
        let job = &mut self.jobs[ix.at()];
        if let Some(attempt) = job.attempts.last_mut() {
            attempt.failure = Some((act, failure.clone()));
        }
        if counted {
            job.heals[index(act.phase)] += 1;
            self.heals = self.heals.saturating_add(u32::from(next.heal.is_some()));
        }
        match next.trigger {
            Trigger::Recovery => job.losses += 1,
            Trigger::Transient => job.transients += 1,
            Trigger::PostchecksRevalidation => job.integrations += 1,
            _ => {}
        }
        if next.trigger != Trigger::Recovery {
            job.losses = 0;
        }
        job.next = next.clone();
    }
}
