//! Boards of linked worktrees become part of the board that all worktrees share.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{ONE_BOARD, Repository, git};
use crate::support::{Running, Said, Session, until};

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

    /// Merges boards of linked worktrees, without a question.
    fn merge(&self, worktrees: &[&str]) -> Said {
        let words = [&["board", "merge", "--yes"], worktrees].concat();
        self.run(&self.main(), &words)
    }

    fn lists(&self, directory: &Path, name: &str) -> bool {
        let listed = self.call(directory, "list_projects", &json!({}));
        listed.to_string().contains(name)
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
        let text = json!({"project": "my-app", "content": text, "summary": text});
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
    assert!(repository.has(&main, "MA-4") && !repository.has(&linked, "MA-5"));
    let asked = repository.run(&linked, &["board", "merge"]);
    assert_eq!(asked.code, Some(3), "{asked:?}");
    let size = format!("{}: issues: 4, memories: 2", second.display());
    assert!(asked.err.contains(&size), "{asked:?}");
    assert!(asked.err.contains("--yes"), "{asked:?}");
    let merged = repository.merge(&[]);
    assert_eq!(merged.code, Some(0), "{merged:?}");
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
        assert_eq!(claimed["claim"]["agent"], Value::Null, "{claimed}");
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

/// The kill comes when the files of the two boards have changed so many times, so that it comes at another step each
/// time.
#[test]
fn merge_that_is_killed_is_completed_once_by_the_next() {
    for changes in 1..=8 {
        let repository = Repository::new(PER_CHECKOUT);
        repository.fill();
        let (main, linked) = (repository.main(), repository.linked());
        let second = repository.share_by_git();
        for (directory, name) in [(&linked, "linked"), (&second, "second")] {
            repository.task(directory, &format!("Of {name}"));
            repository.remember(directory, &format!("known in {name}"));
        }
        repository.configure(ONE_BOARD);
        assert!(!repository.has(&main, "MA-4"));
        let stores = [&linked, &second].map(|at| at.join(".projects/.store"));
        let files = || {
            let directories = [&repository.board(), &stores[0], &stores[1]];
            let entries = directories.into_iter().flat_map(fs::read_dir).flatten();
            let files = entries.flatten().filter_map(|entry| {
                let found = entry.metadata().ok()?;
                Some((entry.path(), found.len(), found.modified().ok()))
            });
            files.collect::<std::collections::BTreeSet<_>>()
        };
        let words = ["board", "merge", "--yes"];
        let mut process = Running::start(repository.command(&main, &words));
        let (mut seen, mut left) = (files(), changes);
        while left > 0 && process.ended().is_none() {
            let now = files();
            left -= usize::from(now != seen);
            seen = now;
        }
        process.kill();
        let merged = repository.merge(&[]);
        assert_eq!(merged.code, Some(0), "{changes}: {merged:?}");
        let tasks = repository.call(&main, "list_tasks", &json!({"project": "my-app"}));
        let items = tasks["items"].as_array().unwrap().iter();
        let titles: Vec<&str> = items.filter_map(|item| item["title"].as_str()).collect();
        assert_eq!(
            titles,
            ["T", "Of linked", "Of second"],
            "{changes}: {tasks}"
        );
        let remembered = repository.call(&main, "list_memory", &json!({"project": "my-app"}));
        assert_eq!(remembered["total"], 2, "{changes}: {remembered}");
    }
}

#[test]
fn worktree_that_comes_back_is_reported_and_merged_on_command() {
    let repository = Repository::new(PER_CHECKOUT);
    repository.fill();
    let (main, linked) = (repository.main(), repository.linked());
    let project = json!({"name": "Of linked"});
    repository.call(&linked, "create_project", &project);
    let away = linked.with_file_name("away");
    fs::rename(&linked, &away).unwrap();
    repository.configure(ONE_BOARD);
    assert!(repository.lists(&main, "my-app"));
    fs::rename(&away, &linked).unwrap();
    assert!(!repository.lists(&main, "of-linked"));
    let doctor = repository.run(&main, &["doctor"]);
    let command = format!("orchestra board merge {}", linked.display());
    assert!(doctor.out.contains(&command), "{doctor:?}");
    let merged = repository.merge(&[]);
    assert_eq!(merged.code, Some(0), "{merged:?}");
    assert!(repository.lists(&main, "my-app") && repository.lists(&main, "of-linked"));
    let doctor = repository.run(&main, &["doctor"]);
    assert!(!doctor.out.contains("board merge"), "{doctor:?}");
}

#[test]
fn path_in_a_printed_command_is_quoted_for_the_shell() {
    let repository = Repository::new(PER_CHECKOUT);
    repository.fill();
    let main = repository.main();
    let linked = main.with_file_name("x;touch $HOME'");
    let path = linked.to_str().unwrap();
    git(&main, &["worktree", "add", "--quiet", "-b", "odd", path]);
    repository.call(&linked, "create_project", &json!({"name": "Odd"}));
    let away = main.with_file_name("away");
    fs::rename(&linked, &away).unwrap();
    repository.configure(ONE_BOARD);
    assert!(repository.lists(&main, "my-app"));
    fs::rename(&away, &linked).unwrap();
    let doctor = repository.run(&main, &["doctor"]);
    let word = format!("'{}'", path.replace('\'', r"'\''"));
    let command = format!("`orchestra board merge {word}`");
    assert!(doctor.out.contains(&command), "{doctor:?}");
}

#[test]
fn board_of_a_linked_worktree_in_use_is_not_merged_and_blocks_nothing() {
    let repository = Repository::new(PER_CHECKOUT);
    let (main, linked) = (repository.main(), repository.linked());
    repository.call(&main, "create_project", &json!({"name": "Of main"}));
    // A program that does not see the change of the configuration, and so continues.
    let home = repository
        .workspace
        .home()
        .with_file_name("home-of-session");
    let configuration = home.join(".config/orchestra");
    fs::create_dir_all(&configuration).unwrap();
    fs::write(configuration.join("orchestra.toml"), PER_CHECKOUT).unwrap();
    let mut command = repository.command(&linked, &["stdio"]);
    command.env("HOME", &home);
    let process = Running::start(command);
    let number = format!("process {}", process.id());
    let mut session = Session::over(process, "test");
    session.ok("create_project", &json!({"name": "My App"}));
    // The program that writes the readable files holds the lock.
    let written = linked.join(".projects/my-app/project-status.toon");
    until(|| written.is_file().then_some(()));
    repository.configure(ONE_BOARD);
    assert!(repository.lists(&main, "of-main") && repository.lists(&linked, "of-main"));
    let refused = repository.merge(&[]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    if cfg!(target_os = "linux") {
        assert!(refused.err.contains(&number), "{refused:?}");
    }
    assert!(session.process.end().success());
    let merged = repository.merge(&[]);
    assert_eq!(merged.code, Some(0), "{merged:?}");
    assert!(repository.lists(&main, "my-app"));
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
    let merged = repository.merge(&[]);
    assert_eq!(merged.code, Some(0), "{merged:?}");
    assert!(!repository.lists(&main, "my-app"));
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
    let merged = repository.merge(&[]);
    assert_eq!(merged.code, Some(0), "{merged:?}");
    assert!(repository.has(&main, "MA-4"));
    repository.configure("");
    let converted = repository.run(&main, &["board", "convert", "checkout"]);
    assert_eq!(converted.code, Some(0), "{converted:?}");
    repository.task(&main, "Of main");
    assert!(repository.has(&main, "MA-4") && repository.has(&main, "MA-5"));
    assert!(repository.has(&linked, "MA-4") && !repository.has(&linked, "MA-5"));
}

#[test]
fn tracked_database_and_that_of_a_job_are_merged_only_if_they_are_named() {
    let other = Repository::new(PER_CHECKOUT);
    other.fill();
    for worktree in ["../planted", ".worktrees/job"] {
        let repository = Repository::new(ONE_BOARD);
        let main = repository.main();
        repository.call(&main, "create_project", &json!({"name": "Own"}));
        git(&main, &["worktree", "add", "--quiet", worktree]);
        let directory = main.join(worktree).canonicalize().unwrap();
        let store = directory.join(".projects/.store");
        fs::create_dir_all(&store).unwrap();
        for name in ["board.db", "board.db-wal"] {
            let file = other.main().join(".projects/.store").join(name);
            if file.is_file() {
                fs::copy(file, store.join(name)).unwrap();
            }
        }
        if worktree == "../planted" {
            git(&directory, &["add", "--force", ".projects"]);
            git(&directory, &["commit", "--quiet", "--message", "Plant"]);
        }
        assert!(!repository.lists(&main, "my-app"), "{worktree}");
        let merged = repository.merge(&[]);
        assert_eq!(merged.code, Some(0), "{merged:?}");
        let reported = format!("left out {}", directory.display());
        assert!(merged.out.contains(&reported), "{merged:?}");
        assert!(!repository.lists(&directory, "my-app"), "{worktree}");
        let merged = repository.merge(&[worktree]);
        assert_eq!(merged.code, Some(0), "{merged:?}");
        assert!(repository.lists(&main, "my-app"), "{worktree}");
    }
}

#[test]
fn damaged_database_of_a_worktree_is_reported_with_a_way_to_merge_its_files() {
    let repository = Repository::new(PER_CHECKOUT);
    let (main, linked) = (repository.main(), repository.linked());
    let project = json!({"name": "Of linked"});
    repository.call(&linked, "create_project", &project);
    let store = linked.join(".projects/.store");
    for name in ["board.db-wal", "board.db-shm"] {
        drop(fs::remove_file(store.join(name)));
    }
    fs::write(store.join("board.db"), "damaged".repeat(1_000)).unwrap();
    repository.configure(ONE_BOARD);
    let own = json!({"name": "Own"});
    repository.call(&main, "create_project", &own);
    let listed = repository.run(&linked, &["tool", "call", "list_projects"]);
    assert_eq!((listed.code, &*listed.err), (Some(0), ""), "{listed:?}");
    let hint = format!("remove {}", store.display());
    let doctor = repository.run(&main, &["doctor"]);
    assert!(doctor.out.contains(&hint), "{doctor:?}");
    let refused = repository.merge(&[]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains(&hint), "{refused:?}");
    fs::remove_dir_all(&store).unwrap();
    let merged = repository.merge(&["../linked"]);
    assert_eq!(merged.code, Some(0), "{merged:?}");
    assert!(repository.lists(&main, "of-linked"));
}

#[test]
fn worktree_of_a_branch_that_sets_a_board_of_its_own_uses_the_shared_one() {
    let repository = Repository::new("");
    repository.fill();
    let (main, linked) = (repository.main(), repository.linked());
    fs::write(linked.join("orchestra.toml"), PER_CHECKOUT).unwrap();
    repository.task(&linked, "Of linked");
    assert!(repository.has(&main, "MA-4"));
    assert!(!linked.join(".projects").exists());
    let listed = repository.run(&linked, &["tool", "call", "list_projects"]);
    let warned = listed.err.matches("orchestra board convert checkout");
    assert_eq!(warned.count(), 1, "{listed:?}");
}

#[test]
fn shared_board_is_not_moved_by_a_file_that_comes_with_a_branch() {
    let repository = Repository::new("");
    repository.fill();
    let main = repository.main();
    let store = main.join(".projects/.store");
    fs::write(main.join("orchestra.toml"), PER_CHECKOUT).unwrap();
    let listed = repository.run(&main, &["tool", "call", "list_projects"]);
    assert!(listed.out.contains("my-app"), "{listed:?}");
    let warned = listed.err.matches("orchestra board convert checkout");
    assert_eq!(warned.count(), 1, "{listed:?}");
    assert!(!store.exists());
    // A database that comes with it.
    fs::create_dir(&store).unwrap();
    fs::copy(repository.board().join("board.db"), store.join("board.db")).unwrap();
    git(&main, &["add", "--force", ".projects/.store"]);
    repository.task(&main, "Next");
    assert!(repository.has(&repository.linked(), "MA-4"));
    git(
        &main,
        &["rm", "-r", "--force", "--quiet", ".projects/.store"],
    );
    let converted = repository.run(&main, &["board", "convert", "checkout"]);
    assert_eq!(converted.code, Some(0), "{converted:?}");
    assert!(store.join("board.db").is_file());
    assert!(repository.has(&main, "MA-4"));
}

#[test]
fn conversion_merges_boards_of_linked_worktrees_only_with_consent() {
    let repository = Repository::new(PER_CHECKOUT);
    repository.fill();
    let (main, linked) = (repository.main(), repository.linked());
    let project = json!({"name": "Of linked"});
    repository.call(&linked, "create_project", &project);
    repository.configure("");
    let moved = repository.run(&main, &["board", "convert"]);
    assert_eq!(moved.code, Some(0), "{moved:?}");
    assert!(moved.err.contains("orchestra board merge"), "{moved:?}");
    assert!(repository.has(&linked, "MA-3"));
    assert!(!repository.lists(&main, "of-linked"));
    let merged = repository.run(&main, &["board", "convert", "--yes"]);
    assert_eq!(merged.code, Some(0), "{merged:?}");
    assert!(repository.lists(&main, "of-linked"));
}
