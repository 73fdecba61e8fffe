//! How a definition is made: jobs are linked, put in order, and given their last.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::Arc,
};

use super::{
    Definition, DefinitionError, Draft, JobDefinition, JobIx, Problem, SnapshotValidation,
    group::Groups,
};
use crate::{
    ids::{JobId, ProducerId},
    spec::JobSpec,
};

impl Definition {
    /// The graph of these jobs, with the Snapshot Validation job behind all others. Their order does
    /// not matter to what is right.
    ///
    /// # Errors
    /// With all that is wrong; see [`Draft::add`] and [`Draft::finish`].
    pub fn build(
        jobs: impl IntoIterator<Item = (JobId, JobSpec)>,
        last: SnapshotValidation,
    ) -> Result<Self, DefinitionError> {
        let mut draft = Draft::new();
        draft.add_all(jobs)?;
        draft.finish(last)
    }

    /// The jobs, to be changed; without the Snapshot Validation job, which is made anew.
    #[must_use]
    pub fn edit(&self) -> Draft {
        Draft::of_right(&self.jobs[..self.jobs.len() - 1])
    }

    /// What [`Draft::finish`] needs to make this definition's last job again.
    #[must_use]
    pub fn last(&self) -> SnapshotValidation {
        let job = self.job(self.snapshot_validation());
        SnapshotValidation {
            id: job.id,
            verify: job.work.clone(),
        }
    }

    /// Makes the graph of jobs whose names and ids are known to differ.
    pub(super) fn of_jobs(
        mut jobs: Vec<Arc<JobDefinition>>,
        last: SnapshotValidation,
    ) -> Result<Self, DefinitionError> {
        if jobs.is_empty() {
            return Err(Problem::Empty.into());
        }
        if let Some(job) = jobs.iter().find(|job| job.id == last.id) {
            return Err(Problem::DuplicateId { id: job.id }.into());
        }
        let mut by_producer: HashMap<ProducerId, JobIx> = jobs
            .iter()
            .enumerate()
            .map(|(place, job)| (job.producer_id.clone(), JobIx::new(place)))
            .collect();
        let (mut dependencies, mut problems) = link(&jobs, &by_producer);
        let (mut order, in_a_cycle) = sorted(&dependencies);
        problems.extend(in_a_cycle.map(|cycle| {
            Problem::Cycle {
                jobs: cycle
                    .into_iter()
                    .map(|job| jobs[job.get()].producer_id.clone())
                    .collect(),
            }
        }));
        DefinitionError::of(problems, jobs.iter().map(|job| &job.producer_id))?;

        let place = JobIx::new(jobs.len());
        let leaves = leaves(&dependencies);
        let names = leaves
            .iter()
            .map(|leaf| jobs[leaf.get()].producer_id.clone())
            .collect();
        let grouped = jobs.iter().any(|job| job.group.is_some());
        let last = JobDefinition::last(last, names, grouped);
        by_producer.insert(last.producer_id.clone(), place);
        jobs.push(Arc::new(last));
        dependencies.push(leaves);
        order.push(place);
        Ok(Self {
            by_id: jobs
                .iter()
                .enumerate()
                .map(|(place, job)| (job.id, JobIx::new(place)))
                .collect(),
            groups: Groups::of(&jobs),
            dependents: turned(&dependencies),
            by_producer,
            jobs,
            dependencies,
            order,
        })
    }
}

/// The places of what each job depends on, each once; and what could not be found.
fn link(
    jobs: &[Arc<JobDefinition>],
    by_producer: &HashMap<ProducerId, JobIx>,
) -> (Vec<Vec<JobIx>>, Vec<Problem>) {
    let mut problems = Vec::new();
    // For each job, the last that was seen to depend on it.
    let mut seen = vec![usize::MAX; jobs.len()];
    let mut links = Vec::with_capacity(jobs.len());
    for (place, job) in jobs.iter().enumerate() {
        let mut found = Vec::with_capacity(job.dependencies.len());
        for dependency in &job.dependencies {
            let Some(on) = by_producer.get(dependency) else {
                problems.push(Problem::UnknownDependency {
                    job: job.producer_id.clone(),
                    dependency: dependency.clone(),
                });
                continue;
            };
            if std::mem::replace(&mut seen[on.get()], place) != place {
                found.push(*on);
            }
        }
        links.push(found);
    }
    (links, problems)
}

/// Who depends on each job.
fn turned(dependencies: &[Vec<JobIx>]) -> Vec<Vec<JobIx>> {
    let mut dependents = vec![Vec::new(); dependencies.len()];
    for (place, dependencies) in dependencies.iter().enumerate() {
        for on in dependencies {
            dependents[on.get()].push(JobIx::new(place));
        }
    }
    dependents
}

fn leaves(dependencies: &[Vec<JobIx>]) -> Vec<JobIx> {
    let mut is_leaf = vec![true; dependencies.len()];
    for on in dependencies.iter().flatten() {
        is_leaf[on.get()] = false;
    }
    (0..dependencies.len())
        .filter(|place| is_leaf[*place])
        .map(JobIx::new)
        .collect()
}

/// The jobs in an order in which each stands behind what it depends on, the first defined first where
/// there is a choice; or those that wait for each other.
fn sorted(dependencies: &[Vec<JobIx>]) -> (Vec<JobIx>, Option<Vec<JobIx>>) {
    let dependents = turned(dependencies);
    let mut waits_for: Vec<usize> = dependencies.iter().map(Vec::len).collect();
    let mut ready: BinaryHeap<Reverse<JobIx>> = (0..dependencies.len())
        .filter(|place| waits_for[*place] == 0)
        .map(|place| Reverse(JobIx::new(place)))
        .collect();
    let mut order = Vec::with_capacity(dependencies.len());
    while let Some(Reverse(job)) = ready.pop() {
        order.push(job);
        for dependent in &dependents[job.get()] {
            waits_for[dependent.get()] -= 1;
            if waits_for[dependent.get()] == 0 {
                ready.push(Reverse(*dependent));
            }
        }
    }
    if order.len() == dependencies.len() {
        return (order, None);
    }
    let cycle = cycle(dependencies, &waits_for);
    (order, Some(cycle))
}

/// Follows, from the first job that waits for ever, what it waits for, until a job comes up again.
/// Each of these has such a dependency: without one it would have come into the order.
fn cycle(dependencies: &[Vec<JobIx>], waits_for: &[usize]) -> Vec<JobIx> {
    let stuck = |job: &JobIx| waits_for[job.get()] > 0;
    let first = (0..dependencies.len()).map(JobIx::new).find(stuck);
    let mut seen_at: Vec<Option<usize>> = vec![None; dependencies.len()];
    let mut way = Vec::new();
    let mut next = first;
    while let Some(job) = next {
        if let Some(start) = seen_at[job.get()] {
            way.drain(..start);
            break;
        }
        seen_at[job.get()] = Some(way.len());
        way.push(job);
        next = dependencies[job.get()].iter().copied().find(stuck);
    }
    let least = (0..way.len()).min_by_key(|at| way[*at]).unwrap_or_default();
    way.rotate_left(least);
    way
}

impl TryFrom<Vec<JobDefinition>> for Definition {
    type Error = DefinitionError;

    /// Builds a definition again from its jobs, of which the last is Snapshot Validation.
    fn try_from(mut jobs: Vec<JobDefinition>) -> Result<Self, DefinitionError> {
        let last = jobs
            .pop_if(|job| job.is_snapshot_validation())
            .ok_or(Problem::Empty)?;
        let last = SnapshotValidation {
            id: last.id,
            verify: last.work,
        };
        Draft::try_from(jobs)?.finish(last)
    }
}
