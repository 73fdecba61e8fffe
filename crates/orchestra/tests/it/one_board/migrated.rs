//! Boards that an earlier version of the program created in the main checkout and two worktrees, converted into the
//! board of all worktrees. The environment names the earlier program: `ORCHESTRA_EARLIER`.

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread::yield_now,
};

use serde_json::{Value, json};

use super::{DEFAULT, Repository, git};
use crate::support::{Running, said};

/// A repository whose checkouts have boards of the earlier program. They share MA-3, which each has claimed, and
/// remember one thing together; each has a task and a memory of its own.
struct Earlier {
    repository: Repository,
    program: PathBuf,
    second: PathBuf,
    copy: PathBuf,
}

impl Earlier {
    /// `None`, with a line on standard error, where the environment names no earlier program.
    #[expect(clippy::print_stderr, reason = "a skipped test is reported")]
    fn new() -> Option<Self> {
        let Some(program) = std::env::var_os("ORCHESTRA_EARLIER") else {
            eprintln!("not checked without ORCHESTRA_EARLIER: boards of the earlier version");
            return None;
        };
        let program = Path::new(&program).canonicalize();
        let program = program.expect("ORCHESTRA_EARLIER is the path of a program");
        let repository = Repository::new(DEFAULT);
        let main = repository.main();
        let (second, copy) = (main.with_file_name("second"), main.with_file_name("copy"));
        let earlier = Self {
            repository,
            program,
            second,
            copy,
        };
        earlier.fill();
        Some(earlier)
    }

    fn fill(&self) {
        let (main, linked) = (self.repository.main(), self.repository.linked());
        let call = |tool: &str, arguments: Value| self.call(&main, tool, &arguments);
        call("create_project", json!({"name": "My App"}));
        call("create_epic", json!({"project": "my-app", "title": "E"}));
        call(
            "create_story",
            json!({"project": "my-app", "epic_id": "MA-1", "title": "S", "user_story": "U"}),
        );
        self.task(&main, "T");
        let todo = json!({"project": "my-app", "task_id": "MA-3", "status": "todo"});
        call("update_task", todo);
        self.remember(&main, "known everywhere");
        git(&main, &["add", "--all"]);
        git(&main, &["commit", "--quiet", "--message", "Board"]);
        let head = git(&main, &["rev-parse", "HEAD"]);
        git(&linked, &["reset", "--quiet", "--hard", head.trim()]);
        git(&main, &["worktree", "add", "--quiet", "../second"]);
        for (directory, name) in self.checkouts() {
            let claim = json!({"project": "my-app", "task_id": "MA-3", "agent": name});
            self.call(&directory, "claim_task", &claim);
            self.task(&directory, &format!("Of {name}"));
            self.remember(&directory, &format!("known in {name}"));
        }
        let mut copy = Command::new("cp");
        let status = copy.arg("-r").arg(&main).arg(&self.copy).status();
        assert!(status.unwrap().success());
    }

    fn checkouts(&self) -> [(PathBuf, &'static str); 3] {
        [
            (self.repository.main(), "main"),
            (self.repository.linked(), "linked"),
            (self.second.clone(), "second"),
        ]
    }

    /// Calls a tool of the earlier program.
    fn call(&self, directory: &Path, tool: &str, arguments: &Value) {
        let arguments = arguments.to_string();
        let words = ["tool", "call", tool, "--args", &arguments];
        let mut command = self.repository.workspace.command_as(&self.program, words);
        command
            .current_dir(directory)
            .env_remove("ORCHESTRATOR_WORKSPACE");
        let called = said(command, "");
        assert_eq!(called.code, Some(0), "{tool} {arguments}: {called:?}");
    }

    fn task(&self, directory: &Path, title: &str) {
        let task = json!({"project": "my-app", "story_id": "MA-2", "title": title, "type": "task"});
        self.call(directory, "create_task", &task);
    }

    fn remember(&self, directory: &Path, text: &str) {
        let text = json!({"project": "my-app", "content": text, "summary": text});
        self.call(directory, "save_memory", &text);
    }

    /// Titles of the tasks in a directory by their ids, in the order of the ids.
    fn tasks(&self, directory: &Path) -> Vec<(String, String)> {
        let project = json!({"project": "my-app"});
        let listed = self.repository.call(directory, "list_tasks", &project);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = listed["items"].as_array().unwrap().iter();
        let tasks = items.map(|item| (text(&item["id"]), text(&item["title"])));
        tasks.collect()
    }

    fn remembered(&self, directory: &Path) -> Value {
        let project = json!({"project": "my-app"});
        self.repository.call(directory, "list_memory", &project)["total"].clone()
    }

    fn claimed_by(&self, directory: &Path) -> Value {
        let task = json!({"project": "my-app", "task_id": "MA-3"});
        self.repository.call(directory, "get_task", &task)["claim"]["agent"].clone()
    }

    /// Asserts that the board of all worktrees has everything, once.
    fn is_complete(&self) {
        for (directory, name) in self.checkouts() {
            let tasks = self.tasks(&directory);
            let titles: Vec<&str> = tasks.iter().map(|(_, title)| &**title).collect();
            assert_eq!(titles, ["T", "Of main", "Of linked", "Of second"], "{name}");
            assert_eq!(tasks[1].0, "MA-4", "{name}: {tasks:?}");
            assert_eq!(self.claimed_by(&directory), "main", "{name}");
            assert_eq!(self.remembered(&directory), 4, "{name}");
        }
    }

    fn convert(&self) {
        let words = ["board", "convert", "repository", "--yes"];
        let converted = self.repository.run(&self.repository.main(), &words);
        assert_eq!(converted.code, Some(0), "{converted:?}");
    }
}

#[test]
fn boards_of_an_earlier_version_are_converted_and_merged_once() {
    let Some(earlier) = Earlier::new() else {
        return;
    };
    earlier.convert();
    earlier.is_complete();
    earlier.convert();
    earlier.is_complete();
    // The earlier program does not open the board that it had before the conversion.
    let mut command = earlier
        .repository
        .workspace
        .command_as(&earlier.program, ["tool", "call", "list_projects"]);
    command.env_remove("ORCHESTRATOR_WORKSPACE");
    let refused = said(command, "");
    assert_ne!(refused.code, Some(0), "{refused:?}");
}

#[test]
fn copy_of_a_workspace_of_an_earlier_version_has_a_board_of_its_own() {
    let Some(earlier) = Earlier::new() else {
        return;
    };
    let titles = |directory: &Path| {
        let tasks = earlier.tasks(directory).into_iter();
        tasks.map(|(_, title)| title).collect::<Vec<_>>()
    };
    assert_eq!(titles(&earlier.copy), ["T", "Of main"]);
    earlier.convert();
    assert_eq!(titles(&earlier.copy), ["T", "Of main"]);
    assert_eq!(earlier.remembered(&earlier.copy), 2);
    earlier.is_complete();
}

/// Each file is one that the conversion creates on its way, so that the kill comes at another step each time.
#[test]
fn conversion_of_boards_of_an_earlier_version_that_is_killed_is_completed_by_the_next() {
    let Some(earlier) = Earlier::new() else {
        return;
    };
    let repository = &earlier.repository;
    let (main, shared) = (repository.main(), repository.board());
    for file in [
        main.join(".git/.orchestra"),
        shared.join("writer.lock"),
        shared.join("board.db.new"),
        shared.join("board.db"),
        shared.join("board.db-wal"),
    ] {
        let words = ["board", "convert", "repository", "--yes"];
        let mut process = Running::start(repository.command(&main, &words));
        while !file.exists() && process.ended().is_none() {
            yield_now();
        }
        process.kill();
        let tasks = earlier.tasks(&main);
        assert_eq!(tasks[1], ("MA-4".to_owned(), "Of main".to_owned()));
        assert_eq!(earlier.claimed_by(&main), "main", "{}", file.display());
    }
    earlier.convert();
    earlier.is_complete();
}
