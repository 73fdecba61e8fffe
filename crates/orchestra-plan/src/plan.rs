//! A plan as its log tells it.
//!
//! [`Plan::apply`] folds one event in. It is total: an event that does not fit (of a job that is
//! gone, of an attempt that is over) changes nothing but the version, and [`Changes::refused`] says
//! so. What follows by the rules of the state machine is worked out at once: dependents become
//! ready, what is downstream of a failure is blocked, groups and counts follow, and the plan ends
//! once. The work of an event grows with the edges of the jobs that it moves, not with the plan;
//! only a change of the graph itself costs a walk over all of it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use crate::budget::Usage;

use crate::event::{Branches, Created, Event, PauseReason, What};
use crate::group::Groups;
use crate::ids::{Commit, JobId, Millis, PlanId, ProducerId};
use crate::mark::Mark;
use crate::spec::PlanSettings;
use crate::status::{Counts, PlanFacts, PlanStatus};

mod attempt;
mod change;
mod find;
mod fold;
mod graph;
mod job;
mod moves;
mod next;
mod run;
mod time;

pub use attempt::{Attempt, AttemptStatus, PhaseStatus, Span};
pub use change::{Change, Changes, Misfit, Move, Pause, PlanChange, ReplayError};
pub(crate) use graph::bridge;
pub use job::Job;
pub(crate) use job::index;
pub use next::{Step, Task, Work};

/// Which job of a plan: the place in the order of definition. It is never shown, and a change of
/// the graph may give it to another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ix(pub(crate) u32);

impl Ix {
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// How many idempotency keys a plan remembers.
const KEYS_MAX: usize = 256;
/// How many entries each history keeps; the log has them all.
const HISTORY_MAX: usize = 200;

/// A plan and its jobs, folded from a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(crate) id: PlanId,
    pub(crate) settings: PlanSettings,
    pub(crate) source: Option<PlanId>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) by_id: HashMap<JobId, Ix>,
    pub(crate) by_producer: HashMap<ProducerId, Ix>,
    pub(crate) groups: Groups,
    pub(crate) counts: Counts,
    pub(crate) ready: BTreeSet<Ix>,
    pub(crate) active: BTreeSet<Ix>,
    pub(crate) version: u64,
    pub(crate) scaffolding: bool,
    pub(crate) paused: Option<PauseReason>,
    pub(crate) canceled: bool,
    pub(crate) deleted: bool,
    /// Where it works: decided once.
    pub(crate) branches: Option<Branches>,
    /// Whether that is prepared.
    pub(crate) prepared: bool,
    pub(crate) created_at: Millis,
    pub(crate) started_at: Option<Millis>,
    pub(crate) ended_at: Option<Millis>,
    pub(crate) archived_at: Option<Millis>,
    pub(crate) pauses: VecDeque<Pause>,
    pub(crate) history: VecDeque<PlanChange>,
    pub(crate) keys: VecDeque<(String, u64)>,
    /// What was asked for when it was made under a key.
    pub(crate) mark: Option<Mark>,
    /// Whether its jobs run in a sandbox, also if the settings ask for none.
    pub(crate) sandboxed: bool,
    pub(crate) usage: Usage,
    /// Number of heals by agents.
    pub(crate) heals: u32,
    /// Cost of these heals in millionths, as far as the agents report it.
    pub(crate) heal_cost: u64,
    /// How long it was at work before `at_work_since`.
    pub(crate) spent_ms: u64,
    /// Since when it is at work, if it is.
    pub(crate) at_work_since: Option<Millis>,
}

impl Plan {
    /// Folds a whole log.
    ///
    /// # Errors
    /// When there is no event, the first is not the creation of a plan, or one does not fit.
    pub fn replay<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Self, ReplayError> {
        let mut events = events.into_iter();
        let mut plan = Self::start(events.next().ok_or(ReplayError::Empty)?)?;
        for event in events {
            if let Some(misfit) = plan.apply(event).refused {
                let number = plan.version;
                return Err(ReplayError::Misfit { number, misfit });
            }
        }
        Ok(plan)
    }

    /// A plan as its first event makes it.
    ///
    /// # Errors
    /// When the event is not the creation of a plan.
    pub fn start(event: &Event) -> Result<Self, ReplayError> {
        match &event.what {
            What::PlanCreated(created) => Ok(Self::created(event, created)),
            _ => Err(ReplayError::NoStart),
        }
    }

    fn created(event: &Event, created: &Created) -> Self {
        let mut plan = Self {
            id: created.plan,
            settings: created.settings.clone(),
            source: created.source,
            jobs: Vec::with_capacity(created.jobs.len()),
            by_id: HashMap::new(),
            by_producer: HashMap::new(),
            groups: Groups::default(),
            counts: Counts::default(),
            ready: BTreeSet::new(),
            active: BTreeSet::new(),
            version: 1,
            scaffolding: created.scaffolding,
            paused: None,
            canceled: false,
            deleted: false,
            branches: None,
            prepared: false,
            created_at: event.at,
            started_at: None,
            ended_at: None,
            archived_at: None,
            pauses: VecDeque::new(),
            history: VecDeque::new(),
            keys: VecDeque::new(),
            mark: created.mark,
            sandboxed: created.sandboxed,
            usage: Usage::default(),
            heals: 0,
            heal_cost: 0,
            spent_ms: 0,
            at_work_since: None,
        };
        if let Some(key) = &event.key {
            plan.keys.push_back((key.clone(), 1));
        }
        plan.jobs.extend(created.jobs.iter().cloned().map(Job::new));
        plan.relink(event.at, &mut Changes::default());
        if let Some(reason) = &created.paused {
            plan.pause(event.at, reason.clone());
        }
        plan
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &PlanId {
        &self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.settings.name.as_str()
    }

    /// What holds for it as a whole.
    #[must_use]
    pub const fn settings(&self) -> &PlanSettings {
        &self.settings
    }

    /// Returns whether the plan was created under a sandbox, in which its jobs run also if the settings ask for none now.
    #[must_use]
    pub const fn is_sandboxed(&self) -> bool {
        self.sandboxed
    }

    /// How many events it is made of: it grows with each change and never goes back.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> PlanStatus {
        PlanFacts {
            archived: self.archived_at.is_some(),
            scaffolding: self.scaffolding,
            paused: self.paused.is_some(),
            started: self.started_at.is_some(),
            canceled: self.canceled,
            counts: &self.counts,
        }
        .status()
    }

    /// Whether its jobs may be scheduled now: it is complete, not paused, not over, and its
    /// branches are prepared.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.wants_to_run() && self.prepared
    }

    /// Whether its branches are to be prepared now: nothing else keeps its jobs from starting.
    #[must_use]
    pub fn wants_branches(&self) -> bool {
        self.wants_to_run() && !self.prepared
    }

    fn wants_to_run(&self) -> bool {
        !self.scaffolding
            && !self.deleted
            && !self.canceled
            && self.paused.is_none()
            && self.archived_at.is_none()
            && self.ended_at.is_none()
    }

    /// Whether someone must stay to look after it: it runs or could run without a person.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.wants_to_run() || !self.active.is_empty()
    }

    /// Why nothing new starts, if it is paused.
    #[must_use]
    pub const fn paused(&self) -> Option<&PauseReason> {
        self.paused.as_ref()
    }

    /// Whether it is to be removed.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Whether jobs are still being added.
    #[must_use]
    pub const fn is_scaffolding(&self) -> bool {
        self.scaffolding
    }

    /// Its own limit of jobs at work; 0 sets none.
    #[must_use]
    pub fn max_parallel(&self) -> u32 {
        u32::try_from(self.settings.max_parallel.get()).unwrap_or(u32::MAX)
    }

    /// Where it works, once that is prepared.
    #[must_use]
    pub fn branches(&self) -> Option<&Branches> {
        self.branches.as_ref().filter(|_| self.prepared)
    }

    /// Where it was decided to work, prepared or not. A plan that was recovered is prepared anew on
    /// the same base commit, and ends on the same target: its jobs stand on that base.
    #[must_use]
    pub const fn decided_branches(&self) -> Option<&Branches> {
        self.branches.as_ref()
    }

    /// The plan that it is a copy of.
    #[must_use]
    pub const fn source(&self) -> Option<&PlanId> {
        self.source.as_ref()
    }

    /// When it was created.
    #[must_use]
    pub const fn created_at(&self) -> Millis {
        self.created_at
    }

    /// When its first job was scheduled.
    #[must_use]
    pub const fn started_at(&self) -> Option<Millis> {
        self.started_at
    }

    /// When its last job ended; nothing while it has jobs to do.
    #[must_use]
    pub const fn ended_at(&self) -> Option<Millis> {
        self.ended_at
    }

    /// When it was put away.
    #[must_use]
    pub const fn archived_at(&self) -> Option<Millis> {
        self.archived_at
    }

    /// How its status has changed, oldest first.
    pub fn history(&self) -> impl Iterator<Item = &PlanChange> {
        self.history.iter()
    }

    /// How long it has been at work until `now`: from its start on, but for when it was paused or had ended.
    /// Of one that changed its status very often the earliest times are not known any more.
    #[must_use]
    pub fn time_at_work(&self, now: Millis) -> Duration {
        let is_at_work =
            |status: PlanStatus| matches!(status, PlanStatus::Running | PlanStatus::Pausing);
        let (mut total, mut since) = (Duration::ZERO, None);
        for change in &self.history {
            match (is_at_work(change.to), since) {
                (true, None) => since = Some(change.at),
                (false, Some(start)) => {
                    total += change.at.since(start);
                    since = None;
                }
                _ => {}
            }
        }
        total + since.map_or(Duration::ZERO, |start| now.since(start))
    }

    /// When it was paused, oldest first.
    pub fn pauses(&self) -> impl Iterator<Item = &Pause> {
        self.pauses.iter()
    }

    /// What its agents have used.
    #[must_use]
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Number of heals by agents. Retries do not reset it.
    #[must_use]
    pub const fn heals(&self) -> u32 {
        self.heals
    }

    /// Cost of these heals in millionths, as far as the agents report it.
    #[must_use]
    pub const fn heal_cost(&self) -> u64 {
        self.heal_cost
    }

    /// How many jobs stand where.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The groups that its jobs are shown in.
    #[must_use]
    pub const fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Its jobs in the order of their definition, the validating one last.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// A job by its id.
    #[must_use]
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        self.by_id.get(id).map(|ix| &self.jobs[ix.at()])
    }

    /// A job by its producer id.
    #[must_use]
    pub fn job_of(&self, producer: &ProducerId) -> Option<&Job> {
        self.by_producer.get(producer).map(|ix| &self.jobs[ix.at()])
    }

    /// The jobs that could start if there were room, in the order of their definition.
    pub fn ready(&self) -> impl Iterator<Item = &Job> {
        self.ready.iter().map(|ix| &self.jobs[ix.at()])
    }

    /// The jobs that hold a slot, in the order of their definition.
    pub fn active(&self) -> impl Iterator<Item = &Job> {
        self.active.iter().map(|ix| &self.jobs[ix.at()])
    }

    /// What a job depends on, in the order in which that is written.
    pub fn dependencies<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Job> {
        job.dependencies.iter().map(|ix| &self.jobs[ix.at()])
    }

    /// What depends on a job, in the order of definition.
    pub fn dependents<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Job> {
        job.dependents.iter().map(|ix| &self.jobs[ix.at()])
    }

    /// The job that validates the whole and merges it; there is none while jobs are being added.
    #[must_use]
    pub fn validation(&self) -> Option<&Job> {
        self.jobs.last().filter(|job| job.is_validation())
    }

    /// The commits of the jobs that a job depends on, in the order in which they are integrated.
    pub fn dependency_commits(&self, job: &Job) -> Vec<Commit> {
        self.dependencies(job)
            .filter_map(|job| job.completed_commit().cloned())
            .collect()
    }

    /// The version that a command with this idempotency key has led to, if it is remembered.
    #[must_use]
    pub fn seen(&self, key: &str) -> Option<u64> {
        self.keys
            .iter()
            .find(|(seen, _)| seen == key)
            .map(|(_, version)| *version)
    }
}
