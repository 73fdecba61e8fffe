//! The graph of a plan: its edges, its order, its groups, and what changes them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::definition::JobDefinition;
use crate::ids::{JobId, Millis, ProducerId};
use crate::phase::Phase;
use crate::plan::{Changes, Ix, Job, Misfit, Plan};
use crate::status::{Counts, JobStatus};

impl Plan {
    /// Works out everything that follows from the definitions of the jobs, and brings waiting jobs
    /// to the state that their dependencies ask for.
    pub(super) fn relink(&mut self, at: Millis, changes: &mut Changes) {
        changes.relinked = true;
        self.last_is_validation();
        self.by_id = ids(&self.jobs).map(|(ix, job)| (job.id, ix)).collect();
        self.by_producer = ids(&self.jobs)
            .map(|(ix, job)| (job.producer().clone(), ix))
            .collect();
        self.validate_leaves();
        self.counts = Counts::default();
        let earlier = std::mem::take(&mut self.groups);
        self.ready.clear();
        self.active.clear();
        for job in &mut self.jobs {
            job.dependencies.clear();
            job.dependents.clear();
            (job.missing, job.dead, job.consumed) = (0, 0, 0);
        }
        for place in 0..self.jobs.len() {
            self.link(ix_of(place), at);
        }
        self.groups.keep_times(&earlier);
        for ix in self.order() {
            self.settle(ix, None, at, changes);
        }
    }

    /// Adds a job that nothing depends on yet to the end.
    pub(super) fn append(&mut self, job: Job, at: Millis, changes: &mut Changes) {
        if self.is_taken(&job.definition) {
            changes.refused = Some(Misfit::Duplicate(job.id));
            return;
        }
        changes.relinked = true;
        let ix = ix_of(self.jobs.len());
        self.by_id.insert(job.id, ix);
        self.by_producer.insert(job.producer().clone(), ix);
        self.jobs.push(job);
        self.link(ix, at);
        self.settle(ix, None, at, changes);
    }

    /// Connects one job to what it depends on, and counts it.
    fn link(&mut self, ix: Ix, at: Millis) {
        let job = &self.jobs[ix.at()];
        let (status, integrated) = (job.status, job.integrated);
        let count = job.definition.dependencies.len();
        let mut edges: Vec<Ix> = Vec::with_capacity(count);
        let mut seen: HashSet<Ix> = HashSet::with_capacity(count);
        for producer in &job.definition.dependencies {
            let known = self.by_producer.get(producer).copied();
            edges.extend(known.filter(|other| *other != ix && seen.insert(*other)));
        }
        let (mut missing, mut dead) = (0, 0);
        for edge in &edges {
            let other = &mut self.jobs[edge.at()];
            other.dependents.push(ix);
            other.consumed += u32::from(integrated);
            missing += u32::from(other.status != JobStatus::Succeeded);
            dead += u32::from(other.status.is_dead());
        }
        let group = self.jobs[ix.at()]
            .group()
            .cloned()
            .map(|path| self.groups.enter(&path, ix));
        if let Some(group) = group {
            self.groups.count(group, status, at);
        }
        let job = &mut self.jobs[ix.at()];
        (job.dependencies, job.missing, job.dead, job.group) = (edges, missing, dead, group);
        self.counts.add(status);
        if status == JobStatus::Ready {
            self.ready.insert(ix);
        }
        if status.is_active() {
            self.active.insert(ix);
        }
    }

    fn last_is_validation(&mut self) {
        let found = self.jobs.iter().position(Job::is_validation);
        if let Some(place) = found.filter(|place| place + 1 != self.jobs.len()) {
            let job = self.jobs.remove(place);
            self.jobs.push(job);
        }
    }

    /// The validating job depends on all leaves, whatever the graph has become.
    fn validate_leaves(&mut self) {
        if !self.jobs.last().is_some_and(Job::is_validation) {
            return;
        }
        let leaves = self.leaf_names();
        let Some(last) = self.jobs.last_mut() else {
            return;
        };
        if last.definition.dependencies == leaves {
            return;
        }
        Arc::make_mut(&mut last.definition).dependencies = leaves;
        // Between two of its attempts, what it has taken up is not all any more.
        last.integrated = false;
        last.next.from = Phase::MergeFi;
        last.next.heal = None;
    }

    fn leaf_names(&self) -> Vec<ProducerId> {
        let own = self.jobs.iter().filter(|job| !job.is_validation());
        let mut needed: HashMap<&ProducerId, bool> = HashMap::with_capacity(self.jobs.len());
        for job in own.clone() {
            for producer in &job.definition.dependencies {
                needed.insert(producer, true);
            }
        }
        own.map(Job::producer)
            .filter(|name| !needed.contains_key(name))
            .cloned()
            .collect()
    }

    /// The jobs in an order in which each comes after what it depends on; what is in a cycle is
    /// left out.
    pub(crate) fn order(&self) -> Vec<Ix> {
        let mut open: Vec<usize> = self.jobs.iter().map(|job| job.dependencies.len()).collect();
        let mut order: Vec<Ix> = (0..self.jobs.len())
            .filter(|at| open[*at] == 0)
            .map(ix_of)
            .collect();
        let mut next = 0;
        while let Some(ix) = order.get(next).copied() {
            next += 1;
            for dependent in &self.jobs[ix.at()].dependents {
                open[dependent.at()] -= 1;
                if open[dependent.at()] == 0 {
                    order.push(*dependent);
                }
            }
        }
        order
    }

    /// Takes a job out; what depended on it depends on what it depended on.
    pub(super) fn take_out(&mut self, id: &JobId) {
        let Some(ix) = self.by_id.get(id).copied() else {
            return;
        };
        let gone = self.jobs.remove(ix.at()).definition;
        for job in &mut self.jobs {
            if job.definition.dependencies.contains(&gone.producer_id) {
                bridge(&mut Arc::make_mut(&mut job.definition).dependencies, &gone);
            }
        }
    }
}

/// Replaces a job among the dependencies of another by what it depended on itself, in its place.
pub(crate) fn bridge(dependencies: &mut Vec<ProducerId>, gone: &JobDefinition) {
    let Some(place) = dependencies
        .iter()
        .position(|name| *name == gone.producer_id)
    else {
        return;
    };
    let mut rest = dependencies.split_off(place);
    rest.remove(0);
    for name in gone.dependencies.iter().cloned().chain(rest) {
        if !dependencies.contains(&name) {
            dependencies.push(name);
        }
    }
}

fn ix_of(place: usize) -> Ix {
    Ix(u32::try_from(place).unwrap_or(u32::MAX))
}

fn ids(jobs: &[Job]) -> impl Iterator<Item = (Ix, &Job)> {
    jobs.iter()
        .enumerate()
        .map(|(place, job)| (ix_of(place), job))
}
