//! Documents of plugins: the storage contract row by row, versions that are never used again, files
//! that people read and change, and that none of it is a board.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use orchestra_board::Command;
use orchestra_store::{
    Action, ActionError, Detail, Document, DocumentDirectory, DocumentError, DocumentPath,
    Expected, Glob, Made, Metadata, NewDocument, Options, PageRequest, Store,
};

use crate::board::{Board, still};
use crate::child;
use crate::fixture::{Workspace, open};
use crate::gated::{Step, gated};
use crate::words::{block, create_project, effort, slug};

const PATH: &str = "my-app/features/FEAT-ABC.md";

fn path(text: &str) -> DocumentPath {
    DocumentPath::parse(text).expect("a path")
}

fn new(at: &str, content: &str, metadata: &str, expected: Expected) -> NewDocument {
    let metadata = Metadata::parse(metadata).expect("metadata");
    NewDocument::new(path(at), content.into(), metadata, expected).expect("not too large")
}

fn write(store: &Store, at: &str, content: &str, expected: i64) -> Result<i64, DocumentError> {
    let expected = Expected::parse(expected).expect("a number of the contract");
    block(store.write_document(new(at, content, "{\"id\":\"x\"}", expected)))
}

fn refused(store: &Store, at: &str, expected: i64) -> String {
    write(store, at, "other", expected)
        .expect_err("refused")
        .to_string()
}

fn read(store: &Store, at: &str) -> Option<Document> {
    store.read_document(&path(at)).expect("readable")
}

fn said(store: &Store, at: &str) -> Option<(String, i64)> {
    let text = |document: Document| {
        let content = String::from_utf8(document.content).expect("text");
        (content, document.version)
    };
    read(store, at).map(text)
}

fn delete(store: &Store, at: &str) -> bool {
    block(store.delete_document(path(at))).expect("done")
}

fn list(store: &Store, directory: &str, pattern: &str) -> Vec<String> {
    let directory = DocumentDirectory::parse(directory).expect("a directory");
    let pattern = Glob::parse(pattern).expect("a pattern");
    let entries = store
        .list_documents(&directory, &pattern, Detail::Plain)
        .expect("readable");
    entries.iter().map(|entry| entry.path.to_string()).collect()
}

#[test]
fn a_write_compares_and_sets_as_the_contract_says() {
    let workspace = Workspace::empty();
    let store = &workspace.store;
    let exists = "file already exists (expected_version=0 means create new)";
    assert_eq!(read(store, PATH), None);
    assert_eq!(
        refused(store, PATH, 3),
        "version conflict: expected 3, current 0"
    );
    assert_eq!(write(store, PATH, "one", 0).expect("made"), 1);
    assert_eq!(refused(store, PATH, 0), exists);
    assert_eq!(
        refused(store, PATH, 2),
        "version conflict: expected 2, current 1"
    );
    assert_eq!(said(store, PATH), Some(("one".to_owned(), 1)));
    assert_eq!(write(store, PATH, "two", 1).expect("changed"), 2);
    assert_eq!(write(store, PATH, "three", -1).expect("written"), 3);
    assert_eq!(write(store, "other/x.md", "made", -1).expect("made"), 1);
    let found = read(store, PATH).expect("there");
    assert_eq!(
        (found.content.as_slice(), found.version),
        (&b"three"[..], 3)
    );
    assert_eq!(found.metadata.expect("some").as_json(), "{\"id\":\"x\"}");
    assert_eq!(found.modified, store.now());
    assert!(Expected::parse(-2).is_err());
}

#[test]
fn a_version_is_never_used_again() {
    let workspace = Workspace::empty();
    let store = &workspace.store;
    assert!(!delete(store, PATH));
    write(store, PATH, "one", 0).expect("made");
    write(store, PATH, "two", 1).expect("changed");
    assert!(delete(store, PATH));
    assert!(!delete(store, PATH));
    assert_eq!(read(store, PATH), None);
    assert_eq!(
        refused(store, PATH, 2),
        "version conflict: expected 2, current 0"
    );
    assert_eq!(write(store, PATH, "two", 0).expect("made"), 3);
    // Whoever read what was there before the deletion does not take this for it.
    assert_eq!(
        refused(store, PATH, 2),
        "version conflict: expected 2, current 3"
    );
}

#[test]
fn versions_rise_though_the_database_is_lost() {
    let board = Board::new(still());
    for version in 0..5 {
        write(&board.store, PATH, &format!("{version}"), version).expect("written");
    }
    write(&board.store, "my-app/gone.md", "x", 0).expect("made");
    delete(&board.store, "my-app/gone.md");
    board.settle();
    let board = board.rebuilt(|_| {});
    let (content, version) = said(&board.store, PATH).expect("there");
    assert!(content == "4" && version > 5, "{version}");
    assert_eq!(
        write(&board.store, PATH, "6", version).expect("written"),
        version + 1
    );
    assert!(write(&board.store, "my-app/gone.md", "x", 0).expect("made") > 1);
}

#[test]
fn a_list_has_what_is_in_a_directory_and_fits() {
    let workspace = Workspace::empty();
    let store = &workspace.store;
    for at in [
        "a/b.md",
        "a/b/c.md",
        "a.md",
        "a-b/d.md",
        "a/e.txt",
        "a/gone.md",
    ] {
        write(store, at, "text", 0).expect("made");
    }
    delete(store, "a/gone.md");
    assert_eq!(
        list(store, "", ""),
        ["a/b/c.md", "a/b.md", "a-b/d.md", "a.md"]
    );
    assert_eq!(list(store, "/a/", "*.md"), ["a/b/c.md", "a/b.md"]);
    assert_eq!(list(store, "a", "[d-f]*"), ["a/e.txt"]);
    assert_eq!(list(store, "nowhere", ""), [""; 0]);
    let all = (DocumentDirectory::default(), Glob::default());
    let told = |detail| {
        store
            .list_documents(&all.0, &all.1, detail)
            .expect("readable")
    };
    let plain = told(Detail::Plain);
    assert_eq!((plain[0].version, plain[0].modified), (1, store.now()));
    assert_eq!(plain[0].size, "---\nid: x\n---\n\ntext".len() as u64);
    assert_eq!(plain[0].metadata, None);
    let metadata = told(Detail::Metadata)[0].metadata.clone();
    assert_eq!(metadata.expect("some").as_json(), "{\"id\":\"x\"}");
}

#[test]
fn what_is_in_the_way_and_what_is_too_much_is_refused() {
    let workspace = Workspace::empty();
    let store = &workspace.store;
    write(store, "a/b.md", "x", 0).expect("made");
    assert!(refused(store, "a/b.md/c.md", 0).starts_with("`.projects/a/b.md` is in the way"));
    write(store, "b/c.md/d.md", "x", 0).expect("made");
    assert!(refused(store, "b/c.md", -1).starts_with("`.projects/b/c.md` is in the way"));
    let projects = workspace.path().join(".projects");
    fs::create_dir_all(projects.join("made/by.md")).expect("makes");
    assert!(refused(store, "made/by.md", 0).contains("it is a directory"));
    fs::write(projects.join("made/hand.md"), "x").expect("writes");
    assert!(refused(store, "made/hand.md", 0).starts_with("file already exists"));
    let long = "d/".repeat(31) + "x.md";
    write(store, &long, "x", 0).expect("made");
    let directories = format!("{}/", "n".repeat(220)).repeat(18);
    let too_long = format!("{directories}{}.md", "n".repeat(110));
    assert!(refused(store, &too_long, 0).contains("at most"));
    let bytes = vec![0xff; NewDocument::MAX_BYTES + 1];
    let large = NewDocument::new(path("x.md"), bytes.clone(), None, Expected::Create);
    assert!(
        large
            .expect_err("too large")
            .to_string()
            .contains("split the document")
    );
    let largest = NewDocument::new(path("x.md"), bytes[1..].into(), None, Expected::Create);
    block(store.write_document(largest.expect("fits"))).expect("written");
    assert_eq!(read(store, "x.md").expect("there").content, bytes[1..]);
}

#[test]
fn of_many_threads_one_sets_each_version() {
    let workspace = Workspace::empty();
    write(&workspace.store, PATH, "0", 0).expect("made");
    let (threads, each) = (16, effort(20, 200));
    let start = Arc::new(Barrier::new(threads));
    let running: Vec<_> = (0..threads)
        .map(|_| {
            let (store, start) = (workspace.store.clone(), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                (0..each).map(|_| add_one(&store)).collect::<Vec<i64>>()
            })
        })
        .collect();
    let versions: Vec<i64> = running
        .into_iter()
        .flat_map(|thread| thread.join().expect("no panic"))
        .collect();
    let all = threads * each;
    assert_eq!(
        versions.iter().collect::<BTreeSet<_>>().len(),
        all,
        "one was given twice"
    );
    let (content, version) = said(&workspace.store, PATH).expect("there");
    assert_eq!(
        (content, version),
        (all.to_string(), i64::try_from(all).expect("small") + 1)
    );
}

/// Adds one to the number that the document is, however many do so at once; gives the version.
pub(crate) fn add_one(store: &Store) -> i64 {
    loop {
        let (content, version) = said(store, PATH).expect("there");
        let next = content.parse::<u64>().expect("a number") + 1;
        match write(store, PATH, &next.to_string(), version) {
            Ok(version) => return version,
            Err(error) => assert!(error.to_string().starts_with("version conflict"), "{error}"),
        }
    }
}

#[test]
fn processes_compare_and_set_one_document() {
    let (processes, each) = effort((3, 30), (16, 200));
    let board = Board::new(Options::default());
    write(&board.store, PATH, "0", 0).expect("made");
    let children: Vec<_> = (0..processes)
        .map(|seed| child::start(board.directory.path(), &format!("documents:{each}"), seed))
        .collect();
    let mut versions = BTreeSet::new();
    for child in children {
        let output = child.wait_with_output().expect("an end");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{printed}");
        versions.extend(child::lines(&output.stdout));
    }
    let all = usize::try_from(processes).expect("small") * each;
    assert_eq!(
        versions.len(),
        all,
        "a version was given twice, or not at all"
    );
    assert_eq!(said(&board.store, PATH).expect("there").0, all.to_string());
    board.settle();
    assert_eq!(board.file(PATH), format!("---\nid: x\n---\n\n{all}"));
}

#[test]
fn files_are_readable_and_come_back() {
    let board = Board::new(still());
    let odd = r#"{"title":"true","at":"2025-01-01T00:00:00Z","n":1e6,"f":1e-7,"labels":["yes","a b"],"y":{"on":null}}"#;
    block(
        board
            .store
            .write_document(new(PATH, "# A\n", odd, Expected::Create)),
    )
    .expect("made");
    block(
        board
            .store
            .write_document(new("bare.md", "---\nno: field\n---\n", "{}", Expected::Any)),
    )
    .expect("made");
    let bytes = vec![0xff, 0, b'\n', 0xfe];
    let binary = NewDocument::new(path("my-app/b.md"), bytes.clone(), None, Expected::Any);
    block(board.store.write_document(binary.expect("fits"))).expect("made");
    board.settle();
    let expected = "---\nat: \"2025-01-01T00:00:00Z\"\nf: 1.0e-7\nlabels:\n    - \"yes\"\n    - a b\n\"n\": 1000000\ntitle: \"true\"\n\"y\":\n    \"on\": null\n---\n\n# A\n";
    assert_eq!(board.file(PATH), expected);
    assert_eq!(board.file("bare.md"), "---\n---\n\n---\nno: field\n---\n");
    assert_eq!(fs::read(board.path("my-app/b.md")).expect("reads"), bytes);
    let before = [PATH, "bare.md", "my-app/b.md"].map(|at| read(&board.store, at).expect("there"));
    let board = board.rebuilt(|_| {});
    for (at, before) in [PATH, "bare.md", "my-app/b.md"].into_iter().zip(before) {
        let after = read(&board.store, at).expect("there");
        assert_eq!(
            (after.content, after.metadata),
            (before.content, before.metadata)
        );
    }
    assert_eq!(board.problems(), "");
    delete(&board.store, PATH);
    board.settle();
    assert!(!board.exists("my-app/features"), "nothing is left behind");
}

#[test]
fn changes_by_hand_are_taken_in() {
    let board = Board::new(Options::default());
    write(&board.store, PATH, "one", 0).expect("made");
    board.settle();
    board.edit(PATH, "one", "by hand");
    board.wait("the edit", |board| {
        said(&board.store, PATH) == Some(("by hand".to_owned(), 2))
    });
    board.edit(PATH, "id: x", "id: x\nn: 1e+06");
    board.wait("the field", |board| {
        let metadata = read(&board.store, PATH).and_then(|document| document.metadata);
        metadata.is_some_and(|found| found.as_json() == "{\"id\":\"x\",\"n\":1000000}")
    });
    assert_eq!(
        refused(&board.store, PATH, 2),
        "version conflict: expected 2, current 3"
    );
    fs::remove_file(board.path(PATH)).expect("removes");
    board.wait("the removal", |board| read(&board.store, PATH).is_none());
    fs::create_dir_all(board.path("new/features")).expect("makes");
    fs::write(board.path("new/features/A.md"), "---\nid: A\n---\n\nbody").expect("writes");
    fs::write(board.path("new/features/.A.md.swp"), "x").expect("writes");
    board.wait("the new file", |board| {
        said(&board.store, "new/features/A.md") == Some(("body".to_owned(), 1))
    });
    board.settle();
    assert_eq!(list(&board.store, "", "*"), ["new/features/A.md"]);
    assert_eq!(board.problems(), "");
    fs::write(board.path("new/B.md"), "---\nid: B\n").expect("writes");
    board.wait("the problem", |board| {
        board.problems().contains("new/B.md") && board.problems().contains("is not closed")
    });
    assert_eq!(read(&board.store, "new/B.md"), None);
}

/// Has a program write these contents one after the other, each when the store is about to read the file; the last one
/// must become the only change.
fn check_written_in_parts(parts: &'static [&'static str]) {
    let (is_written, reads) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let begun = Arc::clone(&is_written);
    let files = gated(move |step, path| {
        if step == Step::Read
            && path.ends_with(PATH)
            && begun.load(Ordering::SeqCst)
            && let Some(part) = parts.get(reads.fetch_add(1, Ordering::SeqCst))
        {
            fs::write(path, part)?;
        }
        Ok(())
    });
    let board = Board::new(Options {
        files,
        ..Options::default()
    });
    write(&board.store, PATH, "one", 0).expect("made");
    board.settle();
    is_written.store(true, Ordering::SeqCst);
    fs::write(board.path(PATH), parts[0]).expect("writes");
    board.wait("the whole text", |board| {
        said(&board.store, PATH).is_some_and(|(content, _)| content == "the whole text")
    });
    board.settle();
    assert_eq!(
        said(&board.store, PATH),
        Some(("the whole text".to_owned(), 2))
    );
    assert_eq!(board.problems(), "");
}

#[test]
fn document_that_is_written_in_parts_by_hand_is_one_change() {
    check_written_in_parts(&["the whole", "the whole text"]);
}

#[test]
fn document_that_is_emptied_for_a_while_before_it_is_written_is_one_change() {
    check_written_in_parts(&["", "", "", "", "", "", "the whole text"]);
}

#[test]
fn what_both_sides_change_is_left_to_a_person() {
    let board = Board::new(still());
    write(&board.store, PATH, "one", 0).expect("made");
    board.settle();
    board.edit(PATH, "one", "theirs");
    write(&board.store, PATH, "ours", 1).expect("written");
    board.settle();
    let beside = format!("{PATH}.conflict");
    assert!(board.file(PATH).ends_with("theirs") && board.file(&beside).ends_with("ours"));
    assert!(board.problems().contains("both sides changed this"));
    assert_eq!(said(&board.store, PATH), Some(("ours".to_owned(), 2)));
    assert_eq!(list(&board.store, "", "*"), [PATH]);
    fs::remove_file(board.path(&beside)).expect("removes");
    board.mend();
    assert_eq!(said(&board.store, PATH), Some(("theirs".to_owned(), 3)));
    assert_eq!(board.problems(), "");
}

/// Files with the versions of earlier programs beside them.
fn write_earlier(projects: &Path) {
    fs::create_dir_all(projects.join("app/features")).expect("makes");
    let write = |at: &str, text: &str| fs::write(projects.join(at), text).expect("writes");
    write("app/project.json", "---\nid: app\nname: App\n---\n\n");
    write("app/project.json.version", "1");
    write(
        "app/features/FEAT-ABC.md",
        "---\nestimate: 1e+06\ntrue: x\n---\n\nText\n",
    );
    write("app/features/FEAT-ABC.md.version", "7\n");
}

#[test]
fn documents_of_earlier_programs_go_on_with_their_versions() {
    let check = |board: &Board| {
        let store = &board.store;
        let feature = "app/features/FEAT-ABC.md";
        board.settle();
        assert_eq!(said(store, feature), Some(("Text\n".to_owned(), 7)));
        let metadata = read(store, feature).and_then(|found| found.metadata);
        let expected = "{\"estimate\":1000000,\"true\":\"x\"}";
        assert_eq!(metadata.expect("some").as_json(), expected);
        assert_eq!(
            said(store, "app/project.json").map(|(_, version)| version),
            Some(1)
        );
        assert_eq!(write(store, feature, "More\n", 7).expect("written"), 8);
        board.settle();
        // It would say something wrong by now.
        assert!(!board.exists("app/features/FEAT-ABC.md.version"));
        assert_eq!(board.problems(), "");
    };
    // In a workspace that is new to us.
    let directory = tempfile::tempdir().expect("a directory");
    write_earlier(&directory.path().join(".projects"));
    check(&Board::within(directory, still()));
    // And in one that is not.
    let options = Options {
        watch: false,
        ..Options::default()
    };
    let board = Board::new(still()).reopened(options, write_earlier);
    board.wait("the sweep", |board| {
        read(&board.store, "app/project.json").is_some()
    });
    board.wait("the sweep", |board| {
        read(&board.store, "app/features/FEAT-ABC.md").is_some()
    });
    check(&board);
}

#[test]
fn documents_are_no_boards_and_boards_no_documents() {
    let board = Board::with_tasks(still());
    let heard = board.store.changes();
    for at in ["docs/notes.md", "docs/project.json", "top.md", PATH] {
        write(&board.store, at, "text", 0).expect("made");
    }
    board.settle();
    assert!(heard.is_empty(), "nothing of the board has changed");
    let slugs = |board: &Board| {
        let page = board
            .store
            .read(|reader| reader.projects(&PageRequest::first(10)));
        let projects = page.expect("readable").items.into_iter();
        projects
            .map(|project| project.project.slug)
            .collect::<Vec<_>>()
    };
    assert_eq!(slugs(&board), [slug()]);
    assert_eq!(board.problems(), "");
    assert!(
        board
            .store
            .import()
            .expect("nothing to import")
            .projects
            .is_empty()
    );
    assert_eq!(
        list(&board.store, "", "*").len(),
        4,
        "no file of the board is one"
    );
    let board = board.rebuilt(|_| {});
    assert_eq!(slugs(&board), [slug()]);
    assert_eq!(
        (list(&board.store, "", "*").len(), board.problems()),
        (4, String::new())
    );
    // What a plugin keeps beside a board outlives it.
    board.run(Command::DeleteProject { project: slug() });
    board.settle();
    assert!(board.exists(PATH) && !board.exists("my-app/project-status.toon"));
    assert_eq!(said(&board.store, PATH).expect("there").0, "text");
    board.run(create_project("Docs"));
    board.settle();
    assert!(board.exists("docs/notes.md") && board.exists("docs/project-status.toon"));
    assert_eq!(board.problems(), "");
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let board = Board::new(still());
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret.md"), "secret").expect("writes");
    let link = |to: &Path, at: &str| std::os::unix::fs::symlink(to, board.path(at)).expect("links");
    link(outside.path(), "linked");
    fs::create_dir(board.path("real")).expect("makes");
    link(&outside.path().join("secret.md"), "real/secret.md");
    for at in ["linked/x.md", "linked/secret.md", "real/secret.md"] {
        assert!(
            refused(&board.store, at, -1).contains("links are not followed"),
            "{at}"
        );
    }
    // Put in the place of a directory that is there.
    write(&board.store, "swapped/x.md", "ours", 0).expect("made");
    board.settle();
    fs::remove_dir_all(board.path("swapped")).expect("removes");
    link(outside.path(), "swapped");
    write(&board.store, "swapped/x.md", "ours again", 1).expect("written");
    board.settle();
    let board = board.reopened(Options::default(), |_| {});
    board.settle();
    let there: Vec<_> = fs::read_dir(outside.path()).expect("reads").collect();
    assert_eq!(there.len(), 1, "nothing was written outside");
    assert_eq!(
        list(&board.store, "", "*"),
        ["swapped/x.md"],
        "nothing was read outside"
    );
    assert!(board.problems().contains("swapped"), "{}", board.problems());
}

#[test]
fn a_board_of_the_first_schema_gets_documents() {
    let board = Board::with_tasks(still()).reopened(still(), |projects| {
        let database = rusqlite::Connection::open(projects.join(".store/board.db")).expect("opens");
        let first = "DROP TABLE plugin_document; DROP TABLE plugin_document_body; \
             DELETE FROM counter WHERE name = 'document'; PRAGMA user_version = 1";
        database
            .execute_batch(crate::life::EARLIER)
            .expect("goes back");
        database.execute_batch(first).expect("goes back");
    });
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    assert_eq!(write(&board.store, PATH, "one", 0).expect("made"), 1);
    assert_eq!(board.problems(), "");
}

#[test]
fn document_of_an_earlier_version_with_a_refused_name_is_listed_and_gets_no_file() {
    const EARLIER: &str = "my-app/CLAUDE.md";
    let board = Board::new(still());
    write(&board.store, PATH, "one", 0).expect("made");
    board.settle();
    let board = board.reopened(still(), |projects| {
        let database = rusqlite::Connection::open(projects.join(".store/board.db")).expect("opens");
        let earlier = "UPDATE plugin_document SET place = 'my-app\u{1}CLAUDE.md'; \
             INSERT INTO dirty (owner, seq, since) \
             SELECT 'document/my-app/CLAUDE.md', value, value FROM counter WHERE name = 'change'";
        database.execute_batch(earlier).expect("renames");
    });
    assert_eq!(list(&board.store, "", "*"), [EARLIER]);
    assert!(DocumentPath::parse(EARLIER).is_err());
    let path = DocumentPath::parse_existing(EARLIER).expect("a path");
    let found = board.store.read_document(&path).expect("readable");
    assert_eq!(found.expect("there").content, b"one");
    board.settle();
    assert!(!board.exists(EARLIER), "other programs would use the file");
    assert!(block(board.store.delete_document(path)).expect("done"));
    assert_eq!(list(&board.store, "", "*"), [""; 0]);
}

#[test]
fn a_write_costs_the_same_among_many() {
    let workspace = Workspace::empty();
    let many = effort(3_000, 100_000);
    let make = |number: usize| {
        let at = format!("d{}/{number}.md", number % 10);
        let document = new(&at, "text", "{}", Expected::Create);
        workspace.store.write_document(document)
    };
    for first in (0..many).step_by(1_000) {
        let waiting: Vec<_> = (first..first + 1_000).map(make).collect();
        waiting
            .into_iter()
            .for_each(|answer| assert_eq!(block(answer).expect("made"), 1));
    }
    let database = workspace.path().join(".projects/.store/board.db");
    let database = rusqlite::Connection::open(database).expect("opens");
    for sql in [
        "SELECT version FROM plugin_document WHERE place = 'x'",
        "SELECT 1 FROM plugin_document WHERE place > 'x' AND place < 'y' AND size IS NOT NULL",
    ] {
        let plan: String = database
            .query_row(&format!("EXPLAIN QUERY PLAN {sql}"), [], |row| row.get(3))
            .expect("a plan");
        assert!(plan.starts_with("SEARCH"), "{plan}");
    }
    let start = std::time::Instant::now();
    assert_eq!(list(&workspace.store, "d3", "").len(), many / 10);
    println!(
        "a tenth of {many} documents was listed in {:?}",
        start.elapsed()
    );
    let start = std::time::Instant::now();
    write(&workspace.store, "d3/another.md", "x", 0).expect("made");
    println!("one more was made in {:?}", start.elapsed());
}

#[test]
fn a_second_store_of_the_workspace_sees_and_settles_the_same() {
    let workspace = Workspace::empty();
    let second = open(workspace.path());
    write(&workspace.store, PATH, "one", 0).expect("made");
    assert_eq!(said(&second, PATH), Some(("one".to_owned(), 1)));
    let action = Action::WriteDocument(Box::new(new(PATH, "two", "{}", Expected::Version(1))));
    let receipt = second
        .submit_blocking(None, action.clone())
        .expect("written");
    assert!(matches!(receipt.made, Made::Document { version: 2 }));
    let refused = workspace.store.submit_blocking(None, action);
    assert!(matches!(refused, Err(ActionError::Document(_))));
}
