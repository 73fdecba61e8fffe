//! A board comes back from its files, and one bad file among them harms nothing else.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use orchestra_board::{Command, Cost, Kind, NewRequest, RequestKind, UsageEntry};
use orchestra_store::PageRequest;

use crate::board::{Board, still};
use crate::words::{body, comment, create, id, new_issue, slug};

const STATUS: &str = "my-app/project-status.toon";
const EVENTS: &str = ".events/hook-events.toon";
const USAGE: &str = ".usage/usage.toon";

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).expect("reads");
    assert!(text.contains(from), "no `{from}` in:\n{text}");
    fs::write(path, text.replacen(from, to, 1)).expect("writes");
}

fn remembered(board: &Board) -> Vec<String> {
    let page = board
        .store
        .read(|reader| reader.chunks(&slug(), &PageRequest::default()))
        .expect("reads");
    page.items
        .iter()
        .map(|chunk| format!("{} {}", chunk.id, chunk.content.as_str()))
        .collect()
}

fn made(board: &Board) -> String {
    let made = board.run(create(Kind::Epic, None, "New"));
    made.issues[0].issue.id.to_string()
}

fn events_of(board: &Board, issue: &str) -> u64 {
    let history = board
        .store
        .read(|reader| reader.history(&slug(), &id(issue), &PageRequest::default()));
    history.expect("reads").total
}

#[test]
fn two_projects_of_one_key_are_a_problem_of_the_second() {
    let board = Board::with_tasks(still()).rebuilt(|projects| {
        let other = projects.join("other");
        fs::create_dir_all(other.join(".memory")).expect("made");
        for name in ["project-status.toon", "prd.md"] {
            fs::copy(projects.join("my-app").join(name), other.join(name)).expect("copied");
        }
        replace(
            &other.join("project-status.toon"),
            "slug: my-app",
            "slug: other",
        );
    });
    let problems = board.problems();
    assert!(
        problems.contains("other/project-status.toon:4: key: the key MA is another project's"),
        "{problems}"
    );
    assert!(problems.contains("other/prd.md: "), "{problems}");
    assert_eq!(made(&board), "MA-5");
    board.mend();
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    // Once it has a key of its own, it is taken like any other.
    replace(
        &board.path("other/project-status.toon"),
        "key: MA",
        "key: OT",
    );
    board.mend();
    assert_eq!(board.problems(), "");
}

#[test]
fn an_event_that_stands_twice_is_a_problem_of_its_file() {
    let board = Board::with_tasks(still());
    board.hook();
    board.hook();
    board.settle();
    let board = board.rebuilt(|projects| {
        replace(&projects.join(EVENTS), "\n  2,", "\n  1,");
    });
    let problems = board.problems();
    assert!(
        problems.contains(".events/hook-events.toon:4: events[2].number: appears twice"),
        "{problems}"
    );
    board.hook();
    assert_eq!(made(&board), "MA-5");
    board.settle();
}

#[test]
fn numbers_that_cannot_be_counted_on_are_refused() {
    let board = Board::with_tasks(still());
    board.hook();
    board.run(Command::RecordUsage(UsageEntry {
        provider: None,
        model: None,
        input_tokens: 7,
        output_tokens: 9,
        cost: Cost::from_units(0.5).expect("a cost"),
        of: None,
    }));
    board.settle();
    let board = board.rebuilt(|projects| {
        replace(&projects.join(EVENTS), "\n  1,", "\n  9223372036854775807,");
        replace(
            &projects.join(USAGE),
            "total_input: 7",
            "total_input: 18446744073709551615",
        );
    });
    let problems = board.problems();
    assert!(problems.contains("number: must be at most"), "{problems}");
    assert!(
        problems.contains("total_input: must be at most"),
        "{problems}"
    );
    board.hook();
    assert_eq!(made(&board), "MA-5");
}

#[test]
fn a_remembered_text_that_stands_twice_is_a_problem_of_its_file() {
    let board = Board::with_tasks(still());
    board.remember("the first");
    board.remember("the second");
    board.settle();
    let before = remembered(&board);
    let (one, two) = (".memory/chunks.toon", ".memory/chunks-2.toon");
    let board = board.rebuilt(|projects| {
        let project = projects.join("my-app");
        fs::copy(project.join(one), project.join(two)).expect("copied");
        replace(&project.join(two), "the first", "another text");
    });
    assert_eq!(remembered(&board), before);
    let problems = board.problems();
    assert!(
        problems.contains("my-app/.memory/chunks-2.toon: mem-1 is in another file"),
        "{problems}"
    );
    let board = board.rebuilt(|projects| {
        let path = projects.join("my-app").join(two);
        replace(&path, "mem-1", "mem-7");
        replace(&path, "mem-2", "mem-8");
    });
    assert_eq!(remembered(&board), before);
    let problems = board.problems();
    assert!(
        problems.contains("my-app/.memory/chunks-2.toon: mem-8 has the same text as mem-2"),
        "{problems}"
    );
}

#[test]
fn counters_rise_above_what_the_files_hold() {
    let board = Board::with_tasks(still());
    board.run(Command::ReportBug {
        project: slug(),
        issue: new_issue(Kind::Bug, Some("MA-2"), "Broken"),
    });
    let request = || {
        board.run(Command::LogRequest {
            project: slug(),
            request: NewRequest {
                kind: RequestKind::Feature,
                description: body("more"),
            },
        })
    };
    request();
    board.settle();
    let counters = "next_issue: 5\nnext_bug: 2\nnext_request: 2\n";
    assert!(board.file(STATUS).contains(counters));
    let board = board.rebuilt(|projects| {
        let low = "next_issue: 2\nnext_bug: 1\nnext_request: 1\n";
        replace(&projects.join(STATUS), counters, low);
    });
    board.settle();
    assert!(
        board.file(STATUS).contains(counters),
        "{}",
        board.file(STATUS)
    );
    assert_eq!(made(&board), "MA-5");
    assert_eq!(board.problems(), "");
}

#[test]
fn an_issue_is_there_whatever_its_history_says() {
    let board = Board::with_tasks(still());
    let before = board
        .answers()
        .lines()
        .filter(|line| line.starts_with("IssueRecord"))
        .count();
    let (epic, task) = (
        "my-app/epics/MA-1/MA-1.history.jsonl",
        "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.history.jsonl",
    );
    let board = board.rebuilt(|projects| {
        let mut text = fs::read_to_string(projects.join(epic)).expect("reads");
        text.push_str("what is this\n");
        fs::write(projects.join(epic), text).expect("writes");
        let (line, mut long) = ("x".repeat(200 * 1024), String::new());
        for _ in 0..170 {
            writeln!(
                long,
                "{{\"at\":\"2026-01-01T00:00:00Z\",\"change\":\"comment\",\"text\":\"{line}\"}}"
            )
            .expect("a string");
        }
        fs::write(projects.join(task), long).expect("writes");
    });
    let after = board
        .answers()
        .lines()
        .filter(|line| line.starts_with("IssueRecord"))
        .count();
    assert_eq!(after, before);
    let problems = board.problems();
    assert!(problems.contains(&format!("{epic}:2: ")), "{problems}");
    assert!(
        problems.contains(&format!("{task}: is larger than")),
        "{problems}"
    );
    // The issues go on, and what cannot be read is left alone.
    board.rename("MA-1", "Renamed");
    board.settle();
    assert!(
        board
            .file("my-app/epics/MA-1/epic.toon")
            .contains("title: Renamed")
    );
    assert!(board.file(epic).ends_with("what is this\n"));
}

#[test]
fn what_is_written_of_a_long_history_can_be_read() {
    const COMMENTS: u64 = 20;
    let board = Board::with_tasks(still());
    let long = "x".repeat(200 * 1024);
    for number in 0..COMMENTS {
        board.run(comment("MA-3", &format!("{number} {long}")));
    }
    board.settle();
    let file = "my-app/epics/MA-1/stories/MA-2/tasks/MA-3.history.jsonl";
    let text = board.file(file);
    assert!(text.len() <= 2 * 1024 * 1024, "{}", text.len());
    assert!(text.lines().last().expect("a line").contains("\"19 xxx"));
    assert_eq!(events_of(&board, "MA-3"), COMMENTS + 1);
    // What a person adds joins all that the database has, not just what the file shows.
    let line = "{\"at\":\"2026-01-01T00:00:00Z\",\"change\":\"comment\",\"text\":\"by hand\"}\n";
    fs::write(board.path(file), format!("{text}{line}")).expect("writes");
    let board = board.reopened(
        orchestra_store::Options {
            watch: false,
            ..orchestra_store::Options::default()
        },
        |_| {},
    );
    board.wait("the line", |board| events_of(board, "MA-3") == COMMENTS + 2);
    board.settle();
    assert_eq!(board.problems(), "");
    let shown = board.file(file).lines().count();
    let board = board.rebuilt(|_| {});
    assert_eq!(
        events_of(&board, "MA-3"),
        u64::try_from(shown).expect("few")
    );
    assert_eq!(board.problems(), "");
}

#[test]
fn parents_that_the_files_have_wrong_are_written_right() {
    let story = "my-app/epics/MA-1/stories/MA-2/story.toon";
    let board = Board::with_tasks(still()).rebuilt(|projects| {
        replace(&projects.join(story), "status: backlog", "status: done");
    });
    board.settle();
    let shown = board.issue("MA-2").expect("there").state;
    let line = format!("\nstatus: {}\n", shown.as_str());
    assert_ne!(shown.as_str(), "done");
    assert!(board.file(story).contains(&line), "{}", board.file(story));
    assert_eq!(board.problems(), "");
}
