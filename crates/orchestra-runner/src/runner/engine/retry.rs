//! What failed in the repository, and is tried again after a while, though not for ever: whoever holds next
//! tries it anew.

use std::{collections::HashMap, time::Duration};

use orchestra_plan::ids::{JobId, PlanId};
use tokio::time::Instant;

use super::Engine;
use crate::runner::turn::Turn;

/// How long after each failure it is tried again. What has failed so often is left to the next holder.
const PAUSES: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(120),
];

/// What is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Again {
    /// To remove all that a plan has in the repository.
    Clean(PlanId),
    /// To remove the worktree of a job.
    Remove(PlanId, JobId),
    /// To find out what became of the target that a job was about to move.
    Resolve(PlanId, JobId),
}

#[derive(Debug)]
struct Tries {
    failed: usize,
    at: Option<Instant>,
}

/// What has failed, and when it is tried again.
#[derive(Debug, Default)]
pub(crate) struct Retries(HashMap<Again, Tries>);

impl Retries {
    /// Notes that something has failed; `false` when it is not tried again.
    pub(crate) fn failed(&mut self, what: Again, now: Instant) -> bool {
        let tries = self.0.entry(what).or_insert(Tries {
            failed: 0,
            at: None,
        });
        let pause = PAUSES.get(tries.failed);
        tries.failed += 1;
        tries.at = pause.map(|pause| now + *pause);
        tries.at.is_some()
    }

    /// Notes that it is done, or nobody wants it any more.
    pub(crate) fn done(&mut self, what: Again) {
        self.0.remove(&what);
    }

    /// Whether its time has not come.
    pub(crate) fn waits(&self, what: Again) -> bool {
        self.0.get(&what).is_some_and(|tries| tries.at.is_some())
    }

    /// When the next is tried again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.values().filter_map(|tries| tries.at).min()
    }

    fn due(&mut self, now: Instant) -> Vec<Again> {
        let due = self.0.iter_mut().filter_map(|(what, tries)| {
            tries.at.take_if(|at| *at <= now)?;
            Some(*what)
        });
        due.collect()
    }
}

impl Engine {
    /// Has tried again what is to be tried again by now.
    pub(super) fn retry(&mut self, turn: &mut Turn) {
        for again in self.retries.due(Instant::now()) {
            match again {
                Again::Clean(plan) | Again::Resolve(plan, _) => {
                    turn.touched.insert(plan);
                }
                Again::Remove(plan, job) => turn.removable.push((plan, job)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_again_later_and_later_and_then_no_more() {
        let what = Again::Clean(PlanId::of_random([1; 16]));
        let (mut retries, begin) = (Retries::default(), Instant::now());
        let mut times = Vec::new();
        let mut now = begin;
        while retries.failed(what, now) {
            assert!(retries.waits(what) && retries.due(now).is_empty());
            now = retries.next().unwrap();
            assert_eq!(retries.due(now), [what]);
            assert!(!retries.waits(what) && retries.next().is_none());
            times.push((now - begin).as_secs());
        }
        assert_eq!(times, [1, 6, 21, 51, 111, 231]);
        retries.done(what);
        assert!(retries.failed(what, now), "it counts anew once it was done");
    }
}
