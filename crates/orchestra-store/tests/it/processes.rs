//! Many processes on one board: every change is there, no id comes twice, nobody is turned away.

use std::collections::BTreeSet;

use orchestra_board::Kind;
use orchestra_store::{Action, IssueFilter, PageRequest};

use crate::child;
use crate::fixture::{Workspace, agent, create, open, slug};

#[test]
fn processes_make_distinct_issues_and_none_is_refused() {
    const PROCESSES: u64 = 8;
    const EACH: usize = 25;
    let workspace = Workspace::with_a_story();
    let children: Vec<_> = (0..PROCESSES)
        .map(|seed| child::start(workspace.path(), &format!("create:{EACH}"), seed))
        .collect();
    let mut made = Vec::new();
    for child in children {
        let output = child.wait_with_output().expect("an end");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        made.extend(child::lines(&output.stdout));
    }
    let distinct: BTreeSet<&String> = made.iter().collect();
    assert_eq!((made.len(), distinct.len()), (200, 200));
    let filter = IssueFilter {
        kinds: vec![Kind::Task],
        ..IssueFilter::default()
    };
    let stored: BTreeSet<String> = workspace.ids(&filter).into_iter().collect();
    assert!(made.iter().all(|id| stored.contains(id)) && stored.len() == 200);
    let record = workspace.issue("MA-2").expect("the story");
    assert_eq!(record.children, 200);
}

#[test]
fn stores_of_one_process_share_the_board() {
    let workspace = Workspace::with_a_story();
    let second = open(workspace.path());
    let threads: Vec<_> = [workspace.store.clone(), second.clone()]
        .into_iter()
        .map(|store| {
            std::thread::spawn(move || {
                for _ in 0..50 {
                    store
                        .submit_blocking(None, Action::Board(create(Kind::Task, Some("MA-2"), "x")))
                        .expect("made");
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("no panic"));
    let page = second.read(|reader| {
        reader.children(
            &slug(),
            &crate::fixture::id("MA-2"),
            &PageRequest::first(500),
        )
    });
    assert_eq!(page.expect("readable").total, 100);
}

#[test]
fn two_agents_that_ask_at_once_get_different_tasks() {
    let workspace = Workspace::with_a_story();
    for _ in 0..20 {
        let made = workspace.create(Kind::Task, Some("MA-2"), "x");
        workspace.set_state(&made.issue.id.to_string(), orchestra_board::State::Todo);
    }
    let second = open(workspace.path());
    let threads: Vec<_> = [("ada", workspace.store.clone()), ("bo", second)]
        .into_iter()
        .map(|(name, store)| {
            std::thread::spawn(move || {
                let claim = |_| {
                    let command = orchestra_board::Command::ClaimNext {
                        project: slug(),
                        agent: agent(name),
                    };
                    let receipt = store
                        .submit_blocking(Some(agent(name)), Action::Board(command))
                        .expect("claimed");
                    let task = receipt.issues[0].issue.clone();
                    assert_eq!(task.claim.map(|claim| claim.agent), Some(agent(name)));
                    task.id
                };
                claim(0)
            })
        })
        .collect();
    let tasks: BTreeSet<_> = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    assert_eq!(tasks.len(), 2);
}
