//! Files of a mirror that a power cut damaged. They are not synced: the database has all that they say.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use orchestra_board::IssuePatch;
use orchestra_store::Store;

use super::restored::{DOCUMENT, PRD, said, write};
use super::{Checkouts, SETTLE, fill, run, tree};
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

/// Damages files of all sorts, and leaves their times as they are.
fn check(damage: fn(&[u8]) -> Vec<u8>) {
    let checkouts = Checkouts::new();
    let main = checkouts.open("main");
    fill(&main);
    let patch = IssuePatch {
        description: Some(body("one line\nand another")),
        ..IssuePatch::default()
    };
    run(&main, update("MA-3", patch));
    write(&main, "a text", "# A PRD\n");
    let main = reopened(&checkouts, main, || {
        for name in tree(&checkouts.files()) {
            age(&checkouts.files().join(name));
        }
    });
    let before = contents(&checkouts);
    let mut damaged = vec![DOCUMENT.to_owned(), PRD.to_owned()];
    damaged.extend(["toon", "md", "history.jsonl"].map(|end| format!("{TASKS}/MA-3.{end}")));
    let main = reopened(&checkouts, main, || {
        for name in &damaged {
            let file = checkouts.files().join(name);
            fs::write(&file, damage(&before[name])).expect("set up");
            age(&file);
        }
    });
    assert_eq!(
        contents(&checkouts),
        before,
        "the files show the board as it was"
    );
    let expected = ("a text".to_owned(), 1, "# A PRD\n".to_owned());
    assert_eq!(said(&main), expected);
}

#[test]
fn emptied_files_of_a_mirror_are_written_again() {
    check(|_| Vec::new());
}

#[test]
fn cut_files_of_a_mirror_are_written_again() {
    check(|content| content[..content.len() / 2].to_vec());
}

#[test]
fn zero_filled_files_of_a_mirror_are_written_again() {
    check(|content| vec![0; content.len()]);
}
