//! The whole table of moves, and the derivation of a plan's status.

use super::*;

/// What each state allows, written once more by hand: every pair that is not here must be refused.
const LEGAL: &[(JobStatus, Transition, JobStatus)] = {
    use JobStatus as S;
    use Transition as T;
    &[
        (S::Pending, T::Unlock, S::Ready),
        (S::Pending, T::Block, S::Blocked),
        (S::Pending, T::Cancel, S::Canceled),
        (S::Pending, T::ForceFail, S::Failed),
        (S::Ready, T::Await, S::Pending),
        (S::Ready, T::Schedule, S::Scheduled),
        (S::Ready, T::Block, S::Blocked),
        (S::Ready, T::Cancel, S::Canceled),
        (S::Ready, T::ForceFail, S::Failed),
        (S::Ready, T::Exhaust, S::Failed),
        (S::Scheduled, T::Start, S::Running),
        (S::Scheduled, T::Fail, S::Failed),
        (S::Scheduled, T::Cancel, S::Canceled),
        (S::Scheduled, T::Recover, S::Ready),
        (S::Scheduled, T::ForceFail, S::Failed),
        (S::Scheduled, T::Exhaust, S::Failed),
        (S::Running, T::Succeed, S::Succeeded),
        (S::Running, T::Split, S::CompletedSplit),
        (S::Running, T::Fail, S::Failed),
        (S::Running, T::Heal, S::Ready),
        (S::Running, T::Recover, S::Ready),
        (S::Running, T::Cancel, S::Canceled),
        (S::Running, T::ForceFail, S::Failed),
        (S::Running, T::Exhaust, S::Failed),
        (S::CompletedSplit, T::Succeed, S::Succeeded),
        (S::CompletedSplit, T::Fail, S::Failed),
        (S::CompletedSplit, T::Cancel, S::Canceled),
        (S::CompletedSplit, T::ForceFail, S::Failed),
        (S::CompletedSplit, T::Exhaust, S::Failed),
        (S::Failed, T::Retry, S::Pending),
        (S::Failed, T::Revive, S::Pending),
        (S::Blocked, T::Release, S::Pending),
        (S::Blocked, T::Revive, S::Pending),
        (S::Canceled, T::Revive, S::Pending),
    ]
};

#[test]
fn every_pair_of_state_and_move_is_as_the_table_says() {
    for from in JobStatus::ALL {
        for transition in Transition::ALL {
            let legal = LEGAL
                .iter()
                .find(|(s, t, _)| (*s, *t) == (from, transition));
            let expected = match legal {
                Some((_, _, to)) => Ok(*to),
                None => Err(IllegalTransition { from, transition }),
            };
            assert_eq!(from.after(transition), expected, "{from} {transition}");
        }
    }
}

#[test]
fn a_refused_move_says_which() {
    let refused = JobStatus::Succeeded
        .after(Transition::ForceFail)
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot force-fail a job that is succeeded"
    );
}

#[test]
fn names_are_those_that_serde_writes() {
    for status in JobStatus::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), status.name());
    }
    for status in PlanStatus::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), status.name());
    }
    for transition in Transition::ALL {
        assert_eq!(serde_json::to_value(transition).unwrap(), transition.name());
    }
}

fn counted(of: &[(JobStatus, u32)]) -> Counts {
    let mut counts = Counts::default();
    for (status, times) in of {
        for _ in 0..*times {
            counts.add(*status);
        }
    }
    counts
}

#[test]
fn the_status_of_a_plan_is_derived_in_order() {
    use JobStatus as S;
    let check = |paused: bool, started: bool, of: &[(S, u32)], expected: PlanStatus| {
        let counts = counted(of);
        let facts = PlanFacts {
            archived: false,
            scaffolding: false,
            paused,
            started,
            canceled: false,
            counts: &counts,
        };
        assert_eq!(
            facts.status(),
            expected,
            "paused {paused}, started {started}, {of:?}"
        );
        assert_eq!(
            PlanFacts {
                archived: true,
                ..facts
            }
            .status(),
            PlanStatus::Archived
        );
        assert_eq!(
            PlanFacts {
                scaffolding: true,
                ..facts
            }
            .status(),
            PlanStatus::Scaffolding
        );
    };
    check(true, false, &[(S::Ready, 1)], PlanStatus::PendingStart);
    check(true, true, &[(S::Ready, 1)], PlanStatus::Paused);
    check(
        true,
        true,
        &[(S::Running, 1), (S::Ready, 1)],
        PlanStatus::Pausing,
    );
    check(true, true, &[(S::Succeeded, 2)], PlanStatus::Succeeded);
    check(false, false, &[(S::Ready, 1)], PlanStatus::Pending);
    check(false, true, &[(S::Ready, 1)], PlanStatus::Running);
    check(
        false,
        true,
        &[(S::Scheduled, 1), (S::Failed, 1)],
        PlanStatus::Running,
    );
    check(
        false,
        true,
        &[(S::Failed, 1), (S::Canceled, 1)],
        PlanStatus::Canceled,
    );
    check(
        false,
        true,
        &[(S::Failed, 1), (S::Blocked, 1)],
        PlanStatus::Failed,
    );
    check(
        false,
        true,
        &[(S::Succeeded, 1), (S::Blocked, 1)],
        PlanStatus::Failed,
    );
    check(false, true, &[(S::Succeeded, 3)], PlanStatus::Succeeded);
}

#[test]
fn progress_is_whole_only_when_all_have_ended() {
    let counts = counted(&[(JobStatus::Succeeded, 199), (JobStatus::Running, 1)]);
    assert_eq!((counts.progress(), counts.share_succeeded()), (99, 99));
    let counts = counted(&[(JobStatus::Succeeded, 1), (JobStatus::Blocked, 2)]);
    assert_eq!((counts.progress(), counts.share_succeeded()), (100, 33));
    let counts = Counts::default();
    assert_eq!((counts.progress(), counts.share_succeeded()), (0, 0));
}
