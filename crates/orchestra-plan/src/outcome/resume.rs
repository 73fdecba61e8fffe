//! Where a job goes on, so that nothing that was done is lost, done twice or left unchecked.

use crate::event::{Act, AttemptEnd, Failure, FailureKind, Next, Trigger};
use crate::ids::Commit;
use crate::outcome::{Policy, is_instead};
use crate::phase::Phase;
use crate::plan::{Attempt, Job};

/// Whether there may be something in the worktree of the validating job that an agent or a person
/// has mended and that is not committed.
pub(super) fn may_be_mended(job: &Job) -> bool {
    let next = job.upcoming();
    if next.heal.is_some() || next.trigger == Trigger::Retry {
        return true;
    }
    for attempt in job.attempts().iter().rev() {
        let done = attempt.acts.get(..attempt.done).unwrap_or_default();
        if done.contains(&Act::of(Phase::Commit)) {
            return false;
        }
        if attempt.trigger == Trigger::Retry || attempt.acts.iter().any(|act| act.heal) {
            return true;
        }
        if attempt.fresh {
            return false;
        }
    }
    false
}

/// Whether the heal that was asked for is done.
pub(super) fn is_healed(job: &Job, phase: Phase) -> bool {
    job.attempt().is_some_and(|attempt| {
        let done = attempt.acts.get(..attempt.done).unwrap_or_default();
        done.contains(&Act::heal(phase))
    })
}

/// Where a job goes on that failed, or was lost, in a phase.
///
/// What comes before the place where the attempt itself went on (the worktree is looked at again and
/// made ready) does not throw it back behind that. A commit fails for lack of changes, so then the
/// work comes again. The validating job never goes on behind its check: merge-fi may bring in what
/// was never verified.
pub(super) fn resume_of(job: &Job, phase: Phase, kind: Option<FailureKind>) -> Phase {
    let next = job.upcoming();
    let own = match next.heal {
        // The agent was to do the work besides.
        Some(heal) if is_instead(job, heal) && !is_healed(job, heal) => Phase::Work,
        _ => next.from,
    };
    let from = match phase {
        before if before < own => own,
        Phase::MergeFi | Phase::Setup => Phase::MergeFi,
        Phase::Commit if kind == Some(FailureKind::NothingChanged) => Phase::Work,
        other => other,
    };
    if job.is_validation() {
        return from.min(Phase::Work);
    }
    // The rest of what it was to do is its parts' by now.
    match job.split {
        true => from.max(Phase::Commit),
        false => from,
    }
}

/// The commit with the work of earlier attempts that an attempt builds on.
pub(crate) fn held<'a>(job: &'a Job, attempt: &Attempt) -> Option<&'a Commit> {
    if does_work(job, attempt) {
        return None;
    }
    let earlier = job.attempts().iter().rev();
    for one in earlier.filter(|one| one.number < attempt.number) {
        let done = one.acts.get(..one.done).unwrap_or_default();
        if done.contains(&Act::of(Phase::Commit)) {
            return one.commit.as_ref();
        }
        if does_work(job, one) {
            return None;
        }
    }
    None
}

/// Whether an attempt does all the work of its job, so that it needs nothing of an earlier one.
fn does_work(job: &Job, attempt: &Attempt) -> bool {
    let own = |act: &Act| *act == Act::of(Phase::Work) || act.heal && is_instead(job, act.phase);
    job.is_validation() || job.spec(Phase::Work).is_none() || attempt.acts.iter().any(own)
}

/// What follows when a worktree had to be made anew in an attempt that builds on work that was never
/// committed: the job begins anew, as often as it may be lost.
#[must_use]
pub fn after_gone(job: &Job, attempt: &Attempt, policy: &Policy) -> Option<AttemptEnd> {
    if does_work(job, attempt) || held(job, attempt).is_some() {
        return None;
    }
    let act = Act::of(Phase::MergeFi);
    let words = "the worktree no longer exists, and its uncommitted work is lost";
    let failure = Failure::new(FailureKind::Worktree, words);
    let mut next = Next::whole(Trigger::Recovery);
    next.clear_worktree = true;
    Some(match job.losses < policy.losses_max {
        true => AttemptEnd::Again {
            act,
            failure,
            next,
            counted: false,
        },
        false => AttemptEnd::Failed { act, failure },
    })
}

/// What a person has allowed of a job's result, which holds until that is merged. That a target was
/// rewritten they have seen once, and not what becomes of it later.
pub(super) fn allowed(job: &Job) -> Option<FailureKind> {
    let allowed = job.upcoming().despite;
    allowed.filter(|kind| *kind == FailureKind::TreeDestroyed)
}

/// What a retry does that a person asks for: on from the phase that failed, or all of it where
/// `whole`. What stopped the job and may be passed over does not stop it again.
#[must_use]
pub fn retry(job: &Job, whole: bool, clear_worktree: bool) -> Next {
    let failed = job
        .attempt()
        .and_then(|attempt| attempt.failure.as_ref())
        .map(|(act, failure)| (act.phase, failure.kind));
    // Whoever asks may have mended in the worktree what the check found, and so may a heal that
    // failed itself: what is checked is committed before.
    let on = |(phase, kind)| match resume_of(job, phase, Some(kind)) {
        Phase::Postchecks => Phase::Commit,
        other => other,
    };
    let resumed = failed.filter(|_| !whole && !clear_worktree && job.integrated);
    let from = resumed.map_or(Phase::MergeFi, on);
    // What an edit of the job asked to be done again is.
    let from = match job.reset {
        Some(reset) => from.min(reset),
        None => from,
    };
    let mut next = Next::resuming(Trigger::Retry, from);
    next.clear_worktree = clear_worktree;
    next.resume_session = resumed.map(on) == Some(from);
    let seen = failed.map(|(_, kind)| kind);
    next.despite = seen
        .filter(|kind| kind.may_be_passed_over())
        .or(allowed(job));
    next
}
