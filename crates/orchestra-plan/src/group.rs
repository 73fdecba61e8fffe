//! The groups that jobs are shown in, and how each stands.
//!
//! Groups nest by their paths and never decide what runs. A group counts the jobs of all groups in
//! it.

use std::collections::HashMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{GroupPath, Millis};
use crate::plan::Ix;
use crate::status::{Counts, JobStatus};

/// How a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GroupStatus {
    /// Nothing of it can start yet.
    Pending,
    /// Something of it could start.
    Ready,
    /// Something of it is at work, or was and more is to come.
    Running,
    /// All of it succeeded.
    Succeeded,
    /// Something of it failed or is blocked, and nothing is at work.
    Failed,
    /// Something of it was canceled, and nothing failed.
    Canceled,
}

impl GroupStatus {
    /// Derives the status of a group from where its jobs stand.
    #[must_use]
    pub const fn of(counts: &Counts) -> Self {
        if counts.active() > 0 {
            Self::Running
        } else if counts.failed > 0 || counts.blocked > 0 {
            Self::Failed
        } else if counts.ready > 0 {
            Self::Ready
        } else if counts.pending > 0 {
            Self::Pending
        } else if counts.canceled > 0 {
            Self::Canceled
        } else {
            Self::Succeeded
        }
    }
}

/// A group of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its path.
    pub path: GroupPath,
    /// The group that it is in, by its place.
    pub parent: Option<usize>,
    /// The groups directly in it, by their places.
    pub children: Vec<usize>,
    /// Where its jobs stand, those of the groups in it included.
    pub counts: Counts,
    /// When something of it first held a slot.
    pub started_at: Option<Millis>,
    /// When the last of it ended.
    pub ended_at: Option<Millis>,
    pub(crate) jobs: Vec<Ix>,
}

impl Group {
    /// How it stands.
    #[must_use]
    pub const fn status(&self) -> GroupStatus {
        GroupStatus::of(&self.counts)
    }
}

/// All groups of a plan, in the order in which jobs first name them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    all: Vec<Group>,
    by_path: HashMap<GroupPath, usize>,
}

impl Groups {
    /// The groups; a place in it names a group.
    #[must_use]
    pub fn all(&self) -> &[Group] {
        &self.all
    }

    /// The group of a path.
    #[must_use]
    pub fn at(&self, path: &GroupPath) -> Option<&Group> {
        self.by_path.get(path).map(|place| &self.all[*place])
    }

    /// Puts a job into a group, which is made with all that it is in.
    pub(crate) fn enter(&mut self, path: &GroupPath, job: Ix) -> usize {
        let place = self.place(path);
        self.all[place].jobs.push(job);
        place
    }

    fn place(&mut self, path: &GroupPath) -> usize {
        // From the outermost on, so that the depth of a path costs no depth of the stack.
        let mut missing = Vec::new();
        let mut at = Some(path.clone());
        while let Some(path) = at.filter(|path| !self.by_path.contains_key(path)) {
            at = path.parent();
            missing.push(path);
        }
        for path in missing.into_iter().rev() {
            let parent = path
                .parent()
                .and_then(|parent| self.by_path.get(&parent).copied());
            let place = self.all.len();
            if let Some(parent) = parent {
                self.all[parent].children.push(place);
            }
            self.by_path.insert(path.clone(), place);
            self.all.push(Group {
                path,
                parent,
                children: Vec::new(),
                counts: Counts::default(),
                started_at: None,
                ended_at: None,
                jobs: Vec::new(),
            });
        }
        self.by_path.get(path).copied().unwrap_or_default()
    }

    /// Takes over from earlier groups when each began and ended.
    pub(crate) fn keep_times(&mut self, earlier: &Self) {
        for group in &mut self.all {
            let Some(before) = earlier.at(&group.path) else {
                continue;
            };
            group.started_at = before.started_at;
            group.ended_at = group.ended_at.and(before.ended_at).or(group.ended_at);
        }
    }

    /// Counts a job that is new in a group.
    pub(crate) fn count(&mut self, place: usize, status: JobStatus, at: Millis) {
        self.up(place, |group| {
            group.counts.add(status);
            group.conclude(at);
        });
    }

    /// Counts the move of a job of a group.
    pub(crate) fn shift(&mut self, place: usize, from: JobStatus, to: JobStatus, at: Millis) {
        self.up(place, |group| {
            group.counts.shift(from, to);
            if to.is_active() {
                group.started_at.get_or_insert(at);
            }
            group.conclude(at);
        });
    }

    fn up(&mut self, place: usize, mut each: impl FnMut(&mut Group)) {
        let mut next = Some(place);
        while let Some(group) = next.and_then(|place| self.all.get_mut(place)) {
            each(group);
            next = group.parent;
        }
    }
}

impl Group {
    fn conclude(&mut self, at: Millis) {
        if self.counts.terminal() < self.counts.total() {
            self.ended_at = None;
        } else {
            self.ended_at.get_or_insert(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_counts_the_groups_in_it() {
        let mut groups = Groups::default();
        let deep = GroupPath::parse("build/linux/arm").unwrap();
        let place = groups.enter(&deep, Ix(0));
        groups.count(place, JobStatus::Ready, Millis::new(1));
        let top = GroupPath::parse("build").unwrap();
        assert_eq!(groups.all().len(), 3);
        assert_eq!(groups.at(&top).map(Group::status), Some(GroupStatus::Ready));
        groups.shift(
            place,
            JobStatus::Ready,
            JobStatus::Scheduled,
            Millis::new(2),
        );
        assert_eq!(
            groups.at(&top).map(Group::status),
            Some(GroupStatus::Running)
        );
        groups.shift(
            place,
            JobStatus::Scheduled,
            JobStatus::Failed,
            Millis::new(3),
        );
        let top = groups.at(&top).unwrap();
        assert_eq!(
            (top.status(), top.ended_at),
            (GroupStatus::Failed, Some(Millis::new(3)))
        );
        assert_eq!(top.started_at, Some(Millis::new(2)));
    }
}
