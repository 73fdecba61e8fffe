//! What became of a target that was about to move when the attempt that was to move it ended.

use orchestra_plan::{
    command::{Command, Report, Request},
    event::MergeIntent,
    ids::{AttemptNumber, JobId, PlanId},
    plan::Step,
};

use tokio::time::Instant;

use super::{Again, Engine, Event, Help};
use crate::{
    cause::chain,
    git::{GitError, Intent, IntentState},
    runner::{host::Host, turn::Turn},
};

/// What was found out.
#[derive(Debug)]
pub(crate) struct Resolved {
    plan: PlanId,
    job: JobId,
    attempt: AttemptNumber,
    report: Result<Report, String>,
}

impl Engine {
    /// Finds out what became of moves of a plan that nobody told the end of. One that a task is still about
    /// is left to it.
    pub(super) fn resolve(&mut self, id: PlanId) {
        let Some(plan) = self.plans.get(&id).filter(|plan| !plan.is_deleted()) else {
            return;
        };
        let moves: Vec<_> = plan
            .jobs()
            .iter()
            .filter_map(|found| match plan.next(found) {
                Step::Resolve { attempt, intent } => Some((*found.id(), attempt, intent.clone())),
                _ => None,
            })
            .collect();
        for (job, attempt, intent) in moves {
            let waits = self.jobs.contains_key(&job) || self.retries.waits(Again::Resolve(id, job));
            if waits || !self.resolving.insert(job) {
                continue;
            }
            let (host, events) = (self.host.clone(), self.events.clone());
            self.help(Help::Resolve(job), async move {
                let report = state(&host, intent).await.map_err(|error| chain(&error));
                let resolved = Resolved {
                    plan: id,
                    job,
                    attempt,
                    report,
                };
                // Who comes next finds out anew.
                let _ = events.send(Event::Resolved(Box::new(resolved))).await;
            });
        }
    }

    /// Takes in what was found out.
    pub(super) fn resolved(&mut self, resolved: Resolved, turn: &mut Turn) {
        let Resolved {
            plan,
            job,
            attempt,
            report,
        } = resolved;
        self.resolving.remove(&job);
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                let again = self
                    .retries
                    .failed(Again::Resolve(plan, job), Instant::now());
                let words = "it is not known whether the target was updated";
                tracing::warn!(%plan, %job, error, again, "{words}");
                return;
            }
        };
        self.retries.done(Again::Resolve(plan, job));
        let command = Command::Report {
            job,
            attempt,
            report,
        };
        if let Err(refusal) = self.change(plan, Request::of(command), turn) {
            tracing::debug!(%plan, %job, %refusal, "ignored a report about the target branch: its result is already known");
        }
    }
}

async fn state(host: &Host, intent: MergeIntent) -> Result<Report, GitError> {
    let repository = host.repository().await?;
    let intent = Intent {
        target: intent.target,
        old: intent.old,
        new: intent.new,
    };
    Ok(match repository.state_of(&intent).await? {
        IntentState::Done => Report::Merged(intent.new),
        IntentState::Void | IntentState::Moved { .. } => Report::MergeVoided,
    })
}
