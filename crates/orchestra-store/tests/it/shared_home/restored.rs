//! Texts without a history whose files come back to an earlier state, as by git or from an archive.

use std::fs;

use orchestra_board::Command;
use orchestra_store::{DocumentPath, Expected, NewDocument, Store};

use super::{Checkouts, SETTLE, fill, run};
use crate::words::{block, slug};

pub(super) const DOCUMENT: &str = "my-app/notes/plan.md";
pub(super) const PRD: &str = "my-app/prd.md";

pub(super) fn write(store: &Store, document: &str, prd: &str) {
    let path = DocumentPath::parse(DOCUMENT).expect("a path");
    let new = NewDocument::new(path, document.into(), None, Expected::Any).expect("fits");
    block(store.write_document(new)).expect("written");
    run(
        store,
        Command::WritePrd {
            project: slug(),
            content: prd.into(),
        },
    );
    store.settle(SETTLE).expect("settles");
}

/// The document with its version, and the PRD.
pub(super) fn said(store: &Store) -> (String, i64, String) {
    let path = DocumentPath::parse(DOCUMENT).expect("a path");
    let document = store.read_document(&path).expect("readable");
    let document = document.expect("is there");
    let content = String::from_utf8(document.content).expect("text");
    let prd = store.read(|reader| reader.prd_text(&slug()));
    (content, document.version, prd.expect("readable"))
}

/// Puts contents into the files while no program looks, and opens the board again.
fn reopened(checkouts: &Checkouts, store: Store, files: [&[u8]; 2]) -> Store {
    store.close(SETTLE);
    drop(store);
    for (name, content) in [DOCUMENT, PRD].into_iter().zip(files) {
        fs::write(checkouts.files().join(name), content).expect("set up");
    }
    let store = checkouts.open("main");
    store.settle(SETTLE).expect("settles");
    store
}

#[test]
fn texts_that_come_back_to_an_earlier_state_change_nothing_and_are_written_again() {
    let checkouts = Checkouts::new();
    let main = checkouts.open("main");
    fill(&main);
    let files =
        || [DOCUMENT, PRD].map(|name| fs::read(checkouts.files().join(name)).expect("is there"));
    write(&main, "one", "# One\n");
    let earlier = files();
    write(&main, "two", "# Two\n");
    let latest = files();
    assert_ne!(earlier, latest);
    let main = reopened(&checkouts, main, earlier.each_ref().map(Vec::as_slice));
    let expected = ("two".to_owned(), 2, "# Two\n".to_owned());
    assert_eq!(said(&main), expected);
    assert_eq!(files(), latest, "the files show the board");
    // Any other content is an edit.
    let main = reopened(&checkouts, main, [b"by hand", b"# By hand\n"]);
    let edited = ("by hand".to_owned(), 3, "# By hand\n".to_owned());
    assert_eq!(said(&main), edited);
}

#[test]
fn edit_of_a_text_is_undone_by_hand() {
    let checkouts = Checkouts::new();
    let main = checkouts.open("main");
    fill(&main);
    write(&main, "one", "# One\n");
    let before =
        [DOCUMENT, PRD].map(|name| fs::read(checkouts.files().join(name)).expect("is there"));
    let main = reopened(&checkouts, main, [b"by hand", b"# By hand\n"]);
    assert_eq!(said(&main).2, "# By hand\n");
    let main = reopened(&checkouts, main, before.each_ref().map(Vec::as_slice));
    assert_eq!(said(&main), ("one".to_owned(), 3, "# One\n".to_owned()));
}
