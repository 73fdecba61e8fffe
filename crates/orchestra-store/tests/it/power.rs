//! Power cuts at every operation on the readable files: whatever came through, reopening brings
//! files and database together, every file is whole, and no person's edit is lost.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra_board::{Command, IssuePatch, IssueRef, Kind, Timestamp};
use orchestra_store::{Clock, Options, Store};

use crate::board::{Board, PATIENCE, body, id, issue, slug, title};
use crate::recording::{Disk, Image, RecordingFs, files};

#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(1_800_000_000)
    }
}

/// The database's files as they were at a moment.
type Database = Arc<BTreeMap<String, Vec<u8>>>;

/// How much is tried: little, or with `ORCHESTRA_SOAK` all of it.
struct Size {
    steps: u64,
    subsets: u64,
}

fn size() -> Size {
    if std::env::var_os("ORCHESTRA_SOAK").is_some() {
        Size {
            steps: 1_000,
            subsets: 64,
        }
    } else {
        Size {
            steps: 14,
            subsets: 3,
        }
    }
}

fn options(fs: &Arc<RecordingFs>) -> Options {
    let files: Arc<RecordingFs> = Arc::clone(fs);
    Options {
        files,
        clock: Arc::new(Noon),
        watch: false,
        sweep: true,
        ..Options::default()
    }
}

fn database(store: &Path) -> Database {
    let mut all = BTreeMap::new();
    for name in ["board.db-wal", "board.db"] {
        all.insert(
            name.to_owned(),
            fs::read(store.join(name)).unwrap_or_default(),
        );
    }
    Arc::new(all)
}

/// One change of the board or of a file, of many sorts.
fn step(board: &Board, disk: &RecordingFs, number: u64) -> Option<String> {
    let tasks: Vec<String> = (3..60)
        .map(|n| format!("MA-{n}"))
        .filter(|text| board.issue(text).is_some())
        .collect();
    let task = tasks[usize::try_from(number * 7).expect("small") % tasks.len()].as_str();
    let target = IssueRef::new(slug(), id(task));
    match number % 8 {
        0 => board.rename(task, &format!("Named at {number}")),
        1 => board.describe(task, &format!("one\ntwo {number}")),
        2 => board.describe(task, "one line"),
        3 => drop(board.run(Command::Comment {
            target,
            text: body("a remark"),
        })),
        4 => drop(board.run(Command::CreateIssue {
            project: slug(),
            issue: issue(Kind::Task, Some("MA-2"), "More"),
        })),
        5 if tasks.len() > 3 => drop(board.run(Command::DeleteIssue {
            target,
            expected: Kind::Task,
        })),
        6 => {
            let path = format!("my-app/epics/MA-1/stories/MA-2/tasks/{task}.toon");
            let text = disk.text(&path).expect("a file");
            let lines = text.lines().filter(|line| !line.starts_with("labels["));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            disk.write_by_hand(
                &path,
                &text.replace(
                    "end: true",
                    &format!("labels[1]: by-hand-{number}\nend: true"),
                ),
            );
            // Something of ours goes on with the same issue, so that its files are looked at.
            board.run(Command::Comment {
                target,
                text: body("meanwhile"),
            });
            return Some(format!("{task} by-hand-{number}"));
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
    let Size { steps, subsets } = size();
    let directory = tempfile::tempdir().expect("a directory");
    let real = directory.path().canonicalize().expect("a directory");
    let disk = Arc::new(RecordingFs::new(&real.join(".projects")));
    let store = Store::open(&real, options(&disk)).expect("opens");
    let board = Board { directory, store };
    board.run(Command::CreateProject(orchestra_board::NewProject {
        name: title("My App"),
        description: body(""),
    }));
    for (kind, parent) in [
        (Kind::Epic, None),
        (Kind::Story, Some("MA-1")),
        (Kind::Task, Some("MA-2")),
    ] {
        board.run(Command::CreateIssue {
            project: slug(),
            issue: issue(kind, parent, "Begun"),
        });
    }
    board.settle();
    let mut tried = Tried::default();
    for number in 0..steps {
        let moments: Arc<Mutex<Vec<(Disk, Database)>>> = Arc::default();
        let (kept, place) = (Arc::clone(&moments), real.join(".projects/.store"));
        disk.watch(Some(Box::new(move |disk| {
            let mut moments = kept.lock().expect("not poisoned");
            let now = database(&place);
            let same = moments
                .last()
                .filter(|(_, last)| **last == *now)
                .map(|(_, last)| Arc::clone(last));
            moments.push((disk, same.unwrap_or(now)));
        })));
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
                tried.one(&image, &database, by_hand.as_deref());
            }
        }
    }
    println!("{steps} steps: {} different power cuts", tried.seen.len());
    assert!(tried.seen.len() > 20);
}

fn chance(number: u64, seed: u64, at: usize) -> bool {
    let mut hasher = DefaultHasher::new();
    (number, seed, at).hash(&mut hasher);
    hasher.finish() & 1 == 0
}

#[derive(Default)]
struct Tried {
    /// Power cuts that were tried already: most moments differ in nothing.
    seen: HashSet<u64>,
    /// What the files must come to, for a database that was looked at before.
    settled: Option<(Database, Image)>,
}

impl Tried {
    fn one(&mut self, image: &Image, database: &Database, by_hand: Option<&str>) {
        let mut hasher = DefaultHasher::new();
        (files(image), database).hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a directory");
        let place = root.join(".projects/.store");
        fs::create_dir_all(&place).expect("makes");
        for (name, content) in &**database {
            fs::write(place.join(name), content).expect("writes");
        }
        let before = {
            let quiet = Options {
                sweep: false,
                flush: false,
                ..options(&Arc::new(RecordingFs::new(&root.join(".projects"))))
            };
            let store = Store::open(&root, quiet).expect("opens");
            let board = Board {
                directory: tempfile::tempdir().expect("a directory"),
                store,
            };
            board.answers()
        };
        let disk = Arc::new(RecordingFs::from_image(&root.join(".projects"), image));
        let store = Store::open(&root, options(&disk)).expect("opens");
        let board = Board { directory, store };
        board.settle();
        assert_eq!(board.problems(), "", "{:?}", image.keys());
        let after = board.answers();
        match by_hand {
            None => {
                assert_eq!(after, before);
                // The same database always comes to the same files.
                let now = disk.image();
                match &self.settled {
                    Some((known, expected)) if known == database => {
                        assert_eq!(files(&now), files(expected))
                    }
                    _ => self.settled = Some((Arc::clone(database), now)),
                }
            }
            Some(by_hand) => {
                let (task, label) = by_hand.split_once(' ').expect("two words");
                let labels = board.issue(task).expect("there").labels;
                assert!(
                    labels.iter().any(|found| found.as_str() == label),
                    "{label} is lost: {labels:?}"
                );
            }
        }
        // The files alone make the same board.
        board.store.close(PATIENCE);
        let Board { directory, store } = board;
        drop(store);
        fs::remove_dir_all(&place).expect("removes");
        let store = Store::open(&root, options(&disk)).expect("opens");
        let board = Board { directory, store };
        assert_eq!(board.answers(), after);
        assert_eq!(board.problems(), "");
    }
}
