//! One execution of a job, as the log tells it.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::budget::Usage;
use crate::event::{Act, Failure, Process, Trigger};
use crate::ids::{AttemptNumber, Commit, Millis};
use crate::phase::Phase;
use crate::pressure::Filled;

/// How a phase stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PhaseStatus {
    /// It is still to come.
    #[default]
    Pending,
    /// It is being done, or healed.
    Running,
    /// It went well.
    Success,
    /// It failed.
    Failed,
    /// The attempt leaves it out.
    Skipped,
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AttemptStatus {
    /// It is under way.
    Running,
    /// All its acts went well.
    Succeeded,
    /// One of its acts failed.
    Failed,
    /// It was ended with its plan.
    Canceled,
}

/// When an act was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The act.
    pub act: Act,
    /// When it began.
    pub started_at: Millis,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
}

/// One execution of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Its number.
    pub number: AttemptNumber,
    /// Why there is one.
    pub trigger: Trigger,
    /// How it stands.
    pub status: AttemptStatus,
    /// What it does, in order.
    pub acts: Vec<Act>,
    /// How many of its acts went well.
    pub done: usize,
    /// When each act was done; the last may be under way.
    pub spans: Vec<Span>,
    /// The process that does the act under way.
    pub process: Option<Process>,
    /// The agent's session, as soon as it is known.
    pub session: Option<String>,
    /// When it began.
    pub started_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// The act that failed, and why.
    pub failure: Option<(Act, Failure)>,
    /// Where it worked.
    pub worktree: Option<String>,
    /// Whether the worktree was made for it: nothing of an earlier attempt is in it that was not
    /// committed.
    pub fresh: bool,
    /// The commit that it started from.
    pub base: Option<Commit>,
    /// The commit that it reached.
    pub commit: Option<Commit>,
    /// What its agents used.
    pub usage: Usage,
    /// What they had used when the act under way began.
    pub usage_before: Usage,
    /// How full the context of its agent was, once that was worth telling.
    pub filled: Option<Filled>,
}

impl Attempt {
    /// The act that is under way.
    #[must_use]
    pub fn under_way(&self) -> Option<Act> {
        let last = self.spans.last().filter(|span| span.ended_at.is_none())?;
        (self.status == AttemptStatus::Running).then_some(last.act)
    }

    /// The act that comes next, when none is under way.
    #[must_use]
    pub fn upcoming(&self) -> Option<Act> {
        let free = self.status == AttemptStatus::Running && self.under_way().is_none();
        self.acts.get(self.done).copied().filter(|_| free)
    }

    /// What is known to be used by the act under way: whoever takes it up does not tell that again.
    #[must_use]
    pub const fn usage_of_act(&self) -> Usage {
        self.usage.minus(&self.usage_before)
    }

    /// Ends the span of the act under way, if there is one, not before its beginning.
    pub(crate) fn close_span(&mut self, at: Millis) {
        if let Some(span) = self.spans.last_mut() {
            span.ended_at.get_or_insert(at.max(span.started_at));
        }
    }

    /// How a phase stands in this attempt.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> PhaseStatus {
        let failed = self
            .failure
            .as_ref()
            .is_some_and(|(act, _)| act.phase == phase);
        if failed {
            return PhaseStatus::Failed;
        }
        if self.under_way().is_some_and(|act| act.phase == phase) {
            return PhaseStatus::Running;
        }
        let mut own = self
            .acts
            .iter()
            .enumerate()
            .filter(|(_, act)| act.phase == phase);
        match own.next_back() {
            None => PhaseStatus::Skipped,
            Some((at, _)) if at < self.done => PhaseStatus::Success,
            Some(_) => PhaseStatus::Pending,
        }
    }

    /// How long it took, or has taken until `now`.
    #[must_use]
    pub fn wall_ms(&self, now: Millis) -> u64 {
        let end = self.ended_at.unwrap_or(now);
        end.get().saturating_sub(self.started_at.get())
    }
}
