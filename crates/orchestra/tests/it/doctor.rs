//! `orchestra doctor` finds what is wrong and mends it; `orchestra import` takes over old files.

use std::fs;

use serde_json::{Value, json};

use crate::support::Workspace;

fn board() -> Workspace {
    let workspace = Workspace::git();
    workspace.call("create_project", &json!({"name": "My App"}));
    workspace.call(
        "create_epic",
        &json!({"project": "my-app", "title": "Epic"}),
    );
    workspace
}

#[test]
fn a_board_in_order_is_said_to_be() {
    let workspace = board();
    let said = workspace.run(["doctor"]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(0), "everything is in order\n"),
        "{said:?}"
    );
    let report: Value = serde_json::from_str(&workspace.run(["doctor", "--json"]).out).unwrap();
    assert_eq!(report["healthy"], true);
}

#[test]
fn a_broken_file_is_named_and_stays_as_it_is() {
    let workspace = board();
    let path = ".projects/my-app/epics/MA-1/epic.toon";
    let broken = "<<<<<<< ours\ntitle: a\n=======\ntitle: b\n>>>>>>> theirs\n";
    workspace.write(path, broken);
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("MA-1/epic.toon"), "{said:?}");
    assert_eq!(workspace.read(path), broken);
}

#[test]
fn the_database_comes_back_from_the_files() {
    let workspace = board();
    let before = workspace.call("list_epics", &json!({"project": "my-app"}));
    fs::remove_dir_all(workspace.join(".projects/.store")).unwrap();
    assert_eq!(
        workspace.call("list_epics", &json!({"project": "my-app"})),
        before
    );
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
}

#[test]
fn a_damaged_database_is_set_aside_and_made_again() {
    let workspace = board();
    let before = workspace.call("list_epics", &json!({"project": "my-app"}));
    workspace.write(".projects/.store/board.db", &"no database\n".repeat(1_000));
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("orchestra doctor --fix"), "{said:?}");
    let said = workspace.run(["doctor", "--fix"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("damaged-store-1"), "{said:?}");
    assert!(
        workspace
            .join(".projects/.run/damaged-store-1/board.db")
            .exists()
    );
    assert_eq!(
        workspace.call("list_epics", &json!({"project": "my-app"})),
        before
    );
}
