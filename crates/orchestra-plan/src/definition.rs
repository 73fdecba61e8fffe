//! The validated graph of a plan: every name is there once, every dependency is a job, nothing waits
//! for itself, and the Snapshot Validation job stands behind all others.
//!
//! A [`Draft`] is a list of jobs that is being put together, in any order; [`Draft::finish`] makes a
//! [`Definition`] of it, or says all that is wrong. A definition is never changed: [`Definition::edit`]
//! gives a draft of it. All of this takes time in proportion to jobs and dependencies.

mod draft;
mod error;
mod find;
mod graph;
mod group;
mod job;
mod warning;

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

use crate::ids::{JobId, ProducerId};

pub use draft::Draft;
pub use error::{DefinitionError, Problem};
pub use find::NotFound;
pub use group::{Group, GroupIx};
pub use job::{JobDefinition, SnapshotValidation};
pub use warning::Warning;

/// Which of a definition's jobs: its place in the order in which they were defined.
///
/// It is of use with the definition that it came from and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobIx(u32);

impl JobIx {
    /// The place, from 0.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// Only within the bounds of [`Definition::MAX_JOBS`].
    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are not that many jobs"
    )]
    const fn new(place: usize) -> Self {
        Self(place as u32)
    }
}

/// The graph of a plan.
///
/// It is kept as the list of its jobs, and read back by being built again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<JobDefinition>")]
pub struct Definition {
    /// In the order in which they were defined, Snapshot Validation last.
    jobs: Vec<Arc<JobDefinition>>,
    by_id: HashMap<JobId, JobIx>,
    by_producer: HashMap<ProducerId, JobIx>,
    dependencies: Vec<Vec<JobIx>>,
    dependents: Vec<Vec<JobIx>>,
    order: Vec<JobIx>,
    groups: group::Groups,
}

impl Definition {
    /// The most jobs that a caller may define in one plan.
    pub const MAX_JOBS: usize = 10_000;

    /// How many jobs there are, Snapshot Validation included.
    #[expect(clippy::len_without_is_empty, reason = "no definition is empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The places of all jobs, in the order in which they were defined, Snapshot Validation last.
    pub fn all(&self) -> impl ExactSizeIterator<Item = JobIx> + DoubleEndedIterator + use<> {
        (0..self.jobs.len()).map(JobIx::new)
    }

    /// All jobs, in the order in which they were defined, Snapshot Validation last.
    #[must_use]
    pub fn jobs(&self) -> &[Arc<JobDefinition>] {
        &self.jobs
    }

    /// The job at a place.
    #[must_use]
    pub fn job(&self, job: JobIx) -> &Arc<JobDefinition> {
        &self.jobs[job.get()]
    }

    /// Where the job of this id stands.
    #[must_use]
    pub fn by_id(&self, id: JobId) -> Option<JobIx> {
        self.by_id.get(&id).copied()
    }

    /// Where the job of this producer id stands.
    #[must_use]
    pub fn by_producer(&self, producer_id: &ProducerId) -> Option<JobIx> {
        self.by_producer.get(producer_id).copied()
    }

    /// The jobs whose results a job starts from, each once, in the order in which they were told.
    #[must_use]
    pub fn dependencies(&self, job: JobIx) -> &[JobIx] {
        &self.dependencies[job.get()]
    }

    /// The jobs that start from a job's result, in the order in which they were defined.
    #[must_use]
    pub fn dependents(&self, job: JobIx) -> &[JobIx] {
        &self.dependents[job.get()]
    }

    /// All jobs, each behind all that it depends on; where that leaves a choice, in the order in
    /// which they were defined.
    #[must_use]
    pub fn order(&self) -> &[JobIx] {
        &self.order
    }

    /// The jobs that depend on nothing.
    pub fn roots(&self) -> impl Iterator<Item = JobIx> {
        self.all().filter(|job| self.dependencies(*job).is_empty())
    }

    /// The only job that nothing depends on: it checks the whole and merges it.
    #[must_use]
    pub fn snapshot_validation(&self) -> JobIx {
        JobIx::new(self.jobs.len() - 1)
    }

    /// The jobs that nothing but Snapshot Validation depends on, in the order in which they were
    /// defined: what is merged.
    #[must_use]
    pub fn leaves(&self) -> &[JobIx] {
        self.dependencies(self.snapshot_validation())
    }

    /// The groups, in the order in which they come up, each behind the one that it is in.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        self.groups.all()
    }

    /// The group at a place.
    #[must_use]
    pub fn group(&self, group: GroupIx) -> &Group {
        &self.groups.all()[group.get()]
    }

    /// The group that a job is in.
    #[must_use]
    pub fn group_of(&self, job: JobIx) -> Option<GroupIx> {
        self.groups.of_job(job)
    }

    /// The jobs of a group and of all groups in it, in the order in which they were defined.
    #[must_use]
    pub fn jobs_below(&self, group: GroupIx) -> Vec<JobIx> {
        self.groups.jobs_below(group)
    }
}

impl Serialize for Definition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.jobs.iter().map(Arc::as_ref))
    }
}

#[cfg(test)]
mod tests;
