//! The thread that keeps files and database in step: nothing that is slow, bad or large keeps it from
//! the rest.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use orchestra_board::{Command, IssueRef, Kind, Label};
use orchestra_store::{
    Action, Entry, FileIo, Fix, NewChunk, NewHookEvent, Options, RealFs, Stat, Store, What,
};

use crate::board::{Board, PATIENCE, body, id, issue, slug, still, title};

fn hook() -> Action {
    Action::HookEvent(NewHookEvent {
        event_type: Label::parse("PostToolUse").expect("a label"),
        session_id: None,
        tool_name: None,
        agent_type: None,
        data: None,
    })
}

fn findings(store: &Store) -> String {
    store
        .doctor(Fix::Nothing)
        .expect("examines")
        .findings
        .join("\n")
}

#[test]
fn a_bad_file_does_not_stop_the_others() {
    let board = Board::with_tasks(Options::default());
    board.act(hook());
    board.act(hook());
    let remember = |text| {
        board.act(Action::SaveMemory(NewChunk {
            project: slug(),
            content: body(text),
            summary: body(""),
            source: None,
            source_id: None,
            tags: Vec::new(),
        }))
    };
    remember("the first");
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
    board.act(hook());
    board.settle();
    let task = board.file("my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon");
    assert!(task.contains("title: By an agent"), "{task}");
}

#[test]
fn the_doctor_says_when_the_files_are_not_kept() {
    let files = Arc::new(Gated::default());
    let door: Arc<dyn FileIo> = Arc::<Gated>::clone(&files);
    let board = Board::with_tasks(Options {
        files: door,
        ..still()
    });
    files.broken.store(true, Ordering::Relaxed);
    board.rename("MA-3", "Renamed");
    board.wait("the finding", |board| {
        findings(&board.store).starts_with("the readable files are not being kept in step: ")
    });
    files.broken.store(false, Ordering::Relaxed);
    board.settle();
    assert_eq!(findings(&board.store), "");
}

#[test]
fn a_list_that_rests_holds_up_no_issue() {
    const STORIES: usize = 2_000;
    let board = Board::with_tasks(still());
    let answers: Vec<_> = (0..STORIES)
        .map(|number| {
            let story = issue(Kind::Story, Some("MA-1"), &format!("Story {number}"));
            let command = Command::CreateIssue {
                project: slug(),
                issue: story,
            };
            board.store.submit(None, Action::Board(command))
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    for answer in answers {
        runtime.block_on(answer).expect("made");
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
        let first = 10 + 3 * round;
        board.rename(&format!("MA-{first}"), &format!("First of {round}"));
        board.wait("the list", |board| {
            board.file(list).contains(&format!("First of {round}"))
        });
        renamed(first + 1, &format!("Second of {round}"));
        let last = format!("Last of {round}");
        renamed(first + 2, &last);
        let ahead = !board.file(list).contains(&last);
        board.wait("the list", |board| board.file(list).contains(&last));
        ahead
    });
    assert!(ahead, "each issue waited for the list");
}

/// Files that are read only so far until something of what was read has been taken in, and that
/// cannot be written at times.
#[derive(Debug, Default)]
struct Gated {
    real: RealFs,
    closed: AtomicBool,
    /// Whether nothing can be written.
    broken: AtomicBool,
    reads: AtomicUsize,
    starved: AtomicBool,
    seen: Mutex<bool>,
    bell: Condvar,
}

/// So many files may be read before the first of them is taken in.
const AHEAD: usize = 300;

impl FileIo for Gated {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        if self.closed.load(Ordering::Relaxed)
            && self.reads.fetch_add(1, Ordering::Relaxed) == AHEAD
        {
            let seen = self.seen.lock().expect("whole");
            let waited = self
                .bell
                .wait_timeout_while(seen, Duration::from_secs(10), |seen| !*seen)
                .expect("whole");
            self.starved.store(waited.1.timed_out(), Ordering::Relaxed);
        }
        self.real.read(path, limit)
    }
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.real.stat(path)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.real.list(directory)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.real.create_dir(path)
    }
    fn write_temp(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::Error::other("broken"));
        }
        self.real.write_temp(path, content)
    }
    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.real.sync_file(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.real.sync_dir(path)
    }
    fn sync_all(&self, path: &Path) -> io::Result<bool> {
        self.real.sync_all(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.real.remove(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<bool> {
        self.real.remove_dir(path)
    }
}

#[test]
fn a_large_tree_that_comes_up_is_taken_in_piece_by_piece() {
    const TASKS: u64 = 600;
    let files = Arc::new(Gated::default());
    let door: Arc<dyn FileIo> = Arc::<Gated>::clone(&files);
    let board = Board::with_tasks(Options {
        files: door,
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
    files.closed.store(true, Ordering::Relaxed);
    fs::rename(&epic, board.path("my-app/epics/MA-1000")).expect("moved in");
    board.wait("the first", |board| board.issue("MA-1000").is_some());
    *files.seen.lock().expect("whole") = true;
    files.bell.notify_all();
    board.wait("the last", |board| {
        board.issue(&format!("MA-{}", 2_000 + TASKS - 1)).is_some()
    });
    board.settle();
    assert!(!files.starved.load(Ordering::Relaxed), "all was read first");
    assert_eq!(board.problems(), "");
}

#[test]
fn gits_half_done_work_is_not_looked_at_below_the_root_of_a_repository() {
    let repository = tempfile::tempdir().expect("a directory");
    let (git, workspace) = (repository.path().join(".git"), repository.path().join("ws"));
    fs::create_dir_all(&git).expect("made");
    fs::create_dir_all(&workspace).expect("made");
    let store = Store::open(&workspace, Options::default()).expect("opens");
    let run = |command| {
        store
            .submit_blocking(None, Action::Board(command))
            .expect("done")
    };
    run(Command::CreateProject(orchestra_board::NewProject {
        name: title("My App"),
        description: body(""),
    }));
    run(Command::CreateIssue {
        project: slug(),
        issue: issue(Kind::Epic, None, "Epic"),
    });
    store.settle(PATIENCE).expect("settles");
    let mut changes = store.changes();
    let file = workspace.join(".projects/my-app/epics/MA-1/epic.toon");
    let text = fs::read_to_string(&file).expect("reads");
    fs::write(git.join("index.lock"), "").expect("locked");
    fs::remove_file(&file).expect("removed");
    // Git takes its time, much more than a file may be gone.
    std::thread::sleep(Duration::from_millis(400));
    fs::write(&file, text.replace("title: Epic", "title: Checked out")).expect("writes");
    fs::remove_file(git.join("index.lock")).expect("unlocked");
    let renamed = || {
        let found = store.read(|reader| reader.issue(&slug(), &id("MA-1")));
        found
            .expect("reads")
            .is_some_and(|record| record.issue.title.as_str() == "Checked out")
    };
    let start = std::time::Instant::now();
    while !renamed() {
        assert!(start.elapsed() < PATIENCE, "never came");
        std::thread::sleep(Duration::from_millis(5));
    }
    while let Ok(notice) = changes.try_recv() {
        assert_ne!(notice.what, What::IssueDeleted);
    }
}

#[test]
fn whoever_follows_is_up_to_date_although_others_go_on() {
    const TASKS: u64 = 40;
    let board = Board::with_tasks(still());
    for _ in 0..TASKS {
        board.run(Command::CreateIssue {
            project: slug(),
            issue: issue(Kind::Task, Some("MA-2"), "More"),
        });
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
                let target = IssueRef::new(slug(), id(&format!("MA-{}", 5 + number % TASKS)));
                let text = body(&format!("{number}"));
                store
                    .submit_blocking(None, Action::Board(Command::Comment { target, text }))
                    .expect("done");
            }
        });
        let settled: Vec<_> = (0..3)
            .map(|number| {
                let target = IssueRef::new(slug(), id("MA-3"));
                let text = body(&format!("asked {number}"));
                let command = Command::Comment { target, text };
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
    let create = |name: &str| {
        board.run(Command::CreateIssue {
            project: slug(),
            issue: issue(Kind::Epic, None, name),
        })
    };
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
        target: IssueRef::new(slug(), id("MA-5")),
        expected: Kind::Epic,
    });
    assert_eq!(
        found("qua"),
        [""; 0],
        "words that are gone use up the completions"
    );
    board.store.doctor(Fix::Mend).expect("mends");
    assert_eq!(found("qua"), ["MA-6"]);
    // A word that comes back is one to complete to, although the writer had known it before.
    create("quab");
    assert_eq!(found("qua"), ["MA-6", "MA-7"]);
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
        let patch = orchestra_board::IssuePatch {
            title: Some(title(name)),
            ..orchestra_board::IssuePatch::default()
        };
        let target = IssueRef::new(slug(), id("MA-3"));
        let command = Command::UpdateIssue {
            target,
            patch,
            evidence: None,
            version: None,
        };
        store
            .submit_blocking(None, Action::Board(command))
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
