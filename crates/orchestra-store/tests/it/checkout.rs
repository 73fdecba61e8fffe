//! Git switches branches: the board says what the files say, and nothing is written back.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use orchestra_board::{Command, Kind, NewIssue, Slug, State};
use orchestra_store::{Action, Clock, NewChunk, Options, Store};

use crate::board::{Board, PATIENCE};
use crate::fixture::{TestClock, clock};
use crate::git::{git, git_says};
use crate::words::{body, comment, create, create_project, id, new_issue, slug, target};

fn options(clock: &Arc<TestClock>) -> Options {
    let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(clock);
    Options {
        clock,
        ..Options::default()
    }
}

fn commit(board: &Board, message: &str) -> String {
    board.settle();
    let at = board.directory.path();
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "-m", message]);
    board.answers()
}

/// A repository whose branches `main` and `b` differ in titles, states, and in which issues there
/// are; with what the board answers on each. It is on `b`.
fn two_branches(clock: &Arc<TestClock>) -> (Board, String, String) {
    let board = Board::with_tasks(options(clock));
    git(board.directory.path(), &["init", "-q"]);
    clock.pass(10);
    board.run(create(Kind::Task, Some("MA-2"), "Third"));
    let main = commit(&board, "one");
    git(board.directory.path(), &["checkout", "-q", "-b", "b"]);
    clock.pass(10);
    board.rename("MA-3", "On b");
    board.set_state("MA-3", State::Todo);
    clock.pass(10);
    board.set_state("MA-3", State::InProgress);
    let target = target("MA-4");
    board.run(Command::DeleteIssue {
        target,
        expected: Kind::Task,
    });
    for (name, depends_on) in [("New", vec![]), ("Newer", vec![id("MA-6")])] {
        clock.pass(10);
        let issue = NewIssue {
            depends_on,
            ..new_issue(Kind::Task, Some("MA-2"), name)
        };
        board.run(Command::CreateIssue {
            project: slug(),
            issue,
        });
    }
    clock.pass(10);
    board.run(Command::WritePrd {
        project: slug(),
        content: "# On b\n".into(),
    });
    clock.pass(10);
    board.act(Action::SaveMemory(NewChunk {
        summary: body("b"),
        ..NewChunk::of(slug(), body("remembered on b"))
    }));
    let b = commit(&board, "two");
    assert_ne!(main, b);
    (board, main, b)
}

/// A repository of which only branch `b` has project `kitchen`, with what the board answers on each branch. It is on `b`.
fn project_on_one_branch(clock: &Arc<TestClock>) -> (Board, String, String) {
    let board = Board::with_tasks(options(clock));
    git(board.directory.path(), &["init", "-q"]);
    let main = commit(&board, "one");
    git(board.directory.path(), &["checkout", "-q", "-b", "b"]);
    clock.pass(10);
    board.run(create_project("Kitchen"));
    let project = Slug::parse("kitchen").expect("a slug");
    for (kind, parent, name) in [
        (Kind::Epic, None, "Stove"),
        (Kind::Story, Some("K-1"), "Gas"),
        (Kind::Task, Some("K-2"), "Pipe"),
    ] {
        clock.pass(10);
        board.run(Command::CreateIssue {
            project: project.clone(),
            issue: new_issue(kind, parent, name),
        });
    }
    clock.pass(10);
    board.act(Action::SaveMemory(NewChunk::of(
        project,
        body("remembered"),
    )));
    clock.pass(10);
    let b = commit(&board, "two");
    assert_ne!(main, b);
    (board, main, b)
}

fn status(at: &Path) -> String {
    git_says(at, &["status", "--porcelain"])
}

/// A repository with two branches, and what the board answers on each.
type Branches = fn(&Arc<TestClock>) -> (Board, String, String);

fn check_under_a_running_store(branches: Branches) {
    let clock = clock();
    let (board, main, b) = branches(&clock);
    for _ in 0..2 {
        for (branch, answers) in [("main", &main), ("b", &b)] {
            clock.pass(10);
            git(board.directory.path(), &["checkout", "-q", branch]);
            board.wait("the branch", |board| board.answers() == *answers);
            board.settle();
            assert_eq!(status(board.directory.path()), "", "on {branch}");
            assert_eq!(
                (board.answers(), board.problems()),
                (answers.clone(), String::new())
            );
        }
    }
}

fn check_between_two_runs(branches: Branches) {
    let clock = clock();
    let (origin, main, b) = branches(&clock);
    let directory = tempfile::tempdir().expect("a directory");
    let from = origin.directory.path().to_str().expect("text");
    git(directory.path(), &["clone", "-q", from, "clone"]);
    let at = directory.path().join("clone");
    for (branch, answers) in [("b", &b), ("main", &main), ("b", &b), ("main", &main)] {
        clock.pass(10);
        git(&at, &["checkout", "-q", branch]);
        let store = Store::open(&at, options(&clock)).expect("opens");
        let look = |store: &Store| {
            store.settle(PATIENCE).expect("settles");
            store.read(crate::board::answers).expect("reads")
        };
        let found = look(&store);
        assert_eq!(status(&at), "", "on {branch}");
        assert_eq!(&found, answers, "on {branch}");
        store.close(PATIENCE);
        drop(store);
        assert_eq!(status(&at), "", "on {branch}, after the end");
    }
}

#[test]
fn a_checkout_under_a_running_store_leaves_nothing_modified() {
    check_under_a_running_store(two_branches);
}

#[test]
fn a_checkout_between_two_runs_leaves_nothing_modified() {
    check_between_two_runs(two_branches);
}

#[test]
fn project_of_another_branch_goes_and_comes_under_a_running_store() {
    check_under_a_running_store(project_on_one_branch);
}

#[test]
fn project_of_another_branch_goes_and_comes_between_two_runs() {
    check_between_two_runs(project_on_one_branch);
}

#[test]
fn project_whose_directory_is_removed_is_deleted() {
    let clock = clock();
    let (board, main, _) = project_on_one_branch(&clock);
    fs::remove_dir_all(board.path("kitchen")).expect("removes");
    board.wait("the removal", |board| board.answers() == main);
    board.settle();
    assert_eq!((board.answers(), board.problems()), (main, String::new()));
    assert!(!board.exists("kitchen"));
}

#[test]
fn project_that_an_agent_changed_meanwhile_outlives_a_checkout() {
    let clock = clock();
    let (board, _, _) = project_on_one_branch(&clock);
    let unwritten = Options {
        watch: false,
        sweep: false,
        flush: false,
        ..options(&clock)
    };
    let board = board.reopened(unwritten, |_| {});
    clock.pass(10);
    board.run(Command::WritePrd {
        project: Slug::parse("kitchen").expect("a slug"),
        content: "# By an agent\n".into(),
    });
    let board = board.reopened(options(&clock), |projects| {
        git(projects, &["checkout", "-q", "main"]);
    });
    board.settle();
    assert_eq!(board.file("kitchen/prd.md"), "# By an agent\n");
}

#[test]
fn what_an_agent_said_meanwhile_outlives_a_checkout() {
    let clock = clock();
    let (board, _, _) = two_branches(&clock);
    let unwritten = Options {
        watch: false,
        sweep: false,
        flush: false,
        ..options(&clock)
    };
    let board = board.reopened(unwritten, |_| {});
    clock.pass(10);
    board.run(comment("MA-3", "said before it was written"));
    let board = board.reopened(options(&clock), |projects| {
        git(projects, &["checkout", "-q", "main"]);
    });
    board.settle();
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    let history = board.file("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.history.jsonl");
    let lines: Vec<&str> = history.lines().collect();
    assert_eq!(lines.len(), 2, "{history}");
    assert!(lines[1].contains("said before it was written"), "{history}");
}

#[test]
fn an_edit_of_the_issue_alone_is_an_event_and_histories_merge() {
    let clock = clock();
    let (board, _, _) = two_branches(&clock);
    let at = board.directory.path().to_path_buf();
    let file = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3";
    clock.pass(10);
    board.edit(&format!("{file}.toon"), "title: On b", "title: By hand");
    board.wait("the edit", |board| {
        board.title_of("MA-3").as_deref() == Some("By hand")
    });
    board.settle();
    let history = board.file(&format!("{file}.history.jsonl"));
    assert!(
        history.contains(
            "\"source\":\"file\",\"change\":\"edited\",\"field\":\"title\",\"value\":\"By hand\",\"uid\":"
        ),
        "{history}"
    );
    let by_hand = commit(&board, "by hand");
    git(&at, &["checkout", "-q", "-b", "c", "HEAD~"]);
    board.wait("the branch", |board| {
        board.title_of("MA-3").as_deref() == Some("On b")
    });
    board.settle();
    assert_eq!(status(&at), "");
    git(&at, &["merge", "-q", "b"]);
    board.wait("the merge", |board| board.answers() == by_hand);
    board.settle();
    assert_eq!((status(&at), board.problems()), Default::default());
}
