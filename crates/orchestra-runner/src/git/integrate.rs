//! Bringing a plan's work onto the branch that it ends on, exactly once.
//!
//! In three steps, so that a crash between any two is found out: [`Repository::integrate`] computes the
//! commit and touches no reference; the caller makes its [`Intent`] durable; [`Repository::apply`] moves
//! the branch from exactly where it was. [`Repository::state_of`] tells after a crash which it was.

use std::{
    panic::resume_unwind,
    time::{Duration, Instant},
};

use orchestra_plan::ids::{Branch, Commit};
use tokio::time::sleep;

use super::{
    CheckoutRefusal, Conflict, GitError, Repository, RepositoryLock, merge::MergedTree, names,
    snapshot::in_the_way,
};

/// A result with fewer files than this share of those that its richer parent has looks destroyed.
pub const DESTROYED_BELOW_PERCENT: u64 = 80;

/// Parents with no more files than this are not looked at.
const FEW_FILES: u64 = 10;

const MOVING: &str = "move the branch of a plan";

/// How long another git is waited for that is at work where the branch is checked out: an editor that looks
/// at its files takes milliseconds, and a lock that stays was left behind.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is tried again: at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(320);

/// A branch that is to be moved: where from and where to. Made durable before it is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The branch.
    pub target: Branch,
    /// Where it has to be for that; `None` when it must not be there.
    pub old: Option<Commit>,
    /// Where it will be.
    pub new: Commit,
}

/// How a plan's work gets onto its branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// The branch has it already.
    There,
    /// The branch is made.
    Created,
    /// The branch moves along to it.
    FastForward,
    /// A commit with both as parents: the branch has moved since the work was checked.
    Merge,
}

/// What bringing the work onto its branch comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integration {
    /// It can be done so.
    Ready {
        /// What to make durable, and then apply.
        intent: Intent,
        /// How the branch gets there.
        landing: Landing,
    },
    /// The branch and the work do not go together.
    Conflict(Conflict),
    /// The result has lost too many files to be what anybody wants.
    Destroyed {
        /// How many files the richer parent has.
        before: u64,
        /// How many the result has.
        after: u64,
    },
}

/// What became of an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// The branch is there.
    Done,
    /// The branch is elsewhere, or the commit is not there any more: the work has to be integrated anew.
    Moved {
        /// Where it is.
        to: Option<Commit>,
    },
    /// The branch is checked out where it cannot follow; nothing was touched.
    Refused(CheckoutRefusal),
}

/// What is found of an intent after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentState {
    /// The branch has it.
    Done,
    /// The branch is where it was: the intent may be applied, or dropped.
    Void,
    /// The branch is elsewhere, without it.
    Moved {
        /// Where it is.
        to: Option<Commit>,
    },
}

impl Repository {
    /// Computes how the commits get onto the branch: all of them merged in their order, and then with the
    /// branch's tip, where that is not among what they were made from. No reference moves.
    ///
    /// `floor` is the share of files in percent below which a result counts as destroyed, usually
    /// [`DESTROYED_BELOW_PERCENT`]; none does when it is zero.
    pub async fn integrate(
        &self,
        target: &Branch,
        commits: &[Commit],
        message: &str,
        floor: u64,
    ) -> Result<Integration, GitError> {
        let old = self.tip(target).await?;
        if let Some(tip) = &old
            && self.contains(tip, commits).await?
        {
            // A merge made anew would be another commit than the one that brought them there.
            let (old, new) = (old.clone(), tip.clone());
            let intent = Intent {
                target: target.clone(),
                old,
                new,
            };
            return Ok(Integration::Ready {
                intent,
                landing: Landing::There,
            });
        }
        let work = match self.merge(commits, message).await? {
            super::Forward::Merged(work) => work,
            super::Forward::Conflict(conflict) => return Ok(Integration::Conflict(conflict)),
        };
        let (new, landing) = match &old {
            None => (work.clone(), Landing::Created),
            Some(tip) if self.is_ancestor(tip, &work).await? => {
                (work.clone(), Landing::FastForward)
            }
            Some(tip) => match self.merge_tree(tip, &work).await? {
                MergedTree::Clean(tree) => {
                    let new = self.commit_tree(&tree, &[tip, &work], message).await?;
                    (new, Landing::Merge)
                }
                MergedTree::Conflicts(paths) => {
                    let (onto, with, index) = (tip.clone(), work, 0);
                    return Ok(Integration::Conflict(Conflict {
                        onto,
                        with,
                        index,
                        paths,
                    }));
                }
            },
        };
        if let Some(tip) = &old
            && floor > 0
        {
            let after = self.count_files(&new).await?;
            let mut before = self.count_files(tip).await?;
            if landing == Landing::Merge {
                before = before.max(self.count_files(&work).await?);
            }
            if before > FEW_FILES && after * 100 < before * floor {
                return Ok(Integration::Destroyed { before, after });
            }
        }
        let target = target.clone();
        Ok(Integration::Ready {
            intent: Intent { target, old, new },
            landing,
        })
    }

    /// Moves the branch as intended, from exactly where it was. Where it is checked out in a working tree
    /// that is wholly clean, that follows; where it is not clean, nothing is touched.
    ///
    /// One of us does so at a time, whoever runs it, and another git that is at work in the working tree is
    /// given some seconds to end. What has begun is ended as well when it is dropped: [`Self::landed`] waits for
    /// that. Must run inside a runtime.
    pub async fn apply(&self, intent: &Intent) -> Result<Applied, GitError> {
        let started = Instant::now();
        let mut wait = FIRST_WAIT;
        loop {
            let lock = self.lock_landing().await?;
            // Files of the user's may be changed half way when nobody waits for it any more.
            let (repository, own) = (self.clone(), intent.clone());
            let landing = async move { repository.apply_once(&own, &lock).await };
            let applied = match tokio::spawn(landing).await {
                Ok(applied) => applied,
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                Err(error) => {
                    let (operation, subject) = (MOVING, intent.target.to_string());
                    let source = error.into();
                    return Err(GitError::Start {
                        operation,
                        subject,
                        source,
                    });
                }
            };
            let is_busy = match &applied {
                Ok(Applied::Refused(refusal)) => matches!(refusal, CheckoutRefusal::Busy { .. }),
                Err(error) => matches!(error, GitError::Locked { .. }),
                Ok(_) => false,
            };
            if !is_busy || started.elapsed() >= PATIENCE {
                return applied;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn apply_once(
        &self,
        intent: &Intent,
        lock: &RepositoryLock,
    ) -> Result<Applied, GitError> {
        match self.state_of(intent).await? {
            IntentState::Done => return Ok(Applied::Done),
            IntentState::Moved { to } => return Ok(Applied::Moved { to }),
            IntentState::Void => {}
        }
        let followed = self.follow(intent, lock).await?;
        let nobody_has_it = followed.is_none();
        match followed {
            None => {}
            Some(Ok(path)) => {
                let outcome = self.outcome(intent).await?;
                let is_where_it_was =
                    matches!(&outcome, Applied::Moved { to } if *to == intent.old);
                if !is_where_it_was || !self.put_back(&path, intent).await? {
                    return Ok(outcome);
                }
                // The user has checked something else out, and the branch moves alone.
            }
            Some(Err(refusal)) => return Ok(Applied::Refused(refusal)),
        }
        let old = intent
            .old
            .as_ref()
            .map_or(self.format().none(), Commit::as_str);
        let moved = self
            .call(MOVING, ["update-ref", "-m", "orchestra: plan"])
            .arg(names::reference(&intent.target))
            .arg(intent.new.as_str())
            .arg(old)
            .on(&intent.target)
            .run()
            .await;
        match moved {
            Err(GitError::Failed { stderr, .. }) if stderr.contains("cannot create") => {
                let (branch, other) = (intent.target.to_string(), in_the_way(&stderr));
                Err(GitError::InTheWay { branch, other })
            }
            // The user has collected garbage since the commit was made.
            Err(GitError::Failed { stderr, .. }) if stderr.contains("nonexistent object") => {
                Ok(Applied::Moved {
                    to: intent.old.clone(),
                })
            }
            Err(error @ GitError::Failed { .. }) => match self.outcome(intent).await? {
                Applied::Refused(_) => Err(error),
                Applied::Moved { to } if to == intent.old => Err(error),
                other => Ok(other),
            },
            other => {
                other?;
                if nobody_has_it {
                    self.catch_up(intent, lock).await?;
                }
                Ok(Applied::Done)
            }
        }
    }

    /// Whether an intent has come true, for whoever comes after a crash.
    pub async fn state_of(&self, intent: &Intent) -> Result<IntentState, GitError> {
        let tip = self.tip(&intent.target).await?;
        if tip == intent.old && tip.as_ref() != Some(&intent.new) {
            return Ok(IntentState::Void);
        }
        let has_it = match &tip {
            Some(tip) => self.is_ancestor(&intent.new, tip).await?,
            None => false,
        };
        Ok(if has_it {
            IntentState::Done
        } else {
            IntentState::Moved { to: tip }
        })
    }

    async fn outcome(&self, intent: &Intent) -> Result<Applied, GitError> {
        Ok(match self.state_of(intent).await? {
            IntentState::Done => Applied::Done,
            IntentState::Void => Applied::Moved {
                to: intent.old.clone(),
            },
            IntentState::Moved { to } => Applied::Moved { to },
        })
    }
}
