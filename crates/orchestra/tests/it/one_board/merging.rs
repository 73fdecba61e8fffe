//! Boards of linked worktrees become part of the board that all worktrees share.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{ONE_BOARD, Repository, git};
use crate::support::{Running, Session, until};

const PER_CHECKOUT: &str = "board = \"checkout\"\n";

impl Repository {
    fn configure(&self, config: &str) {
        let file = self
            .workspace
            .home()
            .join(".config/orchestra/orchestra.toml");
        fs::write(file, config).expect("set up");
    }

    /// Commits the board of the main checkout, and has all linked worktrees begin with it. Adds one more.
    fn share_by_git(&self) -> PathBuf {
        let main = self.main();
        git(&main, &["add", "--all"]);
        git(&main, &["commit", "--quiet", "--message", "Board"]);
        let head = git(&main, &["rev-parse", "HEAD"]);
        git(&self.linked(), &["reset", "--quiet", "--hard", head.trim()]);
        git(&main, &["worktree", "add", "--quiet", "../second"]);
        main.with_file_name("second")
    }

    fn get(&self, directory: &Path, task: &str) -> Value {
        let task = json!({"project": "my-app", "task_id": task});
        self.call(directory, "get_task", &task)
    }

    fn update(&self, directory: &Path, mut change: Value) {
        change["project"] = "my-app".into();
        change["task_id"] = "MA-3".into();
        self.call(directory, "update_task", &change);
    }

    fn remember(&self, directory: &Path, text: &str) {
        let text = json!({"project": "my-app", "content": text});
        self.call(directory, "save_memory", &text);
    }
}

#[test]
fn boards_of_linked_worktrees_are_merged_into_the_one_of_all_worktrees_once() {
    let repository = Repository::new(PER_CHECKOUT);
    repository.fill();
    let (main, linked) = (repository.main(), repository.linked());
    repository.update(&main, json!({"status": "todo"}));
    let second = repository.share_by_git();
    for (directory, name, title) in [
        (&main, "main", None),
        (&linked, "linked", Some("From linked")),
        (&second, "second", Some("From second")),
    ] {
        repository.task(directory, &format!("Of {name}"));
        repository.remember(directory, "known everywhere");
        repository.remember(directory, &format!("known in {name}"));
        if let Some(title) = title {
            let claim = json!({"project": "my-app", "task_id": "MA-3", "agent": name});
            repository.call(directory, "claim_task", &claim);
            repository.update(directory, json!({"title": title, "agent": name}));
        }
    }
    repository.configure(ONE_BOARD);
    for directory in [&main, &linked, &second, &main] {
        for (task, title) in [
            ("MA-3", "From linked"),
            ("MA-4", "Of main"),
            ("MA-5", "Of linked"),
            ("MA-6", "Of second"),
        ] {
            let found = repository.get(directory, task);
            assert_eq!(found["title"], title, "{found}");
        }
        assert!(!repository.has(directory, "MA-7"));
        let claimed = repository.get(directory, "MA-3");
        assert_eq!(claimed["claimed_by"], "linked", "{claimed}");
        assert_eq!(claimed["labels"], json!(["merge-conflict"]), "{claimed}");
        let all = json!({"project": "my-app"});
        let remembered = repository.call(directory, "list_memory", &all);
        assert_eq!(remembered["total"], 4, "{remembered}");
    }
    let history = json!({"project": "my-app", "issue_id": "MA-3"});
    let history = repository.call(&main, "get_history", &history).to_string();
    assert!(
        history.contains("title on the worktree second: From second"),
        "{history}"
    );
    let doctor = repository.run(&main, &["doctor"]);
    assert!(doctor.out.contains("my-app: MA-3"), "{doctor:?}");
    repository.configure(PER_CHECKOUT);
    let refused = repository.run(&linked, &["tool", "call", "list_projects"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(
        refused.err.contains("board = \"repository\""),
        "{refused:?}"
    );
}

#[test]
fn worktree_that_comes_back_is_merged_when_it_is_found() {
    let repository = Repository::new(PER_CHECKOUT);
    repository.fill();
    let (main, linked) = (repository.main(), repository.linked());
    let project = json!({"name": "Of linked"});
    repository.call(&linked, "create_project", &project);
    let away = linked.with_file_name("away");
    fs::rename(&linked, &away).unwrap();
    repository.configure(ONE_BOARD);
    let lists = |name: &str| {
        let listed = repository.call(&main, "list_projects", &json!({}));
        listed.to_string().contains(name)
    };
    assert!(lists("my-app") && !lists("of-linked"));
    fs::rename(&away, &linked).unwrap();
    assert!(lists("my-app") && lists("of-linked"));
}

#[test]
fn board_of_a_linked_worktree_in_use_names_the_process() {
    let repository = Repository::new(PER_CHECKOUT);
    let (main, linked) = (repository.main(), repository.linked());
    let process = Running::start(repository.command(&linked, &["stdio"]));
    let number = format!("process {}", process.id());
    let mut session = Session::over(process, "test");
    session.ok("create_project", &json!({"name": "My App"}));
    // The program that writes the readable files holds the lock.
    let written = linked.join(".projects/my-app/project-status.toon");
    until(|| written.is_file().then_some(()));
    repository.configure(ONE_BOARD);
    let refused = repository.run(&main, &["tool", "call", "list_projects"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains(&number), "{refused:?}");
    drop(session);
    let listed = repository.call(&main, "list_projects", &json!({}));
    assert!(listed.to_string().contains("my-app"), "{listed}");
}

#[test]
fn worktree_that_leads_to_another_repository_is_not_merged() {
    let (repository, other) = (Repository::new(ONE_BOARD), Repository::new(PER_CHECKOUT));
    other.fill();
    let planted = repository.main().join(".git/worktrees/planted");
    fs::create_dir(&planted).unwrap();
    let target = format!("{}\n", other.main().join(".git").display());
    for (name, text) in [
        ("gitdir", &*target),
        ("commondir", "../..\n"),
        ("HEAD", "ref: refs/heads/planted\n"),
    ] {
        fs::write(planted.join(name), text).unwrap();
    }
    let main = repository.main();
    repository.call(&main, "create_project", &json!({"name": "Own"}));
    let listed = repository.call(&main, "list_projects", &json!({}));
    assert!(!listed.to_string().contains("my-app"), "{listed}");
    assert!(other.has(&other.main(), "MA-3"));
}

#[test]
fn linked_worktree_has_a_board_of_its_own_again_after_a_conversion() {
    let repository = Repository::new(PER_CHECKOUT);
    repository.fill();
    let (main, linked) = (repository.main(), repository.linked());
    repository.share_by_git();
    repository.task(&linked, "Of linked");
    repository.configure(ONE_BOARD);
    assert!(repository.has(&main, "MA-4"));
    repository.configure("");
    let converted = repository.run(&main, &["board", "convert", "checkout"]);
    assert_eq!(converted.code, Some(0), "{converted:?}");
    repository.task(&main, "Of main");
    assert!(repository.has(&main, "MA-4") && repository.has(&main, "MA-5"));
    assert!(repository.has(&linked, "MA-4") && !repository.has(&linked, "MA-5"));
}
