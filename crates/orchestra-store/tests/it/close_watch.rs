//! A close watch takes effect from its beginning, however leisurely the store looked around before.

use std::time::{Duration, Instant};

use orchestra_board::Kind;
use orchestra_store::What;
use tokio::sync::broadcast::error::TryRecvError;

use crate::board::PATIENCE;
use crate::fixture::{Workspace, open};

/// Without a listener others' changes are looked for once a second.
const LEISURE: Duration = Duration::from_secs(1);
const ROUNDS: u32 = 5;

#[test]
fn close_watch_reports_foreign_changes_from_its_beginning() {
    let other = Workspace::with_a_story();
    let watching = open(other.path());
    for round in 0..ROUNDS {
        let began = Instant::now();
        let mut receiver = watching.changes();
        let close = watching.watch_closely();
        let made = other.create(Kind::Task, Some("MA-2"), "x").issue.id;
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
        drop((receiver, close));
        // Something goes on until the store is sure to be at leisure again.
        let began = Instant::now();
        while began.elapsed() < LEISURE / 10 {
            other.remember("meanwhile");
        }
    }
}
