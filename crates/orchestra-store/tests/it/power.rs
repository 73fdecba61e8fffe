//! Power cuts at every operation on the readable files: whatever came through, reopening brings
//! files and database together, every file is whole, and no person's edit is lost.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use orchestra_board::{Command, IssuePatch, Kind};
use orchestra_store::{Action, DocumentPath, Expected as Version, NewDocument, Options, Store};

use crate::board::{Board, PATIENCE};
use crate::recorded::{Database, database, options, recorded, reopened, reopened_on};
use crate::recording::{Disk, Image, RecordingFs, files};
use crate::words::{comment, create, effort, target};

/// How much is tried: little, or with `ORCHESTRA_SOAK` all of it.
struct Size {
    steps: u64,
    subsets: u64,
    /// How many second power cuts during the recovery from each.
    again: u64,
}

fn size() -> Size {
    let little = Size {
        steps: 14,
        subsets: 3,
        again: 2,
    };
    let all = Size {
        steps: 1_000,
        subsets: 64,
        again: 1,
    };
    effort(little, all)
}

fn tasks(board: &Board) -> Vec<String> {
    let ids = (3..60).map(|n| format!("MA-{n}"));
    ids.filter(|text| board.issue(text).is_some()).collect()
}

/// One change of the board or of a file, of many sorts.
fn step(board: &Board, disk: &RecordingFs, number: u64) -> Option<String> {
    let tasks = tasks(board);
    let task = tasks[usize::try_from(number * 7).expect("small") % tasks.len()].as_str();
    match number % 9 {
        0 => board.rename(task, &format!("Named at {number}")),
        1 => board.describe(task, &format!("one\ntwo {number}")),
        2 => board.describe(task, "one line"),
        3 => drop(board.run(comment(task, "a remark"))),
        4 => drop(board.run(create(Kind::Task, Some("MA-2"), "More"))),
        5 if tasks.len() > 3 => drop(board.run(Command::DeleteIssue {
            target: target(task),
            expected: Kind::Task,
        })),
        6 => {
            let path = format!("my-app/epics/MA-1/stories/MA-2/tasks/{task}.toon");
            let text = disk.text(&path).expect("a file");
            let lines = text.lines().filter(|line| !line.starts_with("labels["));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            let edited = text.replace(
                "end: true",
                &format!("labels[1]: by-hand-{number}\nend: true"),
            );
            assert!(disk.write_by_hand(&path, &edited));
            // Something of ours goes on with the same issue, so that its files are looked at.
            board.run(comment(task, "meanwhile"));
            return Some(format!("{task} by-hand-{number}"));
        }
        8 => {
            let path = DocumentPath::parse("my-app/features/A.md").expect("a path");
            let text = format!("written at {number}");
            let document = NewDocument::new(path, text.into(), None, Version::Any);
            let document = Box::new(document.expect("not too large"));
            drop(board.act(Action::WriteDocument(document)));
        }
        _ => board.update(
            task,
            IssuePatch {
                priority: Some(Some(orchestra_board::Priority::High)),
                ..IssuePatch::default()
            },
        ),
    }
    None
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing() {
    let Size { steps, subsets, .. } = size();
    let (board, disk) = recorded(&[
        (Kind::Epic, None),
        (Kind::Story, Some("MA-1")),
        (Kind::Task, Some("MA-2")),
    ]);
    let store = board.path(".store");
    let mut tried = Tried::default();
    for number in 0..steps {
        let moments = remember(&disk, store.clone());
        let by_hand = step(&board, &disk, number);
        board.settle();
        disk.watch(None);
        for (disk, database) in std::mem::take(&mut *moments.lock().expect("not poisoned")) {
            let pending = disk.pending();
            let mut images = vec![
                disk.after_power_cut(|_| false, false),
                disk.after_power_cut(|_| true, false),
            ];
            images.push(disk.after_power_cut(|_| true, true));
            images.extend((0..pending).map(|alone| disk.after_power_cut(|at| at == alone, false)));
            for seed in 0..subsets {
                images.push(disk.after_power_cut(|at| chance(number, seed, at), true));
            }
            for image in images {
                tried.one(&Cut {
                    image: &image,
                    database: &database,
                    by_hand: by_hand.as_deref(),
                });
            }
        }
    }
    println!(
        "{steps} steps: {} different power cuts, {} during a recovery",
        tried.seen.len(),
        tried.again
    );
    assert!(tried.seen.len() > 20 && tried.again > 20);
}

fn chance(number: u64, seed: u64, at: usize) -> bool {
    let mut hasher = DefaultHasher::new();
    (number, seed, at).hash(&mut hasher);
    hasher.finish() & 1 == 0
}

/// What a power cut left of which board.
struct Cut<'a> {
    image: &'a Image,
    database: &'a Database,
    /// The task and the label that a person gave it.
    by_hand: Option<&'a str>,
}

/// Moments at which the disk and the database were looked at.
type Moments = Arc<Mutex<Vec<(Disk, Database)>>>;

/// Remembers every moment from now on, of the database in this directory.
fn remember(disk: &RecordingFs, store: std::path::PathBuf) -> Moments {
    let moments = Moments::default();
    let kept = Arc::clone(&moments);
    disk.watch(Some(Box::new(move |disk, _| {
        let mut moments = kept.lock().expect("not poisoned");
        let now = database(&store);
        let same = moments
            .last()
            .filter(|(_, last)| **last == *now)
            .map(|(_, last)| Arc::clone(last));
        moments.push((disk, same.unwrap_or(now)));
    })));
    moments
}

/// What a board must answer after it has recovered.
enum Expected {
    Answers(String),
    Label(String, String),
}

impl Expected {
    fn check(&self, board: &Board) {
        assert_eq!(board.problems(), "");
        match self {
            Self::Answers(answers) => assert_eq!(&board.answers(), answers),
            Self::Label(task, label) => {
                let labels = board.issue(task).expect("there").labels;
                assert!(
                    labels.iter().any(|found| found.as_str() == label),
                    "{label} is lost: {labels:?}"
                );
            }
        }
    }
}

#[derive(Default)]
struct Tried {
    /// Power cuts that were tried already: most moments differ in nothing.
    seen: HashSet<u64>,
    /// How many second ones there were, during the recovery from the first.
    again: u64,
    /// What the files must come to, for a database that was looked at before.
    settled: Option<(Database, Image)>,
}

impl Tried {
    fn one(&mut self, cut: &Cut<'_>) {
        let mut hasher = DefaultHasher::new();
        (files(cut.image), cut.database).hash(&mut hasher);
        let which = hasher.finish();
        if !self.seen.insert(which) {
            return;
        }
        let goes_on = which.is_multiple_of(3);
        let (board, _) = reopened(cut.image, cut.database, |options| Options {
            sweep: false,
            flush: false,
            ..options
        });
        if goes_on {
            // An agent is there before the files are looked at.
            for task in tasks(&board) {
                board.rename(&task, "Between");
            }
        }
        let expected = match cut.by_hand.and_then(|by_hand| by_hand.split_once(' ')) {
            None => Expected::Answers(board.answers()),
            Some((task, label)) => Expected::Label(task.to_owned(), label.to_owned()),
        };
        let left = if goes_on {
            database(&board.directory.path().join(".projects/.store"))
        } else {
            Arc::clone(cut.database)
        };
        drop(board);
        let moments = self.recover(cut, &left, &expected);
        let moments: Vec<_> = std::mem::take(&mut *moments.lock().expect("not poisoned"));
        if moments.is_empty() {
            return;
        }
        for seed in 0..size().again {
            let at = usize::try_from((which >> 8).wrapping_add(seed * 7)).unwrap_or(usize::MAX);
            let (disk, database) = &moments[at % moments.len()];
            let image = match ((which >> 4) + seed) % 3 {
                0 => disk.after_power_cut(|_| true, false),
                1 => disk.after_power_cut(|at| chance(which, seed, at), true),
                _ => disk.after_power_cut(|_| false, false),
            };
            self.again += 1;
            let (board, _) = reopened(&image, database, |options| options);
            board.settle();
            expected.check(&board);
        }
    }

    /// Lets a board recover, and gives back the moments of that.
    fn recover(&mut self, cut: &Cut<'_>, left: &Database, expected: &Expected) -> Moments {
        let mut moments = Moments::default();
        let (board, disk) = reopened_on(cut.image, left, |disk, store| {
            moments = remember(disk, store);
        });
        board.settle();
        disk.watch(None);
        expected.check(&board);
        if cut.by_hand.is_none() {
            // The same database always comes to the same files.
            let now = disk.image();
            match &self.settled {
                Some((known, expected)) if known == left => {
                    assert_eq!(files(&now), files(expected))
                }
                _ => self.settled = Some((Arc::clone(left), now)),
            }
        }
        let after = board.answers();
        // The files alone make the same board.
        board.store.close(PATIENCE);
        let Board { directory, store } = board;
        drop(store);
        let root = directory.path().canonicalize().expect("a directory");
        fs::remove_dir_all(root.join(".projects/.store")).expect("removes");
        let store = Store::open(&root, options(&disk)).expect("opens");
        let board = Board { directory, store };
        assert_eq!(board.answers(), after);
        assert_eq!(board.problems(), "");
        moments
    }
}
