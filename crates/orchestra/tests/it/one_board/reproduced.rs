//! Faults of boards that are in the working tree of each checkout: none of them happens to the board of new workspaces.
//! Nothing here names a mode, so that any version of the program can be tested.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

use serde_json::{Value, json};

use super::{DEFAULT, Repository, git};
use crate::support::{Running, Session, post_to, said, until};

/// Places of the database, of which a version has one.
const DATABASES: [&str; 2] = [".projects/.store", ".git/.orchestra/_/board"];

/// Number of tasks that each program creates.
const TASKS: usize = 30;

fn start(repository: &Repository, directory: &Path) -> Session {
    Session::start(repository.command(directory, &["stdio"]))
}

fn new_task(title: &str) -> Value {
    json!({"project": "my-app", "story_id": "MA-2", "title": title, "type": "task"})
}

/// Removes untracked files. Git may report a failure where programs create files meanwhile.
fn clean(directory: &Path) {
    let mut git = Command::new("git");
    git.args(["clean", "-fdx", "--quiet"]);
    git.current_dir(directory).output().unwrap();
}

/// Removes a directory in which programs may create files meanwhile.
fn remove(directory: &Path) {
    until(|| match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => None,
        _ => Some(()),
    });
}

#[test]
fn removals_while_two_programs_write_lose_no_task_and_give_no_id_twice() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let main = repository.main();
    let acknowledged = Mutex::new(Vec::new());
    let create = |name: &str| {
        let mut session = start(&repository, &main);
        for number in 0..TASKS {
            let title = format!("{name} {number}");
            let result = session.tool("create_task", &new_task(&title));
            if result["isError"] != true {
                let id = result["structuredContent"]["id"].as_str().unwrap();
                acknowledged.lock().unwrap().push((id.to_owned(), title));
            }
        }
        assert!(session.process.end().success());
    };
    thread::scope(|scope| {
        for name in ["one", "two"] {
            scope.spawn(move || create(name));
        }
        for round in 0..4 {
            until(|| (acknowledged.lock().unwrap().len() >= 10 * (round + 1)).then_some(()));
            match round % 2 {
                0 => clean(&main),
                _ => DATABASES.iter().for_each(|place| remove(&main.join(place))),
            }
        }
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    let mut ids: Vec<&str> = acknowledged.iter().map(|(id, _)| &**id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), acknowledged.len(), "{acknowledged:?}");
    let mut session = start(&repository, &main);
    for (id, title) in &acknowledged {
        let asked = json!({"project": "my-app", "task_id": id});
        assert_eq!(session.ok("get_task", &asked)["title"], **title, "{id}");
    }
    assert!(session.process.end().success());
    repository.run(&main, &["doctor", "--fix"]);
    let doctor = repository.run(&main, &["doctor"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
}

#[test]
fn tasks_of_a_killed_program_outlive_the_removal_of_untracked_files() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let main = repository.main();
    let mut session = start(&repository, &main);
    for number in 0..20 {
        session.ok("create_task", &new_task(&format!("Task {number}")));
    }
    session.process.kill();
    remove(&main.join(DATABASES[0]));
    clean(&main);
    assert!(!main.join(".projects").exists());
    for number in 3..=23 {
        assert!(repository.has(&main, &format!("MA-{number}")), "{number}");
    }
}

#[test]
fn stash_of_untracked_files_removes_no_task() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let main = repository.main();
    for number in 0..20 {
        repository.task(&main, &format!("Task {number}"));
    }
    repository.workspace.write("code.txt", "three\n");
    git(&main, &["stash", "--include-untracked", "--quiet"]);
    for number in 3..=23 {
        assert!(repository.has(&main, &format!("MA-{number}")), "{number}");
    }
}

#[test]
fn removed_files_delete_nothing_and_are_written_again() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let main = repository.main();
    let epics = main.join(".projects/my-app/epics");
    fs::remove_dir_all(&epics).unwrap();
    for issue in ["MA-1", "MA-2", "MA-3"] {
        let history = json!({"project": "my-app", "issue_id": issue});
        repository.call(&main, "get_history", &history);
    }
    let doctor = repository.run(&main, &["doctor"]);
    assert_eq!(doctor.code, Some(4), "{doctor:?}");
    assert!(doctor.out.contains("missing"), "{doctor:?}");
    let title = json!({"project": "my-app", "task_id": "MA-3", "title": "Other"});
    repository.call(&main, "update_task", &title);
    assert!(epics.join("MA-1/stories/MA-2/tasks/MA-3.toon").is_file());
    let fixed = repository.run(&main, &["doctor", "--fix"]);
    assert_eq!(fixed.code, Some(0), "{fixed:?}");
    assert!(epics.join("MA-1/epic.toon").is_file());
}

/// As the sandbox of an agent has it, whose program is the first that would write the files.
#[cfg(target_os = "linux")]
#[test]
fn program_that_may_not_write_the_files_leaves_them_to_the_next() {
    use crate::copied_workspace::{read_only, read_only_command};

    let repository = Repository::new(DEFAULT);
    repository.fill();
    let (main, workspace) = (repository.main(), &repository.workspace);
    let project = main.join(".projects/my-app");
    let list = ["tool", "call", "list_projects"];
    if read_only(workspace, &main, &project, &list).is_none() {
        return;
    }
    let sandboxed = read_only_command(workspace, &main, &project, &["stdio"]);
    let mut sandboxed = Session::start(sandboxed);
    sandboxed.ok("create_task", &new_task("In the sandbox"));
    repository.task(&main, "Outside");
    let tasks = project.join("epics/MA-1/stories/MA-2/tasks");
    for task in ["MA-4.toon", "MA-5.toon"] {
        until(|| tasks.join(task).is_file().then_some(()));
    }
    assert!(sandboxed.process.end().success());
}

/// Git sets these variables for hooks of a linked worktree.
#[test]
fn variables_of_git_lead_to_no_other_repository() {
    let (repository, other) = (Repository::new(DEFAULT), Repository::new(DEFAULT));
    let (main, elsewhere) = (repository.main(), other.main().join(".git"));
    repository.workspace.write(
        "plan.yaml",
        "name: One\njobs:\n- {producerId: one, task: One, work: 'true'}\n",
    );
    for words in [
        &["tool", "call", "create_project", "name=My App"][..],
        &["plan", "create", "plan.yaml"],
    ] {
        let mut command = repository.command(&main, words);
        command
            .env("GIT_DIR", &elsewhere)
            .env("GIT_COMMON_DIR", &elsewhere)
            .env("GIT_WORK_TREE", other.main())
            .env("GIT_INDEX_FILE", elsewhere.join("index"));
        let created = said(command, "");
        assert_eq!(created.code, Some(0), "{words:?}: {created:?}");
    }
    let listed = repository.call(&repository.linked(), "list_projects", &json!({}));
    assert!(listed.to_string().contains("my-app"), "{listed}");
    let plans: PathBuf = main.join(".git/.orchestra/_/plans/plans.db");
    assert!(plans.is_file());
    assert!(!elsewhere.join(".orchestra").exists());
}

#[test]
fn submodule_has_one_board_in_all_worktrees() {
    let repository = Repository::new(DEFAULT);
    let (main, linked) = (repository.main(), repository.linked());
    let library = main.with_file_name("library");
    let local = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
    git(&main, &["init", "--quiet", "../library"]);
    git(
        &library,
        &["commit", "--quiet", "--allow-empty", "-m", "One"],
    );
    git(
        &main,
        &[&local[..], &["add", library.to_str().unwrap(), "lib"]].concat(),
    );
    git(&main, &["commit", "--quiet", "--message", "Library"]);
    let head = git(&main, &["rev-parse", "HEAD"]);
    git(&linked, &["reset", "--quiet", "--hard", head.trim()]);
    git(&linked, &[&local[..], &["update", "--init"]].concat());
    repository.call(
        &main.join("lib"),
        "create_project",
        &json!({"name": "My App"}),
    );
    let listed = repository.call(&linked.join("lib"), "list_projects", &json!({}));
    assert!(listed.to_string().contains("my-app"), "{listed}");
}

/// All of them in a subfolder of a linked worktree.
#[test]
fn hook_memory_import_doctor_and_up_of_a_worktree_use_the_board_of_the_repository() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let (main, below) = (repository.main(), repository.linked().join("below"));
    fs::create_dir(&below).unwrap();
    let event = json!({"hook_event_name": "Stop", "session_id": "s"});
    let stored = said(repository.command(&below, &["hook"]), &event.to_string());
    assert_eq!(stored.code, Some(0), "{stored:?}");
    let events = repository.call(&main, "get_hook_events", &json!({}));
    assert_eq!(events["total"], 1, "{events}");
    let save = [
        "memory",
        "save",
        "Greetings are short",
        "--project",
        "my-app",
    ];
    let saved = repository.run(&below, &save);
    assert_eq!(saved.code, Some(0), "{saved:?}");
    let memory = repository.call(&main, "list_memory", &json!({"project": "my-app"}));
    assert_eq!(memory["total"], 1, "{memory}");
    for words in [&["import"][..], &["doctor"]] {
        let ran = repository.run(&below, words);
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
    }
    let words = ["up", "--http", "127.0.0.1:0", "--quic", "off", "--json"];
    let up = Running::start(repository.command(&below, &words));
    let address = up.json()["http"].as_str().unwrap().to_owned();
    let address = address.trim_start_matches("http://");
    let list = json!({"name": "list_projects", "arguments": {}}).to_string();
    let listed = post_to(address, "/api/mcp/tools/call", &[], &list);
    assert!(listed.body.contains("my-app"), "{listed:?}");
    assert!(!repository.linked().join(".projects").exists());
}
