//! What failed in the repository, and is tried again after a while, though not for ever: whoever holds next
//! tries it anew.

use std::{collections::HashMap, fmt, time::Duration};

use orchestra_plan::ids::{JobId, PlanId};
use tokio::time::Instant;

use super::Engine;
use crate::runner::turn::Turn;

/// How many things that were given up are named.
const NAMED: usize = 3;

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

impl Again {
    const fn plan(&self) -> PlanId {
        match self {
            Self::Clean(plan) | Self::Remove(plan, _) | Self::Resolve(plan, _) => *plan,
        }
    }
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean(plan) => write!(f, "what plan {plan} has in the repository is not removed"),
            Self::Remove(plan, job) => {
                write!(f, "the worktree of job {job} of plan {plan} is not removed")
            }
            Self::Resolve(plan, job) => {
                write!(
                    f,
                    "it is not known whether job {job} of plan {plan} has updated its target"
                )
            }
        }
    }
}

#[derive(Debug)]
struct Tries {
    failed: usize,
    at: Option<Instant>,
}

/// What has failed, and when it is tried again.
#[derive(Debug)]
pub(crate) struct Retries {
    /// How long after each failure. What has failed more often is left to the next holder.
    pauses: Vec<Duration>,
    tries: HashMap<Again, Tries>,
}

impl Retries {
    pub(super) fn new(pauses: &[Duration]) -> Self {
        Self {
            pauses: pauses.to_vec(),
            tries: HashMap::new(),
        }
    }

    /// Notes that something has failed; `false` when it is not tried again.
    pub(crate) fn failed(&mut self, what: Again, now: Instant) -> bool {
        let tries = self.tries.entry(what).or_insert(Tries {
            failed: 0,
            at: None,
        });
        let pause = self.pauses.get(tries.failed);
        tries.failed += 1;
        tries.at = pause.map(|pause| now + *pause);
        tries.at.is_some()
    }

    /// Notes that it is done, or nobody wants it any more.
    pub(crate) fn done(&mut self, what: Again) {
        self.tries.remove(&what);
    }

    /// Notes that all is removed that a plan had in the repository.
    pub(crate) fn removed(&mut self, id: PlanId) {
        let stays = |what: &Again| matches!(what, Again::Resolve(..)) || what.plan() != id;
        self.tries.retain(|what, _| stays(what));
    }

    /// Notes that there is no such plan any more.
    pub(crate) fn forget(&mut self, id: PlanId) {
        self.tries.retain(|what, _| what.plan() != id);
    }

    /// Whether its time has not come.
    pub(crate) fn waits(&self, what: Again) -> bool {
        self.tries
            .get(&what)
            .is_some_and(|tries| tries.at.is_some())
    }

    /// When the next is tried again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.tries.values().filter_map(|tries| tries.at).min()
    }

    /// What is not tried again here, in words.
    pub(super) fn given_up(&self) -> Option<String> {
        let is_given_up = |tries: &Tries| tries.failed > self.pauses.len();
        let mut given_up: Vec<String> = self
            .tries
            .iter()
            .filter(|(_, tries)| is_given_up(tries))
            .map(|(what, _)| what.to_string())
            .collect();
        given_up.sort_unstable();
        let more = given_up.len().checked_sub(NAMED).filter(|more| *more > 0);
        given_up.truncate(NAMED);
        let more = more.map(|more| format!("{more} more"));
        given_up.extend(more);
        (!given_up.is_empty()).then(|| given_up.join(", "))
    }

    fn due(&mut self, now: Instant) -> Vec<Again> {
        let due = self.tries.iter_mut().filter_map(|(what, tries)| {
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
        let mut retries = Retries::new(&[1, 5, 15].map(Duration::from_secs));
        let begin = Instant::now();
        let mut times = Vec::new();
        let mut now = begin;
        while retries.failed(what, now) {
            assert!(retries.waits(what) && retries.due(now).is_empty());
            now = retries.next().unwrap();
            assert_eq!(retries.due(now), [what]);
            assert!(!retries.waits(what) && retries.next().is_none());
            times.push((now - begin).as_secs());
        }
        assert_eq!(times, [1, 6, 21]);
        let said = retries.given_up().unwrap();
        assert!(said.starts_with("what plan "), "{said}");
        retries.done(what);
        assert_eq!(retries.given_up(), None);
        assert!(retries.failed(what, now), "it counts anew once it was done");
    }
}
