//! Jobs of a plan that is being put together or changed.

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

use super::{Definition, DefinitionError, JobDefinition, Problem, SnapshotValidation};
use crate::{
    ids::{JobId, ProducerId},
    spec::{JobSpec, MAX_DEPENDENCIES},
};

/// Jobs of a plan that is being put together or changed, in the order in which they were defined.
///
/// Each of them has an id and a name that no other has, and none waits for itself. What they depend
/// on may come later, or be missing until [`Draft::finish`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Vec<JobDefinition>")]
pub struct Draft {
    jobs: Vec<Arc<JobDefinition>>,
    by_id: HashMap<JobId, usize>,
    by_producer: HashMap<ProducerId, usize>,
}

impl Draft {
    /// A draft without jobs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The jobs, in the order in which they were defined.
    #[must_use]
    pub fn jobs(&self) -> &[Arc<JobDefinition>] {
        &self.jobs
    }

    /// The job of this id.
    #[must_use]
    pub fn by_id(&self, id: JobId) -> Option<&Arc<JobDefinition>> {
        self.by_id.get(&id).map(|place| &self.jobs[*place])
    }

    /// The job of this producer id.
    #[must_use]
    pub fn by_producer(&self, producer_id: &ProducerId) -> Option<&Arc<JobDefinition>> {
        self.by_producer
            .get(producer_id)
            .map(|place| &self.jobs[*place])
    }

    /// Adds a job behind the others.
    ///
    /// # Errors
    /// When its id or name is taken, its name is reserved, it depends on itself or on too many, or the plan has as
    /// many jobs as it may; nothing is added then.
    pub fn add(&mut self, id: JobId, spec: JobSpec) -> Result<(), DefinitionError> {
        self.push(Arc::new(JobDefinition::of(id, spec)))
    }

    /// Adds jobs behind the others: all of them, or none. Their order does not matter.
    ///
    /// # Errors
    /// With all that is wrong with any of them; see [`Draft::add`].
    pub fn add_all(
        &mut self,
        jobs: impl IntoIterator<Item = (JobId, JobSpec)>,
    ) -> Result<(), DefinitionError> {
        let before = self.jobs.len();
        let mut problems = Vec::new();
        for (id, spec) in jobs {
            let job = Arc::new(JobDefinition::of(id, spec));
            if let Err(problem) = self.checked_push(job) {
                let full = problem == Problem::TooManyJobs;
                problems.push(problem);
                if full {
                    break;
                }
            }
        }
        DefinitionError::of(problems, [].iter()).inspect_err(|_| self.truncate(before))
    }

    /// Adds a job that has been one before.
    ///
    /// # Errors
    /// As [`Draft::add`].
    pub fn push(&mut self, job: Arc<JobDefinition>) -> Result<(), DefinitionError> {
        self.checked_push(job).map_err(DefinitionError::from)
    }

    /// Removes a job; what others depend on stays as it is.
    ///
    /// # Errors
    /// When no job has that id.
    pub fn remove(&mut self, id: JobId) -> Result<Arc<JobDefinition>, DefinitionError> {
        let place = self.place(id)?;
        let job = self.jobs.remove(place);
        self.by_id.remove(&job.id);
        self.by_producer.remove(&job.producer_id);
        for (place, job) in self.jobs.iter().enumerate().skip(place) {
            self.by_id.insert(job.id, place);
            self.by_producer.insert(job.producer_id.clone(), place);
        }
        Ok(job)
    }

    /// Makes a job depend on these and no others.
    ///
    /// # Errors
    /// When no job has that id, or it would depend on itself or on too many.
    pub fn set_dependencies(
        &mut self,
        id: JobId,
        dependencies: Vec<ProducerId>,
    ) -> Result<(), DefinitionError> {
        self.change(id, |job| job.dependencies = dependencies)
    }

    /// Changes a job. Its id and its name stay what they were, whatever `change` makes of them.
    ///
    /// # Errors
    /// When no job has that id, or it would depend on itself or on too many; nothing is changed
    /// then.
    pub fn change(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut JobDefinition),
    ) -> Result<(), DefinitionError> {
        let place = self.place(id)?;
        let before = &self.jobs[place];
        let mut job = JobDefinition::clone(before);
        change(&mut job);
        job.id = before.id;
        job.producer_id = before.producer_id.clone();
        right_dependencies(&job)?;
        self.jobs[place] = Arc::new(job);
        Ok(())
    }

    /// The graph, with the Snapshot Validation job behind all others.
    ///
    /// # Errors
    /// With all that is wrong: no jobs, dependencies that are no jobs, jobs that wait for each other.
    pub fn finish(&self, last: SnapshotValidation) -> Result<Definition, DefinitionError> {
        Definition::of_jobs(self.jobs.clone(), last)
    }

    /// A draft of jobs that are known to be right for one.
    pub(super) fn of_right(jobs: &[Arc<JobDefinition>]) -> Self {
        let places = || jobs.iter().enumerate();
        Self {
            by_id: places().map(|(place, job)| (job.id, place)).collect(),
            by_producer: places()
                .map(|(place, job)| (job.producer_id.clone(), place))
                .collect(),
            jobs: jobs.to_vec(),
        }
    }

    fn place(&self, id: JobId) -> Result<usize, DefinitionError> {
        self.by_id
            .get(&id)
            .copied()
            .ok_or_else(|| Problem::UnknownJob { id }.into())
    }

    fn checked_push(&mut self, job: Arc<JobDefinition>) -> Result<(), Problem> {
        if self.jobs.len() == Definition::MAX_JOBS {
            return Err(Problem::TooManyJobs);
        }
        if job.is_snapshot_validation() {
            return Err(Problem::ReservedProducerId);
        }
        if self.by_producer.contains_key(&job.producer_id) {
            let producer_id = job.producer_id.clone();
            return Err(Problem::DuplicateProducerId { producer_id });
        }
        if self.by_id.contains_key(&job.id) {
            return Err(Problem::DuplicateId { id: job.id });
        }
        right_dependencies(&job)?;
        let place = self.jobs.len();
        self.by_id.insert(job.id, place);
        self.by_producer.insert(job.producer_id.clone(), place);
        self.jobs.push(job);
        Ok(())
    }

    fn truncate(&mut self, count: usize) {
        for job in self.jobs.drain(count..) {
            self.by_id.remove(&job.id);
            self.by_producer.remove(&job.producer_id);
        }
    }
}

fn right_dependencies(job: &JobDefinition) -> Result<(), Problem> {
    let name = || job.producer_id.clone();
    if job.dependencies.contains(&job.producer_id) {
        return Err(Problem::SelfDependency { job: name() });
    }
    if job.dependencies.len() > MAX_DEPENDENCIES {
        return Err(Problem::TooManyDependencies { job: name() });
    }
    Ok(())
}

impl TryFrom<Vec<JobDefinition>> for Draft {
    type Error = DefinitionError;

    fn try_from(jobs: Vec<JobDefinition>) -> Result<Self, DefinitionError> {
        let mut draft = Self::new();
        for job in jobs {
            draft.push(Arc::new(job))?;
        }
        Ok(draft)
    }
}

impl Serialize for Draft {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.jobs.iter().map(Arc::as_ref))
    }
}
