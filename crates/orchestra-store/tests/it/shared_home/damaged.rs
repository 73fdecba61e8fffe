//! Files of a mirror that a power cut damaged. They are not synced: the database has all that they say.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use orchestra_board::IssuePatch;
use orchestra_store::Store;
use rusqlite::Connection;

use super::restored::{DOCUMENT, PRD, said, write};
use super::{Checkouts, SETTLE, fill, find, run, tree};
use crate::words::{body, update};

const TASKS: &str = "my-app/epics/MA-1/stories/MA-2/tasks";

/// Sets the time of the last change of a file to one long ago.
fn age(file: &Path) {
    let file = File::options().write(true).open(file).expect("set up");
    let then = UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    file.set_modified(then).expect("set up");
}

fn contents(checkouts: &Checkouts) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let content = fs::read(checkouts.files().join(&name)).expect("readable");
        (name, content)
    };
    tree(&checkouts.files()).into_iter().map(read).collect()
}

/// Opens the board again, after `between`.
fn reopened(checkouts: &Checkouts, store: Store, between: impl FnOnce()) -> Store {
    store.close(SETTLE);
    drop(store);
    between();
    let store = checkouts.open("main");
    store.settle(SETTLE).expect("settles");
    store
}

/// Text of the document: more than a block of any disk.
fn text() -> String {
    "a text of a line\n".repeat(100)
}

/// A board with files of all sorts, which were written long ago, and the program that has it open.
fn written() -> (Checkouts, Store) {
    let checkouts = Checkouts::new();
    let main = checkouts.open("main");
    fill(&main);
    let patch = IssuePatch {
        description: Some(body("one line\nand another")),
        ..IssuePatch::default()
    };
    run(&main, update("MA-3", patch));
    write(&main, &text(), "# A PRD\n");
    let main = reopened(&checkouts, main, || {
        for name in tree(&checkouts.files()) {
            age(&checkouts.files().join(name));
        }
    });
    (checkouts, main)
}

/// Writes a file, and leaves the time of its last change as it was.
fn replace(checkouts: &Checkouts, name: &str, content: &[u8]) {
    let file = checkouts.files().join(name);
    fs::write(&file, content).expect("set up");
    age(&file);
}

/// Content that a power cut leaves of a file.
type Damage = fn(&[u8]) -> Vec<u8>;

/// Opens the board again after damage to files of all sorts, which leaves their times as they are, and after `before`.
fn damage((checkouts, main): (&Checkouts, Store), damage: Damage, before: impl FnOnce()) -> Store {
    let whole = contents(checkouts);
    let mut damaged = vec![DOCUMENT.to_owned(), PRD.to_owned()];
    damaged.extend(["toon", "md", "history.jsonl"].map(|end| format!("{TASKS}/MA-3.{end}")));
    let main = reopened(checkouts, main, || {
        for name in &damaged {
            replace(checkouts, name, &damage(&whole[name]));
        }
        before();
    });
    assert_eq!(
        contents(checkouts),
        whole,
        "the files show the board as it was"
    );
    let expected = (text(), 1, "# A PRD\n".to_owned());
    assert_eq!(said(&main), expected);
    main
}

#[test]
fn emptied_files_of_a_mirror_are_written_again() {
    let (checkouts, main) = written();
    let main = damage((&checkouts, main), |_| Vec::new(), || {});
    // Later that is an edit.
    let main = reopened(&checkouts, main, || {
        fs::write(checkouts.files().join(DOCUMENT), "").expect("set up");
    });
    assert_eq!(said(&main), (String::new(), 2, "# A PRD\n".to_owned()));
}

#[test]
fn cut_files_of_a_mirror_are_written_again() {
    let (checkouts, main) = written();
    let cut = |content: &[u8]| content[..(content.len() - 1) / 512 * 512].to_vec();
    damage((&checkouts, main), cut, || {});
}

#[test]
fn zero_filled_files_of_a_mirror_are_written_again() {
    let (checkouts, main) = written();
    damage((&checkouts, main), |content| vec![0; content.len()], || {});
}

#[test]
fn damaged_files_whose_write_was_announced_and_not_recorded_are_written_again() {
    let emptied = |_: &[u8]| Vec::new();
    let zeroed = |content: &[u8]| vec![0; content.len()];
    for of_content in [emptied as Damage, zeroed] {
        let (checkouts, main) = written();
        let unrecorded = || {
            let database = checkouts.home().directory().join("board.db");
            let database = Connection::open(database).expect("set up");
            let sql = "UPDATE file SET next_hash = hash, next_fields = fields, hash = NULL, size = NULL, \
                       modified = NULL, fields = NULL; \
                       INSERT OR IGNORE INTO dirty SELECT DISTINCT owner, value, value FROM file, counter WHERE name = 'change'";
            database.execute_batch(sql).expect("set up");
        };
        damage((&checkouts, main), of_content, unrecorded);
    }
}

#[test]
fn edits_that_preserve_the_time_of_a_file_are_imported() {
    let (checkouts, main) = written();
    let main = reopened(&checkouts, main, || {
        replace(&checkouts, DOCUMENT, b"by hand");
        replace(&checkouts, PRD, b"# By hand, and longer\n");
    });
    let edited = (
        "by hand".to_owned(),
        2,
        "# By hand, and longer\n".to_owned(),
    );
    assert_eq!(said(&main), edited);
}

#[test]
fn edit_of_a_description_beside_damaged_fields_is_imported() {
    let (checkouts, main) = written();
    let fields = format!("{TASKS}/MA-3.toon");
    let whole = contents(&checkouts);
    let main = reopened(&checkouts, main, || {
        replace(&checkouts, &fields, b"");
        let description = checkouts.files().join(format!("{TASKS}/MA-3.md"));
        fs::write(description, "one line\nby hand\n").expect("set up");
    });
    let issue = find(&main, "MA-3").expect("it is there");
    assert!(issue.description.as_str().contains("by hand"), "{issue:?}");
    let written = String::from_utf8(contents(&checkouts)[&fields].clone()).expect("text");
    let title = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("title: "))
            .map(str::to_owned)
    };
    let before = std::str::from_utf8(&whole[&fields]).expect("text");
    assert_eq!(title(&written), title(before));
}
