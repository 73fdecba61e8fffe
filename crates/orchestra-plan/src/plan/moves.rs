//! How jobs move, and what follows from a move.

use crate::event::{Next, PauseReason, Trigger};
use crate::ids::{JobId, Millis};
use crate::outcome;
use crate::plan::{
    AttemptStatus, Change, Changes, HISTORY_MAX, Ix, Job, Move, Pause, Plan, PlanChange,
};
use crate::status::{JobStatus, PlanStatus, Transition};

impl Plan {
    /// Makes one move of one job and keeps every count; what follows for others is
    /// [`Self::ripple`].
    pub(super) fn shift(
        &mut self,
        ix: Ix,
        by: Transition,
        at: Millis,
        reason: Option<String>,
        changes: &mut Changes,
    ) -> bool {
        let from = self.jobs[ix.at()].status;
        let to = match from.after(by) {
            Ok(to) => to,
            Err(refused) => {
                changes.refused = Some(refused.into());
                return false;
            }
        };
        let job = &mut self.jobs[ix.at()];
        job.status = to;
        job.version += 1;
        if to.is_terminal() {
            job.ended_at = Some(at);
        } else if from.is_terminal() {
            job.ended_at = None;
        }
        if to != JobStatus::Blocked {
            job.blocked_by = None;
        }
        if !to.is_dead() && from.is_dead() {
            job.error = None;
            job.failure = None;
            job.forced = None;
        }
        changes.moves.push(Move {
            job: job.id,
            from,
            to,
        });
        if job.history.len() == HISTORY_MAX {
            job.history.pop_front();
        }
        job.history.push_back(Change {
            from,
            to,
            by,
            at,
            reason,
        });
        self.recount(ix, from, to, at);
        self.tell_dependents(ix, from, to);
        true
    }

    fn recount(&mut self, ix: Ix, from: JobStatus, to: JobStatus, at: Millis) {
        self.counts.shift(from, to);
        if let Some(group) = self.jobs[ix.at()].group {
            self.groups.shift(group, from, to, at);
        }
        let sets = [
            (JobStatus::Ready == from, JobStatus::Ready == to),
            (from.is_active(), to.is_active()),
        ];
        for (set, (was, is)) in [&mut self.ready, &mut self.active].into_iter().zip(sets) {
            if was && !is {
                set.remove(&ix);
            } else if is && !was {
                set.insert(ix);
            }
        }
    }

    fn tell_dependents(&mut self, ix: Ix, from: JobStatus, to: JobStatus) {
        let succeeded = to == JobStatus::Succeeded;
        let (died, lives) = (
            !from.is_dead() && to.is_dead(),
            from.is_dead() && !to.is_dead(),
        );
        if !(succeeded || died || lives) {
            return;
        }
        let dependents = std::mem::take(&mut self.jobs[ix.at()].dependents);
        for dependent in &dependents {
            let dependent = &mut self.jobs[dependent.at()];
            dependent.missing -= u32::from(succeeded).min(dependent.missing);
            dependent.dead += u32::from(died);
            dependent.dead -= u32::from(lives).min(dependent.dead);
        }
        self.jobs[ix.at()].dependents = dependents;
    }

    /// Lets a move have its effect on all that is downstream: jobs become ready, blocked or free
    /// again.
    pub(super) fn ripple(&mut self, start: Ix, at: Millis, changes: &mut Changes) {
        let mut stack = vec![start];
        while let Some(ix) = stack.pop() {
            let origin = self.jobs[ix.at()]
                .blocked_by
                .unwrap_or(self.jobs[ix.at()].id);
            for place in 0..self.jobs[ix.at()].dependents.len() {
                let dependent = self.jobs[ix.at()].dependents[place];
                if self.settle(dependent, Some(origin), at, changes) {
                    stack.push(dependent);
                }
            }
        }
    }

    /// Brings a waiting job to the state that its dependencies ask for. Tells whether its own
    /// dependents may have to follow.
    pub(super) fn settle(
        &mut self,
        ix: Ix,
        origin: Option<JobId>,
        at: Millis,
        changes: &mut Changes,
    ) -> bool {
        let job = &self.jobs[ix.at()];
        let (missing, dead) = (job.missing, job.dead);
        match job.status {
            JobStatus::Pending | JobStatus::Ready if dead > 0 => {
                let origin = origin.or_else(|| self.first_dead(ix));
                let words = self.blocked_words(origin.as_ref());
                self.shift(ix, Transition::Block, at, Some(words.clone()), changes);
                let job = &mut self.jobs[ix.at()];
                job.error = Some(words);
                job.blocked_by = origin;
                true
            }
            JobStatus::Pending if missing == 0 => {
                self.shift(ix, Transition::Unlock, at, None, changes);
                false
            }
            JobStatus::Ready if missing > 0 => {
                self.shift(ix, Transition::Await, at, None, changes);
                false
            }
            JobStatus::Blocked if dead > 0 => self.rename_origin(ix),
            JobStatus::Blocked => {
                self.shift(ix, Transition::Release, at, None, changes);
                if missing == 0 {
                    self.shift(ix, Transition::Unlock, at, None, changes);
                }
                true
            }
            _ => false,
        }
    }

    /// Names another job as the one that a blocked job is behind, where the named one is no longer
    /// dead.
    fn rename_origin(&mut self, ix: Ix) -> bool {
        let named = self.jobs[ix.at()].blocked_by;
        if named
            .and_then(|id| self.job(&id))
            .is_some_and(|job| job.status.is_dead())
        {
            return false;
        }
        let origin = self.first_dead(ix);
        let words = self.blocked_words(origin.as_ref());
        let job = &mut self.jobs[ix.at()];
        job.error = Some(words);
        job.blocked_by = origin;
        origin != named
    }

    fn first_dead(&self, ix: Ix) -> Option<JobId> {
        let found = self
            .dependencies(&self.jobs[ix.at()])
            .find(|job| job.status.is_dead())?;
        Some(found.blocked_by.unwrap_or(found.id))
    }

    fn blocked_words(&self, origin: Option<&JobId>) -> String {
        match origin.and_then(|id| self.job(id)) {
            Some(job) => {
                let (name, producer, status) = (job.name(), job.producer(), job.status);
                let named = match name == producer.as_str() {
                    true => format!("`{name}`"),
                    false => format!("`{name}` ({producer})"),
                };
                format!("blocked: job {named}, which this one depends on, is {status}")
            }
            None => "blocked: a job that this one depends on has failed".to_owned(),
        }
    }

    /// Ends the attempt under way, if there is one.
    pub(super) fn close(&mut self, ix: Ix, status: AttemptStatus, at: Millis) -> Option<&mut Job> {
        let job = &mut self.jobs[ix.at()];
        let attempt = job
            .attempts
            .last_mut()
            .filter(|one| one.status == AttemptStatus::Running)?;
        attempt.status = status;
        attempt.close_span(at);
        // No time is told after which it began to do something.
        let begun = attempt
            .spans
            .last()
            .map_or(attempt.started_at, |span| span.started_at);
        attempt.ended_at = Some(at.max(begun));
        attempt.process = None;
        job.spent_ms = job.spent_ms.saturating_add(attempt.wall_ms(at));
        Some(job)
    }

    /// What the plan itself takes from a move: when it started, when it ended, its history.
    pub(super) fn conclude(
        &mut self,
        before: PlanStatus,
        at: Millis,
        why: &str,
        changes: &mut Changes,
    ) {
        let over = !self.scaffolding && self.counts.terminal() == self.counts.total();
        if over && self.ended_at.is_none() {
            self.ended_at = Some(at);
            changes.ended = true;
        } else if !over && self.ended_at.is_some() {
            self.ended_at = None;
        }
        self.count_time(at);
        let after = self.status();
        if after != before {
            changes.status = Some((before, after));
            self.note(before, after, at, why);
        }
    }

    /// A plan is at work from its first job to its end, except while it is paused and nothing runs.
    fn count_time(&mut self, at: Millis) {
        let rests = self.paused.is_some() && self.active.is_empty();
        let works = self.started_at.is_some() && self.ended_at.is_none() && !rests;
        match self.at_work_since {
            None if works => self.at_work_since = Some(at),
            Some(since) if !works => {
                let more = at.get().saturating_sub(since.get());
                self.spent_ms = self.spent_ms.saturating_add(more);
                self.at_work_since = None;
            }
            _ => {}
        }
    }

    pub(super) fn note(&mut self, from: PlanStatus, to: PlanStatus, at: Millis, why: &str) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(PlanChange {
            from,
            to,
            at,
            reason: why.to_owned(),
        });
    }

    pub(super) fn pause(&mut self, at: Millis, reason: PauseReason) {
        self.unpause(at);
        if self.pauses.len() == HISTORY_MAX {
            self.pauses.pop_front();
        }
        self.pauses.push_back(Pause {
            paused_at: at,
            resumed_at: None,
            reason: reason.clone(),
        });
        self.paused = Some(reason);
    }

    pub(super) fn unpause(&mut self, at: Millis) {
        if self.paused.take().is_some()
            && let Some(pause) = self.pauses.back_mut()
        {
            pause.resumed_at = Some(at);
        }
    }

    /// Brings back a job that ended without success. What failed goes on in its worktree, where a
    /// person may have mended it; what was canceled is done from the start, as its worktree is gone unless it
    /// holds something of somebody's.
    pub(super) fn revive(&mut self, ix: Ix, canceled: bool, at: Millis, changes: &mut Changes) {
        let job = &self.jobs[ix.at()];
        let had = !job.attempts.is_empty();
        let goes_on = had && !canceled && job.status == JobStatus::Failed;
        let next = if goes_on {
            let mut next = outcome::retry(job, false, false);
            // Nobody has said so of this failure: the plan was brought back as a whole.
            next.despite = None;
            next
        } else if had {
            Next::whole(Trigger::Retry)
        } else {
            Next::whole(Trigger::Initial)
        };
        if self.shift(ix, Transition::Revive, at, None, changes) {
            let job = &mut self.jobs[ix.at()];
            job.next = next;
            job.begins_anew = had && !goes_on;
            job.forget_tries();
        }
    }
}

impl Job {
    /// Resets the counts of automatic attempts of the job. Those of the plan stay.
    pub(super) fn forget_tries(&mut self) {
        self.heals = Default::default();
        self.losses = 0;
        self.integrations = 0;
        self.transients = 0;
    }
}
