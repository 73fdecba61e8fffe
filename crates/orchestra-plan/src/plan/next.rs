//! What is to be done for a job now.

use crate::event::{Act, Failure, FailureKind, MergeIntent};
use crate::ids::{AttemptNumber, Branch, Commit};
use crate::outcome;
use crate::phase::Phase;
use crate::plan::{Attempt, Job, Plan};
use crate::status::JobStatus;
use crate::work::WorkSpec;

/// What is to be done for a job now. Whoever runs jobs asks this again after each event and does
/// what it says; no rule of the plan is anywhere else.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    /// Nothing: it waits for its dependencies, for a slot, or for the jobs that it was split into.
    Wait,
    /// It has a slot: report that its attempt begins (`Command::Begin`), then ask again.
    Begin {
        /// The number of the attempt.
        attempt: AttemptNumber,
    },
    /// Report that the act begins (`Report::ActBegan`), then do it and report its result.
    Do(Task<'a>),
    /// The act has begun: wait for its result. Who has just started finds out whether it is still
    /// being done, and reports the result, or that it is lost.
    UnderWay(Task<'a>),
    /// An attempt of it that is over was about to move the target: find out what became of that, and
    /// report it for that attempt (`Report::Merged` or `Report::MergeVoided`) before anything else.
    Resolve {
        /// The attempt.
        attempt: AttemptNumber,
        /// The move.
        intent: &'a MergeIntent,
    },
    /// It has ended.
    Ended(JobStatus),
}

/// An act of an attempt, and all that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Task<'a> {
    /// The job.
    pub job: &'a Job,
    /// The attempt, under way.
    pub attempt: &'a Attempt,
    /// The act.
    pub act: Act,
    /// What it takes.
    pub work: Work<'a>,
}

/// What an act takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Work<'a> {
    /// Make or find the worktree, and bring into it what the job builds on.
    Integrate {
        /// The commits of its dependencies, in the order in which they are merged. When there is
        /// none, it starts from the snapshot's base, or from `base_branch`.
        commits: Vec<Commit>,
        /// The branch that it starts from, where it names one.
        base_branch: Option<&'a Branch>,
        /// The worktree that is used again, if it is still good.
        reuse: Option<&'a str>,
        /// The commit that earlier attempts reached, where this one builds on their work: a worktree
        /// that has to be made anew starts from it.
        holds: Option<&'a Commit>,
        /// Whether a worktree that is there is thrown away first.
        clear: bool,
        /// Whether one that is there is thrown away first where it holds nothing of somebody's, and the act
        /// fails where it does.
        anew: bool,
        /// Whether the tip of the target is merged too, if it is not in yet: for the validating
        /// job.
        with_target: bool,
    },
    /// Do these one after the other.
    Setup {
        /// What makes a worktree ready.
        specs: &'a [WorkSpec],
    },
    /// Do this.
    Run {
        /// What.
        spec: &'a WorkSpec,
        /// The agent's session to take up.
        session: Option<&'a str>,
    },
    /// Let an agent find out why an act failed, and mend it in the worktree.
    Heal {
        /// The attempt that failed; its logs tell why.
        failed: &'a Attempt,
        /// Why it failed.
        failure: &'a Failure,
        /// What failed, where the job says that itself.
        spec: Option<&'a WorkSpec>,
        /// Whether the agent has to do the job's work itself, because that is an agent's work and
        /// is not done again after it.
        instead: bool,
    },
    /// Make a commit of what is in the worktree.
    Commit {
        /// Whether it is right that nothing changed.
        expects_no_changes: bool,
    },
    /// Merge into the target.
    Merge {
        /// Where the worktree stands.
        commit: Option<&'a Commit>,
        /// The target.
        target: Option<&'a Branch>,
    },
}

impl Plan {
    /// What is to be done for a job now.
    #[must_use]
    pub fn next<'a>(&'a self, job: &'a Job) -> Step<'a> {
        if let Some((attempt, intent)) = job.intent()
            && job.running().is_none_or(|one| one.number != attempt)
        {
            return Step::Resolve { attempt, intent };
        }
        match job.status() {
            JobStatus::Pending | JobStatus::Ready | JobStatus::CompletedSplit => Step::Wait,
            JobStatus::Scheduled => Step::Begin {
                attempt: job.next_number(),
            },
            JobStatus::Running => self.next_act(job),
            ended => Step::Ended(ended),
        }
    }

    fn next_act<'a>(&'a self, job: &'a Job) -> Step<'a> {
        let Some(attempt) = job.running() else {
            return Step::Wait;
        };
        let task = |act| Task {
            job,
            attempt,
            act,
            work: self.work(job, attempt, act),
        };
        match (attempt.under_way(), attempt.upcoming()) {
            (Some(act), _) => Step::UnderWay(task(act)),
            (None, Some(act)) => Step::Do(task(act)),
            (None, None) => Step::Wait,
        }
    }

    fn work<'a>(&'a self, job: &'a Job, attempt: &'a Attempt, act: Act) -> Work<'a> {
        if act.heal
            && let Some((failed, failure)) = healed(job, attempt)
        {
            let spec = outcome::failed_spec(self, job, act.phase, failure);
            let instead = outcome::is_instead(job, act.phase);
            return Work::Heal {
                failed,
                failure,
                spec,
                instead,
            };
        }
        match act.phase {
            Phase::MergeFi => Work::Integrate {
                commits: self.dependency_commits(job),
                base_branch: job.definition().base_branch.as_ref(),
                reuse: job.worktree(),
                holds: outcome::held(job, attempt),
                clear: job.upcoming().clear_worktree,
                anew: job.begins_anew,
                with_target: job.is_validation(),
            },
            Phase::Setup => Work::Setup {
                specs: &self.settings.worktree_init,
            },
            Phase::Commit | Phase::Cleanup => {
                let own = job.definition().expects_no_changes;
                Work::Commit {
                    // What is left of a job that was split is done by its parts.
                    expects_no_changes: own || job.is_validation() || job.split,
                }
            }
            Phase::MergeRi => Work::Merge {
                commit: attempt.commit.as_ref(),
                target: self.branches().map(|branches| &branches.target),
            },
            Phase::Prechecks | Phase::Work | Phase::Postchecks => match job.spec(act.phase) {
                Some(spec) => Work::Run {
                    spec,
                    session: session(job, act.phase, spec),
                },
                None => Work::Setup { specs: &[] },
            },
        }
    }
}

/// The latest attempt in which the phase itself failed, or else the one before.
pub(super) fn healed<'a>(job: &'a Job, attempt: &Attempt) -> Option<(&'a Attempt, &'a Failure)> {
    let before = usize::try_from(attempt.number.get().checked_sub(1)?).ok()?;
    let earlier = job.attempts().get(..before)?;
    let asked = attempt.acts.iter().find(|act| act.heal)?.phase;
    let own = |one: &&Attempt| {
        one.failure.as_ref().is_some_and(|(act, failure)| {
            *act == Act::of(asked) && failure.kind != FailureKind::Lost
        })
    };
    let failed = earlier.iter().rev().find(own).or(earlier.last())?;
    failed
        .failure
        .as_ref()
        .map(|(_, failure)| (failed, failure))
}

fn session<'a>(job: &'a Job, phase: Phase, spec: &WorkSpec) -> Option<&'a str> {
    let agent = spec.agent()?;
    let next = job.upcoming();
    let asked = match next.from {
        // What a check left uncommitted is committed before that check goes on.
        Phase::Commit => phase == Phase::Postchecks,
        from => from == phase,
    };
    let again = next.resume_session && asked;
    let wanted = match agent.resume_session {
        Some(asked) => asked && phase == Phase::Work && job.attempts().len() > 1,
        None => again,
    };
    job.session_of(Act::of(phase)).filter(|_| wanted)
}
