//! Readable files of a shared board that come back to an earlier state: the board stays.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::{DEFAULT, Repository, git};
use crate::support::until;

const TASK: &str = ".projects/my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon";
const HISTORY: &str = ".projects/my-app/epics/MA-1/stories/MA-2/tasks/MA-3.history.jsonl";
const DELETED: &str = ".projects/my-app/epics/MA-1/stories/MA-2/tasks/MA-4.toon";

/// A board of the repository with MA-3 and MA-4.
fn shared() -> Repository {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    repository.task(&repository.main(), "Deleted");
    repository
}

fn task(more: &Value) -> Value {
    let mut arguments = json!({"project": "my-app", "task_id": "MA-3"});
    let fields = arguments.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    arguments
}

/// Changes and claims MA-3, deletes MA-4 and creates MA-5. Returns the board after that.
fn change(repository: &Repository) -> Vec<Value> {
    let main = repository.main();
    let call = |tool: &str, arguments: Value| repository.call(&main, tool, &arguments);
    let fields = json!({"title": "Changed", "description": "New", "status": "todo"});
    call("update_task", task(&fields));
    call("claim_task", task(&json!({"agent": "one"})));
    call(
        "add_comment",
        json!({"project": "my-app", "issue_id": "MA-3", "text": "A comment"}),
    );
    call(
        "save_memory",
        json!({"project": "my-app", "content": "Prices are in cents", "summary": "Currency"}),
    );
    call(
        "delete_task",
        json!({"project": "my-app", "task_id": "MA-4"}),
    );
    repository.task(&main, "Created");
    until_written(repository);
    content(repository)
}

fn content(repository: &Repository) -> Vec<Value> {
    let project = json!({"project": "my-app"});
    [
        ("list_projects", json!({})),
        ("list_epics", project.clone()),
        ("list_stories", project.clone()),
        ("list_tasks", project.clone()),
        ("get_task", task(&json!({}))),
        (
            "get_history",
            json!({"project": "my-app", "issue_id": "MA-3"}),
        ),
        ("list_memory", project),
    ]
    .iter()
    .map(|(tool, arguments)| repository.call(&repository.main(), tool, arguments))
    .collect()
}

/// Waits until the file of MA-3 has its claim and new title, and its history the comment.
fn until_written(repository: &Repository) {
    let read = |path: &str| fs::read_to_string(repository.main().join(path)).unwrap_or_default();
    until(|| {
        repository.has(&repository.main(), "MA-3");
        let (fields, history) = (read(TASK), read(HISTORY));
        let is_written = fields.contains("Changed") && fields.contains("one");
        (is_written && history.contains("A comment")).then_some(())
    });
}

/// Waits for the next second, in which a change has another time.
fn until_next_second() {
    let second = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|time| time.as_secs())
    };
    let first = second().expect("a time after 1970");
    until(|| (second().expect("a time after 1970") > first).then_some(()));
}

/// Asserts that the board is as before, that its claim counts, and that the files show it again.
fn assert_same(repository: &Repository, before: &[Value]) {
    let main = repository.main();
    assert_eq!(content(repository), before);
    let claim = task(&json!({"agent": "two"})).to_string();
    let words = ["tool", "call", "claim_task", "--args", &claim];
    let refused = repository.run(&main, &words);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(!repository.has(&main, "MA-4"));
    until_written(repository);
    assert_eq!(content(repository), before);
}

fn tar(directory: &Path, words: &[&str]) {
    let status = Command::new("tar")
        .args(words)
        .current_dir(directory)
        .status();
    assert!(status.expect("tar is installed").success(), "{words:?}");
}

#[test]
fn checkout_of_a_branch_with_tracked_files_changes_nothing() {
    let repository = Repository::new("board = \"checkout\"\n");
    let main = repository.main();
    repository.fill();
    repository.task(&main, "Deleted");
    git(&main, &["add", "--all"]);
    git(&main, &["commit", "--quiet", "--message", "Board"]);
    git(&main, &["branch", "old"]);
    let of_user = repository.workspace.home().join(".config/orchestra");
    fs::remove_file(of_user.join("orchestra.toml")).unwrap();
    let converted = repository.run(&main, &["board", "convert"]);
    assert_eq!(converted.code, Some(0), "{converted:?}");
    git(&main, &["rm", "-r", "--cached", "--quiet", ".projects"]);
    git(&main, &["commit", "--quiet", "--message", "Share"]);
    let before = change(&repository);
    git(&main, &["checkout", "--quiet", "old"]);
    assert_same(&repository, &before);
}

#[test]
fn stash_of_ignored_files_that_comes_back_changes_nothing() {
    let repository = shared();
    let main = repository.main();
    git(&main, &["stash", "--all", "--quiet"]);
    let before = change(&repository);
    git(&main, &["clean", "-fdx", "--quiet"]);
    git(&main, &["stash", "pop", "--quiet"]);
    assert_same(&repository, &before);
}

#[test]
fn archive_of_the_files_that_is_restored_changes_nothing() {
    let repository = shared();
    let main = repository.main();
    tar(&main, &["cf", "../before.tar", ".projects"]);
    let before = change(&repository);
    fs::remove_dir_all(main.join(".projects")).unwrap();
    tar(&main, &["xf", "../before.tar"]);
    assert_same(&repository, &before);
    // A file of a deleted issue is left to a person.
    assert!(main.join(DELETED).is_file());
    let doctor = repository.run(&main, &["doctor"]);
    assert!(doctor.out.contains("MA-4"), "{doctor:?}");
}

#[test]
fn text_that_returns_to_an_earlier_one_is_reported() {
    let repository = shared();
    let main = repository.main();
    let path = main.join(".projects/my-app/prd.md");
    let prd = |content: &str| {
        let arguments = json!({"project": "my-app", "content": content});
        repository.call(&main, "write_prd", &arguments);
        until(|| {
            repository.has(&main, "MA-3");
            let written = fs::read_to_string(&path).is_ok_and(|text| text == content);
            written.then_some(())
        });
    };
    prd("# One\n");
    prd("# Two\n");
    fs::write(&path, "# One\n").unwrap();
    let asked = ["tool", "call", "get_task", "--args"];
    let arguments = task(&json!({})).to_string();
    let said = repository.run(&main, &[asked.as_slice(), &[&arguments]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("has an earlier text again"), "{said:?}");
    assert!(said.err.contains("my-app/prd.md"), "{said:?}");
}

#[test]
fn file_that_a_branch_was_forced_to_track_changes_nothing_when_merged() {
    let repository = shared();
    let main = repository.main();
    git(&main, &["branch", "--move", "--force", "main"]);
    git(&main, &["checkout", "--quiet", "-b", "side"]);
    git(&main, &["add", "--force", TASK]);
    git(&main, &["commit", "--quiet", "--message", "Forced"]);
    git(&main, &["checkout", "--quiet", "main"]);
    until_next_second();
    let before = change(&repository);
    git(&main, &["merge", "--quiet", "--no-edit", "side"]);
    assert_same(&repository, &before);
}

#[test]
fn edit_of_an_earlier_file_is_taken_field_by_field() {
    let repository = shared();
    let main = repository.main();
    let [fields, history] = [TASK, HISTORY].map(|path| main.join(path));
    let [old_fields, old_history] =
        [&fields, &history].map(|path| fs::read_to_string(path).unwrap());
    let call = |tool: &str, more: Value| repository.call(&main, tool, &task(&more));
    call("update_task", json!({"status": "todo"}));
    call("claim_task", json!({"agent": "one"}));
    let edited = old_fields.replace("title: T\n", "title: Edited\n");
    assert_ne!(edited, old_fields);
    fs::write(&history, &old_history).unwrap();
    fs::write(&fields, edited).unwrap();
    let now = call("get_task", json!({}));
    assert_eq!(now["title"], "Edited", "{now}");
    assert_eq!(now["status"], "todo", "{now}");
    assert_eq!(now["claim"]["agent"], "one", "{now}");
    // The board has changed the title since: neither is lost.
    call("update_task", json!({"title": "Of the board"}));
    fs::write(&history, &old_history).unwrap();
    let edited = old_fields.replace("title: T\n", "title: Of the file\n");
    fs::write(&fields, edited).unwrap();
    let now = call("get_task", json!({}));
    assert_eq!(now["title"], "Of the board", "{now}");
    let doctor = repository.run(&main, &["doctor"]);
    assert!(
        doctor.out.contains("both sides changed title"),
        "{doctor:?}"
    );
}

#[test]
fn claim_and_counters_in_an_edited_file_are_not_taken() {
    let repository = shared();
    let main = repository.main();
    let call = |tool: &str, more: Value| repository.call(&main, tool, &task(&more));
    call("update_task", json!({"status": "todo"}));
    call("claim_task", json!({"agent": "one"}));
    let path = main.join(TASK);
    let text = fs::read_to_string(&path).unwrap();
    let edited = text.replace("title: T\n", "title: Edited\n");
    let edited: String = edited.replace("one", "two");
    assert!(edited.contains("two"), "{edited}");
    fs::write(&path, edited).unwrap();
    let status = main.join(".projects/my-app/project-status.toon");
    let text = fs::read_to_string(&status).unwrap();
    let edited = text.replace("next_issue: 5\n", "next_issue: 900\n");
    assert_ne!(edited, text);
    fs::write(&status, edited).unwrap();
    let now = call("get_task", json!({}));
    assert_eq!(now["title"], "Edited", "{now}");
    assert_eq!(now["claim"]["agent"], "one", "{now}");
    repository.task(&main, "Next");
    assert!(repository.has(&main, "MA-5"));
}
