//! A close watch takes effect at once, however leisurely the store looked around before.

use std::time::{Duration, Instant};

use orchestra_board::Kind;
use orchestra_store::{Action, What};
use tokio::sync::broadcast::error::TryRecvError;

use crate::board::PATIENCE;
use crate::fixture::{Workspace, create, open};

/// Without a listener others' changes are looked for once a second.
const LEISURE: Duration = Duration::from_secs(1);
const ROUNDS: u32 = 5;

#[test]
fn what_others_change_is_told_soon_from_the_beginning_of_a_close_watch() {
    let board = Workspace::with_a_story();
    let other = open(board.path());
    let began = Instant::now();
    for round in 0..ROUNDS {
        let mut receiver = board.store.changes();
        let _close = board.store.watch_closely();
        let command = create(Kind::Task, Some("MA-2"), "x");
        let made = other.submit_blocking(None, Action::Board(command));
        let made = made.expect("made").issues.swap_remove(0).issue.id;
        loop {
            match receiver.try_recv() {
                Ok(notice) => {
                    if notice.issue.as_ref() == Some(&made) && notice.what == What::IssueCreated {
                        break;
                    }
                }
                Err(TryRecvError::Empty) => {
                    assert!(began.elapsed() < PATIENCE, "round {round}: nothing is told");
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        }
        // Listener and watch go in the same breath, so the store is at leisure again.
    }
    let took = began.elapsed();
    assert!(
        took < LEISURE * ROUNDS / 2,
        "{ROUNDS} changes were told within {took:?}"
    );
}
