//! The thread that keeps files and database in step: nothing that is slow, bad or large keeps it from
//! the rest.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use orchestra_board::{Command, IssueId, Kind};
use orchestra_store::{Action, Options, Store, What};

use crate::board::{Board, PATIENCE, still};
use crate::gated::{LooksAtGit, Step, gated};
use crate::words::{answer, comment, create, effort, id, rename, slug, target};

#[test]
fn a_bad_file_does_not_stop_the_others() {
    let board = Board::with_tasks(Options::default());
    board.hook();
    board.hook();
    board.remember("the first");
    board.settle();
    board.edit(".events/hook-events.toon", "\n  2,", "\n  1,");
    // A file that reads well, and that the database cannot hold.
    let text = board.file("my-app/.memory/chunks.toon");
    fs::write(board.path("my-app/.memory/chunks-2.toon"), text).expect("writes");
    board.wait("the problems", |board| {
        let problems = board.problems();
        problems.contains("hook-events.toon:4: ") && problems.contains("chunks-2.toon: mem-1")
    });
    board.edit(
        "my-app/epics/MA-1/epic.toon",
        "title: Epic",
        "title: By hand",
    );
    board.wait("the edit", |board| {
        board.title_of("MA-1").as_deref() == Some("By hand")
    });
    board.rename("MA-3", "By an agent");
    board.hook();
    board.settle();
    let task = board.file("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon");
    assert!(task.contains("title: By an agent"), "{task}");
}

#[test]
fn the_doctor_says_when_the_files_are_not_kept() {
    let broken = Arc::<AtomicBool>::default();
    let is_broken = Arc::clone(&broken);
    let files = gated(move |step, _| match step {
        Step::Write if is_broken.load(Ordering::Relaxed) => Err(io::Error::other("broken")),
        _ => Ok(()),
    });
    let board = Board::with_tasks(Options { files, ..still() });
    broken.store(true, Ordering::Relaxed);
    board.rename("MA-3", "Renamed");
    board.wait("the finding", |board| {
        board
            .problems()
            .starts_with("the readable files are not being kept in step: ")
    });
    broken.store(false, Ordering::Relaxed);
    board.settle();
    assert_eq!(board.problems(), "");
}

#[test]
fn a_list_that_rests_holds_up_no_issue() {
    // So many that their list rests for longer than changes are gathered.
    const STORIES: usize = if cfg!(debug_assertions) {
        2_000
    } else {
        12_000
    };
    let board = Board::with_tasks(still());
    let submitted: Vec<_> = (0..STORIES)
        .map(|number| {
            let command = create(Kind::Story, Some("MA-1"), &format!("Story {number}"));
            board.store.submit(None, Action::Board(command))
        })
        .collect();
    for submission in submitted {
        answer(submission).expect("made");
    }
    board.settle();
    // The list of all stories is costly, and rests after it was made. While it does, and is waited
    // for, an issue's own files are written all the same.
    let list = "my-app/project-status.toon";
    let renamed = |number: usize, name: &str| {
        board.rename(&format!("MA-{number}"), name);
        let story = format!("my-app/epics/MA-1/stories/MA-{number}/story.toon");
        board.wait("the story", |board| board.file(&story).contains(name));
    };
    let ahead = (0..5).any(|round| {
        let first = 10 + 2 * round;
        board.rename(&format!("MA-{first}"), &format!("First of {round}"));
        board.wait("the list", |board| {
            board.file(list).contains(&format!("First of {round}"))
        });
        let last = format!("Last of {round}");
        renamed(first + 1, &last);
        let ahead = !board.file(list).contains(&last);
        board.wait("the list", |board| board.file(list).contains(&last));
        ahead
    });
    assert!(ahead, "each issue waited for the list");
}

/// Lets so many files be read until something of what was read has been taken in.
#[derive(Debug, Default)]
struct Hunger {
    /// Whether reads are counted.
    counts: AtomicBool,
    reads: AtomicUsize,
    starved: AtomicBool,
    fed: Mutex<bool>,
    bell: Condvar,
}

/// So many files may be read before the first of them is taken in.
const AHEAD: usize = 300;

impl Hunger {
    fn read(&self) {
        if self.counts.load(Ordering::Relaxed)
            && self.reads.fetch_add(1, Ordering::Relaxed) == AHEAD
        {
            let fed = self.fed.lock().expect("whole");
            let waited = self
                .bell
                .wait_timeout_while(fed, PATIENCE, |fed| !*fed)
                .expect("whole");
            self.starved.store(waited.1.timed_out(), Ordering::Relaxed);
        }
    }
}

#[test]
fn a_large_tree_that_comes_up_is_taken_in_piece_by_piece() {
    const TASKS: u64 = 600;
    let hunger = Arc::<Hunger>::default();
    let eater = Arc::clone(&hunger);
    let board = Board::with_tasks(Options {
        files: gated(move |step, _| {
            if step == Step::Read {
                eater.read();
            }
            Ok(())
        }),
        ..Options::default()
    });
    let text = board.file("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon");
    let beside = tempfile::tempdir_in(board.directory.path()).expect("a directory");
    let epic = beside.path().join("MA-1000");
    let story = epic.join("stories/MA-1001");
    fs::create_dir_all(story.join("tasks")).expect("made");
    let parent = |name: &str, id: &str, kind: &str, above: &str| {
        let at = "created_at: \"2026-01-01T00:00:00Z\"\nend: true\n";
        let text =
            format!("schema: 1\nid: {id}\ntype: {kind}\ntitle: T\nstatus: backlog\n{above}{at}");
        fs::write(epic.join(name), text).expect("writes");
    };
    parent("epic.toon", "MA-1000", "epic", "");
    parent(
        "stories/MA-1001/story.toon",
        "MA-1001",
        "story",
        "epic: MA-1000\n",
    );
    for number in 0..TASKS {
        let id = format!("MA-{}", 2_000 + number);
        let text = text
            .replace("id: MA-3", &format!("id: {id}"))
            .replace("epic: MA-1\nstory: MA-2", "epic: MA-1000\nstory: MA-1001");
        fs::write(story.join(format!("tasks/{id}.toon")), text).expect("writes");
    }
    hunger.counts.store(true, Ordering::Relaxed);
    fs::rename(&epic, board.path("my-app/epics/MA-1000")).expect("moved in");
    board.wait("the first", |board| board.issue("MA-1000").is_some());
    *hunger.fed.lock().expect("whole") = true;
    hunger.bell.notify_all();
    board.wait("the last", |board| {
        board.issue(&format!("MA-{}", 2_000 + TASKS - 1)).is_some()
    });
    board.settle();
    assert!(
        !hunger.starved.load(Ordering::Relaxed),
        "all was read first"
    );
    assert_eq!(board.problems(), "");
}

#[test]
fn gits_half_done_work_is_not_looked_at_below_the_root_of_a_repository() {
    let repository = tempfile::tempdir().expect("a directory");
    let lock = repository.path().join(".git/index.lock");
    fs::create_dir(repository.path().join(".git")).expect("made");
    let looks = Arc::<LooksAtGit>::default();
    let options = Options {
        files: looks.files(),
        ..Options::default()
    };
    let below = tempfile::tempdir_in(repository.path()).expect("a directory");
    let board = Board::within(below, options).filled();
    let (mut changes, _close) = (board.store.changes(), board.store.watch_closely());
    let epic = "my-app/epics/MA-1/epic.toon";
    let text = board.file(epic);
    fs::write(&lock, "").expect("locked");
    fs::remove_file(board.path(epic)).expect("removed");
    // Git takes its time, much more than a file may be gone.
    looks.wait();
    let checked_out = text.replace("title: Epic", "title: Checked out");
    fs::write(board.path(epic), checked_out).expect("writes");
    fs::remove_file(lock).expect("unlocked");
    board.wait("the checkout", |board| {
        board.title_of("MA-1").as_deref() == Some("Checked out")
    });
    loop {
        let notice = changes.blocking_recv().expect("told");
        assert_ne!(notice.what, What::IssueDeleted);
        if (notice.issue, notice.what) == (Some(id("MA-1")), What::IssueChanged) {
            break;
        }
    }
}

#[test]
fn whoever_follows_is_up_to_date_although_others_go_on() {
    const TASKS: u64 = 40;
    let board = Board::with_tasks(still());
    for _ in 0..TASKS {
        board.run(create(Kind::Task, Some("MA-2"), "More"));
    }
    board.settle();
    let follower = Store::open(board.directory.path(), still()).expect("opens");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stop, store) = (&stop, board.store.clone());
        scope.spawn(move || {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let task = format!("MA-{}", 5 + number % TASKS);
                let command = comment(&task, &number.to_string());
                store
                    .submit_blocking(None, Action::Board(command))
                    .expect("done");
            }
        });
        let settled: Vec<_> = (0..3)
            .map(|number| {
                let command = comment("MA-3", &format!("asked {number}"));
                follower
                    .submit_blocking(None, Action::Board(command))
                    .expect("done");
                let settled = follower.settle(Duration::from_secs(10));
                let file = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.history.jsonl";
                (
                    settled.is_ok(),
                    board.file(file).contains(&format!("asked {number}")),
                )
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(settled, [(true, true); 3]);
    });
}

#[test]
fn words_of_what_is_gone_complete_no_query() {
    let board = Board::with_tasks(still());
    let create = |name: &str| board.run(create(Kind::Epic, None, name));
    let gone: Vec<String> = ('a'..='t').map(|last| format!("qua{last}")).collect();
    create(&gone.join(" "));
    create("quazar");
    let found = |query: &str| {
        let page = board.store.read(|reader| {
            reader.search(
                &slug(),
                query,
                &[],
                &orchestra_store::PageRequest::default(),
            )
        });
        let items = page.expect("reads").items;
        items
            .iter()
            .map(|record| record.issue.id.to_string())
            .collect::<Vec<_>>()
    };
    board.run(Command::DeleteIssue {
        target: target("MA-5"),
        expected: Kind::Epic,
    });
    assert_eq!(
        found("qua"),
        [""; 0],
        "words that are gone use up the completions"
    );
    board.mend();
    assert_eq!(found("qua"), ["MA-6"]);
    // A word that comes back is one to complete to, although the writer had known it before.
    create("quab");
    assert_eq!(found("qua"), ["MA-6", "MA-7"]);
}

/// What short-lived programs change is in the files when the last of them has ended, whichever of
/// them kept the files when.
#[test]
fn what_is_changed_while_keepers_come_and_go_is_in_the_files() {
    const PROGRAMS: usize = 4;
    let board = Board::with_tasks(Options::default());
    board.settle();
    let Board { directory, store } = board;
    store.close(PATIENCE);
    drop(store);
    for round in 0..effort(10, 200) {
        let made: Vec<IssueId> = thread::scope(|scope| {
            let program = |_| {
                scope.spawn(|| {
                    let store = Store::open(directory.path(), Options::default()).expect("opens");
                    let command = create(Kind::Task, Some("MA-2"), "Made in passing");
                    let made = store.submit_blocking(None, Action::Board(command));
                    store.close(PATIENCE);
                    made.expect("made").issues[0].issue.id.clone()
                })
            };
            let programs: Vec<_> = (0..PROGRAMS).map(program).collect();
            let ended = programs.into_iter().map(|program| program.join());
            ended.map(|made| made.expect("no panic")).collect()
        });
        let tasks = directory
            .path()
            .join(".projects/my-app/epics/MA-1/stories/MA-2/tasks");
        for id in made {
            let file = tasks.join(format!("{id}.toon"));
            assert!(file.exists(), "round {round}: {id} has no file");
        }
    }
}

#[test]
fn one_store_keeps_the_files_and_the_next_takes_over() {
    let board = Board::with_tasks(Options::default());
    board.settle();
    let next = Store::open(board.directory.path(), Options::default()).expect("opens");
    let lock = fs::File::open(board.path(".store/keeper.lock")).expect("there");
    assert!(lock.try_lock().is_err(), "one of the two keeps the files");
    // What one of them is told is in the files, whichever of them keeps them.
    for (store, name) in [(&board.store, "By the first"), (&next, "By the second")] {
        store
            .submit_blocking(None, Action::Board(rename("MA-3", name)))
            .expect("done");
        store.settle(PATIENCE).expect("settles");
        let file = board.file("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon");
        assert!(file.contains(name), "{file}");
    }
    let Board { directory, store } = board;
    store.close(PATIENCE);
    drop(store);
    let board = Board {
        directory,
        store: next,
    };
    board.edit(
        "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon",
        "By the second",
        "By hand",
    );
    board.wait("the edit", |board| {
        board.title_of("MA-3").as_deref() == Some("By hand")
    });
    assert!(lock.try_lock().is_err(), "the one that is left keeps them");
    board.store.close(PATIENCE);
    lock.try_lock().expect("nobody keeps them");
}
