//! A job and its attempts, as the log tells them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::budget::Usage;

use crate::definition::JobDefinition;
use crate::event::{Act, Failure, MergeIntent, Next, Trigger, WorkSummary};
use crate::ids::{AttemptNumber, Commit, GroupPath, JobId, Millis, ProducerId};
use crate::phase::Phase;
use crate::plan::{Attempt, AttemptStatus, Change, Ix, PhaseStatus};
use crate::status::JobStatus;
use crate::work::WorkSpec;

/// A job of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub(crate) id: JobId,
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) dependencies: Vec<Ix>,
    pub(crate) dependents: Vec<Ix>,
    /// How many dependencies have not succeeded.
    pub(crate) missing: u32,
    /// How many dependencies ended without success.
    pub(crate) dead: u32,
    /// How many dependents have taken up its commit.
    pub(crate) consumed: u32,
    /// Whether it has taken up the work of what it depends on.
    pub(crate) integrated: bool,
    /// Whether its agent left parts of its work to jobs of their own.
    pub(crate) split: bool,
    /// Whether the repository says itself how its worktree is made ready.
    pub(crate) sets_up: bool,
    /// Whether its worktree was made ready since it was made.
    pub(crate) set_up: bool,
    pub(crate) group: Option<usize>,
    pub(crate) status: JobStatus,
    pub(crate) version: u64,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) next: Next,
    /// Whether it was canceled and is brought back: it begins anew, unless somebody has put something into
    /// its worktree.
    pub(crate) begins_anew: bool,
    /// The phase from which an edit of the job asked for everything to be done again.
    pub(crate) reset: Option<Phase>,
    pub(crate) heals: [u32; Phase::ALL.len()],
    /// How often an attempt was lost, one after the other.
    pub(crate) losses: u32,
    /// How often the target moved, or a passing failure came, since a person last asked.
    pub(crate) integrations: u32,
    pub(crate) transients: u32,
    pub(crate) scheduled_at: Option<Millis>,
    pub(crate) started_at: Option<Millis>,
    pub(crate) ended_at: Option<Millis>,
    pub(crate) error: Option<String>,
    pub(crate) failure: Option<Failure>,
    pub(crate) blocked_by: Option<JobId>,
    pub(crate) base_commit: Option<Commit>,
    pub(crate) completed_commit: Option<Commit>,
    pub(crate) worktree: Option<String>,
    pub(crate) worktree_removed: bool,
    pub(crate) merged: Option<Commit>,
    pub(crate) intent: Option<(AttemptNumber, MergeIntent)>,
    pub(crate) session: Option<String>,
    /// The last session of each act that an agent did.
    pub(crate) sessions: Vec<(Act, String)>,
    pub(crate) forced: Option<String>,
    pub(crate) history: VecDeque<Change>,
    pub(crate) summary: Option<WorkSummary>,
    pub(crate) usage: Usage,
    /// Wall time of the attempts that are over.
    pub(crate) spent_ms: u64,
}

impl Job {
    pub(crate) fn new(definition: JobDefinition) -> Self {
        Self {
            id: definition.id,
            definition: Arc::new(definition),
            dependencies: Vec::new(),
            dependents: Vec::new(),
            missing: 0,
            dead: 0,
            consumed: 0,
            integrated: false,
            split: false,
            sets_up: false,
            set_up: false,
            group: None,
            status: JobStatus::Pending,
            version: 0,
            attempts: Vec::new(),
            next: Next::whole(Trigger::Initial),
            begins_anew: false,
            reset: None,
            heals: [0; Phase::ALL.len()],
            losses: 0,
            integrations: 0,
            transients: 0,
            scheduled_at: None,
            started_at: None,
            ended_at: None,
            error: None,
            failure: None,
            blocked_by: None,
            base_commit: None,
            completed_commit: None,
            worktree: None,
            worktree_removed: false,
            merged: None,
            intent: None,
            session: None,
            sessions: Vec::new(),
            forced: None,
            history: VecDeque::new(),
            summary: None,
            usage: Usage::default(),
            spent_ms: 0,
        }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &JobId {
        &self.id
    }

    /// Its definition.
    #[must_use]
    pub const fn definition(&self) -> &Arc<JobDefinition> {
        &self.definition
    }

    /// The name that its plan knows it by.
    #[must_use]
    pub fn producer(&self) -> &ProducerId {
        &self.definition.producer_id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.definition.name.as_str()
    }

    /// Where it is shown.
    #[must_use]
    pub fn group(&self) -> Option<&GroupPath> {
        self.definition.group.as_ref()
    }

    /// Whether it is the job that validates the whole and merges it.
    #[must_use]
    pub fn is_validation(&self) -> bool {
        self.definition.is_snapshot_validation()
    }

    /// Where it stands.
    #[must_use]
    pub const fn status(&self) -> JobStatus {
        self.status
    }

    /// How often it was changed.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Its attempts, oldest first; the number of an attempt is its place from 1.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Its latest attempt.
    #[must_use]
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// The attempt that is under way.
    #[must_use]
    pub fn running(&self) -> Option<&Attempt> {
        self.attempt()
            .filter(|attempt| attempt.status == AttemptStatus::Running)
    }

    /// The number of the attempt that comes next.
    #[must_use]
    pub fn next_number(&self) -> AttemptNumber {
        self.attempt()
            .map_or(AttemptNumber::FIRST, |attempt| attempt.number.next())
    }

    /// What the next attempt does.
    #[must_use]
    pub const fn upcoming(&self) -> &Next {
        &self.next
    }

    /// The time before which it is not started again.
    #[must_use]
    pub const fn not_before(&self) -> Option<Millis> {
        self.next.not_before
    }

    /// How many jobs depend on it directly.
    #[must_use]
    pub fn dependent_count(&self) -> u32 {
        u32::try_from(self.dependents.len()).unwrap_or(u32::MAX)
    }

    /// Whether an agent heals something in its next or running attempt.
    pub(crate) fn has_heal(&self) -> bool {
        match self.running() {
            Some(attempt) => attempt.acts.iter().any(|act| act.heal),
            None => self.next.heal.is_some(),
        }
    }

    pub(crate) fn specs(&self) -> impl Iterator<Item = &WorkSpec> {
        let own = &*self.definition;
        own.work.iter().chain(&own.prechecks).chain(&own.postchecks)
    }

    /// What is done in a phase, where the job says that itself.
    #[must_use]
    pub fn spec(&self, phase: Phase) -> Option<&WorkSpec> {
        match phase {
            Phase::Prechecks => self.definition.prechecks.as_ref(),
            Phase::Work => self.definition.work.as_ref(),
            Phase::Postchecks => self.definition.postchecks.as_ref(),
            _ => None,
        }
    }

    /// How a phase stands in its latest attempt.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> PhaseStatus {
        if phase == Phase::Cleanup {
            return match (self.worktree_removed, self.status.is_terminal()) {
                (true, _) => PhaseStatus::Success,
                (false, false) => PhaseStatus::Pending,
                (false, true) => PhaseStatus::Skipped,
            };
        }
        self.attempt()
            .map_or(PhaseStatus::Pending, |attempt| attempt.phase(phase))
    }

    /// How often a phase was healed since a person last asked for the job.
    #[must_use]
    pub fn heals(&self, phase: Phase) -> u32 {
        self.heals[index(phase)]
    }

    /// Number of automatic attempts since a person last asked for the job, of all its phases.
    pub(crate) fn tries(&self) -> u32 {
        self.heals.iter().sum()
    }

    /// The attempt in which a heal failed and with it the job, and why; [`Self::failure`] is what the heal was
    /// to repair.
    #[must_use]
    pub fn failed_heal(&self) -> Option<(&Attempt, Act, &Failure)> {
        let attempt = self.attempt()?;
        let (act, failure) = attempt.failure.as_ref()?;
        act.heal.then_some((attempt, *act, failure))
    }

    /// The attempt whose failure is the job's: the last, or where a heal failed in that, the one that it was to
    /// repair.
    #[must_use]
    pub fn failed_attempt(&self) -> Option<&Attempt> {
        let last = self.attempt()?;
        let healed = self
            .failed_heal()
            .and_then(|_| super::next::healed(self, last));
        Some(healed.map_or(last, |(attempt, _)| attempt))
    }

    /// When it was last given a slot.
    #[must_use]
    pub const fn scheduled_at(&self) -> Option<Millis> {
        self.scheduled_at
    }

    /// When its first attempt began.
    #[must_use]
    pub const fn started_at(&self) -> Option<Millis> {
        self.started_at
    }

    /// When it ended.
    #[must_use]
    pub const fn ended_at(&self) -> Option<Millis> {
        self.ended_at
    }

    /// What went wrong, in words: its own failure, or whose failure it is behind.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Why its last attempt failed.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The job that it is behind, when it is blocked.
    #[must_use]
    pub const fn blocked_by(&self) -> Option<&JobId> {
        self.blocked_by.as_ref()
    }

    /// The commit that it started from.
    #[must_use]
    pub const fn base_commit(&self) -> Option<&Commit> {
        self.base_commit.as_ref()
    }

    /// The commit that its dependents build on.
    #[must_use]
    pub const fn completed_commit(&self) -> Option<&Commit> {
        self.completed_commit.as_ref()
    }

    /// Where it works, as long as that is there.
    #[must_use]
    pub fn worktree(&self) -> Option<&str> {
        self.worktree.as_deref().filter(|_| !self.worktree_removed)
    }

    /// Where the target stands since this job merged.
    #[must_use]
    pub const fn merged(&self) -> Option<&Commit> {
        self.merged.as_ref()
    }

    /// The move of the target of which nobody has told yet what became of it, and the attempt that
    /// was to make it. It outlives the attempt: the target may have moved before that ended.
    #[must_use]
    pub fn intent(&self) -> Option<(AttemptNumber, &MergeIntent)> {
        self.intent
            .as_ref()
            .map(|(attempt, intent)| (*attempt, intent))
    }

    /// The last session of its agent.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The last session of the agent that did this act: another act may be another program's.
    #[must_use]
    pub fn session_of(&self, act: Act) -> Option<&str> {
        let mut known = self.sessions.iter();
        known
            .find(|(one, _)| *one == act)
            .map(|(_, session)| session.as_str())
    }

    /// Why a person declared it failed.
    #[must_use]
    pub fn forced(&self) -> Option<&str> {
        self.forced.as_deref()
    }

    /// How its state has changed, oldest first.
    pub fn history(&self) -> impl Iterator<Item = &Change> {
        self.history.iter()
    }

    /// What it changed.
    #[must_use]
    pub const fn summary(&self) -> Option<&WorkSummary> {
        self.summary.as_ref()
    }

    /// What its agents have used.
    #[must_use]
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Whether its worktree may go: it succeeded, and all its dependents have taken up its commit.
    #[must_use]
    pub fn removable(&self) -> bool {
        let taken = self.consumed >= self.dependent_count();
        self.status == JobStatus::Succeeded && taken && self.worktree().is_some()
    }

    /// Whether its worktree has work that a dependent could still build on.
    #[must_use]
    pub fn can_be_built_on(&self) -> bool {
        self.completed_commit.is_some()
            || self.worktree().is_some()
            || self.status.is_waiting()
            || self.status.is_active()
    }
}

pub(crate) fn index(phase: Phase) -> usize {
    Phase::ALL
        .iter()
        .position(|one| *one == phase)
        .unwrap_or_default()
}
