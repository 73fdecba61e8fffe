//! Copies of an exchanged board, which count as never exchanged.

use std::{fs, path::Path, process::Command};

use serde_json::json;

use super::{
    Clones, REFERENCE,
    background::{check_refused_in_the_background, configure},
    session_commits::change_in_a_session,
    tip,
};
use crate::one_board::git;

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[test]
fn copy_of_an_exchanged_board_counts_as_never_exchanged() {
    let clones = Clones::new();
    let one = clones.one();
    let other = one.with_file_name("copy");
    clones.repository.task(&one, "New");
    clones.sync(&one, &[]);
    let shared = tip(&one);
    copy(&one, &other);
    change_in_a_session(&clones, &other, "MA-3", "Renamed in the copy");
    assert_eq!(tip(&other), shared);
    change_in_a_session(&clones, &one, "MA-3", "Renamed");
    assert_ne!(tip(&one), shared);
    configure(&clones, "remote = \"origin\"");
    check_refused_in_the_background(&clones, &other);
    assert_eq!(tip(&clones.remote()), shared);
    let described = json!({"project": "my-app", "task_id": "MA-4", "description": "Described"});
    clones.repository.call(&one, "update_task", &described);
    clones.rename(&other, "MA-4", "Renamed");
    clones.sync(&one, &[]);
    clones.sync(&other, &[]);
    assert_eq!(tip(&clones.remote()), tip(&other));
    let merged = clones.get(&other, "MA-4").to_string();
    assert!(
        merged.contains("\"Described\"") && merged.contains("\"Renamed\""),
        "{merged}"
    );
    assert!(!merged.contains("merge-conflict"), "{merged}");
}

#[test]
fn database_that_came_along_with_a_workspace_counts_as_never_exchanged() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    clones.sync(&one, &[]);
    let shared = tip(&one);
    let reference = format!("{REFERENCE}:{REFERENCE}");
    git(&two, &["fetch", "--quiet", "origin", &reference]);
    fs::create_dir(two.join(".projects")).unwrap();
    copy(&clones.repository.board(), &two.join(".projects/.store"));
    change_in_a_session(&clones, &two, "MA-3", "Renamed");
    assert_eq!(clones.get(&two, "MA-3")["title"], "Renamed");
    assert_eq!(tip(&two), shared);
    clones.sync(&two, &[]);
    change_in_a_session(&clones, &two, "MA-3", "Renamed again");
    assert_ne!(tip(&two), tip(&clones.remote()));
}
