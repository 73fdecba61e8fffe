//! The groups of a definition: where its jobs are shown.

use std::{collections::HashMap, sync::Arc};

use super::{JobDefinition, JobIx};
use crate::ids::GroupPath;

/// Which of a definition's groups. It is of use with the definition that it came from and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupIx(u32);

impl GroupIx {
    /// The place, from 0.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most the names of all jobs' groups"
    )]
    const fn new(place: usize) -> Self {
        Self(place as u32)
    }
}

/// A group of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its whole path.
    pub path: GroupPath,
    /// The group that it is in.
    pub parent: Option<GroupIx>,
    /// The groups that are in it.
    pub children: Vec<GroupIx>,
    /// The jobs that are in it and in none of these.
    pub jobs: Vec<JobIx>,
}

/// All groups, and the one of each job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Groups {
    all: Vec<Group>,
    by_job: Vec<Option<GroupIx>>,
}

impl Groups {
    pub(super) fn of(jobs: &[Arc<JobDefinition>]) -> Self {
        let mut groups = Self {
            all: Vec::new(),
            by_job: Vec::with_capacity(jobs.len()),
        };
        let mut places = HashMap::new();
        for (place, job) in jobs.iter().enumerate() {
            let group = job
                .group
                .as_ref()
                .map(|path| groups.place(path, &mut places));
            if let Some(group) = group {
                groups.all[group.get()].jobs.push(JobIx::new(place));
            }
            groups.by_job.push(group);
        }
        groups
    }

    /// Where a group stands; it and those that it is in are made if they are not there.
    fn place(&mut self, path: &GroupPath, places: &mut HashMap<GroupPath, GroupIx>) -> GroupIx {
        if let Some(place) = places.get(path) {
            return *place;
        }
        let parent = path.parent().map(|parent| self.place(&parent, places));
        let place = GroupIx::new(self.all.len());
        self.all.push(Group {
            path: path.clone(),
            parent,
            children: Vec::new(),
            jobs: Vec::new(),
        });
        if let Some(parent) = parent {
            self.all[parent.get()].children.push(place);
        }
        places.insert(path.clone(), place);
        place
    }

    pub(super) fn all(&self) -> &[Group] {
        &self.all
    }

    pub(super) fn of_job(&self, job: JobIx) -> Option<GroupIx> {
        self.by_job[job.get()]
    }

    pub(super) fn jobs_below(&self, group: GroupIx) -> Vec<JobIx> {
        let mut jobs = Vec::new();
        let mut open = vec![group];
        while let Some(group) = open.pop() {
            let group = &self.all[group.get()];
            jobs.extend(&group.jobs);
            open.extend(&group.children);
        }
        jobs.sort_unstable();
        jobs
    }
}
