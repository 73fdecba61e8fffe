//! Uids decide which issue a file is of, and deleted issues stay deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use orchestra_board::{Command, Kind, Uid};
use orchestra_store::{Options, PageRequest, Store};
use proptest::prelude::*;

use crate::board::{Board, still};
use crate::words::{comment, create, effort, id, slug, target};

const TASKS: &str = "my-app/epics/MA-1/stories/MA-2/tasks";

fn task(name: &str) -> String {
    format!("{TASKS}/{name}")
}

/// The text of a file with this uid in the place of its own, or without one.
fn with_uid(text: &str, uid: Option<&str>) -> String {
    let mut changed = String::new();
    for line in text.lines() {
        match uid {
            _ if !line.starts_with("uid: ") => changed.push_str(line),
            Some(uid) => changed.push_str(&format!("uid: {uid}")),
            None => continue,
        }
        changed.push('\n');
    }
    assert_ne!(changed, text, "it had a uid");
    changed
}

/// The last of all uids: of two issues of one second it makes the younger.
fn last_uid() -> String {
    Uid::from_bytes([255; 16]).to_string()
}

fn uid_of(board: &Board, issue: &str) -> Uid {
    let issue = board.issue(issue).unwrap_or_else(|| panic!("no {issue}"));
    issue.uid.expect("a stored issue has a uid")
}

/// The uids of the lines of a history.
fn lines_of(store: &Store, issue: &str) -> Vec<Uid> {
    let page = PageRequest::first(500);
    let history = store.read(|reader| reader.history(&slug(), &id(issue), &page));
    let uid = |event: orchestra_board::Event| event.uid.expect("a stored line has a uid");
    history.expect("reads").items.into_iter().map(uid).collect()
}

/// Makes the board notice what was done to the files of an issue.
fn look_at(board: &Board, issue: &str) {
    board.run(comment(issue, "look"));
    board.settle();
}

fn delete(board: &Board, issue: &str, kind: Kind) {
    board.run(Command::DeleteIssue {
        target: target(issue),
        expected: kind,
    });
    board.settle();
}

#[test]
fn files_and_histories_show_uids() {
    let board = Board::with_tasks(still());
    let uids: BTreeSet<Uid> = (1..5).map(|n| uid_of(&board, &format!("MA-{n}"))).collect();
    assert_eq!(uids.len(), 4);
    let file = board.file(&task("MA-3.toon"));
    assert!(
        file.contains(&format!("\nuid: {}\n", uid_of(&board, "MA-3"))),
        "{file}"
    );
    let line = board.file(&task("MA-3.history.jsonl"));
    let uid = lines_of(&board.store, "MA-3")[0];
    assert!(line.ends_with(&format!(",\"uid\":\"{uid}\"}}\n")), "{line}");
}

#[test]
fn file_of_another_issue_is_no_edit_and_gets_another_id() {
    let board = Board::with_tasks(still());
    let (path, ours) = (task("MA-3.toon"), uid_of(&board, "MA-3"));
    let theirs = with_uid(&board.file(&path), Some(&last_uid())).replace("First", "Theirs");
    fs::write(board.path(&path), &theirs).expect("writes");
    look_at(&board, "MA-3");
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    assert_eq!(board.file(&path), theirs);
    let problems = board.problems();
    assert!(
        problems.contains("uid: belongs to another issue than MA-3")
            && problems.contains("doctor --fix"),
        "{problems}"
    );
    board.mend();
    board.settle();
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    assert_eq!(uid_of(&board, "MA-3"), ours);
    assert_eq!(board.title_of("MA-5").as_deref(), Some("Theirs"));
    assert_eq!(uid_of(&board, "MA-5").to_string(), last_uid());
    assert_eq!(board.problems(), "");
    assert!(board.file(&path).contains("title: First\n"));
}

#[test]
fn removed_file_of_another_issue_takes_nothing_along() {
    let board = Board::with_tasks(Options::default());
    let path = task("MA-3.toon");
    let theirs = with_uid(&board.file(&path), Some(&last_uid()));
    fs::write(board.path(&path), theirs).expect("writes");
    board.wait("the problem", |board| board.problems().contains(&path));
    fs::remove_file(board.path(&path)).expect("removes");
    board.wait("our file", |board| {
        board.exists(&path) && board.problems().is_empty()
    });
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    assert!(
        board
            .file(&path)
            .contains(&uid_of(&board, "MA-3").to_string())
    );
}

#[test]
fn file_without_a_uid_is_an_edit_and_gets_it_with_the_next_write() {
    let board = Board::with_tasks(still());
    let (path, uid) = (task("MA-3.toon"), uid_of(&board, "MA-3"));
    let edited = with_uid(&board.file(&path), None).replace("First", "By hand");
    fs::write(board.path(&path), &edited).expect("writes");
    look_at(&board, "MA-3");
    assert_eq!(board.title_of("MA-3").as_deref(), Some("By hand"));
    assert_eq!(uid_of(&board, "MA-3"), uid);
    board.rename("MA-3", "By the board");
    board.settle();
    let file = board.file(&path);
    assert!(file.contains(&format!("\nuid: {uid}\n")), "{file}");
    assert_eq!(board.problems(), "");
}

#[test]
fn copied_file_becomes_an_issue_with_a_uid_of_its_own() {
    let board = Board::with_tasks(still());
    for part in ["toon", "history.jsonl"] {
        let copy = board
            .file(&task(&format!("MA-3.{part}")))
            .replace("MA-3", "MA-9");
        fs::write(board.path(&task(&format!("MA-9.{part}"))), copy).expect("writes");
    }
    board.mend();
    board.settle();
    assert_eq!(board.title_of("MA-9").as_deref(), Some("First"));
    assert_ne!(uid_of(&board, "MA-9"), uid_of(&board, "MA-3"));
    assert_ne!(
        lines_of(&board.store, "MA-9"),
        lines_of(&board.store, "MA-3")
    );
    let file = board.file(&task("MA-9.toon"));
    assert!(file.contains(&uid_of(&board, "MA-9").to_string()), "{file}");
    assert_eq!(board.problems(), "");
    // A board that is made of such files comes to as many uids.
    let copied = board.rebuilt(|projects| {
        let text = fs::read_to_string(projects.join(task("MA-3.toon"))).expect("reads");
        let copy = text.replace("MA-3", "MA-8");
        fs::write(projects.join(task("MA-8.toon")), copy).expect("writes");
    });
    assert_ne!(uid_of(&copied, "MA-8"), uid_of(&copied, "MA-3"));
    assert_eq!(copied.problems(), "");
}

#[test]
fn file_of_a_deleted_issue_does_not_bring_it_back() {
    let board = Board::with_tasks(still());
    let path = task("MA-4.toon");
    let file = board.file(&path);
    delete(&board, "MA-4", Kind::Task);
    let status = board.file("my-app/project-status.toon");
    assert!(
        status.contains("deleted[1]{id,uid,at}:\n  MA-4,"),
        "{status}"
    );
    let board = board.reopened(Options::default(), |projects| {
        fs::write(projects.join(&path), &file).expect("writes");
    });
    board.wait("the problem", |board| board.problems().contains(&path));
    assert_eq!(board.issue("MA-4"), None);
    let problems = board.problems();
    assert!(
        problems.contains("is of an issue that was deleted"),
        "{problems}"
    );
    assert_eq!(board.file(&path), file);
    board.mend();
    board.settle();
    assert_eq!((board.issue("MA-4"), board.exists(&path)), (None, false));
    assert_eq!(board.title_of("MA-5").as_deref(), Some("Second"));
    assert!(!file.contains(&uid_of(&board, "MA-5").to_string()));
    assert_eq!(board.problems(), "");
}

#[test]
fn deleted_issue_comes_back_when_its_row_is_removed() {
    let board = Board::with_tasks(Options::default());
    let (path, uid) = (task("MA-4.toon"), uid_of(&board, "MA-4"));
    let file = board.file(&path);
    delete(&board, "MA-4", Kind::Task);
    fs::write(board.path(&path), &file).expect("writes");
    board.wait("the problem", |board| board.problems().contains(&path));
    let status = board.file("my-app/project-status.toon");
    let lines = status
        .lines()
        .filter(|line| !line.starts_with("deleted[") && !line.starts_with("  MA-4,"));
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    fs::write(board.path("my-app/project-status.toon"), lines).expect("writes");
    board.wait("the issue", |board| board.title_of("MA-4").is_some());
    assert_eq!(uid_of(&board, "MA-4"), uid);
    board.settle();
    assert_eq!(board.problems(), "");
}

/// Lists an issue as deleted in the file of the project.
fn bury(projects: &Path, issue: &str, uid: Uid) {
    let path = projects.join("my-app/project-status.toon");
    let text = fs::read_to_string(&path).expect("reads");
    let row = format!("deleted[1]{{id,uid,at}}:\n  {issue},{uid},\"2030-01-01T00:00:00Z\"\n");
    let (before, after) = text.split_once("tasks").expect("a summary");
    fs::write(path, format!("{before}{row}tasks{after}")).expect("writes");
}

#[test]
fn row_of_a_file_deletes_no_live_issue() {
    let board = Board::with_tasks(Options::default());
    let (path, uid) = (task("MA-4.toon"), uid_of(&board, "MA-4"));
    let file = board.file(&path);
    let status = |board: &Board| board.file("my-app/project-status.toon");
    bury(&board.path(""), "MA-4", uid);
    board.wait("the row to go", |board| !status(board).contains("deleted["));
    // The file goes and comes back with git, for instance with another branch.
    fs::remove_file(board.path(&path)).expect("removes");
    board.wait("the issue to go", |board| board.issue("MA-4").is_none());
    fs::write(board.path(&path), &file).expect("writes");
    board.wait("the issue", |board| board.issue("MA-4").is_some());
    board.settle();
    assert_eq!(board.problems(), "");
    // A clone, whose board is made of the files.
    let board = board.rebuilt(|projects| bury(projects, "MA-4", uid));
    assert_eq!(board.title_of("MA-4").as_deref(), Some("Second"));
    assert_eq!(uid_of(&board, "MA-4"), uid);
    board.settle();
    assert!(!status(&board).contains("deleted["), "{}", status(&board));
    assert_eq!(board.problems(), "");
}

#[test]
fn row_of_a_file_does_not_hold_back_an_issue_that_is_new_to_the_board() {
    let board = Board::with_tasks(still());
    let uid = Uid::from_bytes([7; 16]);
    bury(&board.path(""), "MA-9", uid);
    let theirs = with_uid(&board.file(&task("MA-4.toon")), Some(&uid.to_string()));
    let theirs = theirs.replace("MA-4", "MA-9").replace("Second", "Theirs");
    fs::write(board.path(&task("MA-9.toon")), theirs).expect("writes");
    board.mend();
    board.settle();
    assert_eq!(board.title_of("MA-9").as_deref(), Some("Theirs"));
    assert_eq!(uid_of(&board, "MA-9"), uid);
    assert_eq!(board.problems(), "");
}

#[test]
fn row_that_comes_with_the_removal_of_its_issue_stays() {
    let board = Board::with_tasks(still());
    let uid = uid_of(&board, "MA-4");
    let path = task("MA-4.toon");
    let file = board.file(&path);
    // As a pull brings what another clone deleted.
    let board = board.reopened(Options::default(), |projects| {
        bury(projects, "MA-4", uid);
        for part in ["toon", "history.jsonl"] {
            let path = projects.join(task(&format!("MA-4.{part}")));
            fs::remove_file(path).expect("removes");
        }
    });
    board.wait("the issue to go", |board| board.issue("MA-4").is_none());
    board.settle();
    let status = board.file("my-app/project-status.toon");
    assert!(status.contains(&uid.to_string()), "{status}");
    fs::write(board.path(&path), file).expect("writes");
    board.wait("the problem", |board| {
        board.problems().contains("is of an issue that was deleted")
    });
    assert_eq!(board.issue("MA-4"), None);
}

#[test]
fn issue_that_a_program_of_an_earlier_version_deleted_stays_deleted() {
    let board = Board::with_tasks(still());
    let path = task("MA-4.toon");
    let file = board.file(&path);
    delete(&board, "MA-4", Kind::Task);
    let board = board.reopened(Options::default(), |projects| {
        let raw = rusqlite::Connection::open(projects.join(".store/board.db")).expect("opens");
        raw.execute_batch("DROP TRIGGER issue_gone; DROP TABLE gone; PRAGMA user_version = 5")
            .expect("goes back");
        fs::write(projects.join(&path), &file).expect("writes");
    });
    board.wait("the problem", |board| {
        board.problems().contains("is of an issue that was deleted")
    });
    assert_eq!(board.issue("MA-4"), None);
}

#[test]
fn board_of_an_earlier_schema_is_compared_whole_with_its_last_exchange() {
    let board = Board::with_tasks(still());
    let version = board.store.board_files().expect("reads").version;
    board.store.note_exchange("abc", version).expect("writes");
    look_at(&board, "MA-4");
    let changes = |board: &Board| {
        let last = board.store.last_exchange().expect("reads");
        let last = last.expect("an exchange");
        board.store.board_changes(&last).expect("reads")
    };
    assert!(changes(&board).is_some_and(|changes| !changes.is_empty()));
    let board = board.reopened(still(), |projects| {
        let raw = rusqlite::Connection::open(projects.join(".store/board.db")).expect("opens");
        raw.execute_batch(
            "DROP TRIGGER owner_due; DROP TRIGGER owner_due_again; DROP TABLE changed; PRAGMA user_version = 6",
        )
        .expect("goes back");
    });
    assert!(changes(&board).is_none());
}

#[test]
fn change_by_a_program_of_an_earlier_version_is_part_of_the_next_exchange() {
    let board = Board::with_tasks(still());
    board.settle();
    let version = board.store.board_files().expect("reads").version;
    board.store.note_exchange("abc", version).expect("writes");
    let last = board.store.last_exchange().expect("reads");
    let last = last.expect("an exchange");
    let changes = || board.store.board_changes(&last).expect("reads");
    assert!(changes().is_some_and(|changes| changes.is_empty()));
    // As a program of schema 6 that has the database open commits a change of MA-4, twice.
    let raw = rusqlite::Connection::open(board.path(".store/board.db")).expect("opens");
    for _ in 0..2 {
        raw.execute_batch(
            "BEGIN IMMEDIATE; UPDATE counter SET value = value + 1 WHERE name = 'change'; \
             INSERT INTO dirty (owner, seq, since) SELECT f.owner, c.value, c.value FROM file f, counter c \
             WHERE f.path LIKE '%/MA-4.toon' AND c.name = 'change' \
             ON CONFLICT (owner) DO UPDATE SET seq = excluded.seq; COMMIT",
        )
        .expect("commits");
    }
    let found = changes().expect("not all of the board");
    assert!(found.concerns(&task("MA-4.toon")));
    assert!(!found.is_empty());
}

#[test]
fn alias_of_an_id_that_was_deleted_is_not_taken_from_a_file() {
    let board = Board::with_tasks(still());
    delete(&board, "MA-4", Kind::Task);
    let board = board.rebuilt(|projects| {
        let path = projects.join("my-app/project-status.toon");
        let text = fs::read_to_string(&path).expect("reads");
        let rows = "aliases[3]{old,new}:\n  MA-2,MA-3\n  MA-4,MA-3\n  MA-8,MA-3\n";
        let text = text.replacen("deleted[", &format!("{rows}deleted["), 1);
        fs::write(path, text).expect("writes");
    });
    let found = |name| {
        let found = board.store.read(|reader| reader.issue(&slug(), &id(name)));
        found.expect("reads").map(|record| record.issue.id)
    };
    assert_eq!(found("MA-2"), Some(id("MA-2")));
    assert_eq!(found("MA-4"), None);
    assert_eq!(found("MA-8"), Some(id("MA-3")));
}

#[test]
fn counters_stay_above_the_ids_of_deleted_issues() {
    let board = Board::with_tasks(still());
    delete(&board, "MA-4", Kind::Task);
    let board = board.rebuilt(|projects| {
        let path = projects.join("my-app/project-status.toon");
        let text = fs::read_to_string(&path).expect("reads");
        fs::write(path, text.replace("next_issue: 5", "next_issue: 4")).expect("writes");
    });
    let made = board.run(create(Kind::Task, Some("MA-2"), "Next"));
    assert_eq!(made.issues[0].issue.id, id("MA-5"));
}

#[test]
fn epic_of_another_clone_is_told_apart_with_what_is_below_it() {
    let board = Board::with_tasks(still());
    let (path, ours) = ("my-app/epics/MA-1/epic.toon", uid_of(&board, "MA-1"));
    let theirs =
        with_uid(&board.file(path), Some(&last_uid())).replace("title: Epic", "title: Theirs");
    let other = Uid::from_bytes([254; 16]).to_string();
    let story = board.file("my-app/epics/MA-1/stories/MA-2/story.toon");
    let story = with_uid(&story, Some(&other))
        .replace("MA-2", "MA-7")
        .replace("Story", "Their story");
    fs::write(board.path(path), theirs).expect("writes");
    fs::create_dir(board.path("my-app/epics/MA-1/stories/MA-7")).expect("makes");
    fs::write(
        board.path("my-app/epics/MA-1/stories/MA-7/story.toon"),
        story,
    )
    .expect("writes");
    look_at(&board, "MA-1");
    board.mend();
    board.settle();
    assert_eq!(
        (board.title_of("MA-1").as_deref(), uid_of(&board, "MA-1")),
        (Some("Epic"), ours)
    );
    let story = board.issue("MA-7").expect("their story");
    let epic = story.parent.expect("an epic").to_string();
    assert_eq!(board.title_of(&epic).as_deref(), Some("Theirs"), "{epic}");
    let parent = |issue: &str| board.issue(issue).expect("there").parent;
    assert_eq!(
        (parent("MA-2"), parent("MA-3")),
        (Some(id("MA-1")), Some(id("MA-2")))
    );
    assert_eq!(board.problems(), "");
}

#[test]
fn what_is_below_an_older_file_of_another_epic_waits_for_it() {
    let board = Board::with_tasks(still());
    let epic = "my-app/epics/MA-1/epic.toon";
    let story = "my-app/epics/MA-1/stories/MA-2/story.toon";
    let other = Uid::from_bytes([254; 16]).to_string();
    let theirs = with_uid(&board.file(epic), Some(&last_uid()))
        .replace("title: Epic", "title: Theirs")
        .replace("created_at: \"20", "created_at: \"19");
    let their_story = with_uid(&board.file(story), Some(&other)).replace("Story", "Their story");
    fs::write(board.path(epic), &theirs).expect("writes");
    fs::write(board.path(story), &their_story).expect("writes");
    let issues = || {
        (1..9)
            .filter(|n| board.issue(&format!("MA-{n}")).is_some())
            .count()
    };
    board.mend();
    board.settle();
    assert_eq!(issues(), 4);
    assert_eq!((board.file(epic), board.file(story)), (theirs, their_story));
}

/// What an earlier version of the program left: no uids anywhere.
fn strip_database(projects: &Path) {
    let path = projects.join(".store/board.db");
    let raw = rusqlite::Connection::open(path).expect("opens");
    raw.execute_batch(
        "UPDATE event SET body = substr(body, 1, length(body) - 36) || '}' WHERE issue IS NOT NULL",
    )
    .expect("strips");
    raw.execute_batch(crate::life::USAGE_SUMS)
        .expect("goes back");
    raw.pragma_update(None, "user_version", 3)
        .expect("goes back");
}

fn strip_files(projects: &Path) {
    let mut left = vec![projects.join("my-app/epics")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(
                fs::read_dir(path)
                    .expect("lists")
                    .map(|entry| entry.expect("an entry").path()),
            );
            continue;
        }
        let text = fs::read_to_string(&path).expect("reads");
        let bare = match path.extension().is_some_and(|end| end == "toon") {
            true => with_uid(&text, None),
            false => text
                .lines()
                .map(|line| format!("{}}}\n", &line[..line.len() - 36]))
                .collect(),
        };
        fs::write(path, bare).expect("writes");
    }
}

#[test]
fn clones_of_an_earlier_board_come_to_the_same_uids() {
    let board = Board::with_tasks(still());
    for text in ["twice", "twice"] {
        board.run(comment("MA-3", text));
    }
    board.settle();
    let board = board.reopened(still(), |projects| {
        strip_files(projects);
        strip_database(projects);
    });
    let uids = |board: &Board| {
        let of = |number| {
            let issue = format!("MA-{number}");
            (uid_of(board, &issue), lines_of(&board.store, &issue))
        };
        (1..5).map(of).collect::<Vec<_>>()
    };
    let migrated = uids(&board);
    assert_eq!(migrated[2].1.iter().collect::<BTreeSet<_>>().len(), 3);
    board.settle();
    assert_eq!(board.problems(), "");
    let bare = board.file(&task("MA-3.toon"));
    assert!(
        !bare.contains("uid: "),
        "files wait for the next change: {bare}"
    );
    // What lacks only uids that follow from what it says is not written for their sake.
    board.mend();
    board.settle();
    assert_eq!(board.file(&task("MA-3.toon")), bare);
    let bare = board.file(&task("MA-3.history.jsonl"));
    assert!(!bare.contains("uid"), "{bare}");
    assert_eq!(uids(&board), migrated);
    let rebuilt = board.rebuilt(|_| {});
    assert_eq!(uids(&rebuilt), migrated);
}

#[test]
fn issue_written_by_a_program_of_an_earlier_version_gets_a_uid() {
    let board = Board::with_tasks(still());
    let raw = rusqlite::Connection::open(board.path(".store/board.db")).expect("opens");
    // As every program has it.
    raw.pragma_update(None, "trusted_schema", false)
        .expect("is set");
    raw.execute_batch(
        "INSERT INTO issue (id, project, prefix, number, kind, parent, state, own, created_at, title, description)
         SELECT id + 1000 + n, project, prefix, number + 50 + n, kind, parent, state, own, created_at, title,
             description FROM issue, (SELECT 0 AS n UNION SELECT 1) WHERE number = 3",
    )
    .expect("writes");
    let uids = ["MA-3", "MA-53", "MA-54"].map(|issue| uid_of(&board, issue));
    assert_eq!(BTreeSet::from(uids).len(), 3);
}

#[test]
fn line_ends_and_byte_order_marks_of_other_programs_are_read() {
    let board = Board::with_tasks(still());
    board.describe("MA-3", "one\ntwo");
    board.settle();
    for part in ["toon", "md", "history.jsonl"] {
        let path = board.path(&task(&format!("MA-3.{part}")));
        let text = fs::read_to_string(&path)
            .expect("reads")
            .replace("First", "By hand");
        fs::write(&path, format!("\u{FEFF}{}", text.replace('\n', "\r\n"))).expect("writes");
    }
    look_at(&board, "MA-3");
    let issue = board.issue("MA-3").expect("there");
    assert_eq!(
        (issue.title.as_str(), issue.description.as_str()),
        ("By hand", "one\ntwo")
    );
    assert_eq!(board.problems(), "");
    let file = board.file(&task("MA-3.toon"));
    assert!(
        file.starts_with("schema: 1\n") && !file.contains('\r'),
        "{file:?}"
    );
    let board = board.rebuilt(|projects| {
        let path = projects.join("my-app/project-status.toon");
        let text = fs::read_to_string(&path)
            .expect("reads")
            .replace('\n', "\r\n");
        fs::write(path, format!("\u{FEFF}{text}")).expect("writes");
    });
    assert_eq!(board.title_of("MA-3").as_deref(), Some("By hand"));
    assert_eq!(board.problems(), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(u32::try_from(effort(6, 60)).expect("few")))]

    /// Whatever the board and people do in turn: no two issues share a uid, and none changes its own.
    #[test]
    fn uids_stay_unique_and_stable(steps in prop::collection::vec((0_u8..6, 0_usize..8), 1..8)) {
        let board = Board::with_tasks(still());
        let mut known: BTreeMap<String, Uid> = BTreeMap::new();
        let mut gone: BTreeSet<Uid> = BTreeSet::new();
        for (step, (what, which)) in steps.into_iter().enumerate() {
            let tasks: Vec<String> = (3..90).map(|n| format!("MA-{n}"))
                .filter(|issue| board.issue(issue).is_some()).collect();
            let Some(issue) = tasks.get(which % tasks.len().max(1)).cloned() else { break };
            let path = board.path(&task(&format!("{issue}.toon")));
            let text = fs::read_to_string(&path).expect("reads");
            match what {
                0 => drop(board.run(create(Kind::Task, Some("MA-2"), "New"))),
                1 => board.rename(&issue, &format!("Renamed {step}")),
                2 => {
                    let line = text.lines().find(|line| line.starts_with("title: ")).expect("a title");
                    let edited = text.replace(line, &format!("title: Edited {step}"));
                    fs::write(&path, edited).expect("writes");
                }
                3 => {
                    let copy = format!("MA-{}", 50 + step);
                    let text = text.replace(&format!("id: {issue}\n"), &format!("id: {copy}\n"));
                    fs::write(board.path(&task(&format!("{copy}.toon"))), text).expect("writes");
                }
                4 if text.contains("uid: ") => fs::write(&path, with_uid(&text, None)).expect("writes"),
                _ => {
                    gone.extend(known.remove(&issue));
                    delete(&board, &issue, Kind::Task);
                }
            }
            board.mend();
            board.settle();
            prop_assert_eq!(board.problems(), "");
            let now: BTreeMap<String, Uid> = (1..90).map(|n| format!("MA-{n}"))
                .filter_map(|issue| Some((issue.clone(), board.issue(&issue)?.uid?))).collect();
            let unique: BTreeSet<&Uid> = now.values().collect();
            prop_assert_eq!(unique.len(), now.len());
            for (issue, uid) in &known {
                prop_assert_eq!(now.get(issue), Some(uid), "{}", issue);
            }
            prop_assert!(now.values().all(|uid| !gone.contains(uid)));
            known = now;
        }
        let rebuilt = board.rebuilt(|_| {});
        for (issue, uid) in known {
            prop_assert_eq!(rebuilt.issue(&issue).and_then(|issue| issue.uid), Some(uid));
        }
    }
}
