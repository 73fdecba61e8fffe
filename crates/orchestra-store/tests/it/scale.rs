//! Large boards: rebuilding from the files alone, and what a change costs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use orchestra_board::State;
use orchestra_store::{Options, Store};

use crate::board::{Board, still};
use crate::words::{effort, slug};

/// How many tasks: few, or with `ORCHESTRA_SOAK` as many as are promised.
fn tasks() -> usize {
    effort(1_000, 100_000)
}

/// The files of a board with so many tasks, twenty to a story, written by hand.
fn write_files(projects: &Path, tasks: usize) {
    let (at, root) = (
        "created_at: \"2026-01-01T00:00:00Z\"\nend: true\n",
        projects.join("my-app"),
    );
    let history = |kind: &str| {
        format!(
            "{{\"at\":\"2026-01-01T00:00:00Z\",\"change\":\"created\",\"type\":\"{kind}\",\"title\":\"T\",\"status\":\"backlog\"}}\n"
        )
    };
    fs::create_dir_all(&root).expect("makes");
    let (mut number, mut left, mut status) = (0, tasks, String::new());
    while left > 0 {
        number += 1;
        let epic = format!("MA-{number}");
        let directory = root.join("epics").join(&epic);
        fs::create_dir_all(&directory).expect("makes");
        fs::write(
            directory.join("epic.toon"),
            format!("schema: 1\nid: {epic}\ntype: epic\ntitle: T\nstatus: backlog\n{at}"),
        )
        .expect("writes");
        fs::write(
            directory.join(format!("{epic}.history.jsonl")),
            history("epic"),
        )
        .expect("writes");
        for _ in 0..10_usize.min(left.div_ceil(20)) {
            number += 1;
            let story = format!("MA-{number}");
            let directory = directory.join("stories").join(&story);
            fs::create_dir_all(directory.join("tasks")).expect("makes");
            let text = format!(
                "schema: 1\nid: {story}\ntype: story\ntitle: T\nstatus: backlog\nepic: {epic}\n{at}"
            );
            fs::write(directory.join("story.toon"), text).expect("writes");
            fs::write(
                directory.join(format!("{story}.history.jsonl")),
                history("story"),
            )
            .expect("writes");
            for _ in 0..20.min(left) {
                number += 1;
                left -= 1;
                let task = format!("MA-{number}");
                let text = format!(
                    "schema: 1\nid: {task}\ntype: task\ntitle: Make the thing number {number} work\nstatus: todo\n\
                     description: It should do what it says and say what it does\npriority: high\nepic: {epic}\nstory: {story}\n\
                     labels[2]: ui,api\n{at}"
                );
                fs::write(directory.join("tasks").join(format!("{task}.toon")), text)
                    .expect("writes");
                fs::write(
                    directory
                        .join("tasks")
                        .join(format!("{task}.history.jsonl")),
                    history("task"),
                )
                .expect("writes");
            }
        }
    }
    write!(
        status,
        "schema: 1\nproject: My App\nslug: my-app\nkey: MA\nnext_issue: {}\nnext_bug: 1\nnext_request: 1\nprd: stub\n{at}",
        number + 1
    )
    .expect("a string");
    fs::write(root.join("project-status.toon"), status).expect("writes");
    fs::write(root.join("prd.md"), "# My App\n").expect("writes");
}

#[test]
fn a_large_board_comes_back_from_its_files() {
    let tasks = tasks();
    let directory = tempfile::tempdir().expect("a directory");
    write_files(&directory.path().join(".projects"), tasks);
    let start = Instant::now();
    let store = Store::open(directory.path(), still()).expect("opens");
    let rebuilt = start.elapsed();
    let board = Board { directory, store };
    let record = board
        .store
        .read(|reader| reader.project(&slug()))
        .expect("reads")
        .expect("there");
    println!("{tasks} tasks were rebuilt from their files in {rebuilt:?}");
    assert_eq!(record.census.leaves(), u64::try_from(tasks).expect("small"));
    assert_eq!(record.census.leaves_in(State::Todo), record.census.leaves());
    board.settle();
    // One change on the large board is written like one on a small one.
    let start = Instant::now();
    board.rename("MA-3", "Another");
    let made = start.elapsed();
    board.settle();
    println!(
        "a change took {made:?}, and was in its file after {:?}",
        start.elapsed()
    );
    let sweep = Instant::now();
    let board = board.reopened(
        Options {
            watch: false,
            ..Options::default()
        },
        |_| {},
    );
    println!("opened again in {:?}", sweep.elapsed());
    board.settle();
    println!("looked through after {:?}", sweep.elapsed());
    assert_eq!(board.problems(), "");
}
