//! Nobody's change is overwritten unseen: an edit that comes at any moment of ours, two kills one
//! after the other, an id that two sides gave.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_board::{Command, Kind};
use orchestra_store::{Action, FilesError, Options};

use crate::board::{Board, PATIENCE, still};
use crate::gated::LooksAtGit;
use crate::recorded::{Database, database, recorded, reopened};
use crate::recording::{Call, Image, RecordingFs};
use crate::words::{body, comment, create, id, slug, target, title};

const TASKS: &str = "my-app/epics/MA-1/stories/MA-2/tasks";

fn task(name: &str) -> String {
    format!("{TASKS}/{name}")
}

/// A board on a recorded disk: epics MA-1 and MA-3, in the first story MA-2 with task MA-4.
fn bench() -> (Board, Arc<RecordingFs>) {
    let (board, disk) = recorded(&[
        (Kind::Epic, None),
        (Kind::Story, Some("MA-1")),
        (Kind::Epic, None),
        (Kind::Task, Some("MA-2")),
    ]);
    board.describe("MA-4", "one\ntwo");
    board.settle();
    (board, disk)
}

/// How an edit by hand went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Done,
    /// Its directory was gone already.
    TooLate,
}

/// Does something while a person's edit comes at the given moment of what it writes; `None` when
/// there is no such moment.
fn disturbed(
    board: &Board,
    disk: &Arc<RecordingFs>,
    moment: usize,
    edit: impl Fn(&RecordingFs) -> bool + Send + 'static,
    act: impl FnOnce(&Board),
) -> Option<Edit> {
    let (came, hand) = (Arc::new(Mutex::new(None)), Arc::clone(disk));
    let (told, mut count) = (Arc::clone(&came), 0);
    disk.watch(Some(Box::new(move |_, _| {
        if count == moment {
            let done = if edit(&hand) {
                Edit::Done
            } else {
                Edit::TooLate
            };
            *told.lock().expect("not poisoned") = Some(done);
        }
        count += 1;
    })));
    act(board);
    board.settle();
    disk.watch(None);
    // What came too late for this run is found by the next.
    board.run(comment("MA-1", "goes on"));
    board.settle();
    *came.lock().expect("not poisoned")
}

fn stands_somewhere(disk: &RecordingFs, text: &str) -> bool {
    let contents = disk.image();
    let mut contents = contents.values().flatten();
    contents.any(|content| String::from_utf8_lossy(content).contains(text))
}

#[test]
fn an_edit_of_a_file_that_is_going_is_kept() {
    let shorten = |board: &Board| board.describe("MA-4", "one line");
    let delete = |board: &Board| {
        drop(board.run(Command::DeleteIssue {
            target: target("MA-4"),
            expected: Kind::Task,
        }));
    };
    let relocate = |board: &Board| {
        drop(board.run(Command::MoveIssue {
            target: target("MA-2"),
            to: id("MA-3"),
        }));
    };
    let prune = |board: &Board| {
        drop(board.run(Command::DeleteIssue {
            target: target("MA-2"),
            expected: Kind::Story,
        }));
    };
    type Act = fn(&Board);
    for (name, act) in [
        ("shortened", shorten as Act),
        ("deleted", delete),
        ("deleted with its story", prune),
        ("moved", relocate),
    ] {
        for moment in 0.. {
            let (board, disk) = bench();
            let edit =
                |disk: &RecordingFs| disk.write_by_hand(&task("MA-4.md"), "one\ntwo\nby hand\n");
            match disturbed(&board, &disk, moment, edit, act) {
                Some(Edit::Done) => {}
                Some(Edit::TooLate) => continue,
                None => {
                    assert!(moment > 3, "{name}: {moment} moments");
                    break;
                }
            }
            assert!(
                stands_somewhere(&disk, "by hand"),
                "{name}, moment {moment}: the edit is nowhere"
            );
            // And it is on the board, or told of.
            let report = board.mend();
            board.settle();
            let issue = board.issue("MA-4");
            let is_told = report.findings.iter().any(|line| line.contains("/MA-4."));
            assert!(
                is_told || issue.is_some_and(|it| it.description.as_str().contains("by hand")),
                "{name}, moment {moment}: {report:?}"
            );
            assert!(
                stands_somewhere(&disk, "by hand"),
                "{name}, moment {moment}"
            );
        }
    }
}

#[test]
fn an_edit_of_a_file_that_is_being_replaced_is_kept() {
    for moment in 0.. {
        let (board, disk) = bench();
        let edit = |disk: &RecordingFs| {
            let path = task("MA-4.toon");
            let text = disk.text(&path).expect("a file");
            disk.write_by_hand(
                &path,
                &text.replace("end: true", "labels[1]: by-hand\nend: true"),
            )
        };
        let act = |board: &Board| board.rename("MA-4", "Renamed");
        let Some(came) = disturbed(&board, &disk, moment, edit, act) else {
            assert!(moment > 3, "{moment} moments");
            break;
        };
        assert_eq!(came, Edit::Done);
        // Something goes on with the same issue, so that its files are looked at.
        board.run(comment("MA-4", "meanwhile"));
        board.settle();
        let issue = board.issue("MA-4").expect("there");
        let labels: Vec<&str> = issue.labels.iter().map(|label| label.as_str()).collect();
        assert_eq!(
            (issue.title.as_str(), labels),
            ("Renamed", vec!["by-hand"]),
            "moment {moment}"
        );
        assert_eq!(board.problems(), "");
    }
}

#[test]
fn a_description_that_both_sides_write_at_once_is_kept_twice() {
    for moment in 0.. {
        let (board, disk) = bench();
        let edit = |disk: &RecordingFs| disk.write_by_hand(&task("MA-4.md"), "one\ntwo\nby hand\n");
        let act = |board: &Board| board.describe("MA-4", "one\ntwo\nby an agent");
        let Some(came) = disturbed(&board, &disk, moment, edit, act) else {
            assert!(moment > 3, "{moment} moments");
            break;
        };
        assert_eq!(came, Edit::Done);
        board.mend();
        board.settle();
        let description = board.issue("MA-4").expect("there").description;
        let told = board.problems().contains("both sides changed description");
        // An edit that came when ours was there already has replaced it, as anybody could see.
        assert!(
            told || description == body("one\ntwo\nby hand"),
            "moment {moment}: {description}"
        );
        assert!(stands_somewhere(&disk, "by hand"), "moment {moment}");
        if told {
            assert!(stands_somewhere(&disk, "by an agent"), "moment {moment}");
            assert_eq!(description, body("one\ntwo\nby an agent"));
        }
    }
}

/// What a kill leaves, with nothing lost of what was written: the first moment that `is_it`.
fn killed_at(
    board: &Board,
    disk: &Arc<RecordingFs>,
    is_it: impl Fn(Call<'_>) -> bool + Send + 'static,
    act: impl FnOnce(&Board),
) -> (Image, Database) {
    let place = board.directory.path().join(".projects/.store");
    let left: Arc<Mutex<Option<(Image, Database)>>> = Arc::default();
    let kept = Arc::clone(&left);
    disk.watch(Some(Box::new(move |disk, call| {
        let mut kept = kept.lock().expect("not poisoned");
        if kept.is_none() && is_it(call) {
            *kept = Some((disk.after_power_cut(|_| true, false), database(&place)));
        }
    })));
    act(board);
    board.settle();
    disk.watch(None);
    let left = left.lock().expect("not poisoned").take();
    left.expect("such a moment")
}

#[test]
fn two_kills_undo_nothing() {
    let fields = task("MA-4.toon");
    let (board, disk) = bench();
    let path = fields.clone();
    let placed = move |call: Call<'_>| call == Call::Replaced(Path::new(&path));
    let (image, left) = killed_at(&board, &disk, placed, |board| {
        board.rename("MA-4", "First");
    });
    // An agent goes on before the files are looked at.
    let (board, disk) = reopened(&image, &left, |options| Options {
        sweep: false,
        flush: false,
        ..options
    });
    board.rename("MA-4", "Second");
    let left = database(&board.directory.path().join(".projects/.store"));
    drop((board, disk));
    let (board, disk) = reopened(&image, &left, |options| Options {
        sweep: false,
        ..options
    });
    let path = fields.clone();
    let about = move |call: Call<'_>| call == Call::Replace(Path::new(&path));
    let (image, left) = killed_at(&board, &disk, about, |_| {});
    assert!(
        String::from_utf8_lossy(image[Path::new(&fields)].as_ref().expect("a file"))
            .contains("title: First\n"),
        "the second kill comes before the second version"
    );
    let (board, disk) = reopened(&image, &left, |options| options);
    board.settle();
    assert_eq!(board.title_of("MA-4").as_deref(), Some("Second"));
    assert_eq!(board.problems(), "");
    let text = disk.text(&fields).expect("a file");
    assert!(text.contains("title: Second\n"), "{text}");
}

/// The file of an issue with the uid of none.
fn other_uid(text: &str) -> String {
    let line = |line: &str| match line.starts_with("uid: ") {
        true => format!("uid: h{}\n", "7".repeat(25)),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn an_id_that_two_sides_gave_costs_neither_its_issue() {
    let board = Board::with_tasks(still());
    // A checkout puts MA-5 in place, and nobody has looked yet.
    let theirs = other_uid(&board.file(&task("MA-4.toon")))
        .replace("MA-4", "MA-5")
        .replace("title: Second", "title: Theirs")
        .replace("created_at: \"20", "created_at: \"19");
    fs::write(board.path(&task("MA-5.toon")), &theirs).expect("writes");
    let made = board.run(create(Kind::Task, Some("MA-2"), "Ours"));
    assert_eq!(made.issues[0].issue.id, id("MA-5"));
    board.settle();
    assert_eq!(board.title_of("MA-5").as_deref(), Some("Ours"));
    assert_eq!(board.file(&task("MA-5.toon")), theirs);
    let problems = board.problems();
    assert!(
        problems.contains("MA-5") && problems.contains("doctor --fix"),
        "{problems}"
    );
    // Whatever date the file has, the board's issue has its id until a person names the file.
    board.mend();
    board.settle();
    assert_eq!(board.title_of("MA-5").as_deref(), Some("Ours"));
    assert_eq!(board.file(&task("MA-5.toon")), theirs);
    let report = board
        .store
        .mend_taking(&[task("MA-5.toon")])
        .expect("mends");
    assert!(
        report.findings.iter().any(|line| line.contains("MA-6")),
        "{report:?}"
    );
    board.settle();
    assert_eq!(board.title_of("MA-5").as_deref(), Some("Theirs"));
    assert_eq!(board.title_of("MA-6").as_deref(), Some("Ours"));
    assert!(board.file(&task("MA-5.toon")).contains("title: Theirs\n"));
    assert!(board.file(&task("MA-6.toon")).contains("title: Ours\n"));
    assert_eq!(board.problems(), "");
}

#[test]
fn a_document_that_two_sides_made_is_a_conflict() {
    let plan = |content: &str| Action::SavePlan {
        project: slug(),
        title: title("A plan"),
        content: body(content),
        issue: None,
        replace: false,
    };
    let other = Board::with_tasks(still());
    other.act(plan("theirs"));
    other.settle();
    let path = "my-app/.plans/a-plan.md";
    let theirs = other.file(path);
    let board = Board::with_tasks(still());
    fs::create_dir(board.path("my-app/.plans")).expect("makes");
    fs::write(board.path(path), &theirs).expect("writes");
    board.act(plan("ours"));
    board.settle();
    assert_eq!(board.file(path), theirs);
    assert!(board.file(&format!("{path}.conflict")).contains("ours"));
    assert!(board.answers().contains("\"ours\""), "{}", board.answers());
    assert!(board.problems().contains("both sides changed"));
    // What nobody has written gives way.
    let board = Board::new(still());
    fs::create_dir(board.path("my-app")).expect("makes");
    fs::write(board.path("my-app/prd.md"), "# Theirs\n").expect("writes");
    board.run(Command::CreateProject(orchestra_board::NewProject {
        name: title("My App"),
        description: body(""),
    }));
    board.settle();
    assert_eq!(board.file("my-app/prd.md"), "# Theirs\n");
    assert_eq!(board.problems(), "");
    // What is the same on both sides is no conflict.
    let board = Board::with_tasks(still());
    fs::create_dir(board.path("my-app/.plans")).expect("makes");
    board.act(plan("theirs"));
    board.settle();
    let same = board.file(path);
    let board = board.reopened(still(), |projects| {
        let store = rusqlite::Connection::open(projects.join(".store/board.db")).expect("opens");
        store.execute("DELETE FROM file", []).expect("forgets");
    });
    board.run(comment("MA-3", "goes on"));
    board.mend();
    board.settle();
    assert_eq!(board.problems(), "");
    assert_eq!(board.file(path), same);
}

#[test]
fn saved_plan_that_is_not_written_over_an_unreadable_file_is_reported() {
    let board = Board::with_tasks(still());
    let path = "my-app/.plans/a-plan.md";
    fs::create_dir(board.path("my-app/.plans")).expect("makes");
    fs::write(board.path(path), "# By hand\n").expect("writes");
    board.act(Action::SavePlan {
        project: slug(),
        title: title("A plan"),
        content: body("by the board"),
        issue: None,
        replace: true,
    });
    board.settle();
    assert_eq!(board.file(path), "# By hand\n");
    let problems = board.problems();
    assert!(
        problems.contains("must begin with the lines `---`") && problems.contains("another text"),
        "{problems}"
    );
    fs::remove_file(board.path(path)).expect("removes");
    board.mend();
    board.settle();
    assert!(board.file(path).contains("by the board"));
    assert_eq!(board.problems(), "");
}

/// What git has half done is not taken in either when it is a change of ours that comes upon it.
#[test]
fn a_checkout_in_the_middle_is_waited_for_before_writing() {
    let looks = Arc::<LooksAtGit>::default();
    let board = Board::with_tasks(Options {
        files: looks.files(),
        ..still()
    });
    let lock = board.directory.path().join(".git/index.lock");
    fs::create_dir(board.directory.path().join(".git")).expect("makes");
    fs::write(&lock, "").expect("writes");
    board.edit(&task("MA-3.toon"), "title: First", "title: Checked out");
    board.run(comment("MA-3", "meanwhile"));
    looks.wait();
    let settled = board.store.settle(Duration::from_millis(100));
    assert!(matches!(settled, Err(FilesError::Timeout)), "{settled:?}");
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    fs::remove_file(lock).expect("removes");
    board.store.settle(PATIENCE).expect("settles");
    assert_eq!(board.title_of("MA-3").as_deref(), Some("Checked out"));
    assert_eq!(board.problems(), "");
}
