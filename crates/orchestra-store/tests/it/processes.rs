//! Many processes on one board: every change is there, no id comes twice, nobody is turned away.

use std::collections::BTreeSet;
use std::fs;

use orchestra_board::{Change, Kind};
use orchestra_store::{Action, Options, PageRequest, Store};

use crate::board::{Board, PATIENCE};
use crate::child;
use crate::fixture::{Workspace, open};
use crate::words::{agent, answer, create, effort, every, id, slug};

/// So many processes make so many changes each: some, or with `ORCHESTRA_SOAK` as many as are
/// promised.
fn size() -> (u64, usize) {
    effort((16, 50), (64, 100))
}

#[test]
fn processes_change_one_board_and_none_is_refused() {
    let (processes, each) = size();
    let board = Board::with_tasks(Options::default());
    let children: Vec<_> = (0..processes)
        .map(|seed| child::start(board.directory.path(), &format!("mixed:{each}"), seed))
        .collect();
    let mut said = Vec::new();
    for child in children {
        let output = child.wait_with_output().expect("an end");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{printed}");
        let lines = child::lines(&output.stdout);
        assert_eq!(lines.len(), each, "{printed}");
        said.extend(lines);
    }
    let of = |what: &str| -> Vec<(String, String)> {
        let parts = |line: &String| {
            let mut words = line.split(' ');
            let (id, found, text) = (words.next()?, words.next()?, words.next()?);
            (found == what).then(|| (id.to_owned(), text.to_owned()))
        };
        said.iter().filter_map(parts).collect()
    };
    let made: BTreeSet<String> = of("made").into_iter().map(|(id, _)| id).collect();
    assert_eq!(made.len(), of("made").len(), "an id came twice");
    for (id, text) in of("renamed") {
        assert_eq!(board.title_of(&id), Some(text));
    }
    let said_of_shared: BTreeSet<String> =
        of("comment").into_iter().map(|(_, text)| text).collect();
    assert_eq!(comments_of(&board, "MA-3"), said_of_shared);
    let names: BTreeSet<Option<String>> = of("title")
        .into_iter()
        .map(|(_, text)| Some(text))
        .collect();
    assert!(names.contains(&board.title_of("MA-3")));
    board.settle();
    assert_eq!(board.problems(), "");
    let answers = board.answers();
    let board = board.rebuilt(|_| {});
    assert_eq!(board.answers(), answers, "the files say something else");
}

fn comments_of(board: &Board, issue: &str) -> BTreeSet<String> {
    let history = board
        .store
        .read(|reader| every(|page| reader.history(&slug(), &id(issue), page)));
    let texts = history.expect("readable").into_iter();
    let texts = texts.filter_map(|event| match event.change {
        Change::Commented { text } => Some(text.to_string()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn a_board_opens_and_is_read_while_another_holds_the_lock_of_the_writers() {
    let board = Workspace::with_a_story();
    let path = board.path().join(".projects/.store/writer.lock");
    let lock = fs::File::options().write(true).open(path).expect("a lock");
    lock.lock().expect("locks");
    let other = open(board.path());
    let found = other.read(|reader| reader.issue(&slug(), &id("MA-2")));
    assert!(found.expect("readable").is_some());
    let command = create(Kind::Task, Some("MA-2"), "x");
    let waits = other.submit(None, Action::Board(command));
    drop(lock);
    assert_eq!(answer(waits).expect("made").issues.len(), 1);
}

/// The keeper of the files goes without a word; another process takes its place.
#[test]
fn another_process_keeps_the_files_when_the_keeper_is_killed() {
    let board = Board::with_tasks(Options::default());
    let directory = board.directory.path().to_owned();
    board.store.close(PATIENCE);
    let mut keeper = child::start(&directory, "load", 1);
    let shown = |board: &Board| board.exists("my-app/epics/MA-1/stories/MA-2/tasks/MA-5.toon");
    board.wait("the first file of the keeper", shown);
    let follower = Store::open(&directory, Options::default()).expect("opens");
    keeper.kill().expect("a kill");
    keeper.wait().expect("an end");
    let command = create(Kind::Epic, None, "after the keeper");
    let made = follower
        .submit_blocking(None, Action::Board(command))
        .expect("made");
    let file = format!("my-app/epics/{}/epic.toon", made.issues[0].issue.id);
    board.wait("a file of the follower", |board| board.exists(&file));
    follower.settle(PATIENCE).expect("settles");
    follower.close(PATIENCE);
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
    let page =
        second.read(|reader| reader.children(&slug(), &id("MA-2"), &PageRequest::first(500)));
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
