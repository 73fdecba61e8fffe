//! Processes killed at random under load: the database is whole, what was acknowledged is there,
//! each command is there whole or not at all, and the files come to say what the database says.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use orchestra_board::{Kind, State};
use orchestra_store::{Fix, IssueFilter, Options, Store};
use rusqlite::Connection;

use crate::board::{Board, PATIENCE, still};
use crate::child;
use crate::words::{effort, every, id, slug};

/// How often processes are killed: a few times, or with `ORCHESTRA_SOAK` as often as is promised.
fn rounds() -> u64 {
    effort(20, 200)
}

/// A small generator of its own, so that a round can be had again.
fn random(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[test]
fn killed_processes_leave_a_whole_board() {
    let board = Board::with_tasks(Options::default());
    let workspace = board.directory.path().to_owned();
    board.store.close(PATIENCE);
    let mut said: BTreeMap<String, (String, String)> = BTreeMap::new();
    for round in 1..=rounds() {
        let mut children: Vec<_> = (0..3)
            .map(|child| child::start(&workspace, "load", round * 10 + child))
            .collect();
        // The moment is random on purpose; nothing is waited for.
        std::thread::sleep(Duration::from_millis(40 + random(round) % 160));
        for child in &mut children {
            child.kill().expect("a kill");
        }
        for child in children {
            let output = child.wait_with_output().expect("an end");
            for line in child::lines(&output.stdout) {
                let mut words = line.split(' ').map(str::to_owned);
                let (subject, what, number) = (
                    words.next().unwrap(),
                    words.next().unwrap(),
                    words.next().unwrap(),
                );
                match what.as_str() {
                    "remembered" => drop(said.insert(format!("memory {number}"), (what, number))),
                    _ => drop(said.insert(subject, (what, number))),
                }
            }
        }
        check(&workspace, &said);
    }
    assert!(said.len() > 20, "the processes did something");
    let board = board.reopened(still(), |_| {});
    let answers = board.answers();
    let board = board.rebuilt(|_| {});
    assert_eq!(board.answers(), answers, "the files say something else");
}

fn check(workspace: &Path, said: &BTreeMap<String, (String, String)>) {
    let database = workspace.join(".projects/.store/board.db");
    let connection = Connection::open(&database).expect("a database");
    let verdict: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("a verdict");
    assert_eq!(verdict, "ok");
    for index in ["issue_text", "memory_text"] {
        let sql = format!("INSERT INTO {index} ({index}) VALUES ('integrity-check')");
        connection.execute(&sql, []).expect("a whole index");
    }
    drop(connection);
    let store = Store::open(workspace, Options::default()).expect("opens");
    store.settle(PATIENCE).expect("the files follow");
    let report = store.doctor(Fix::Nothing).expect("examines");
    assert_eq!(report.findings, Vec::<String>::new());
    store
        .read(|reader| {
            for (subject, (what, number)) in said {
                if what == "remembered" {
                    assert!(
                        !reader.search_memory(&slug(), number, 5)?.is_empty(),
                        "{subject} is lost"
                    );
                    continue;
                }
                let found = reader
                    .issue(&slug(), &id(subject))?
                    .map(|record| record.issue);
                match (what.as_str(), found) {
                    ("deleted", found) => assert!(found.is_none(), "{subject} is back"),
                    // What came after the last word may have happened as well.
                    ("changed", None) => assert_eq!(
                        number.parse::<u64>().expect("a number") % 3,
                        0,
                        "{subject} is lost"
                    ),
                    ("changed", Some(issue)) => {
                        assert_eq!(issue.title.as_str(), format!("t {number}"))
                    }
                    ("made", found) => {
                        let issue = found.unwrap_or_else(|| panic!("{subject} is lost"));
                        assert!(issue.title.as_str().ends_with(&format!(" {number}")));
                    }
                    (what, _) => panic!("{what}"),
                }
            }
            Ok(())
        })
        .expect("readable");
    let filter = IssueFilter {
        kinds: vec![Kind::Task],
        ..IssueFilter::default()
    };
    let tasks = store
        .read(|reader| every(|page| reader.issues(&slug(), &filter, page)))
        .expect("readable");
    for issue in tasks.iter().map(|record| &record.issue) {
        // Both fields and the state changed in one command, or none of them did.
        let changed = issue.title.as_str().starts_with("t ");
        let whole = if changed { issue.title.as_str() } else { "" };
        assert_eq!(issue.description.as_str(), whole);
        assert_eq!(
            issue.state,
            if changed { State::Todo } else { State::Backlog }
        );
    }
    let story = store
        .read(|reader| reader.issue(&slug(), &id("MA-2")))
        .expect("readable")
        .expect("the story");
    assert_eq!(story.children, u64::try_from(tasks.len()).expect("few"));
    store.close(PATIENCE);
}
