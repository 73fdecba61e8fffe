//! Jobs at work: what their tasks tell, and what they are given to do.

use std::sync::Arc;

use orchestra_plan::{
    command::{Command, Report, Request},
    event::{Failure, FailureKind},
    ids::{JobId, PlanId},
    plan::Step,
};
use tokio::{
    sync::watch,
    task::{Id, JoinError},
};

use super::{Engine, Running};
use crate::runner::{
    assignment::Assignment,
    job,
    teller::{Teller, Told, Wants},
    turn::{Asking, Starting, Turn},
};

impl Engine {
    /// What a task tells of its act, and what it is told for it.
    pub(super) fn told(&mut self, told: Told, turn: &mut Turn) {
        let Told {
            plan,
            job,
            attempt,
            reports,
            wants,
            answer,
        } = told;
        // The settings were read, and a healer was searched for, before the end of the act was reported.
        self.policy = self.host.policy();
        let mut unsplit: Option<String> = None;
        for report in reports {
            let is_split = matches!(report, Report::Split(_));
            let report = match unsplit.take() {
                Some(why) => left_undone(report, &why),
                None => report,
            };
            let command = Command::Report {
                job,
                attempt,
                report,
            };
            // One that was kept before, or of an attempt that is over, changes nothing; what the task is
            // told for it is how things are.
            if let Err(refusal) = self.change(plan, Request::of(command), turn) {
                tracing::debug!(%plan, %job, %refusal, "ignored a late report");
                unsplit = is_split.then(|| refusal.to_string());
            }
        }
        if wants == Wants::Next {
            self.advance(plan, job, turn);
        }
        turn.asking.push(Asking {
            plan,
            job,
            attempt,
            wants,
            answer,
        });
    }

    /// Lets an attempt begin, and its next act.
    pub(crate) fn advance(&mut self, id: PlanId, job: JobId, turn: &mut Turn) {
        for _ in 0..2 {
            let Some(plan) = self.plans.get(&id) else {
                return;
            };
            let Some(found) = plan.job(&job) else { return };
            let command = match plan.next(found) {
                Step::Begin { .. } => Command::Begin { job },
                Step::Do(task) => Command::Report {
                    job,
                    attempt: task.attempt.number,
                    report: Report::ActBegan(task.act),
                },
                Step::Wait | Step::UnderWay(_) | Step::Resolve { .. } | Step::Ended(_) => return,
            };
            if let Err(refusal) = self.change(id, Request::of(command), turn) {
                tracing::warn!(plan = %id, %job, %refusal, "cannot continue a job");
                return;
            }
        }
    }

    /// The task of a job is over.
    pub(super) fn task_ended(&mut self, ended: &Result<(Id, ()), JoinError>, turn: &mut Turn) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (*id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(job) = self.by_task.remove(&id) else {
            return;
        };
        let Some(running) = self.jobs.remove(&job) else {
            return;
        };
        turn.touched.insert(running.plan);
        if panicked {
            tracing::error!(plan = %running.plan, %job, "the task of a job panicked");
            let command = Command::Report {
                job,
                attempt: running.attempt,
                report: Report::Lost {
                    message: "a fault of the runner ended the attempt".to_owned(),
                },
            };
            // The attempt may be over already.
            let _ = self.change(running.plan, Request::of(command), turn);
        }
        if let Some(plan) = self.plans.get(&running.plan) {
            self.scheduler.refresh(plan, &job);
        }
    }

    /// Starts the task of a job.
    pub(crate) fn spawn(&mut self, starting: Starting) {
        let Starting {
            plan: id,
            job,
            slot,
            found,
        } = starting;
        let Some(plan) = self.plans.get(&id) else {
            return;
        };
        let Some(Step::UnderWay(task)) = plan.job(&job).map(|job| plan.next(job)) else {
            return;
        };
        let assignment = Assignment::of(plan, &task, &self.policy.splits, found);
        let attempt = assignment.attempt;
        let file = slot.as_ref().map(|slot| slot.file().try_clone());
        let teller = Teller {
            // Without it the slot is only this process's.
            slot: file.and_then(Result::ok).map(Arc::new),
            events: self.events.clone(),
            plan: id,
            job,
            attempt,
        };
        let (stop, stopped) = watch::channel(false);
        let slots = self
            .slots
            .clone()
            .filter(|_| found && teller.slot.is_none());
        let work = job::work(Arc::clone(&self.host), teller, assignment, stopped, slots);
        let handle = self.tasks.spawn(work);
        self.by_task.insert(handle.id(), job);
        self.jobs.insert(
            job,
            Running {
                plan: id,
                attempt,
                stop,
                _slot: slot,
            },
        );
    }
}

/// What is told of an act whose agent left work to others, when that cannot be given to jobs of their own:
/// it has failed, so that what is left is not forgotten.
fn left_undone(report: Report, why: &str) -> Report {
    match report {
        Report::ActSucceeded {
            act, usage, ended, ..
        } => {
            let words = format!("the agent handed over work that cannot be split: {why}");
            Report::ActFailed {
                act,
                failure: Failure::new(FailureKind::ExitCode, words),
                usage,
                ended,
            }
        }
        report => report,
    }
}
