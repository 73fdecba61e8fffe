//! The mode of a board: the one of new workspaces, and `orchestra board convert` in both directions.

use std::{fs, path::Path, thread::yield_now};

use serde_json::{Value, json};

use crate::{
    one_board::{Repository, git},
    support::{Running, Session, Workspace, until},
};

const TRACKED: &str = "git rm -r --cached --quiet .projects";

/// The user's file, in which the tests set `board`.
fn of_user(workspace: &Workspace) -> std::path::PathBuf {
    workspace.home().join(".config/orchestra/orchestra.toml")
}

/// Creates MA-1 to MA-4, of which MA-3 is claimed by `one` and has a comment, MA-4 is deleted, and a memory.
fn fill(repository: &Repository) {
    let main = repository.main();
    let call = |tool: &str, arguments: Value| repository.call(&main, tool, &arguments);
    repository.fill();
    repository.task(&main, "Deleted");
    let task = |more: Value| {
        let mut arguments = json!({"project": "my-app", "task_id": "MA-3"});
        let more = more.as_object().unwrap().clone();
        arguments.as_object_mut().unwrap().extend(more);
        arguments
    };
    call("update_task", task(json!({"status": "todo"})));
    call("claim_task", task(json!({"agent": "one"})));
    call(
        "add_comment",
        json!({"project": "my-app", "issue_id": "MA-3", "text": "A comment"}),
    );
    call(
        "delete_task",
        json!({"project": "my-app", "task_id": "MA-4"}),
    );
    call(
        "save_memory",
        json!({"project": "my-app", "content": "Prices are in cents", "summary": "Currency"}),
    );
}

/// All that is to stay as it is.
fn content(repository: &Repository, directory: &Path) -> Vec<Value> {
    let project = json!({"project": "my-app"});
    let history = json!({"project": "my-app", "issue_id": "MA-3"});
    let task = json!({"project": "my-app", "task_id": "MA-3"});
    [
        ("list_projects", json!({})),
        ("list_epics", project.clone()),
        ("list_stories", project.clone()),
        ("list_tasks", project.clone()),
        ("get_task", task),
        ("get_history", history),
        ("list_memory", project),
    ]
    .iter()
    .map(|(tool, arguments)| repository.call(directory, tool, arguments))
    .collect()
}

fn convert(repository: &Repository, directory: &Path, mode: &str) -> Value {
    let words = ["board", "convert", mode, "--json"];
    let said = repository.run(directory, &words);
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_str(&said.out).unwrap()
}

/// Asserts that the claim of `one` counts, and that the next issue has the id after those that were given.
fn assert_continues(repository: &Repository, directory: &Path, next: &str) {
    let claim = json!({"project": "my-app", "task_id": "MA-3", "agent": "two"}).to_string();
    let words = ["tool", "call", "claim_task", "--args", &claim];
    let refused = repository.run(directory, &words);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(!repository.has(directory, "MA-4"));
    repository.task(directory, "Next");
    assert!(repository.has(directory, next), "{next}");
}

#[test]
fn board_of_a_new_workspace_is_outside_of_its_working_tree() {
    for workspace in [Workspace::git(), Workspace::new()] {
        workspace.call("create_project", &json!({"name": "My App"}));
        assert!(workspace.database().is_file());
        assert!(!workspace.join(".projects/.store").exists());
        let file = workspace.read(".projects/my-app/project-status.toon");
        assert!(file.contains("My App"), "{file}");
        let doctor = workspace.run(["doctor"]);
        assert_eq!(doctor.code, Some(0), "{doctor:?}");
    }
}

#[test]
fn board_in_a_checkout_stays_there_and_a_linked_worktree_has_the_same_mode() {
    let repository = Repository::new("board = \"checkout\"\n");
    let (main, linked) = (repository.main(), repository.linked());
    repository.fill();
    fs::remove_file(of_user(&repository.workspace)).unwrap();
    repository.task(&main, "Next");
    assert!(repository.has(&main, "MA-4"));
    repository.call(&linked, "create_project", &json!({"name": "Other"}));
    assert!(!repository.board().exists());
    assert!(linked.join(".projects/.store/board.db").is_file());
}

#[test]
fn tracked_workspace_is_in_mode_checkout_and_says_so_once() {
    let repository = Repository::new("board = \"checkout\"\n");
    let main = repository.main();
    repository.fill();
    git(&main, &["add", "--all"]);
    git(&main, &["commit", "--quiet", "--message", "Board"]);
    // As a clone has it.
    fs::remove_file(of_user(&repository.workspace)).unwrap();
    fs::remove_dir_all(main.join(".projects/.store")).unwrap();
    let list = ["tool", "call", "list_projects"];
    let hook = repository.workspace.run_with_input(["hook"], "{}");
    assert_eq!((hook.code, &*hook.err), (Some(0), ""), "{hook:?}");
    for times in [1, 0, 0] {
        let listed = repository.run(&main, &list);
        assert!(listed.out.contains("my-app"), "{listed:?}");
        let told = listed.err.matches("orchestra board convert").count();
        assert_eq!(told, times, "{listed:?}");
    }
    assert!(main.join(".projects/.store/board.db").is_file());
    assert!(!repository.board().exists());
}

#[test]
fn rules_of_a_repository_make_git_add_no_private_files() {
    for (mode, rules) in [("checkout", "*.x\n!.events/\n"), ("repository", "!*\n")] {
        let workspace = Workspace::git();
        workspace.write(".gitignore", "!/.projects/\n");
        workspace.write(".projects/.gitignore", rules);
        workspace.write("orchestra.toml", &format!("board = \"{mode}\"\n"));
        workspace.call("create_project", &json!({"name": "My App"}));
        let event = "{\"hook_event_name\": \"Stop\", \"session_id\": \"s\"}";
        let hook = workspace.run_with_input(["hook"], event);
        assert_eq!(hook.code, Some(0), "{hook:?}");
        git(&workspace.path(), &["add", "--all"]);
        let files = git(&workspace.path(), &["ls-files", ".projects"]);
        for private in [".events/", ".store/"] {
            assert!(!files.contains(private), "{mode}: {files}");
        }
        assert_eq!(files.contains("my-app"), mode == "checkout", "{files}");
    }
}

#[test]
fn private_files_that_git_tracks_are_reported() {
    let workspace = Workspace::git();
    workspace.write("orchestra.toml", "board = \"checkout\"\n");
    workspace.call("create_project", &json!({"name": "My App"}));
    assert_eq!(workspace.run(["doctor"]).code, Some(0));
    workspace.write(".projects/.events/other", "x");
    git(
        &workspace.path(),
        &["add", "--force", ".projects/.events/other"],
    );
    let doctor = workspace.run(["doctor"]);
    assert_ne!(doctor.code, Some(0), "{doctor:?}");
    assert!(
        doctor.out.contains("git tracks private files"),
        "{doctor:?}"
    );
}

#[test]
fn tracked_board_converted_from_a_linked_worktree_is_complete_in_both() {
    let repository = Repository::new("board = \"checkout\"\n");
    let (main, linked) = (repository.main(), repository.linked());
    fill(&repository);
    git(&main, &["add", "--all"]);
    git(&main, &["commit", "--quiet", "--message", "Board"]);
    fs::remove_file(of_user(&repository.workspace)).unwrap();
    let before = content(&repository, &main);
    let said = repository.run(&linked, &["board", "convert"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains(TRACKED), "{said:?}");
    assert!(repository.board().join("board.db").is_file());
    for directory in [&main, &linked] {
        assert_eq!(content(&repository, directory), before);
    }
    let doctor = repository.run(&main, &["doctor"]);
    assert!(doctor.out.contains("git tracks the files"), "{doctor:?}");
    git(&main, &["switch", "--quiet", "--detach"]);
    let detached = repository.run(&main, &["doctor"]);
    assert!(!detached.out.contains("git tracks"), "{detached:?}");
    git(&main, &["switch", "--quiet", "-"]);
    let words: Vec<&str> = TRACKED.split(' ').skip(1).collect();
    git(&main, &words);
    git(&main, &["commit", "--quiet", "--message", "No board"]);
    assert_continues(&repository, &linked, "MA-5");
    assert_eq!(git(&main, &["status", "--porcelain"]), "");
    let again = convert(&repository, &linked, "repository");
    assert_eq!(again["converted"], false, "{again}");
    assert_eq!(again["git"], "git ignores .projects", "{again}");
    let doctor = repository.run(&main, &["doctor"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    // No key was needed for that.
    assert!(!main.join("orchestra.toml").exists());
}

#[test]
fn shared_board_converted_into_the_checkout_is_complete_and_seen_by_git() {
    let repository = Repository::new("");
    let (main, linked) = (repository.main(), repository.linked());
    assert_eq!(repository.run(&main, &["init"]).code, Some(0));
    fill(&repository);
    let before = content(&repository, &linked);
    // In a checkout they would have been removed for good.
    fs::remove_dir_all(main.join(".projects/my-app/epics")).unwrap();
    let said = convert(&repository, &linked, "checkout");
    assert_eq!(said["converted"], true, "{said}");
    assert!(
        said["git"].to_string().contains("git add .projects"),
        "{said}"
    );
    assert!(main.join(".projects/.store/board.db").is_file());
    assert_eq!(content(&repository, &main), before);
    let status = git(&main, &["status", "--porcelain", "--untracked-files=all"]);
    let task = ".projects/my-app/epics/MA-1/stories/MA-2/tasks/MA-3.toon";
    assert!(status.contains(task), "{status}");
    assert!(!status.contains(".store"), "{status}");
    assert_continues(&repository, &main, "MA-5");
    let elsewhere = repository.run(&linked, &["tool", "call", "list_projects"]);
    assert!(elsewhere.err.contains("merge that branch"), "{elsewhere:?}");
    let again = convert(&repository, &main, "checkout");
    assert_eq!(again["converted"], false, "{again}");
    assert!(repository.has(&main, "MA-5"));
    // And back, with what changed meanwhile.
    let back = convert(&repository, &main, "repository");
    assert_eq!(back["converted"], true, "{back}");
    assert_continues(&repository, &linked, "MA-6");
    assert_eq!(content(&repository, &linked)[4..], before[4..]);
    assert!(!main.join("orchestra.toml").exists());
}

#[test]
fn setting_of_the_other_mode_is_overridden_in_the_file_of_the_workspace() {
    let repository = Repository::new("board = \"repository\"\n");
    let main = repository.main();
    repository.fill();
    fs::write(main.join("orchestra.toml"), "# Mine\nlog = \"warn\"\n").unwrap();
    let said = convert(&repository, &main, "checkout");
    let file = main.join("orchestra.toml");
    assert_eq!(said["changed"][0], file.to_str().unwrap(), "{said}");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "board = \"checkout\"\n# Mine\nlog = \"warn\"\n");
    assert!(repository.has(&main, "MA-3"));
    assert!(main.join(".projects/.store/board.db").is_file());
    convert(&repository, &main, "repository");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "board = \"repository\"\n# Mine\nlog = \"warn\"\n");
    assert!(repository.has(&repository.linked(), "MA-3"));
}

#[test]
fn board_outside_of_repositories_is_converted_in_both_directions() {
    let workspace = Workspace::new();
    workspace.call("create_project", &json!({"name": "My App"}));
    let database = workspace.database();
    let own = workspace.join(".projects/.store/board.db");
    for mode in ["checkout", "repository", "checkout"] {
        let said = workspace.run(["board", "convert", mode]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let epic = json!({"project": "my-app", "title": mode});
        workspace.call("create_epic", &epic);
    }
    assert!(database.is_file() && own.is_file());
    let epics = workspace.call("list_epics", &json!({"project": "my-app"}));
    let ids: Vec<&str> = epics["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|epic| epic["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["MA-1", "MA-2", "MA-3"]);
}

/// The system lists the processes with a lock on Linux.
#[test]
fn board_in_use_is_not_converted_and_the_program_is_named() {
    for (config, mode) in [("", "checkout"), ("board = \"checkout\"\n", "repository")] {
        let repository = Repository::new(config);
        let main = repository.main();
        repository.fill();
        if !config.is_empty() {
            fs::remove_file(of_user(&repository.workspace)).unwrap();
        }
        let mut session = Session::start(repository.command(&main, &["stdio"]));
        session.ok("create_project", &json!({"name": "Other"}));
        // The program that writes the readable files holds a lock.
        let written = main.join(".projects/other/project-status.toon");
        until(|| written.is_file().then_some(()));
        let words = ["board", "convert", mode];
        let refused = repository.run(&main, &words);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        let errors = refused.err.lines().filter(|line| line.starts_with("error"));
        assert_eq!(errors.count(), 1, "{refused:?}");
        if cfg!(target_os = "linux") {
            let process = format!("orchestra (process {})", session.process.id());
            assert!(refused.err.contains(&process), "{refused:?}");
        }
        session.ok("create_project", &json!({"name": "Third"}));
        assert!(session.process.end().success());
        let converted = convert(&repository, &main, mode);
        assert_eq!(converted["converted"], true, "{converted}");
        let listed = repository.call(&main, "list_projects", &json!({}));
        assert_eq!(listed["items"].as_array().unwrap().len(), 3, "{listed}");
    }
}

#[test]
fn board_that_a_client_reads_is_not_converted_and_the_client_is_named() {
    let repository = Repository::new("");
    let main = repository.main();
    repository.fill();
    let mut session = Session::start(repository.command(&main, &["stdio"]));
    session.ok("list_projects", &json!({}));
    let words = ["board", "convert", "checkout"];
    let refused = repository.run(&main, &words);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    if cfg!(target_os = "linux") {
        let process = format!("orchestra (process {}) uses it", session.process.id());
        assert!(refused.err.contains(&process), "{refused:?}");
    }
    assert!(session.process.end().success());
    convert(&repository, &main, "checkout");
}

#[test]
fn conversion_into_the_checkout_reports_what_was_missing_and_the_mode_is_not_reported_again() {
    let repository = Repository::new("");
    let main = repository.main();
    repository.fill();
    fs::remove_dir_all(main.join(".projects/my-app/epics")).unwrap();
    let converted = repository.run(&main, &["board", "convert", "checkout"]);
    assert_eq!(converted.code, Some(0), "{converted:?}");
    assert!(converted.err.contains("written again"), "{converted:?}");
    let listed = repository.run(&main, &["tool", "call", "list_projects"]);
    assert_eq!((listed.code, &*listed.err), (Some(0), ""), "{listed:?}");
}

/// Each file is one that a conversion creates on its way, so that the kill comes at another step each time.
#[test]
fn conversion_that_is_killed_leaves_one_board_that_is_whole() {
    let repository = Repository::new("");
    let main = repository.main();
    fill(&repository);
    let before = content(&repository, &main);
    let (own, shared) = (main.join(".projects/.store"), repository.board());
    for mode in ["checkout", "repository"] {
        for file in [
            own.join("keeper.lock"),
            own.join("board.db.new"),
            own.join("board.db"),
            own.join("board.db-wal"),
            shared.join("board.db.new"),
            shared.join("board.db-wal"),
        ] {
            let words = ["board", "convert", mode];
            let mut process = Running::start(repository.command(&main, &words));
            while !file.exists() && process.ended().is_none() {
                yield_now();
            }
            process.kill();
            assert_eq!(content(&repository, &main), before, "{mode} {file:?}");
        }
        convert(&repository, &main, mode);
        assert_eq!(content(&repository, &main), before, "{mode}");
    }
    // A killed conversion may leave out ids.
    let created = json!({"project": "my-app", "story_id": "MA-2", "title": "Next", "type": "task"});
    let created = repository.call(&main, "create_task", &created);
    assert!(
        !before
            .iter()
            .any(|known| known.to_string().contains(&created["id"].to_string()))
    );
}
