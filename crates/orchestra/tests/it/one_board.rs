//! One board for all worktrees of a repository: `board = "repository"`.

mod merging;
mod migrated;
mod moved;
mod reproduced;
mod restored;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::support::{Running, Said, Session, Workspace, said, until_ready};

/// A repository with a linked worktree, whose user wants one board.
pub(crate) struct Repository {
    pub(crate) workspace: Workspace,
}

impl Repository {
    pub(crate) fn new(config: &str) -> Self {
        let workspace = Workspace::git();
        let directory = workspace.home().join(".config/orchestra");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("orchestra.toml"), config).unwrap();
        workspace.write("code.txt", "one\n");
        let repository = Self { workspace };
        let main = repository.main();
        git(&main, &["add", "--all"]);
        git(&main, &["commit", "--quiet", "--message", "One"]);
        fs::write(main.join("code.txt"), "two\n").unwrap();
        git(&main, &["commit", "--quiet", "--all", "--message", "Two"]);
        git(&main, &["worktree", "add", "--quiet", "../linked"]);
        repository
    }

    pub(crate) fn main(&self) -> PathBuf {
        self.workspace.path()
    }

    pub(crate) fn linked(&self) -> PathBuf {
        self.main().with_file_name("linked")
    }

    pub(crate) fn command(&self, directory: &Path, words: &[&str]) -> Command {
        let mut command = self.workspace.command(words);
        command
            .current_dir(directory)
            .env_remove("ORCHESTRATOR_WORKSPACE");
        command
    }

    pub(crate) fn run(&self, directory: &Path, words: &[&str]) -> Said {
        said(self.command(directory, words), "")
    }

    pub(crate) fn call(&self, directory: &Path, tool: &str, arguments: &Value) -> Value {
        let said = self.run(
            directory,
            &["tool", "call", tool, "--args", &arguments.to_string()],
        );
        assert_eq!(said.code, Some(0), "{tool} {arguments}: {said:?}");
        serde_json::from_str(&said.out).unwrap_or(Value::String(said.out))
    }

    /// Creates epic MA-1, story MA-2 and task MA-3.
    pub(crate) fn fill(&self) {
        let main = self.main();
        self.call(&main, "create_project", &json!({"name": "My App"}));
        self.call(
            &main,
            "create_epic",
            &json!({"project": "my-app", "title": "E"}),
        );
        let story =
            json!({"project": "my-app", "epic_id": "MA-1", "title": "S", "user_story": "U"});
        self.call(&main, "create_story", &story);
        self.task(&main, "T");
    }

    pub(crate) fn task(&self, directory: &Path, title: &str) {
        let task = json!({"project": "my-app", "story_id": "MA-2", "title": title, "type": "task"});
        self.call(directory, "create_task", &task);
    }

    pub(crate) fn has(&self, directory: &Path, task: &str) -> bool {
        let arguments = json!({"project": "my-app", "task_id": task}).to_string();
        let said = self.run(
            directory,
            &["tool", "call", "get_task", "--args", &arguments],
        );
        said.code == Some(0)
    }

    pub(crate) fn board(&self) -> PathBuf {
        self.main().join(".git/.orchestra/_/board")
    }
}

/// Configuration of a user who has set nothing: new workspaces have one board. Programs that know no modes read it as well.
const DEFAULT: &str = "";

const ONE_BOARD: &str = "board = \"repository\"\n";

pub(crate) fn git(directory: &Path, words: &[&str]) -> String {
    let output = git_output(directory, words);
    assert!(output.status.success(), "git {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs git while a program may put the files back that git removes: then git does its work, warns that a
/// directory is not empty, and some commands exit with 1.
pub(crate) fn git_beside_program(directory: &Path, words: &[&str]) {
    let output = git_output(directory, words);
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || warning.starts_with("warning: failed to remove .projects/"),
        "git {words:?}: {output:?}"
    );
}

fn git_output(directory: &Path, words: &[&str]) -> Output {
    Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
        .args(words)
        .current_dir(directory)
        .output()
        .unwrap()
}

#[test]
fn project_of_the_main_checkout_is_listed_in_a_linked_worktree() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let below = repository.linked().join("below");
    fs::create_dir(&below).unwrap();
    for directory in [repository.linked(), below] {
        let listed = repository.call(&directory, "list_projects", &json!({}));
        assert!(listed.to_string().contains("my-app"), "{listed}");
        assert!(repository.has(&directory, "MA-3"));
    }
    assert!(repository.board().join("board.db").is_file());
    assert!(!repository.linked().join(".projects").exists());
    assert!(!repository.main().join(".projects/.store").exists());
    assert_eq!(git(&repository.main(), &["status", "--porcelain"]), "");
    assert_eq!(
        git(
            &repository.linked(),
            &["status", "--porcelain", "--", "code.txt"]
        ),
        ""
    );
}

#[test]
fn board_of_a_folder_is_found_in_the_same_folder_of_a_worktree() {
    let repository = Repository::new(DEFAULT);
    let (here, there) = (
        repository.main().join("apps/web"),
        repository.linked().join("apps/web/src"),
    );
    fs::create_dir_all(&here).unwrap();
    fs::create_dir_all(&there).unwrap();
    let init = repository.run(&here, &["init", ".", "--client", "claude"]);
    assert_eq!(init.code, Some(0), "{init:?}");
    repository.call(&here, "create_project", &json!({"name": "Web"}));
    let listed = repository.call(&there, "list_projects", &json!({}));
    assert!(listed.to_string().contains("\"web\""), "{listed}");
}

#[test]
fn claim_in_one_worktree_is_refused_in_the_other() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let ready = json!({"project": "my-app", "task_id": "MA-3", "status": "todo"});
    repository.call(&repository.main(), "update_task", &ready);
    let claim = |agent: &str| json!({"project": "my-app", "task_id": "MA-3", "agent": agent});
    let mut session = Session::start(repository.command(&repository.linked(), &["stdio"]));
    session.ok("claim_task", &claim("one"));
    let arguments = claim("two").to_string();
    let words = ["tool", "call", "claim_task", "--args", &arguments];
    let refused = repository.run(&repository.main(), &words);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("one"), "{refused:?}");
}

#[test]
fn no_id_is_given_twice_by_sessions_in_two_worktrees() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let places = [repository.main(), repository.linked()];
    let create = |directory: &Path| {
        for _ in 0..5 {
            repository.task(directory, "T");
        }
    };
    std::thread::scope(|scope| {
        for directory in &places {
            scope.spawn(|| create(directory));
        }
    });
    for number in 3..=13 {
        assert!(
            repository.has(&repository.linked(), &format!("MA-{number}")),
            "{number}"
        );
    }
    assert!(!repository.has(&repository.main(), "MA-14"));
}

#[test]
fn git_commands_on_the_files_of_a_board_remove_nothing() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let main = repository.main();
    let mut session = Session::start(repository.command(&repository.linked(), &["stdio"]));
    let init = repository.run(&main, &["init", "--client", "claude"]);
    assert_eq!(init.code, Some(0), "{init:?}");
    let exclude = fs::read_to_string(main.join(".git/info/exclude")).unwrap();
    assert!(
        exclude.lines().any(|line| line == "/.projects/"),
        "{exclude}"
    );
    git(&main, &["add", "--all"]);
    git(&main, &["commit", "--quiet", "--message", "Set up"]);
    let mut number = 3;
    for words in [
        &["stash", "--include-untracked"][..],
        &["stash", "--all"],
        &["clean", "-fdx", "--quiet"],
        &["clean", "-ffdx", "--quiet"],
        &["checkout", "--quiet", "HEAD~1"],
        &["checkout", "--quiet", "-"],
        &["reset", "--quiet", "--hard", "HEAD~1"],
        &["rebase", "--quiet", "HEAD~1"],
    ] {
        git_beside_program(&main, words);
        assert!(
            repository.has(&main, &format!("MA-{number}")),
            "git {words:?}"
        );
        repository.task(&main, "T");
        number += 1;
        let asked = json!({"project": "my-app", "task_id": format!("MA-{number}")});
        session.ok("get_task", &asked);
        let status = git(&main, &["status", "--porcelain"]);
        assert_eq!(status, "", "git {words:?}");
    }
    // The session may write files meanwhile.
    fs::rename(
        main.join(".projects"),
        repository.main().with_extension("away"),
    )
    .unwrap();
    repository.task(&main, "T");
    for number in 3..=number + 1 {
        assert!(repository.has(&main, &format!("MA-{number}")), "{number}");
    }
    repository.run(&main, &["doctor", "--fix"]);
    assert!(main.join(".projects/my-app/epics/MA-1/epic.toon").is_file());
}

#[test]
fn hook_of_a_worktree_is_stored_while_the_removed_database_is_put_back() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let (main, linked) = (repository.main(), repository.linked());
    let mut session = Session::start(repository.command(&main, &["stdio"]));
    let comment = json!({"project": "my-app", "issue_id": "MA-3", "text": "Here"});
    for number in 0..2 {
        session.ok("add_comment", &comment);
        let aside = main.with_file_name(format!("removed-{number}"));
        fs::rename(repository.board(), aside).unwrap();
        let event = json!({"hook_event_name": "Stop", "session_id": format!("s{number}")});
        let stored = said(repository.command(&linked, &["hook"]), &event.to_string());
        assert_eq!((stored.code, &*stored.err), (Some(0), ""), "{number}");
    }
    let events = session.ok("get_hook_events", &json!({}));
    assert_eq!(events["total"], 2, "{events}");
}

#[test]
fn worktrees_share_a_board_in_the_state_directory() {
    let repository = Repository::new("board = \"repository\"\nplace = \"state\"\n");
    repository.fill();
    assert!(repository.has(&repository.linked(), "MA-3"));
    repository.task(&repository.linked(), "T");
    assert!(repository.has(&repository.main(), "MA-4"));
    assert!(!repository.main().join(".git/.orchestra").exists());
}

#[test]
fn removed_board_is_built_again_by_a_command_in_a_linked_worktree() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    fs::remove_dir_all(repository.main().join(".git/.orchestra")).unwrap();
    let listed = repository.call(&repository.linked(), "list_projects", &json!({}));
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn board_in_use_is_changed_by_commands_after_its_directory_becomes_a_repository() {
    let workspace = Workspace::new();
    workspace.call("create_project", &json!({"name": "My App"}));
    let before = workspace.database();
    let mut session = Session::start(workspace.command(["stdio"]));
    session.ok("list_projects", &json!({}));
    git(&workspace.path(), &["init", "--quiet"]);
    workspace.call("create_project", &json!({"name": "Other"}));
    let listed = session.ok("list_projects", &json!({}));
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
    assert!(session.process.end().success());
    let listed = workspace.call("list_projects", &json!({}));
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
    assert!(workspace.database().is_file() && workspace.database() != before);
}

#[test]
fn board_of_an_archive_is_read_and_not_changed_until_it_is_accepted() {
    let (origin, repository) = (Repository::new(DEFAULT), Repository::new(DEFAULT));
    origin.fill();
    let copied = Command::new("cp")
        .args([
            "-r".as_ref(),
            origin.main().join(".git/.orchestra").as_os_str(),
        ])
        .arg(repository.main().join(".git/"))
        .status()
        .unwrap();
    assert!(copied.success());
    assert!(repository.has(&repository.linked(), "MA-3"));
    let claim = json!({"project": "my-app", "task_id": "MA-3", "agent": "one"}).to_string();
    let words = ["tool", "call", "claim_task", "--args", &claim];
    let refused = repository.run(&repository.main(), &words);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains("orchestra board trust"), "{refused:?}");
    let words = ["up", "--http", "127.0.0.1:0", "--quic", "off", "--json"];
    let (_, up) = until_ready(repository.command(&repository.main(), &words));
    assert!(up.contains("orchestra board trust"), "{up}");
    let trusted = repository.run(&repository.linked(), &["board", "trust"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    repository.task(&repository.main(), "T");
}

#[test]
fn bare_repository_is_refused_as_a_workspace() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let main = repository.main();
    let bare = main.with_file_name("hub.git");
    let path = bare.to_str().unwrap();
    git(&main, &["clone", "--quiet", "--bare", ".", path]);
    for words in [&["tool", "call", "list_projects"][..], &["init"]] {
        let refused = repository.run(&bare, words);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.err.contains("is a git directory"), "{refused:?}");
    }
    assert!(!bare.join(".projects").exists() && !bare.join(".orchestra").exists());
}

#[test]
fn second_up_in_another_worktree_says_where_the_first_is() {
    let repository = Repository::new(DEFAULT);
    repository.fill();
    let added = repository.run(&repository.main(), &["mcp", "add", "echo", "--", "cat"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let words = ["up", "--http", "127.0.0.1:0", "--json"];
    let first = Running::start(repository.command(&repository.main(), &words));
    let ready = first.json();
    let second = repository.run(&repository.linked(), &["up", "--json"]);
    assert_eq!(second.code, Some(0), "{second:?}");
    let told: Value = serde_json::from_str(second.out.lines().next().unwrap()).unwrap();
    assert_eq!(told["http"], ready["http"], "{told}");
    let main = repository.main().canonicalize().unwrap();
    assert_eq!(told["workspace"], json!(main), "{told}");
    let words = format!("serves {}; plans and servers of ", main.display());
    assert!(second.err.contains(&words), "{second:?}");
    assert!(second.err.contains("linked are not in it"), "{second:?}");
    let listed = repository.run(&repository.linked(), &["mcp", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.err.contains(&words), "{listed:?}");
    assert!(!listed.out.contains("LATENCY"), "{listed:?}");
    let listed = repository.run(&main, &["mcp", "list"]);
    assert!(listed.out.contains("LATENCY"), "{listed:?}");
}

#[test]
fn files_of_a_linked_worktree_without_a_database_are_reported_when_all_worktrees_share_a_board() {
    let repository = Repository::new("board = \"checkout\"\n");
    let (main, linked) = (repository.main(), repository.linked());
    repository.fill();
    repository.call(&linked, "create_project", &json!({"name": "My App"}));
    let config = repository
        .workspace
        .home()
        .join(".config/orchestra/orchestra.toml");
    fs::write(config, ONE_BOARD).unwrap();
    let projects = linked.canonicalize().unwrap().join(".projects");
    let shown = projects.display().to_string();
    fs::remove_dir_all(projects.join(".store")).unwrap();
    for _ in 0..2 {
        let init = repository.run(&main, &["init", "--client", "claude"]);
        assert_eq!(init.code, Some(0), "{init:?}");
        assert!(init.err.contains(&shown), "{init:?}");
    }
    for directory in [&main, &linked] {
        let doctor = repository.run(directory, &["doctor"]);
        assert_ne!(doctor.code, Some(0), "{doctor:?}");
        assert!(doctor.out.contains(&shown), "{doctor:?}");
    }
    fs::remove_dir_all(&projects).unwrap();
    let doctor = repository.run(&main, &["doctor"]);
    assert!(!doctor.out.contains(&shown), "{doctor:?}");
}

#[test]
fn change_of_a_board_of_a_bare_repository_logs_nothing_of_readable_files() {
    let repository = Repository::new(DEFAULT);
    let bare = repository.main().with_file_name("bare.git");
    let main = repository.main();
    let words = ["clone", "--quiet", "--bare", ".", "../bare.git"];
    git(&main, &words);
    git(&bare, &["worktree", "add", "--quiet", "../of-bare", "HEAD"]);
    let worktree = repository.main().with_file_name("of-bare");
    let project = json!({"name": "My App"}).to_string();
    let created = repository.run(
        &worktree,
        &["tool", "call", "create_project", "--args", &project],
    );
    assert_eq!(created.code, Some(0), "{created:?}");
    assert!(!created.err.contains("up to date"), "{created:?}");
}

#[test]
fn workspace_that_leads_to_the_repository_of_another_changes_nothing_there() {
    let repository = Repository::new(ONE_BOARD);
    repository.fill();
    let main = repository.main();
    let (evil, name) = (main.with_file_name("evil"), main.file_name().unwrap());
    let of_main = Path::new("..").join(name).join(".git");
    let state = || {
        let branches = git(&main, &["for-each-ref"]);
        let worktrees = git(&main, &["worktree", "list"]);
        let exclude = fs::read_to_string(main.join(".git/info/exclude")).ok();
        (branches, worktrees, exclude)
    };
    let before = state();
    let of_user = repository.workspace.home().join(".config/orchestra");
    let task = json!({"project": "my-app", "story_id": "MA-2", "title": "Evil", "type": "task"});
    let task = task.to_string();
    for (target, is_link) in [
        (of_main.clone(), false),
        (of_main.join("worktrees/linked"), false),
        (of_main.clone(), true),
        (PathBuf::from("../linked/.git"), true),
    ] {
        fs::create_dir(&evil).unwrap();
        match is_link {
            true => symlink(&target, evil.join(".git")).unwrap(),
            false => {
                let text = format!("gitdir: {}\n", target.display());
                fs::write(evil.join(".git"), text).unwrap();
            }
        }
        let plan = "name: Evil\ntargetBranch: main\njobs:\n- {producerId: one, task: T, work: echo 1 > evil.txt}\n";
        fs::write(evil.join("plan.yaml"), plan).unwrap();
        for place in ["repository", "state"] {
            let config = format!("{ONE_BOARD}place = \"{place}\"\n");
            fs::write(of_user.join("orchestra.toml"), config).unwrap();
            for words in [
                &["tool", "call", "create_task", "--args", &task][..],
                &["plan", "create", "plan.yaml"],
            ] {
                let refused = repository.run(&evil, words);
                assert_ne!(refused.code, Some(0), "{place} {words:?}: {refused:?}");
                if place == "repository" || words[0] == "plan" {
                    let is_named = refused.err.contains("another working tree");
                    assert!(is_named, "{place} {words:?}: {refused:?}");
                }
            }
            repository.run(&evil, &["init"]);
        }
        fs::write(of_user.join("orchestra.toml"), ONE_BOARD).unwrap();
        assert!(!repository.has(&main, "MA-4"), "{target:?}");
        assert_eq!(state(), before, "{target:?}");
        fs::remove_dir_all(&evil).unwrap();
    }
}
