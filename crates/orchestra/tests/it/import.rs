//! `orchestra import` takes over what the earlier program left behind, once.

use serde_json::{Value, json};

use crate::support::Workspace;

const EPIC: &str = ".projects/my-app/epics/MA-1/epic.toon";

fn left_behind() -> Workspace {
    let workspace = Workspace::git();
    workspace.write(
        ".projects/my-app/project-status.toon",
        "project: My App\nslug: my-app\nstatus: active\ncreated_at: 2026-02-14T13:55:45Z\ntasks:\n    \
         - id: MA-1\n      title: 'Fix: T2'\n      status: backlog\n",
    );
    workspace.write(
        EPIC,
        "id: MA-1\ntitle: 'Fix: T2'\ntype: epic\nstatus: backlog\ncreated_at: 2026-02-14T13:55:45Z\n",
    );
    workspace
}

/// Where there is no board, there is nothing to take over, and none is made.
#[test]
fn without_a_board_nothing_happens() {
    let workspace = Workspace::git();
    let said = workspace.run(["import"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.out, "no files of orchestra-mcp found\n");
    let said = workspace.run(["import", "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&report["issues"], &report["backup"]),
        (&json!(0), &json!(null))
    );
    assert!(!workspace.join(".projects").exists());
}

#[test]
fn old_files_that_are_not_imported_are_reported_once_with_the_command() {
    let workspace = left_behind();
    let said = workspace.run(["tool", "call", "list_projects"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        said.err.matches("`orchestra import`").count(),
        1,
        "{said:?}"
    );
    assert!(!said.err.contains(".toon"), "each file by itself: {said:?}");
    assert_eq!(workspace.run(["import"]).code, Some(0));
    let said = workspace.run(["tool", "call", "list_projects"]);
    assert_eq!(said.err.matches("orchestra import").count(), 0, "{said:?}");
}

#[test]
fn files_that_cannot_be_read_are_one_line_and_doctor_names_each() {
    let workspace = Workspace::git();
    for name in ["a", "b", "c"] {
        workspace.write(
            &format!(".projects/{name}/project-status.toon"),
            "schema: 99\nend: true\n",
        );
    }
    let said = workspace.run(["tool", "call", "list_projects"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let naming = said.err.lines().filter(|line| line.contains(".toon"));
    assert_eq!(naming.count(), 1, "{said:?}");
    assert!(said.err.contains("3 readable files"), "{said:?}");
    assert!(said.err.contains("`orchestra doctor`"), "{said:?}");
    let doctor = workspace.run(["doctor"]);
    assert_eq!(doctor.code, Some(4), "{doctor:?}");
    for name in ["a", "b", "c"] {
        assert!(
            doctor.out.contains(&format!("{name}/project-status.toon")),
            "{doctor:?}"
        );
    }
}

#[test]
fn plan_without_front_matter_is_reported_once_with_the_fix() {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": "Demo"}));
    workspace.write(".projects/demo/.plans/notes.md", "# Notes\n");
    let list = || workspace.run(["tool", "call", "list_projects"]);
    let said = [list(), list(), list()].map(|said| {
        assert_eq!(said.code, Some(0), "{said:?}");
        said.err
    });
    let said = said.concat();
    assert!(
        said.matches("cannot import a readable file").count() <= 1,
        "{said}"
    );
    let doctor = workspace.run(["doctor"]);
    assert_eq!(doctor.code, Some(4), "{doctor:?}");
    let fix = "add these lines, or move the file out of .plans";
    assert_eq!(doctor.out.matches(fix).count(), 1, "{doctor:?}");
    let said = workspace.run(["tool", "call", "list_projects"]);
    assert!(!said.err.contains("notes.md"), "{said:?}");
    let text = workspace.read(".projects/demo/.plans/notes.md");
    let front = "---\ntitle: A title\ncreated: 2026-01-31T12:00:00Z\n---\n";
    workspace.write(".projects/demo/.plans/notes.md", &format!("{front}{text}"));
    let doctor = workspace.run(["doctor"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
}

#[test]
fn old_files_are_taken_over_once_with_a_copy() {
    let workspace = left_behind();
    let old = workspace.read(EPIC);
    let said = workspace.run(["import", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&report["projects"], &report["issues"]),
        (&json!(["my-app"]), &json!(1))
    );
    let backup = std::path::Path::new(report["backup"].as_str().unwrap());
    assert_eq!(
        std::fs::read_to_string(backup.join("my-app/epics/MA-1/epic.toon")).unwrap(),
        old
    );

    let epic = workspace.call("get_epic", &json!({"project": "my-app", "epic_id": "MA-1"}));
    assert_eq!(epic["title"], "Fix: T2");
    assert!(workspace.read(EPIC).starts_with("schema: 1\n"));
    let made = workspace.call(
        "create_epic",
        &json!({"project": "my-app", "title": "Next"}),
    );
    assert_eq!(made["id"], "MA-2", "ids go on where they were");

    let again = workspace.run(["import"]);
    assert_eq!(
        (again.code, again.out.as_str()),
        (Some(0), "no files of orchestra-mcp found\n")
    );
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
}

#[test]
fn one_of_something_is_not_several() {
    let workspace = left_behind();
    let said = workspace.run(["import"]);
    assert!(
        said.out
            .starts_with("imported 1 issue of 1 project: my-app\n"),
        "{said:?}"
    );
}

#[test]
fn without_the_command_old_files_are_left_alone() {
    let workspace = left_behind();
    let old = workspace.read(EPIC);
    workspace.call("list_projects", &json!({}));
    assert_eq!(workspace.read(EPIC), old);
    let said = workspace.run(["doctor"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("my-app/epics/MA-1/epic.toon"), "{said:?}");
    assert_eq!(workspace.read(EPIC), old);
}

#[test]
fn a_file_that_cannot_be_read_leaves_its_project_until_it_is_mended() {
    let workspace = left_behind();
    let task = ".projects/my-app/epics/MA-1/stories/MA-2/tasks/MA-4.toon";
    workspace.write(
        ".projects/my-app/epics/MA-1/stories/MA-2/story.toon",
        "id: MA-2\ntitle: Story\ntype: story\nstatus: backlog\ncreated_at: 2026-02-14T13:55:45Z\n",
    );
    workspace.write(task, "id: MA-4\ntitle: [unclosed\n");
    let old = workspace.read(EPIC);
    let said = workspace.run(["import"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.out.contains("MA-4.toon"), "{said:?}");
    assert!(
        said.err
            .contains("repair them by hand, then run the import again"),
        "{said:?}"
    );
    assert_eq!(workspace.read(EPIC), old);

    workspace.write(
        task,
        "id: MA-4\ntitle: Closed\ntype: task\nstatus: todo\ncreated_at: 2026-02-14T13:55:45Z\n",
    );
    let said = workspace.run(["import"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let found = workspace.call("get_task", &json!({"project": "my-app", "task_id": "MA-4"}));
    assert_eq!(found["title"], "Closed");
}

#[test]
fn what_is_taken_instead_of_an_old_value_is_told() {
    let workspace = left_behind().with_board_in_checkout();
    workspace.write(
        EPIC,
        "id: MA-1\ntitle: Epic\ntype: banana\nstatus: someday\npriority: soonish\ncreated_at: bad\n",
    );
    let said = workspace.run(["import", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let remarks = report["remarks"].to_string();
    for (field, old, new) in [
        ("type", "banana", "epic"),
        ("status", "someday", "backlog"),
        ("priority", "soonish", "none"),
        ("created_at", "bad", "2026-02-14T13:55:45Z"),
    ] {
        let told = format!(
            "my-app/epics/MA-1/epic.toon: {field} was `{old}`, which is not known here; it is `{new}` now"
        );
        assert!(remarks.contains(&told), "{told}: {remarks}");
    }
    let backup = std::path::Path::new(report["backup"].as_str().unwrap());
    let status = std::process::Command::new("git")
        .args(["status", "--porcelain", "--untracked-files=all"])
        .current_dir(workspace.path())
        .output()
        .unwrap();
    let seen = String::from_utf8(status.stdout).unwrap();
    let name = backup.file_name().unwrap().to_str().unwrap();
    assert!(
        seen.contains(".projects/") && !seen.contains(name),
        "{seen}"
    );
}

#[test]
fn members_that_the_board_does_not_know_are_reported_once_with_the_copy() {
    let workspace = left_behind();
    let old = workspace.read(EPIC);
    for id in ["MA-1", "MA-7", "MA-8"] {
        let text = old.replace("id: MA-1", &format!("id: {id}\nestimate: 3"));
        workspace.write(&format!(".projects/my-app/epics/{id}/epic.toon"), &text);
    }
    let said = workspace.run(["import"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let reported = "- `estimate` is in the copy alone; 3 entries of the kind `issue` have it, first in \
                    my-app/epics/MA-1/epic.toon\n";
    assert_eq!(said.out.matches("estimate").count(), 1, "{said:?}");
    assert!(said.out.contains(reported), "{said:?}");
    assert!(said.out.contains("the old files are in "), "{said:?}");
}
